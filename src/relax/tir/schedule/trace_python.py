"""Traces as Python statements: one call of a schedule method for each instruction.

The text evaluates to the same values: random variables are written as Python variables, expressions and index maps as
TVMScript, other nodes with `ir.save_json`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from ...ir import GlobalVar, Node, save_json
from ...prim import FloatImm, IntImm, PrimExpr, StringImm, Var, free_vars, substitute
from ...prim.expr import Add, Cast, FloorDiv, FloorMod, Max, Min, Mul, Sub
from ..index_map import IndexMap
from .error import TRACE, ScheduleError
from .instruction import Instruction, Numbering, variable_names
from .rv import BlockRV, LoopRV


def write_python(steps: Iterable[tuple[Instruction, Any]]) -> list[str]:
    """Return the lines of a trace. Raises ScheduleError for an argument that cannot be written."""
    numbering = Numbering()
    return [_line(inst, decision, numbering) for inst, decision in steps]


def _line(inst: Instruction, decision: Any, numbering: Numbering) -> str:
    arguments = dict(inst.arguments)
    if decision is not None:
        arguments["decision"] = decision
    texts = _arguments(inst, arguments, numbering)
    outputs = ", ".join(numbering.name_output(value) for value in inst.outputs)
    target = f"{outputs}{',' if inst.returns_list and len(inst.outputs) == 1 else ''} = " if outputs else ""
    return f"{target}sch.{inst.kind.method}({', '.join(texts)})"


def _arguments(inst: Instruction, arguments: dict[str, Any], numbering: Numbering) -> list[str]:
    """Write the arguments of a call: up to ``*loops`` by position, others by name; defaults are omitted."""
    texts: list[str] = []
    by_position = inst.kind.by_position
    for name, value in arguments.items():
        parameter = inst.kind.signature.parameters[name]
        try:
            if parameter.kind is parameter.VAR_POSITIONAL:
                texts += [python_text(item, numbering) for item in value]
            elif name in by_position:
                texts.append(python_text(value, numbering))
            elif parameter.default is parameter.empty or not _is_default(value, parameter.default):
                texts.append(f"{name}={python_text(value, numbering)}")
        except ScheduleError as error:
            raise ScheduleError(
                error.diagnostics[0].code,
                f"{inst.kind.method}, argument {name}: {error.diagnostics[0].message}",
                hint=error.diagnostics[0].hint,
            ) from None
    return texts


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and value == default)


def python_text(value: Any, numbering: Numbering) -> str:
    """Write a value as Python. Raises ScheduleError if that is impossible."""
    if isinstance(value, (BlockRV, LoopRV)):
        name = numbering.name_of(value)
        if name is None:
            raise ScheduleError(TRACE, f"{value!r} is not an output of any instruction of the trace")
        return name
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if value is None or isinstance(value, (bool, int)):
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
        TRACE, f"a {type(value).__name__} cannot be written", hint="give it as an IndexMap, or as a node of the IR"
    )


def _node_text(value: Node, numbering: Numbering) -> str:
    if isinstance(value, GlobalVar):
        return python_text(value.name_hint, numbering)
    if isinstance(value, IndexMap) and is_plain_map(value):
        return _lambda_text(value)
    if isinstance(value, PrimExpr) and (free_vars(value) or isinstance(value, (IntImm, FloatImm, StringImm))):
        return expr_text(named(value, numbering))
    return f"ir.load_json({save_json(value)!r})"


def _lambda_text(index_map: IndexMap) -> str:
    """Write an index map as a lambda with fresh parameter names."""
    variables: dict[Var, Var] = {}
    for position, var in enumerate(index_map.initial_indices):
        fits = var.name.isidentifier() and all(var.name != other.name for other in variables.values())
        variables[var] = Var(var.name if fits else f"i{position}_", var.dtype)
    results = [expr_text(substitute(index, variables)) for index in index_map.final_indices]
    tail = "," if len(results) == 1 else ""
    return f"lambda {', '.join(var.name for var in variables.values())}: ({', '.join(results)}{tail})"


_INFIX: Final[dict[type[PrimExpr], tuple[str, int]]] = {
    Add: ("+", 1), Sub: ("-", 1), Mul: ("*", 2), FloorDiv: ("//", 2), FloorMod: ("%", 2),
}  # fmt: skip


def expr_text(expr: PrimExpr) -> str:
    """Write an expression as Python, with the given names of its variables."""
    return _leveled(expr)[0]


def _leveled(expr: PrimExpr) -> tuple[str, int]:
    """Return the text of an expression, and the precedence of its outermost operator."""
    match expr:
        case Var():
            return expr.name, 3
        case IntImm() if expr.dtype == "int32":
            return str(expr.value), 3 if expr.value >= 0 else 0
        case IntImm(value=value) if expr.dtype.is_bool:
            return f'tir.const({bool(value)}, "bool")', 3
        case IntImm(value=value) | FloatImm(value=value):
            number = f'float("{value}")' if not math.isfinite(value) else repr(value)
            return f'tir.const({number}, "{expr.dtype}")', 3
        case Add(a=a, b=b) | Sub(a=a, b=b) | Mul(a=a, b=b) | FloorDiv(a=a, b=b) | FloorMod(a=a, b=b):
            sign, level = _INFIX[type(expr)]
            left, right = _operand(a, b, level), _operand(b, a, level + 1)
            return f"{left} {sign} {right}", level
        case Min(a=a, b=b) | Max(a=a, b=b):
            name = "min" if isinstance(expr, Min) else "max"
            return f"tir.{name}({_operand(a, b, 0)}, {_operand(b, a, 0)})", 3
        case Cast(value=value):
            text, level = _leveled(value)
            return f'({text}).astype("{expr.dtype}")' if level < 3 else f'{text}.astype("{expr.dtype}")', 3
        case _:
            return expr.script(), 0


def _operand(expr: PrimExpr, other: PrimExpr, level: int) -> str:
    """Write an operand; a constant takes its dtype from the other operand."""
    if isinstance(expr, IntImm) and not isinstance(other, IntImm) and expr.dtype == other.dtype:
        return str(expr.value) if expr.value >= 0 else f"({expr.value})"
    text, own = _leveled(expr)
    return text if own >= level else f"({text})"


def named(
    expr: PrimExpr, numbering: Numbering, size_name: Callable[[Var], str] = lambda var: f'sch.get_size("{var.name}")'
) -> PrimExpr:
    """Rename the variables of an expression to those of the text; sizes are looked up by name."""
    names = variable_names(expr, numbering, size_name)
    return substitute(expr, {var: Var(name, var.dtype) for var, name in names.items()})


def is_plain_map(value: IndexMap) -> bool:
    """True if an index map consists of its function only, without variables from outside."""
    own = set(value.initial_indices)
    extra = [
        getattr(value, spec.name)
        for spec in value.__node_fields__
        if spec.name not in ("initial_indices", "final_indices")
    ]
    free = {var for index in value.final_indices for var in free_vars(index)}
    return free <= own and all(item is None for item in extra)
