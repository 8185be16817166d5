"""Extreme arguments: each argument of each converted operator of torch in turn, with values that no exporter writes.

    python tools/differential/extreme_arguments.py                        all operators; prints each outcome that is wrong
    python tools/differential/extreme_arguments.py aten.softmax.int       operators of these names

The table is finite. Its nodes are those of `torch_nodes.NODES`. In each, one argument of the operator's schema is replaced: a number
by 0, -1, 2**32, the greatest and the least integer, NaN, infinity; any argument by a value of another type, an empty list or None; a
tensor by one of another dtype, rank or size. An outcome is right if torch rejects the node for tensors without data, if the import
raises a diagnostic at the node, or if the module returns what torch does; where torch raises, the module has to raise, too.
"""

from __future__ import annotations

import argparse
import logging
import operator
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from differential import torch_nodes
from differential.bounds import bounded, place_of
from relax.frontend.torch import importer, registry
from relax.frontend.torch.decompositions import crashing
from relax.interpreter import Interpreter
from relax.ir import DiagnosticError
from relax.runtime.nd import array as nd_array

INTS = (0, -1, 1, 7, 2**32, 2**62, 2**63 - 1, -(2**63))
FLOATS = (0.0, -1.0, 1e30, float("nan"), float("inf"), float("-inf"))
OTHERS = (True, 1.5, "q", "", [], None)
"""Values of all types, for arguments of any type."""

NUMBERS = ("int", "SymInt", "float", "number", "Scalar", "bool")
SKIPPED = ("Device", "Layout", "MemoryFormat", "Generator", "ScalarType")
"""Types of arguments that a converter does not read."""

UNSET = frozenset({"pin_memory", "non_blocking", "cudnn_enable", "cudnn_enabled", "cudnn_benchmark"})
"""Arguments without a meaning for a converter."""

MALFORMED = ("Expected a value of type", "Unknown keyword argument", "missing value for argument", "argument on which")
"""Parts of messages by which torch rejects arguments before it derives results."""

MOST_ELEMENTS = 100_000
"""Results with more elements are imported, but not computed."""

RANDOM = ("aten.empty", "aten.new_empty")
"""Operators whose results have any elements; impure ones are further ones."""

NO_RESULT = ("not implemented for", "not supported for", "Could not run", "is not implemented", "only supports", "does not support", "can't allocate", "Class values",
    "without overflow", "INTERNAL ASSERT")  # fmt: skip
"""Parts of messages by which torch says that it has no kernel or memory for operands, or checks their elements."""

KNOWN = {
    "aten.roll.default(float32[2, 3], [-9223372036854775808]": "torch fails to negate the number",
    "alpha=-9223372036854775808": "torch negates the factor in int64, which overflows",
    "aten.pixel_unshuffle.default(float32[0,": "torch returns no elements in the shape of the input",
    "aten.pixel_unshuffle.default(float32[1, 2, 6, 0]": "torch returns no elements in the shape of the input",
    "aten.native_dropout.default(float32[0,": "torch returns a mask of floats for no elements",
    "aten.native_dropout.default(float32[2, 0]": "torch returns a mask of floats for no elements",
    "alpha=inf": "torch multiplies the terms of a sum, which may be infinities of both signs",
    "alpha=-inf": "torch multiplies the terms of a sum, which may be infinities of both signs",
    "scale=nan": "torch leaves out scores that are NaN",
    "linear2d.default(uint8": "torch interpolates bytes with weights of 15 bits",
    "linear2d.vec(uint8": "torch interpolates bytes with weights of 15 bits",
    "bicubic2d.default(uint8": "torch interpolates bytes with weights of 15 bits",
    "linear2d_aa.default(uint8": "torch interpolates bytes with weights of 15 bits",
    "bicubic2d_aa.default(uint8": "torch interpolates bytes with weights of 15 bits",
    "_indices.default(3, 4, 9223372036854775807)": "torch counts elements in int64, which overflows",
    "_indices.default(3, 4, -9223372036854775808)": "torch counts elements in int64, which overflows",
    "include_last_offset=True": "the last offset has to be the number of indices",
    "False, None, True": "the last offset has to be the number of indices",
    "aten.arange.start_step(1, 9, 9223372036854775807)": "torch counts elements in int64, which overflows",
    "path=": "the order of products changes no result",
    "aten.index_add.default(float32[2, 0]": "torch does not check indices into no elements",
    "aten.kthvalue.default(uint8": "torch does not define the index among equal elements",
    "aten.kthvalue.default(int": "torch does not define the index among equal elements",
    "aten.median.dim(uint8": "torch does not define the index among equal elements",
    "aten.median.dim(int": "torch does not define the index among equal elements",
    "aten.nanmedian.dim(uint8": "torch does not define the index among equal elements",
    "aten.nanmedian.dim(int": "torch does not define the index among equal elements",
    "aten.nanmedian.default(float32[0,": "no elements have no median: an error when the program runs",
    "aten.nanmedian.default(float32[2, 0]": "no elements have no median: an error when the program runs",
    "aten.cholesky.default(float32[0, 3]": "torch does not check the shape of no elements",
    "aten.cholesky.default(float32[3, 0]": "torch does not check the shape of no elements",
    "[7], False)": "the index of the maximum of padding has no meaning",
    "[7, 7], False)": "the index of the maximum of padding has no meaning",
    "[7, 7, 7], False)": "the index of the maximum of padding has no meaning",
}
"""Parts of variants whose results are not compared, with reasons."""

