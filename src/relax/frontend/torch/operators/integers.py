"""Functions of integers, and of the parts of floats: gcd, lcm, frexp, nextafter, and views of bits."""

from __future__ import annotations

from typing import Any, cast

from .... import op, te
from ....expr import ExprWithOp, ShapeExpr
from ....ir import RelaxExpr
from ....prim import Var, const, intrin
from ....tir.buffer import Buffer, decl_buffer
from ....tir.stmt import AllocBuffer, BufferStore, LetStmt, SeqStmt, Stmt, While
from ....topi.grad import nested
from ..emitter import Emitter
from ..registry import converter

_BITS = {"float64": "int64", "float32": "int32", "float16": "int16", "bfloat16": "int16"}
"""Integers as wide as each float."""

# ------------------------------------------------------------------------------------- integers


def _divisors(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    """The greatest common divisor of each two elements of uint64, by Euclid's algorithm; that of 0 and b is b."""

    def statement(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        loops = [Var(f"i{axis}", "int64") for axis in range(a.ndim)]
        state = decl_buffer((2,), "uint64", "state", scope="local")
        rest = Var("rest", "uint64")
        advance = SeqStmt((BufferStore(state, state[1], 0), BufferStore(state, rest, 1)))
        step = LetStmt(rest, intrin.truncmod(state[0], state[1]), advance)
        body = SeqStmt(
            (
                BufferStore(state, inputs[0][tuple(loops)], 0),
                BufferStore(state, inputs[1][tuple(loops)], 1),
                While(state[1] > const(0, "uint64"), step),
                BufferStore(outputs[0], state[0], tuple(loops)),
            )
        )
        return nested(AllocBuffer(state, body), loops, a.shape)

    return te.extern([a.shape], [a, b], statement, "gcd", ["uint64"])[0]


def _magnitude(g: Emitter, x: Any) -> RelaxExpr:
    """Return the magnitude of integers as uint64, which has that of the least int64, broadcast to the result."""
    wide = g.tensor(g.tensor(x, g.out_dtype), "int64")
    return g.emit(op.broadcast_to(g.cast(g.emit(op.abs(wide)), "uint64"), ShapeExpr(g.shape())))


@converter("aten.gcd")
def gcd(g: Emitter, a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
    """The greatest common divisor, which is not negative; of two zeros it is 0."""
    found = g.builder.emit_te(_divisors, _magnitude(g, a), _magnitude(g, b), primfunc_name_hint="gcd")
    return g.cast(found, g.out_dtype)


@converter("aten.lcm")
def lcm(g: Emitter, a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
    """The least common multiple, which is not negative unless it overflows; of 0 and any number it is 0."""
    divisor = g.emit(gcd(g, a, b))
    zero, one = g.const(0, g.out_dtype), g.const(1, g.out_dtype)
    divisor = g.emit(op.where(op.equal(divisor, zero), one, divisor))
    return op.abs(op.multiply(op.floor_divide(g.tensor(a, g.out_dtype), divisor), g.tensor(b, g.out_dtype)))


# ------------------------------------------------------------------------------------- floats


@converter("aten.frexp.Tensor")
def frexp(g: Emitter, x: RelaxExpr) -> list[RelaxExpr]:
    """A mantissa, of a magnitude from 0.5 to below 1, and the int32 exponent of 2, which is 0 for NaN, ∞ and 0."""
    dtype = str(g.dtype(x))
    wide = cast("ExprWithOp", g.cast(x, "float64"))
    is_small = g.emit(op.less(op.abs(wide), g.const(2.0**-1000, "float64")))  # perhaps with leading zeros
    scaled = g.emit(op.where(is_small, wide * 2.0**60, wide))
    bits = g.emit(op.reinterpret(scaled, "int64"))
    raised = op.bitwise_and(op.right_shift(bits, g.const(52, "int64")), g.const(0x7FF, "int64"))
    shift = op.where(is_small, g.const(1022 + 60, "int64"), g.const(1022, "int64"))
    exponent = g.emit(op.subtract(raised, shift))
    fraction = op.bitwise_and(bits, g.const(-(0x7FF << 52) - 1, "int64"))
    mantissa = op.reinterpret(op.bitwise_or(fraction, g.const(1022 << 52, "int64")), "float64")
    is_plain = op.logical_or(op.equal(wide, g.const(0, "float64")), op.logical_not(op.isfinite(wide)))
    is_plain = g.emit(is_plain)
    return [
        op.where(is_plain, x, g.cast(g.emit(mantissa), dtype)),
        g.cast(g.emit(op.where(is_plain, g.const(0, "int64"), exponent)), "int32"),
    ]


@converter("aten.nextafter")
def nextafter(g: Emitter, x: RelaxExpr, y: RelaxExpr) -> RelaxExpr:
    """The float next to x on the way to y; y if they are equal. The bits of a float are ordered as its magnitude is."""
    dtype = g.out_dtype
    bits_dtype = _BITS[dtype]
    a, b = g.tensor(x, dtype), g.tensor(y, dtype)
    zero, one = g.const(0, dtype), g.const(1, bits_dtype)
    grows = op.equal(op.greater(b, a), op.greater(a, zero))
    bits = g.emit(op.reinterpret(a, bits_dtype))
    moved = op.reinterpret(op.where(grows, op.add(bits, one), op.subtract(bits, one)), dtype)
    least = op.reinterpret(op.broadcast_to(one, ShapeExpr([])), dtype)
    from_zero = op.where(op.greater(b, zero), least, op.negative(least))
    result = op.where(op.equal(a, zero), g.emit(from_zero), g.emit(moved))
    is_nan = op.logical_or(op.isnan(a), op.isnan(b))
    return op.where(is_nan, op.add(a, b), op.where(op.equal(a, b), b, g.emit(result)))


@converter("aten.view.dtype")
def view_dtype(g: Emitter, x: RelaxExpr, dtype: str) -> RelaxExpr:
    """The bits of a tensor read as another dtype; of another width, the last axis has more or fewer elements."""
    return op.reinterpret(x, dtype) if str(g.dtype(x)) != dtype else x


# ------------------------------------------------------------------------------------- angles


@converter("aten.angle")
def angle(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    """The angle of real numbers: π of negative ones, 0 of others, NaN of NaN."""
    data = g.tensor(x, g.out_dtype)
    zero, half_turn = g.const(0, g.out_dtype), g.const(3.141592653589793, g.out_dtype)
    return op.where(op.isnan(data), data, op.where(op.less(data, zero), half_turn, zero))
