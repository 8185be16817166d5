"""Element-wise formulas of two tensors (or a tensor and a scalar), which broadcast as NumPy's do.

If it is undecided at compile time which of two sizes is 1, the kernel selects the result's size and the indices at run
time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Any

from .. import te
from ..ir import DataType, Node, walk
from ..prim import (
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    PrimExpr,
    Select,
    Var,
    Verdict,
    const,
    convert,
    implies,
    intrin,
    is_const,
    prove_equal,
)
from ..prim import cast as cast_expr
from ..prim.expr import binary
from .util import plus, times, truth

_ONE = const(1, "int64")

Operand = Any
"""A te.Tensor, or a scalar: a PrimExpr or a number."""
Scalar2 = Callable[[PrimExpr, PrimExpr], PrimExpr]
Formula2 = Callable[[Operand, Operand], Any]
"""A formula that returns a te.Tensor; for two PrimExprs, a PrimExpr."""


Sizes = tuple[PrimExpr, PrimExpr]
"""Two sizes that must be compatible for broadcasting."""


def same_size(a: PrimExpr, b: PrimExpr) -> bool:
    """True if two sizes are proved equal."""
    return a is b or prove_equal(a, b) is Verdict.YES


def broadcast_size(a: PrimExpr, b: PrimExpr, others: Sequence[Sizes] = ()) -> PrimExpr:
    """Size to which `a` and `b` broadcast, given that the pairs `others` broadcast."""
    if is_const(a, 1) or same_size(a, b):
        return b
    if is_const(b, 1):
        return a
    if isinstance(a, IntImm) or isinstance(b, IntImm):
        return a if isinstance(a, IntImm) else b
    full = full_size((a, b), others)
    return Select(a.equal(1), b, a) if full is None else full


def full_sizes(columns: Sequence[Sequence[PrimExpr]]) -> list[PrimExpr | None]:
    """Return the size to which each column of sizes broadcasts, None where it cannot be determined."""
    result = [_stretched(column) for column in columns]
    for d, size in enumerate(result):
        if size is None:
            other_pairs = [pair for e, column in enumerate(columns) if e != d for pair in combinations(column, 2)]
            result[d] = full_size(columns[d], open_pairs(other_pairs))
    return result


def _stretched(sizes: Sequence[PrimExpr]) -> PrimExpr | None:
    """Return the dimension to which `sizes` broadcast, None if it cannot be determined."""
    if all(size is sizes[0] for size in sizes[1:]):
        return sizes[0]
    answers = [(size, prove_equal(size, _ONE)) for size in sizes]
    larger = [size for size, answer in answers if answer is not Verdict.YES]
    if not larger:
        return sizes[0]
    certain = [size for size, answer in answers if answer is Verdict.NO]
    if certain:
        return next((size for size in certain if isinstance(size, IntImm)), certain[0])
    same = all(prove_equal(larger[0], size) is Verdict.YES for size in larger[1:])
    return larger[0] if same else None


def full_size(sizes: Sequence[PrimExpr], others: Sequence[Sizes]) -> PrimExpr | None:
    """The element of `sizes` to which all of them broadcast, None if undecided; see `is_full_size`.

    Among several candidates, the expression with the fewest nodes.
    """
    for full in sorted(sizes, key=_length):
        rest = [size for size in sizes if not same_size(size, full)]
        if all(is_full_size(full, size, others) for size in rest):
            return full
    return None


def _length(size: PrimExpr) -> int:
    """Number of nodes of an expression."""
    count = 0

    def visit(_: Node) -> None:
        nonlocal count
        count += 1

    walk(size, visit)
    return count


def is_full_size(full: PrimExpr, size: PrimExpr, others: Sequence[Sizes] = ()) -> bool:
    """True if `full` and `size` broadcast to `full` whenever they broadcast at all, given that the pairs `others` do.

    n is the full size of n and min(n, 64), as n = 1 implies that both are 1; and of n and min(p + n, 64) - min(p, 64)
    if p + n and min(p + n, 64) broadcast.
    """
    if isinstance(full, Var) and isinstance(size, Var):
        return False
    if implies((full.equal(1),), size.equal(1)):
        return True
    return any(
        all(_is_full_size_where(full, size, case) for case in (x.equal(y), x.equal(1), y.equal(1))) for x, y in others
    )


def _is_full_size_where(full: PrimExpr, size: PrimExpr, case: PrimExpr) -> bool:
    return implies((case,), size.equal(full)) or implies((case, full.equal(1)), size.equal(1))


def broadcast_shape(*shapes: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
    """Shape to which several shapes broadcast."""
    result: tuple[PrimExpr, ...] = ()
    for shape in shapes:
        short, long = sorted((result, tuple(shape)), key=len)
        offset = len(long) - len(short)
        pairs = list(zip(long[offset:], short, strict=True))
        tail = [broadcast_size(a, b, open_pairs([*pairs[:d], *pairs[d + 1 :]])) for d, (a, b) in enumerate(pairs)]
        result = (*long[:offset], *tail)
    return result


def open_pairs(pairs: Iterable[Sizes]) -> list[Sizes]:
    """Pairs of sizes that are neither proved equal nor contain the constant 1."""
    return [
        (a, b) for a, b in pairs if a is not b and not is_const(a, 1) and not is_const(b, 1) and not same_size(a, b)
    ]


def read_broadcast(x: Operand, shape: Sequence[PrimExpr], indices: Sequence[Any]) -> PrimExpr:
    """Read the element of `x`, broadcast to `shape`, at `indices`."""
    return x(*broadcast_index(x.shape, shape, indices)) if isinstance(x, te.Tensor) else convert(x)


def broadcast_index(sizes: Sequence[PrimExpr], shape: Sequence[PrimExpr], indices: Sequence[Any]) -> list[PrimExpr]:
    """Map `indices` of the broadcast `shape` to indices into a tensor of `sizes`."""
    offset = len(shape) - len(sizes)
    index: list[Any] = []
    for size, full, i in zip(sizes, shape[offset:], indices[offset:], strict=True):
        if is_const(size, 1):
            index.append(const(0, i.dtype))
        elif same_size(size, full):
            index.append(i)
        else:
            index.append(Select(size.equal(1), const(0, i.dtype), i))
    return index


def broadcast_to(x: te.Tensor, shape: Sequence[PrimExpr]) -> te.Tensor:
    """x, repeated along dimensions of size 1 to fill `shape`."""
    full = te.placeholder(shape, x.dtype).shape
    return te.compute(full, lambda *i: read_broadcast(x, full, i), "T_broadcast_to", tag="broadcast")


def _shape_of(x: Operand) -> tuple[PrimExpr, ...]:
    return x.shape if isinstance(x, te.Tensor) else ()


def _dtype_of(a: Operand, b: Operand) -> DataType:
    for x in (a, b):
        if isinstance(x, (te.Tensor, PrimExpr)):
            return x.dtype
    return convert(a).dtype


def broadcast_with(a: Operand, b: Operand, name: str, function: Scalar2) -> te.Tensor:
    """Apply `function` to each pair of elements; a Python number takes the other operand's dtype."""
    dtype = _dtype_of(a, b)
    a, b = (x if isinstance(x, (te.Tensor, PrimExpr)) else const(x, dtype) for x in (a, b))
    shape = broadcast_shape(_shape_of(a), _shape_of(b))
    return te.compute(
        shape, lambda *i: function(read_broadcast(a, shape, i), read_broadcast(b, shape, i)), name, tag="broadcast"
    )


