"""A trace as Python statements: one call of a schedule's method for each instruction.

Values are written so that Python reads the same ones: random variables by their names in the text, expressions and
index maps as TVMScript, other nodes through `ir.save_json`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final, cast

from ...ir import GlobalVar, Node, save_json
from ...prim import FloatImm, IntImm, PrimExpr, StringImm, Var, free_vars, substitute
from ..index_map import IndexMap
from .error import TRACE, ScheduleError
from .instruction import Instruction, Numbering, random_vars
from .rv import BlockRV, LoopRV

_LAMBDA: Final = "T.index_map("


def write_python(steps: Iterable[tuple[Instruction, Any]]) -> list[str]:
    """The lines of a trace. Raises ScheduleError for an argument that cannot be written."""
    numbering = Numbering()
    return [_line(inst, decision, numbering) for inst, decision in steps]


def _line(inst: Instruction, decision: Any, numbering: Numbering) -> str:
    arguments = dict(inst.arguments)
    if decision is not None:
        arguments["decision"] = decision
    parts = _arguments(inst, arguments, numbering)
    outputs = ", ".join(numbering.name_output(value) for value in inst.outputs)
    target = f"{outputs}{',' if inst.returns_list and len(inst.outputs) == 1 else ''} = " if outputs else ""
    return f"{target}sch.{inst.kind.method}({', '.join(parts)})"


def _arguments(inst: Instruction, arguments: dict[str, Any], numbering: Numbering) -> list[str]:
    """The arguments of a call: ``*loops`` and those before by position, others by name; defaults are left out."""
    parts: list[str] = []
    by_position = inst.kind.by_position
    for name, value in arguments.items():
        parameter = inst.kind.signature.parameters[name]
        try:
            if parameter.kind is parameter.VAR_POSITIONAL:
                parts += [python_text(item, numbering) for item in value]
            elif name in by_position:
                parts.append(python_text(value, numbering))
            elif parameter.default is parameter.empty or not _is_default(value, parameter.default):
                parts.append(f"{name}={python_text(value, numbering)}")
        except ScheduleError as error:
            raise ScheduleError(
                error.diagnostics[0].code,
                f"{inst.kind.method}, argument {name}: {error.diagnostics[0].message}",
                hint=error.diagnostics[0].hint,
            ) from None
    return parts


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and value == default)


def python_text(value: Any, numbering: Numbering) -> str:
    """A value as Python. Raises ScheduleError if it cannot be written."""
    if isinstance(value, (BlockRV, LoopRV)):
        name = numbering.name_of(value)
        if name is None:
            raise ScheduleError(TRACE, f"{value!r} is not an output of any instruction of the trace")
        return name
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f'float("{value}")'
    if isinstance(value, (list, tuple)):
        items = [python_text(item, numbering) for item in cast("list[Any]", value)]
        if isinstance(value, list):
            return f"[{', '.join(items)}]"
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    if isinstance(value, dict):
        table = cast("dict[Any, Any]", value)
        pairs = [f"{python_text(k, numbering)}: {python_text(v, numbering)}" for k, v in table.items()]
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, Node):
        return _node_text(value, numbering)
    raise ScheduleError(
        TRACE,
        f"a {type(value).__name__} cannot be written",
        hint="give it as an IndexMap, or as a node of the IR",
    )


def _node_text(value: Node, numbering: Numbering) -> str:
    if isinstance(value, GlobalVar):
        return repr(value.name_hint)
    if isinstance(value, IndexMap) and is_plain_map(value):
        return value.script().removeprefix(_LAMBDA).removesuffix(")")
    if isinstance(value, (IntImm, FloatImm, StringImm)):
        return value.script()
    if isinstance(value, PrimExpr) and free_vars(value):
        return named(value, numbering).script()
    return f"ir.load_json({save_json(value)!r})"


def named(expr: PrimExpr, numbering: Numbering) -> PrimExpr:
    """An expression of random integers, over variables that have the names of the text."""
    return substitute(expr, {v: Var(n, v.dtype) for v, n in random_vars(expr, numbering).items()})


def is_plain_map(value: IndexMap) -> bool:
    """True if an index map is its function, with nothing besides and no variable from outside."""
    own = set(value.initial_indices)
    extra = [
        getattr(value, spec.name)
        for spec in value.__node_fields__
        if spec.name not in ("initial_indices", "final_indices")
    ]
    free = {var for index in value.final_indices for var in free_vars(index)}
    return free <= own and all(item is None for item in extra)


__all__ = ["is_plain_map", "named", "python_text", "write_python"]
