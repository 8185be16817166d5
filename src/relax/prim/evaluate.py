"""Value of a scalar expression: the reference for the simplifier and the code generator.

Integers wrap around at their width; ``//`` and ``%`` floor, Div and Mod truncate; floating point is rounded to the
dtype after every operation; And, Or, Select and if_then_else evaluate operands only when needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ..ir import DataType, Op
from ..runtime.rounding import convert_array, round_number, rounder
from .arithmetic import wrap
from .expr import And, BinaryExpr, Call, Cast, FloatImm, IntImm, Let, Not, Or, PrimExpr, Select, Var
from .functor import FreeVars
from .instructions import fused

Value: TypeAlias = "int | float | bool"


def evaluate(expr: PrimExpr, env: Mapping[Var, Any] | None = None, *, checked: bool = False) -> Value:
    """Value of an expression for given values of its variables, which are converted to their dtypes.

    Raises ZeroDivisionError naming the expression for an integer division by zero, KeyError for a variable without a
    value, and TypeError for operations that need a running program (a load, an extern call). With `checked`, as for
    sizes, int64 overflow raises OverflowError.
    """
    values = {} if env is None else {var: _to_dtype(value, var.dtype) for var, value in env.items()}
    return _Evaluation(values, checked).value(expr)


def integer_value(expr: PrimExpr) -> int | None:
    """Value of an integer expression without variables; None if its evaluation fails or needs a running program."""
    try:
        return int(evaluate(expr))
    except (ZeroDivisionError, TypeError):
        return None


class _Evaluation:
    """One evaluation. An object that occurs in several places is evaluated once for the values of its variables."""

    def __init__(self, env: dict[Var, Value], checked: bool) -> None:
        self.env = env
        self.checked = checked
        self._done: dict[Any, Value] = {}
        self._bound: dict[Var, str] = {}
        """The values of the variables that Lets around bind, as text that tells them apart."""
        self._free = FreeVars()

    def value(self, expr: PrimExpr) -> Value:
        """The value of an expression."""
        match expr:
            case IntImm():
                return bool(expr.value) if expr.dtype.is_bool else expr.value
            case FloatImm():
                return round_number(expr.value, expr.dtype)
            case Var():
                if expr not in self.env:
                    raise KeyError(f"the variable {expr.name} has no value")
                return self.env[expr]
            case _:
                key: Any = id(expr)
                if self._bound:
                    mentioned = [var for var in self._free.of(expr) if var in self._bound]
                    key = (key, *((var, self._bound[var]) for var in mentioned))
                if key not in self._done:
                    self._done[key] = self._compute(expr)
                return self._done[key]

    def _compute(self, expr: PrimExpr) -> Value:
        match expr:
            case And():
                return bool(self.value(expr.a)) and bool(self.value(expr.b))
            case Or():
                return bool(self.value(expr.a)) or bool(self.value(expr.b))
            case Not():
                return not self.value(expr.a)
            case BinaryExpr():
                return self._binary(expr, self.value(expr.a), self.value(expr.b))
            case Select():
                return self.value(expr.true_value if self.value(expr.condition) else expr.false_value)
            case Cast():
                return convert_value(self.value(expr.value), expr.dtype)
            case Let():
                return self._let(expr)
            case Call():
                return self._call(expr)
            case _:
                return _no_value(expr)

    def _binary(self, expr: BinaryExpr, a: Value, b: Value) -> Value:
        function = scalar_function(expr, self.checked)
        if not expr.a.dtype.is_float:
            return function(int(a), int(b))
        with np.errstate(all="ignore"):
            return function(float(a), float(b))

    def _let(self, expr: Let) -> Value:
        value = self.value(expr.value)
        env, bound = self.env, self._bound
        self.env = {**env, expr.var: value}
        self._bound = {**bound, expr.var: repr(value)}
        try:
            return self.value(expr.body)
        finally:
            self.env, self._bound = env, bound

    def _call(self, expr: Call) -> Value:
        name, args = expr.intrinsic, expr.args
        if name == "if_then_else":
            return self.value(args[1] if self.value(args[0]) else args[2])
        if name in _NOT_EVALUATED:
            return _no_value(expr)
        return intrinsic_function(expr)(*map(self.value, args))


def scalar_function(expr: BinaryExpr, checked: bool = False) -> Callable[[Any, Any], Value]:
    """Function from operand values to the result of an operation, for the operands' dtype (of one lane).

    With `checked`, int64 overflow raises OverflowError. Call functions of floats with NumPy's warnings silenced.
    """
    dtype = expr.a.dtype.element_of
    integers, floats = expr.functions[:2]
    if expr.dtype.is_bool:
        compute = floats if dtype.is_float else integers
        return lambda a, b: bool(compute(a, b))
    if dtype.is_float:
        rounded = rounder(dtype)
        return lambda a, b: rounded(floats(a, b))
    kind, strict = expr.dtype.element_of, checked and dtype == "int64"
    least, most = int(kind.min_value), int(kind.max_value)

    def function(a: int, b: int) -> int:
        try:
            value = integers(a, b)
        except ZeroDivisionError:
            raise ZeroDivisionError(f"division by zero in {expr}") from None
        if least <= value <= most:
            return value
        if strict:
            raise OverflowError(f"a size does not fit into 64 bits: {expr}")
        return wrap(value, kind)

    return function


def convert_value(value: Value, dtype: DataType) -> Value:
    """Value of a Cast: integers wrap around, floats are truncated and saturate, NaN becomes 0, nonzero becomes True.

    Raises TypeError for a dtype without values, such as ``handle``.
    """
    if dtype.is_bool:
        return bool(value)
    if dtype.is_float:
        return round_number(value, dtype)
    if not dtype.is_integer:
        raise TypeError(f"a scalar has no value as {dtype!s}")
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        clamped = min(max(value, float(dtype.min_value)), float(dtype.max_value))
        return min(max(int(clamped), int(dtype.min_value)), int(dtype.max_value))
    return wrap(int(value), dtype)


def _to_dtype(value: Any, dtype: DataType) -> Value:
    if dtype.is_bool:
        return bool(value)
    if not dtype.is_float:
        return wrap(int(value), dtype)
    return round_number(value if isinstance(value, int) else float(value), dtype)


def intrinsic_function(expr: Call) -> Callable[..., Value]:
    """Function from argument values to the result of an intrinsic call, for one lane.

    The function raises TypeError if the call has no value outside of a running program.
    """
    dtype, kinds = expr.dtype.element_of, [arg.dtype.element_of for arg in expr.args]
    if expr.intrinsic == "reinterpret":

        def same_bits(value: Value) -> Value:
            bits: Any = array_of(value, kinds[0])
            return bits.view(dtype.numpy()).item()

        return same_bits
    if expr.intrinsic == "fma":
        return partial(fused, dtype)
    if expr.intrinsic in _OF_BITS and dtype.is_integer and not dtype.is_bool and kinds[0] == dtype:
        return partial(_OF_BITS[expr.intrinsic], dtype)
    reference = expr.op.get_attr("numpy") if isinstance(expr.op, Op) else None
    if reference is None:
        return partial(_no_value, expr)
    # Functions of floating point are computed in double precision, then rounded.
    types: list[Any] = [np.float64 if kind.is_float else kind.numpy() for kind in kinds]

    def function(*values: Value) -> Value:
        arrays = [np.array(value, kind) for value, kind in zip(values, types, strict=True)]
        with np.errstate(all="ignore"):
            result = reference(*arrays)
        return convert_value(np.asarray(result).item(), dtype)

    return function


def _and(dtype: DataType, a: Value, b: Value) -> int:
    return int(a) & int(b)


def _or(dtype: DataType, a: Value, b: Value) -> int:
    return int(a) | int(b)


def _xor(dtype: DataType, a: Value, b: Value) -> int:
    return int(a) ^ int(b)


def _inverted(dtype: DataType, a: Value) -> int:
    return wrap(~int(a), dtype)


def _shifted_left(dtype: DataType, value: Value, by: Value) -> int:
    return wrap(int(value) << int(by), dtype) if 0 <= by < dtype.bits else 0


def _shifted_right(dtype: DataType, value: Value, by: Value) -> int:
    return int(value) >> (int(by) if 0 <= by < dtype.bits else dtype.bits)


_OF_BITS: dict[str, Callable[..., int]] = {
    "bitwise_and": _and, "bitwise_or": _or, "bitwise_xor": _xor, "bitwise_not": _inverted,
    "shift_left": _shifted_left, "shift_right": _shifted_right,
}  # fmt: skip
"""Functions (dtype, operands) that evaluate bitwise intrinsics with Python's integers, faster than NumPy's scalars."""


def _no_value(expr: PrimExpr, *_: Value) -> Value:
    raise TypeError(f"a {type(expr).__name__} has no value outside of a running program: {expr}")


_NOT_EVALUATED = frozenset({
    "call_extern", "call_pure_extern", "call_packed", "assume", "ret", "address_of", "tvm_access_ptr",
    "type_annotation", "",
})  # fmt: skip


def array_of(value: Any, dtype: DataType) -> np.ndarray[Any, Any]:
    """A value, or a list of them, as an array of a dtype."""
    if not dtype.is_float:
        return np.array(value, dtype.numpy())
    return convert_array(np.array(value, np.float64), dtype.numpy())