UNCHECKED = ("aten._embedding_bag", "aten._grouped_mm", "aten.lu_unpack")
"""Operators that read and write memory at any index: their results for other tensors are not compared."""

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """One node of an operator: its arguments, tensors among them."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __str__(self) -> str:
        args = [*map(_shown, self.args), *(f"{key}={_shown(value)}" for key, value in self.kwargs.items())]
        return f"{self.target}({', '.join(args)})"


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_shown, value))}]"
    return repr(value)


# ------------------------------------------------------------------------------------- nodes


@cache
def cases() -> dict[str, list[Case]]:
    """The nodes of the table by the names of their operators."""
    found: dict[str, list[Case]] = {}
    for line in filter(None, map(str.strip, torch_nodes.NODES.splitlines())):
        name, _, text = line.partition("(")
        namespace, packet, overload = name.split(".")
        target = getattr(getattr(getattr(torch.ops, namespace), packet), overload)
        args, kwargs = eval(f"call({text}", {**torch_nodes.TENSORS, "call": lambda *args, **kwargs: (args, kwargs)})
        found.setdefault(name, []).append(Case(target, args, kwargs))
    return found


def variants(case: Case) -> Iterator[Case]:
    """The node with one argument replaced, for each argument of the operator's schema and each value."""
    for place, argument in enumerate(case.target._schema.arguments):
        kind = str(argument.type)
        if any(name in kind for name in SKIPPED) or argument.name in UNSET:
            continue
        is_positional = place < len(case.args)
        written = case.args[place] if is_positional else case.kwargs.get(argument.name, argument.default_value)
        for value in _values(kind, written):
            if is_positional:
                yield Case(case.target, (*case.args[:place], value, *case.args[place + 1 :]), case.kwargs)
            else:
                yield Case(case.target, case.args, {**case.kwargs, argument.name: value})


def _values(kind: str, written: Any) -> Iterator[Any]:
    yield from OTHERS
    if isinstance(written, torch.Tensor):
        yield from _tensors(written)
    elif isinstance(written, (list, tuple)) and any(isinstance(item, torch.Tensor) for item in written):
        items = list(written)
        first = next(place for place, item in enumerate(items) if item is not None)
        for tensor in _tensors(items[first]):
            yield [*items[:first], tensor, *items[first + 1 :]]
        yield from (items[:1], [*items, items[-1]], [None, *items[1:]], [0, *items[1:]])
    elif "List" in kind or isinstance(written, (list, tuple)):
        items = list(written) if isinstance(written, (list, tuple)) else [1]
        for number in INTS if "float" not in kind else FLOATS:
            yield from ([number] * len(items), [number, *items[1:]], [*items[:-1], number])
        yield from ([*items, 1], items[:-1], [1.5] * len(items), ["q"] * len(items), [None] * len(items))
    elif isinstance(written, str):
        yield from ("same", "floor", "sum", "mean", "tanh", "ij", "circular")
    else:
        yield from INTS
        yield from FLOATS


def _tensors(x: torch.Tensor) -> Iterator[torch.Tensor]:
    """Tensors of other dtypes, ranks and sizes."""
    for dtype in (torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64):
        if dtype != x.dtype:
            yield x.to(dtype)
    yield x.reshape(-1)[:1].reshape(()) if x.numel() else torch.zeros((), dtype=x.dtype)
    yield x.unsqueeze(0)
    if x.ndim:
        yield from (x[:0], x[:1], torch.cat([x, x]), x[..., :0], x.reshape(-1))
    if x.dtype in (torch.int32, torch.int64):
        yield from (torch.full_like(x, -1), torch.full_like(x, 2**31 - 1))


