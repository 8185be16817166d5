"""A trace as JSON values, and back.

    [[["Split", {"loop": {"rv": "l1"}, "factors": [null, 16]}, ["l2", "l3"]], …], [[7, [8, 16]], …]]

The first list holds the kind, the arguments and the output names of each instruction; the second one, pairs of
instruction index and decision. Numbers, strings and lists are stored unchanged. Any other value is a dict of one entry
with its kind as key: a random variable, an expression, an IR node, a tuple, a dict, or a number that JSON cannot
represent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias, cast

from ...ir import GlobalVar, Node, load_json, save_json
from ...prim import PrimExpr, free_vars, substitute
from ...runtime.records import dataclass
from .error import TRACE, ScheduleError
from .instruction import Instruction, InstructionKind, Numbering
from .rv import BlockRV, LoopRV
from .trace_python import named

_SIZE: Final = "size "
"""Prefix, in saved expressions, of variables that are sizes of the function."""

Saved: TypeAlias = "tuple[InstructionKind, Callable[[], dict[str, Any]], Callable[[tuple[Any, ...]], None]]"
"""A loaded instruction: its kind, a function for its arguments (after earlier instructions), and one that takes its
results.
"""


def write_json(steps: Iterable[tuple[Instruction, Any]]) -> list[Any]:
    """Convert a trace to JSON values. Raises ScheduleError for an argument that cannot be saved."""
    numbering = Numbering()
    insts: list[Any] = []
    decisions: list[Any] = []
    for number, (inst, decision) in enumerate(steps):
        arguments = {name: _encode(value, numbering) for name, value in inst.arguments.items()}
        insts.append([inst.kind.name, arguments, [numbering.name_output(value) for value in inst.outputs]])
        if decision is not None:
            decisions.append([number, _encode(decision, numbering)])
    return [insts, decisions]


def _encode(value: Any, numbering: Numbering) -> Any:
    if isinstance(value, (BlockRV, LoopRV)):
        name = numbering.name_of(value)
        if name is None:
            raise ScheduleError(TRACE, f"{value!r} is not an output of any instruction of the trace")
        return {"rv": name}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, list):
        return [_encode(item, numbering) for item in cast("list[Any]", value)]
    if isinstance(value, tuple):
        return {"tuple": [_encode(item, numbering) for item in cast("tuple[Any, ...]", value)]}
    if isinstance(value, dict):
        table = cast("dict[Any, Any]", value)
        return {"dict": [[_encode(k, numbering), _encode(v, numbering)] for k, v in table.items()]}
    if isinstance(value, GlobalVar):
        return value.name_hint
    if isinstance(value, PrimExpr) and free_vars(value):
        return {"expr": json.loads(save_json(named(value, numbering, lambda var: f"{_SIZE}{var.name}")))}
    if isinstance(value, Node):
        return {"node": json.loads(save_json(value))}
    raise ScheduleError(
        TRACE, f"a {type(value).__name__} cannot be saved", hint="give it as an IndexMap, or as a node of the IR"
    )


def read_json(document: Any, size_named: Callable[[str], PrimExpr]) -> Iterator[Saved]:
    """Yield the instructions of a saved trace in order; each must be applied before the next is requested.

    `size_named` returns the size with a name, of the function to which the trace is applied. Raises ScheduleError for
    malformed values.
    """
    insts, decisions = _instructions_and_decisions(document)
    variables: dict[str, Any] = {}
    reader = _Reader(variables, size_named)
    for number, record in enumerate(insts):
        kind, arguments, outputs = _record(record, number)
        if number in decisions:
            if not kind.samples:
                raise _unreadable(f"instruction {number}, {kind.name}, takes no decision")
            arguments = {**arguments, "decision": decisions[number]}

        def decoded(values: dict[str, Any] = arguments) -> dict[str, Any]:
            return {name: reader.decode(value) for name, value in values.items()}

        def take(results: tuple[Any, ...], names: list[str] = outputs, kind: InstructionKind = kind) -> None:
            if len(results) != len(names):
                raise ScheduleError(
                    TRACE,
                    f"{kind.method} gave {len(results)} results, but the trace goes on with {len(names)}",
                    hint="the trace was recorded on a function with other loops or blocks",
                )
            variables.update(zip(names, results, strict=True))

        yield kind, decoded, take


def _instructions_and_decisions(document: Any) -> tuple[list[Any], dict[int, Any]]:
    """Return the instructions, and the decisions by instruction index."""
    halves = _list_of(document, 2)
    insts, pairs = (None, None) if halves is None else map(_list_of, halves)
    if insts is None or pairs is None:
        raise _unreadable("it is not a list of instructions and one of decisions")
    decisions: dict[int, Any] = {}
    for pair in pairs:
        items = _list_of(pair, 2)
        if items is None or type(items[0]) is not int or not 0 <= items[0] < len(insts):
            raise _unreadable(f"the decision {pair!r} is not one of an instruction")
        decisions[items[0]] = items[1]
    return insts, decisions


def _list_of(value: Any, length: int | None = None) -> list[Any] | None:
    """Return a value that is a list, of a given length if specified; else None."""
    if not isinstance(value, (list, tuple)):
        return None
    items = list(cast("list[Any]", value))
    return items if length is None or len(items) == length else None


def _record(record: Any, number: int) -> tuple[InstructionKind, dict[str, Any], list[str]]:
    fields = _list_of(record, 3)
    outputs = None if fields is None else _list_of(fields[2])
    if fields is None or outputs is None or not isinstance(fields[0], str) or not isinstance(fields[1], dict):
        raise _unreadable(f"instruction {number} is not a kind, its arguments and its outputs")
    kind = InstructionKind.get(fields[0])
    arguments = cast("dict[str, Any]", fields[1])
    for key in arguments:
        if key not in kind.parameters:
            raise _unreadable(f"{kind.method} has no argument {key!r}")
    for parameter in kind.parameters:
        spec = kind.signature.parameters[parameter]
        if spec.default is spec.empty and parameter not in arguments:
            raise _unreadable(f"{kind.method} needs the argument {parameter}")
    return kind, arguments, [str(output) for output in outputs]


@dataclass
class _Reader:
    """Decode saved values; `variables` are the random variables of the previous instructions."""

    variables: dict[str, Any]
    size_named: Callable[[str], PrimExpr]

    def decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.decode(item) for item in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        items = list(cast("dict[str, Any]", value).items())
        if len(items) != 1:
            raise _unreadable(f"{value!r} is no value")
        key, body = items[0]
        try:
            return self.tagged(key, body)
        except ScheduleError:
            raise
        except (TypeError, ValueError, KeyError) as error:
            raise _unreadable(f"{key}: {error}") from None

    def tagged(self, key: str, body: Any) -> Any:
        match key:
            case "rv":
                return self.variable(body)
            case "float":
                return float(body)
            case "tuple":
                return tuple(self.decode(item) for item in body)
            case "dict":
                return {self.decode(k): self.decode(v) for k, v in body}
            case "node":
                return load_json(json.dumps(body))
            case "expr":
                expr: PrimExpr = load_json(json.dumps(body))
                return substitute(expr, {var: self.named(var.name) for var in free_vars(expr)})
            case _:
                raise _unreadable(f"{key!r} is no kind of value")

    def named(self, name: str) -> Any:
        return self.size_named(name.removeprefix(_SIZE)) if name.startswith(_SIZE) else self.variable(name)

    def variable(self, name: Any) -> Any:
        if name not in self.variables:
            raise _unreadable(f"no instruction gives {name!r}")
        return self.variables[name]


def _unreadable(reason: str) -> ScheduleError:
    return ScheduleError(TRACE, f"this is no saved trace: {reason}", hint="save it again with Trace.as_json")