def _in_float32(function: Scalar2) -> Scalar2:
    """Wrap a function to compute 8-bit floats in float32 and round once."""

    def compute(a: PrimExpr, b: PrimExpr) -> PrimExpr:
        if not a.dtype.is_float or a.dtype.bits > 8:
            return function(a, b)
        result = function(cast_expr("float32", a), cast_expr("float32", b))
        return result if result.dtype.is_bool else cast_expr(a.dtype, result)

    return compute


def _function(name: str, function: Scalar2, doc: str) -> Formula2:
    def formula(a: Operand, b: Operand) -> te.Tensor | PrimExpr:
        if isinstance(a, PrimExpr) and isinstance(b, PrimExpr):
            return _in_float32(function)(a, b)
        return broadcast_with(a, b, f"T_{name}", _in_float32(function))

    formula.__name__ = formula.__qualname__ = name
    formula.__doc__ = doc
    return formula


add = _function("add", plus, "a + b; integers wrap around; of booleans, True if either is.")
subtract = _function("subtract", lambda a, b: a - b, "a - b; integers wrap around.")
multiply = _function("multiply", times, "a · b; integers wrap around; of booleans, True if both are.")
divide = _function(
    "divide", lambda a, b: binary(Div, a, b), "a / b; of integers truncated toward zero, by zero an error."
)
floor_divide = _function("floor_divide", lambda a, b: binary(FloorDiv, a, b), "a / b rounded down, as Python's ``//``.")
mod = _function("mod", lambda a, b: binary(Mod, a, b), "The remainder of truncated division; its sign is a's.")
floor_mod = _function(
    "floor_mod", lambda a, b: binary(FloorMod, a, b), "The remainder of floor division; its sign is b's."
)
maximum = _function("maximum", intrin.max, "The larger of two; NaN if either is.")
minimum = _function("minimum", intrin.min, "The smaller of two; NaN if either is.")
equal = _function("equal", lambda a, b: a.equal(b), "Whether a = b.")
not_equal = _function("not_equal", lambda a, b: a != b, "Whether a ≠ b.")
less = _function("less", lambda a, b: a < b, "Whether a < b.")
less_equal = _function("less_equal", lambda a, b: a <= b, "Whether a ≤ b.")
greater = _function("greater", lambda a, b: a > b, "Whether a > b.")
greater_equal = _function("greater_equal", lambda a, b: a >= b, "Whether a ≥ b.")
logical_and = _function("logical_and", lambda a, b: truth(a) & truth(b), "True if both are true, that is not 0.")
logical_or = _function("logical_or", lambda a, b: truth(a) | truth(b), "True if either is true, that is not 0.")
logical_xor = _function(
    "logical_xor", lambda a, b: truth(a) != truth(b), "True if one of the two is true, that is not 0."
)
bitwise_and = _function("bitwise_and", lambda a, b: a & b, "The bits set in both.")
bitwise_or = _function("bitwise_or", lambda a, b: a | b, "The bits set in either.")
bitwise_xor = _function(
    "bitwise_xor", lambda a, b: a != b if a.dtype.is_bool else a ^ b, "The bits set in one of the two."
)
left_shift = _function(
    "left_shift", lambda a, b: a << b, "a shifted left by b; 0 if b is negative or at least the width."
)
right_shift = _function(
    "right_shift", lambda a, b: a >> b, "a shifted right by b, keeping its sign; b is cut off at the width."
)


def _log_add_exp(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if a.dtype.bits < 32:
        wide = _log_add_exp(cast_expr("float32", a), cast_expr("float32", b))
        return cast_expr(a.dtype, wide)
    twice = a + const(math.log(2), a.dtype)  # also of two infinities, whose distance is NaN
    return Select(a.equal(b), twice, intrin.max(a, b) + intrin.log1p(intrin.exp(-intrin.abs(a - b))))


log_add_exp = _function("log_add_exp", _log_add_exp, "log(eᵃ + eᵇ), without overflow on the way.")

te.register_tensor_arithmetic(add=add, subtract=subtract, multiply=multiply, divide=divide)