# ------------------------------------------------------------------------------------- programs


class RejectedError(Exception):
    """A node that torch rejects for tensors without data: `from_exported_program` says so, and converts nothing."""


def program_of(case: Case, valid: Case, count: int | None = None) -> tuple[ExportedProgram, list[torch.Tensor], bool]:
    """Return a program of one node with its first `count` results, its inputs, and whether torch derives the results.

    Torch does not derive results of an operator that is made of others when a program is imported: here, they are
    those of the valid node. Raises RejectedError for another one.
    """
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=False)
    graph, inputs, memo = torch.fx.Graph(), list[torch.Tensor](), dict[int, Any]()

    def operand(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if id(value) not in memo:
                memo[id(value)] = graph.placeholder(f"x{len(inputs)}")
                memo[id(value)].meta["val"] = mode.from_tensor(value, static_shapes=True)
                inputs.append(value)
            return memo[id(value)]
        return [operand(item) for item in value] if isinstance(value, (list, tuple)) else value

    args, kwargs = tuple(map(operand, case.args)), {key: operand(value) for key, value in case.kwargs.items()}
    node = graph.call_function(case.target, args, kwargs)
    try:
        if list(crashing(torch.fx.GraphModule({}, graph))):
            raise TypeError("an argument on which torch crashes")
        with mode:
            node.meta["val"] = case.target(
                *_examples(args), **dict(zip(kwargs, _examples(kwargs.values()), strict=True))
            )
        is_derived = True
    except Exception as error:
        is_composite = torch._C._dispatch_has_kernel_for_dispatch_key(case.target.name(), "CompositeImplicitAutograd")
        if not is_composite or any(text in str(error) for text in MALFORMED) or case is valid:
            raise RejectedError(str(error)) from error
        like = value_of(valid)
        shapes = [(item.shape, item.dtype) for item in pytree.tree_leaves(like)]
        with mode:
            empty = [torch.empty(shape, dtype=dtype) for shape, dtype in shapes]
            node.meta["val"] = empty if isinstance(like, (list, tuple)) else empty[0]
        is_derived = False
    return _program(graph, node, count), inputs, is_derived


def value_of(case: Case) -> Any:
    """Return the results of a valid node, without data."""
    return next(node for node in program_of(case, case)[0].graph.nodes if node.op == "call_function").meta["val"]


def _examples(values: Any) -> list[Any]:
    """Arguments with the fake tensors of nodes."""
    return [
        value.meta["val"]
        if isinstance(value, torch.fx.Node)
        else _examples(value)
        if isinstance(value, list)
        else value
        for value in values
    ]


def _program(graph: torch.fx.Graph, node: torch.fx.Node, count: int | None) -> ExportedProgram:
    """Return the program that returns the first `count` tensors of a node."""
    value, results = node.meta["val"], [node]
    if isinstance(value, (list, tuple)):
        results = []
        for index, item in enumerate(value[:count]):
            results.append(graph.call_function(operator.getitem, (node, index)))
            results[-1].meta["val"] = item
    results = [item for item in results if isinstance(item.meta["val"], torch.Tensor)]
    output = graph.output(tuple(results))
    output.meta["val"] = tuple(item.meta["val"] for item in results)
    places = [TensorArgument(item.name) for item in graph.nodes if item.op == "placeholder"]
    returned = [TensorArgument(item.name) for item in results]
    signature = ExportGraphSignature(
        [InputSpec(InputKind.USER_INPUT, place, None) for place in places],
        [OutputSpec(OutputKind.USER_OUTPUT, place, None) for place in returned],
    )
    specs = (pytree.tree_structure(((0,) * len(places), {})), pytree.tree_structure((0,) * len(returned)))
    entry = ModuleCallEntry("", ModuleCallSignature(places, returned, *specs))
    return ExportedProgram(torch.fx.GraphModule({}, graph), graph, signature, {}, {}, [entry])


# ------------------------------------------------------------------------------------- outcomes


def verdict(case: Case, valid: Case) -> str:
    """The outcome of one variant of a valid node: "rejected", "equal", "both raise", "imported", or a diagnostic's code.

    Raises AssertionError for another result than torch has, and whatever the import or the module raise by mistake.
    """
    try:
        program, inputs, is_derived = program_of(case, valid)
    except RejectedError:
        return "rejected"
    try:
        try:
            mod = importer._Importer(program, False, {}).run(False, True, None)
        except DiagnosticError as error:  # of other results than the first, some are not imported
            if error.diagnostics[0].code != "E6001":
                raise
            program, inputs, _ = program_of(case, valid, 1)
            mod = importer._Importer(program, False, {}).run(False, True, None)
    except DiagnosticError as error:
        return _code(error)
    is_unchecked = str(case.target).startswith(UNCHECKED) and _has_other_tensors(case, valid)
    if (
        is_unchecked
        or any(part in str(case) for part in KNOWN)
        or any(_is_large(item) for item in (*inputs, *program.graph.output_node().meta["val"]))
    ):
        return "imported"
    expected, refusal = _computed(case)
    if refusal and any(text in refusal for text in NO_RESULT):
        return "imported"
    try:
        found = Interpreter(mod)["main"](*(nd_array(importer.as_array(item)) for item in inputs))
    except (DiagnosticError, IndexError, ValueError, ZeroDivisionError, MemoryError):
        assert refusal, "the module raises, torch returns"
        return "both raise"
    if refusal and is_derived and _has_other_tensors(case, valid):
        return "imported"  # of elements that torch rejects, there is no right result
    assert not refusal, f"torch raises {refusal}"
    if registry.is_pure(str(case.target)) and not str(case.target).startswith(RANDOM):
        compare(found, expected)
    return "equal"


def _code(error: DiagnosticError) -> str:
    """Return the code of a diagnostic. Raises AssertionError if it has no place."""
    if any(item.span is None for item in error.diagnostics):
        raise AssertionError(f"a diagnostic without place: {error}")
    return error.diagnostics[0].code


def _has_other_tensors(case: Case, valid: Case) -> bool:
    others = {id(item) for item in pytree.tree_leaves((valid.args, valid.kwargs))}
    leaves = pytree.tree_leaves((case.args, case.kwargs))
    return any(isinstance(item, torch.Tensor) and id(item) not in others for item in leaves)


def _is_large(item: torch.Tensor) -> bool:
    return all(isinstance(size, int) for size in item.shape) and item.numel() > MOST_ELEMENTS


def _computed(case: Case) -> tuple[list[torch.Tensor], str]:
    """Return the tensors that torch computes, or its message if it raises."""
    try:
        with torch.no_grad():
            result = case.target(*_copies(case.args), **{key: _copies([item])[0] for key, item in case.kwargs.items()})
    except Exception as error:  # noqa: BLE001 (torch raises exceptions of many types)
        return [], f"{type(error).__name__}: {str(error)[:200]}"
    results = result if isinstance(result, (list, tuple)) else [result]
    return [item for item in results if isinstance(item, torch.Tensor)], ""


def _copies(values: Sequence[Any]) -> list[Any]:
    return [
        value.clone() if isinstance(value, torch.Tensor) else _copies(value) if isinstance(value, list) else value
        for value in values
    ]


def compare(found: Sequence[Any], expected: Sequence[torch.Tensor]) -> None:
    """Raise AssertionError unless the tensors are the first ones of torch."""
    for actual, right in zip(found, expected, strict=False):
        array, numbers = np.asarray(actual.numpy()), right.to(torch.float64).numpy()
        assert array.shape == numbers.shape, f"shape {array.shape}, torch {numbers.shape}"
        assert f"torch.{array.dtype.name}" == str(right.dtype), f"dtype {array.dtype}, torch {right.dtype}"
        tolerance = 2e-2 if right.dtype in (torch.float16, torch.bfloat16) else 1e-5
        np.testing.assert_allclose(array.astype("float64"), numbers, rtol=tolerance, atol=tolerance, equal_nan=True)


def failures(name: str, limit: Callable[[], Any] = bounded) -> dict[str, str]:
    """One variant for each kind of wrong outcome of an operator, by exception and place."""
    found: dict[str, str] = {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for case in cases().get(name, []):
            for variant in (case, *variants(case)):
                try:
                    with limit():
                        verdict(variant, case)
                except Exception as error:  # noqa: BLE001 (whatever it is, it is a finding)
                    sort = f"{type(error).__name__} at {place_of(error)}"
                    found.setdefault(sort, f"{variant}: {' '.join(str(error).split())[:300]}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Extreme arguments: each must be a diagnostic or a right result.")
    parser.add_argument("names", nargs="*", help="operators (default: all)")
    names = parser.parse_args().names
    logging.disable(logging.CRITICAL)
    os.environ["RELAX_RAISE_UNEXPECTED"] = "1"
    count = 0
    for name in names or cases():
        found = failures(name)
        count += len(found)
        for sort, described in found.items():
            print(f"{name}: {sort}: {described}", flush=True)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
