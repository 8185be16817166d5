"""The table of torch's core ATen operators in docs/torch-operators.md: converted, taken apart by torch, or refused.

    python tools/torch_core.py             write the table
    python tools/torch_core.py --check     fail if it is stale

An operator is ``converted`` if it has a converter of real or of complex tensors. Of every other one, a program that calls
it is exported and imported: it is ``taken apart by torch`` if that goes well, else ``refused`` for the reason given, by torch or
by the importer.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from generated_pages import with_part, write_or_check
from relax import DiagnosticError
from relax.frontend.torch import from_exported_program, pairs, registry

PAGE = Path(__file__).parents[1] / "docs" / "torch-operators.md"
BEGIN = "<!-- operators: written by tools/torch_core.py -->\n"
END = "<!-- end of the operators -->\n"
ATEN = torch.ops.aten
PAIR = [1, 1], [0, 0]
"""Strides and pads of the samples."""


def _image() -> torch.Tensor:
    return torch.ones(2, 4, 6, 6)


SAMPLES: dict[str, Callable[[], tuple[Callable[..., Any], tuple[torch.Tensor, ...]]]] = {
    "_adaptive_avg_pool2d_backward.default": lambda: (
        ATEN._adaptive_avg_pool2d_backward, (torch.ones(2, 4, 3, 3), _image())),
    "atan2.out": lambda: (lambda x, y: ATEN.atan2.out(x, y, out=torch.empty_like(x)), (_image(), _image())),
    "avg_pool2d_backward.default": lambda: (
        lambda g, x: ATEN.avg_pool2d_backward(g, x, [2, 2], [2, 2], [0, 0], False, True, None),
        (torch.ones(2, 4, 3, 3), _image())),
    "convolution_backward.default": lambda: (
        lambda g, x, w: ATEN.convolution_backward(
            g, x, w, None, *PAIR, [1, 1], False, [0, 0], 1, [True, True, False])[0],
        (torch.ones(2, 3, 6, 6), _image(), torch.ones(3, 4, 1, 1))),
    "embedding_dense_backward.default": lambda: (
        lambda g, index: ATEN.embedding_dense_backward(g, index, 5, -1, False),
        (torch.ones(3, 4), torch.tensor([0, 4, 2]))),
    "max_pool2d_with_indices_backward.default": lambda: (
        lambda g, x, index: ATEN.max_pool2d_with_indices_backward(
            g, x, [2, 2], [2, 2], [0, 0], [1, 1], False, index),
        (torch.ones(2, 4, 3, 3), _image(), torch.zeros(2, 4, 3, 3, dtype=torch.int64))),
    "native_group_norm_backward.default": lambda: (
        lambda g, x, mean, rstd: ATEN.native_group_norm_backward(
            g, x, mean, rstd, None, 2, 4, 36, 2, [True, False, False])[0],
        (_image(), _image(), torch.ones(2, 2), torch.ones(2, 2))),
    "native_layer_norm_backward.default": lambda: (
        lambda g, x, mean, rstd: ATEN.native_layer_norm_backward(
            g, x, [6], mean, rstd, None, None, [True, False, False])[0],
        (_image(), _image(), torch.ones(2, 4, 6, 1), torch.ones(2, 4, 6, 1))),
    "resize_.default": lambda: (lambda x: ATEN.resize_(x.clone(), [4, 6]), (_image(),)),
    "sym_is_contiguous.default": lambda: (lambda x: x + int(ATEN.sym_is_contiguous(x)), (_image(),)),
    "sym_size.int": lambda: (lambda x: x + ATEN.sym_size.int(x, 0), (_image(),)),
    "sym_storage_offset.default": lambda: (lambda x: x + ATEN.sym_storage_offset(x), (_image(),)),
    "sym_stride.int": lambda: (lambda x: x + ATEN.sym_stride.int(x, 0), (_image(),)),
}  # fmt: skip
"""Functions, with their inputs, that call the operators without a converter."""


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def core_operators() -> Iterator[str]:
    """Names of the overloads that torch tags as core, without ``aten.``, sorted."""
    for full in sorted(torch._C._dispatch_get_all_op_names()):  # dir(torch.ops.aten) has only those used before
        space, _, name = full.partition("::")
        packet, _, overload = name.partition(".")
        if space != "aten" or not hasattr(ATEN, packet):
            continue
        overload = overload or "default"
        if torch.Tag.core in getattr(getattr(ATEN, packet), overload).tags:
            yield f"{packet}.{overload}"


def status(name: str) -> str:
    """What becomes of an operator in a program. Raises KeyError for one without converter and without a sample."""
    target = f"aten.{name}"
    if registry.find(target) is not None:
        return "converted"
    if target in pairs._CONVERTERS or target.rpartition(".")[0] in pairs._CONVERTERS:
        return "converted, for complex tensors"
    function, inputs = SAMPLES[name]()
    dynamic = tuple({0: torch.export.Dim.AUTO} for _ in inputs)
    function(*inputs)  # a sample that torch itself cannot run is an error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program = torch.export.export(Function(function), inputs, strict=False, dynamic_shapes=(dynamic,))
        except RuntimeError as error:
            return f"torch.export refuses it: {str(error).splitlines()[0]}"
    try:
        from_exported_program(program)
    except DiagnosticError as error:
        [first, *_] = error.diagnostics
        return f"refused: {first.message}; {first.hint}"
    return "taken apart by torch"


def table() -> str:
    """The rows of all core operators, in Markdown."""
    lines = [
        "| operator of torch | |",
        "|---|---|",
        *(f"| `aten.{name}` | {status(name)} |" for name in core_operators()),
    ]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The whole page with the table as it should be."""
    return with_part(PAGE, BEGIN, END, table())


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page(), __doc__))
