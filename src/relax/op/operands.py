"""Operands of operators, declared by the signature of `infer`, and the conversion of arguments to expressions.

The annotation of a parameter of `infer` is the kind of struct info its operand needs:

    def infer(self, data: TensorStructInfo, shape: ShapeStructInfo, bias: TensorStructInfo | None = None)

A default of None makes the operand optional; `*values` takes any number. An argument may be any value with an
unambiguous conversion to that kind: an array for a tensor, a tuple of sizes for a shape, a Python number for a scalar,
a list for a tuple.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any, Union, cast, get_args, get_origin

import numpy as np

from ..expr import ShapeExpr, Tuple, convert
from ..ir import RelaxExpr, StructInfo
from ..prim import PrimExpr
from ..runtime.records import dataclass
from ..struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from .attributes import own_hints
from .errors import OPERANDS, OperatorError

Kind = type[StructInfo]

DTYPE_CLASSES = {"float": "floating point", "int": "signed integers", "uint": "unsigned integers", "bool": "bool"}
"""Names of dtype classes in messages, by the keys of `Operator.require_dtype`."""

FLOATS = ("float",)
INTEGERS = ("int", "uint")
NUMBERS = ("float", "int", "uint")
ANY = ("float", "int", "uint", "bool")
"""Values of `Operator.takes`."""

KIND_NAMES: dict[Kind, str] = {
    TensorStructInfo: "a tensor",
    ShapeStructInfo: "a shape",
    PrimStructInfo: "a scalar",
    TupleStructInfo: "a tuple",
    FuncStructInfo: "a function",
    ObjectStructInfo: "a value",
    StructInfo: "a value",
}


@dataclass(frozen=True)
class Operand:
    """One parameter of `infer`."""

    name: str
    kinds: tuple[Kind, ...]
    optional: bool = False
    variadic: bool = False

    @property
    def wanted(self) -> str:
        """Description of the expected operand."""
        return " or ".join(KIND_NAMES[kind] for kind in self.kinds)

    def accepts(self, info: StructInfo) -> bool:
        return isinstance(info, self.kinds)

    def takes(self, kind: Kind) -> bool:
        return kind in self.kinds


def operands_of(infer: Callable[..., Any], op_name: str, skip: int = 1) -> tuple[tuple[Operand, ...], Kind]:
    """Return (operands that `infer` declares, kind of its result, StructInfo if there are several).

    `skip` parameters come before the operands.
    """
    declared = _DECLARED.get((infer, skip))
    if declared is not None:
        return declared
    hints = own_hints(infer)
    parameters = list(inspect.signature(infer).parameters.values())[skip:]
    operands: list[Operand] = []
    for parameter in parameters:
        kinds, none = _kinds(hints.get(parameter.name), f"{op_name}: operand {parameter.name}")
        optional = none and parameter.default is None
        operands.append(Operand(parameter.name, kinds, optional, parameter.kind is parameter.VAR_POSITIONAL))
    returned, _ = _kinds(hints.get("return"), f"{op_name}: the result of infer")
    declared = tuple(operands), returned[0] if len(returned) == 1 else StructInfo
    _DECLARED[infer, skip] = declared
    return declared


_DECLARED: dict[tuple[Callable[..., Any], int], tuple[tuple[Operand, ...], Kind]] = {}
"""Results of `operands_of`: the rows of a table of operators have one `infer`."""


def _kinds(hint: Any, subject: str) -> tuple[tuple[Kind, ...], bool]:
    origin = get_origin(hint)
    members = get_args(hint) if origin is Union or origin is types.UnionType else (hint,)
    kinds = tuple(member for member in members if member is not type(None))
    for kind in kinds:
        if kind not in KIND_NAMES:
            raise TypeError(f"{subject}: annotate it with the StructInfo it needs, not {kind!r}")
    return kinds, len(kinds) < len(members)


def weakest(kinds: Sequence[Kind]) -> StructInfo | None:
    """Weakest struct info of a single kind; None for several kinds, or for a kind without one."""
    if len(kinds) != 1:
        return None
    weak: dict[Kind, StructInfo] = {
        TensorStructInfo: TensorStructInfo(None, ""),
        ShapeStructInfo: ShapeStructInfo(),
        ObjectStructInfo: ObjectStructInfo(),
        StructInfo: ObjectStructInfo(),
    }
    return weak.get(kinds[0])


_NUMBERS = (int, float, np.integer, np.floating, np.bool_, PrimExpr)

ABSENT = Tuple(())
"""Placeholder of an omitted optional operand that precedes a present one."""


def is_absent(expr: RelaxExpr) -> bool:
    """True if an argument is the placeholder of an omitted optional operand."""
    return isinstance(expr, Tuple) and not expr.fields


def as_argument(operand: Operand, value: Any, op_name: str) -> RelaxExpr:
    """Convert an argument to an expression. Raises OperatorError for a value that cannot be this operand."""
    if value is None and operand.optional:
        return ABSENT
    if isinstance(value, RelaxExpr):
        return value
    if operand.takes(ShapeStructInfo):
        shape = _as_shape(value)
        if shape is not None:
            return shape
    if not (operand.takes(StructInfo) or operand.takes(ObjectStructInfo)):
        if isinstance(value, str) or (isinstance(value, _NUMBERS) and not operand.takes(PrimStructInfo)):
            raise _refused(operand, value)
        if isinstance(value, (tuple, list)) and not operand.takes(TupleStructInfo):
            raise _refused(operand, value)
    try:
        return convert(value.item() if isinstance(value, np.generic) and operand.takes(PrimStructInfo) else value)
    except TypeError:
        raise _refused(operand, value) from None


def _as_shape(value: Any) -> ShapeExpr | None:
    sizes = cast("Sequence[Any]", value if isinstance(value, (tuple, list)) else (value,))
    if all(isinstance(v, (int, np.integer, PrimExpr)) and not isinstance(v, bool) for v in sizes):
        try:
            return ShapeExpr(tuple(sizes))
        except TypeError:
            return None
    return None


def _refused(operand: Operand, value: Any) -> OperatorError:
    kind = cast("object", value).__class__.__name__
    shown = f" {value!r}" if isinstance(value, (int, float, str)) else ""
    hint = ""
    if operand.takes(TensorStructInfo) and isinstance(value, (int, float, list, tuple)):
        hint = "write relax.const(value, dtype) for a tensor constant"
    return OperatorError(OPERANDS, f"{operand.name} must be {operand.wanted}, found {kind}{shown}", hint=hint)
