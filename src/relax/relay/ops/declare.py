"""Declarations of Relay's operators: a name, operands, attributes, and the Relax expression that a call means.

    declare("nn.softmax", 1, attr("axis", "int", -1), means=lambda a, x: op.nn.softmax(x, a.axis))

`means` is called with the attributes and the operands as Relax expressions with struct info, and returns a Relax
expression. It determines the operator's type (the struct info that Relax derives), its value (what Relax computes) and
its translation, so each rule exists once, on the Relax operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

from ...expr import Call, Constant, const
from ...ir import DataType, Op, RelaxExpr
from ...op.facts import MixedPrecision
from ...prim import PrimExpr
from ...struct_info import TensorStructInfo
from ...tir.op_pattern import OpPatternKind
from ..expr import Call as RelayCall
from ..operators import REQUIRED, AttrField, register_operator

MEANING: Final = "relay.meaning"
"""Op attribute key of the operator's meaning."""
PATTERN: Final = "TOpPattern"
"""Op attribute key of the fusion pattern, as in TVM."""
ELEMWISE: Final = OpPatternKind.ELEMWISE
BROADCAST: Final = OpPatternKind.BROADCAST
INJECTIVE: Final = OpPatternKind.INJECTIVE
COMM_REDUCE: Final = OpPatternKind.COMM_REDUCE
OUT_ELEMWISE_FUSABLE: Final = OpPatternKind.OUT_ELEMWISE_FUSABLE
ALWAYS: Final = MixedPrecision.ALWAYS
FOLLOW: Final = MixedPrecision.FOLLOW

_MIXED: Final = "relay.mixed_precision"
_OPERANDS: Final = "relay.operands"
_RESULTS: Final = "relay.results"
_CONSTANTS: Final = "relay.constants"
_OPERAND_NAMES: Final = {1: ("data",), 2: ("lhs", "rhs")}

Results: TypeAlias = "int | Callable[[Any, tuple[RelaxExpr, ...]], int | None]"
"""Number of results, or a function of the attributes and Relay operands that returns it.

None means that the result is no tuple, or one of unknown length.
"""

Meaning: TypeAlias = (
    Callable[[Any], Any]
    | Callable[[Any, Any], Any]
    | Callable[[Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any, Any, Any], Any]
)
"""Function from attributes and up to five operands to a Relax expression."""


def attr(name: str, kind: str, default: Any = REQUIRED) -> AttrField:
    """Return an attribute: name, type name (a key of `operators.ATTR_TYPES`), and default."""
    return AttrField(name, kind, default)


def declare(
    name: str,
    inputs: int | None,
    *attrs: AttrField,
    means: Meaning,
    operands: str | None = None,
    results: Results | None = None,
    constants: bool = False,
    pattern: OpPatternKind = OpPatternKind.OPAQUE,
    mixed: MixedPrecision | None = None,
) -> Op:
    """Register an operator of Relay with its meaning in Relax. `inputs` is None for any number of operands.

    Parameters
    ----------
    operands
        The names of the operands, separated by spaces, where they are not ``data``, or ``lhs rhs``.
    results
        The number of results, or a function from the attributes and operands to it, of an operator whose result is a
        tuple.
    constants
        Whether the meaning needs to know the values of scalar operands.
    pattern
        The kind of kernel for fusion (`relax.tir.op_pattern`); an OPAQUE operator is never fused.
    mixed
        What the operator does in a program of mixed precision; None says nothing, which leaves it in float32.
    """
    names = operands.split() if operands is not None else list(_OPERAND_NAMES.get(inputs or 0, ()))
    facts: dict[str, Any] = {
        MEANING: means,
        _OPERANDS: tuple(names),
        _CONSTANTS: constants,
        PATTERN: pattern,
        _MIXED: mixed,
    }
    return register_operator(name, inputs, attrs, **facts, **({} if results is None else {_RESULTS: results}))


