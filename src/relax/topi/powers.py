"""a to the power b: an intrinsic for floats, square-and-multiply for integers.

The integer power is a loop over the bits of b with two loop-carried values; as a single expression it would grow with
every bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import te
from ..prim import Div, PrimExpr, Select, Var, cast, const, convert, intrin
from ..tir.buffer import Buffer, decl_buffer
from ..tir.stmt import AllocBuffer, BufferStore, For, SeqStmt, Stmt
from .broadcast import Operand, broadcast_index, broadcast_shape, broadcast_with


def power(a: Operand, b: Operand) -> te.Tensor:
    """a to the power b, which broadcast.

    Of integers it wraps around; a negative b gives 1 / a^|b| without its fraction: 1 and -1 have one, of 0
    there is none (an error), and for anything else it is 0.
    """
    dtype = a.dtype if isinstance(a, (te.Tensor, PrimExpr)) else b.dtype
    a, b = (x if isinstance(x, (te.Tensor, PrimExpr)) else const(x, dtype) for x in (a, b))
    if not dtype.is_float:
        return _integer_power(a, b)
    if dtype.bits >= 32:
        return broadcast_with(a, b, "T_power", intrin.pow)
    return broadcast_with(a, b, "T_power", lambda x, y: cast(dtype, intrin.pow(cast("float32", x), cast("float32", y))))


def _integer_power(a: Any, b: Any) -> te.Tensor:
    shapes = [x.shape if isinstance(x, te.Tensor) else () for x in (a, b)]
    shape = broadcast_shape(*shapes)

    def statement(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        buffers: Iterator[Buffer] = iter(inputs)
        loops = [Var(f"i{d}", size.dtype) for d, size in enumerate(shape)]
        base, exponent = (
            next(buffers)[tuple(broadcast_index(sizes, shape, loops))] if isinstance(x, te.Tensor) else convert(x)
            for x, sizes in zip((a, b), shapes, strict=True)
        )
        body = _power_of(base, exponent, outputs[0], loops)
        for loop, size in reversed(list(zip(loops, shape, strict=True))):
            body = For(loop, 0, size, "serial", body)
        return body

    inputs = [x for x in (a, b) if isinstance(x, te.Tensor)]
    return te.extern([shape], inputs, statement, "T_power", [a.dtype])[0]


def _power_of(base: PrimExpr, exponent: PrimExpr, output: Buffer, index: list[Var]) -> Stmt:
    """Store base to the power exponent to output[index]."""
    dtype = base.dtype
    zero, one = const(0, dtype), const(1, dtype)
    result = decl_buffer((1,), dtype, "result", scope="local")
    square = decl_buffer((1,), dtype, "square", scope="local")
    k = Var("k", "int32")
    bit_set = (exponent >> cast(dtype, k)) & one
    step = SeqStmt(
        (
            BufferStore(result, Select(bit_set.equal(0), result[0], result[0] * square[0]), 0),
            BufferStore(square, square[0] * square[0], 0),
        )
    )
    value: PrimExpr = result[0]
    if dtype.is_int:
        odd = (exponent & one).equal(1)
        unit = Select(base.equal(1), one, Select(base.equal(-1), Select(odd, base, one), zero))
        inverse = intrin.if_then_else(base.equal(0), Div(one, base), unit)
        value = intrin.if_then_else(exponent < zero, inverse, value)
    bits = dtype.bits - (1 if dtype.is_int else 0)
    steps = (
        BufferStore(result, one, 0),
        BufferStore(square, base, 0),
        For(k, 0, bits, "serial", step),
        BufferStore(output, value, tuple(index)),
    )
    return AllocBuffer(result, AllocBuffer(square, SeqStmt(steps)))
