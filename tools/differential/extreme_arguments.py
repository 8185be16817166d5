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
from relax.interpreter import Interpreter
from relax.ir import DiagnosticError

INTS = (0, -1, 1, 7, 2**32, 2**62, 2**63 - 1, -(2**63))
FLOATS = (0.0, -1.0, 1e30, float("nan"), float("inf"), float("-inf"))
OTHERS = (True, 1.5, "q", "", [], None)
"""Values of all types, for arguments of any type."""

NUMBERS = ("int", "SymInt", "float", "number", "Scalar", "bool")
SKIPPED = ("Device", "Layout", "MemoryFormat", "Generator", "ScalarType")
"""Types of arguments that a converter does not read."""

UNSET = frozenset({"pin_memory", "non_blocking", "cudnn_enable", "cudnn_enabled", "cudnn_benchmark"})
"""Arguments without a meaning for a converter."""

MOST_ELEMENTS = 100_000
"""Results with more elements are imported, but not computed."""

RANDOM = ("aten.empty", "aten.new_empty")
"""Operators whose results have any elements; impure ones are further ones."""

UNSUPPORTED_BY_CPU = ("not implemented for", "not supported for", "Could not run", "is not implemented", "only supports")
"""Parts of messages by which torch says that it has no kernel for valid operands."""

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
        for tensor in _tensors(items[0]):
            yield [tensor, *items[1:]]
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


def program_of(case: Case) -> tuple[ExportedProgram, list[torch.Tensor]]:
    """Return a program of one node, and its inputs. Raises RejectedError."""
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
        with mode:
            node.meta["val"] = case.target(*_examples(args), **dict(zip(kwargs, _examples(kwargs.values()), strict=True)))
    except Exception as error:
        raise RejectedError(str(error)) from error
    return _program(graph, node), inputs


def _examples(values: Any) -> list[Any]:
    """Arguments with the fake tensors of nodes."""
    return [
        value.meta["val"] if isinstance(value, torch.fx.Node) else _examples(value) if isinstance(value, list) else value
        for value in values
    ]


def _program(graph: torch.fx.Graph, node: torch.fx.Node) -> ExportedProgram:
    """Return the program that returns the tensors of a node."""
    value, results = node.meta["val"], [node]
    if isinstance(value, (list, tuple)):
        results = []
        for index, item in enumerate(value):
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


def verdict(case: Case) -> str:
    """The outcome of one node: "rejected", "equal", "both raise", "imported", or the code of a diagnostic.

    Raises AssertionError for another result than torch has, and whatever the import or the module raise by mistake.
    """
    try:
        program, inputs = program_of(case)
    except RejectedError:
        return "rejected"
    try:
        mod = importer._Importer(program, False).run(False, True)
    except DiagnosticError as error:
        assert all(item.span is not None for item in error.diagnostics), f"a diagnostic without place: {error}"
        return error.diagnostics[0].code
    if any(_is_large(item) for item in (*inputs, *program.graph.output_node().meta["val"])):
        return "imported"
    expected, refusal = _computed(case)
    if refusal and any(text in refusal for text in UNSUPPORTED_BY_CPU):
        return "imported"
    try:
        found = Interpreter(mod)["main"](*(item.numpy() for item in inputs))
    except (DiagnosticError, IndexError, ValueError):
        assert refusal, "the module raises, torch returns"
        return "both raise"
    assert not refusal, f"torch raises {refusal}"
    if registry.is_pure(str(case.target)) and not str(case.target).startswith(RANDOM):
        compare(found, expected)
    return "equal"


def _is_large(item: torch.Tensor) -> bool:
    return any(not isinstance(size, int) for size in item.shape) or item.numel() > MOST_ELEMENTS


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
    """Raise AssertionError unless tensors are those of torch; results that no converter returns are left out."""
    assert len(found) <= len(expected)
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
                        verdict(variant)
                except Exception as error:  # noqa: BLE001 (whatever it is, it is a finding)
                    sort = f"{type(error).__name__} at {place_of(error)}"
                    found.setdefault(sort, f"{variant}: {' '.join(str(error).split())[:300]}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Extreme arguments: each must be a diagnostic or a right result.")
    parser.add_argument("names", nargs="*", help="operators (default: all)")
    names = parser.parse_args().names
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