def meaning_of(operator: Op) -> Callable[..., RelaxExpr] | None:
    """Return the meaning of a Relay operator, or None."""
    return operator.get_attr(MEANING)


def pattern_of(operator: Op) -> OpPatternKind:
    """Fusion pattern of an operator; OPAQUE if undeclared."""
    pattern = operator.get_attr(PATTERN)
    return OpPatternKind.OPAQUE if pattern is None else OpPatternKind(pattern)


def mixed_precision_of(operator: Op) -> MixedPrecision | None:
    """Mixed-precision category of an operator, or None if undeclared."""
    return operator.get_attr(_MIXED)


def operand_names(operator: Op) -> tuple[str, ...]:
    """Keyword names of the operands."""
    return operator.get_attr(_OPERANDS) or ()


def result_count(call: RelayCall) -> int | None:
    """Number of results of an operator call, or None if its result is no tuple, or one of unknown length."""
    results: Results | None = cast(Op, call.op).get_attr(_RESULTS)
    return results(call.attrs, call.args) if callable(results) else results


def needs_constants(operator: Op) -> bool:
    """True if the operator's meaning needs the values of scalar operands."""
    return bool(operator.get_attr(_CONSTANTS))


# -- what meanings ask of their operands


def dims(x: RelaxExpr) -> tuple[PrimExpr, ...]:
    """Dimensions of a tensor. Raises ValueError if its shape is unknown."""
    info = x.struct_info_
    if not isinstance(info, TensorStructInfo) or info.dims is None:
        raise ValueError("the shape of the operand must be known")
    return info.dims


def rank(x: RelaxExpr) -> int:
    """Rank of a tensor. Raises ValueError if it is unknown."""
    info = x.struct_info_
    if not isinstance(info, TensorStructInfo) or info.ndim < 0:
        raise ValueError("the number of dimensions of the operand must be known")
    return info.ndim


def axis_of(axis: int, x: RelaxExpr) -> int:
    """Axis of a tensor counted from 0. Raises ValueError if the tensor has no such axis."""
    count = rank(x)
    if not -count <= axis < count:
        raise ValueError(f"axis {axis} is out of range for {count} dimensions")
    return axis % count


def dtype(x: RelaxExpr) -> str:
    """Dtype of a tensor. Raises ValueError if it is unknown."""
    info = x.struct_info_
    if not isinstance(info, TensorStructInfo) or info.dtype.is_void:
        raise ValueError("the dtype of the operand must be known")
    return str(info.dtype)


def scalar(value: float, like: RelaxExpr) -> RelaxExpr:
    """Constant with the dtype of an operand."""
    return const(value, dtype(like))


def number(x: RelaxExpr) -> Any:
    """Value of a constant scalar operand. Raises ValueError if it is no constant."""
    if not isinstance(x, Constant) or x.data.ndim:
        raise ValueError("the operand must be a constant scalar")
    return cast("Any", x.data).item()


def optional_dtype(value: DataType | None) -> str | None:
    """Convert a dtype attribute for Relax: None or "" becomes None."""
    return str(value) if value is not None and not value.is_void else None


def axes_of(axis: Any, x: RelaxExpr, exclude: bool = False) -> list[int] | None:
    """Axes of a reduction, or None for all. `exclude` selects all other axes."""
    if axis is None or axis == ():
        return [] if exclude else None
    chosen: list[int] = [axis] if isinstance(axis, int) else list(axis)
    if not exclude:
        return chosen
    excluded = {axis_of(a, x) for a in chosen}
    return [i for i in range(rank(x)) if i not in excluded]


__all__ = [
    "ALWAYS", "FOLLOW", "MEANING", "Call", "Meaning", "attr", "axes_of", "axis_of", "declare", "dims", "dtype",
    "meaning_of", "mixed_precision_of", "needs_constants", "number", "operand_names", "optional_dtype", "rank",
    "result_count", "scalar",
]  # fmt: skip
