"""Formulas on the order of elements: the median, and bucket indices of values among sorted boundaries."""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from .. import te
from ..prim import PrimExpr, Select, Var, const, intrin
from ..prim import cast as cast_expr
from ..tir.buffer import Buffer, decl_buffer
from ..tir.stmt import AllocBuffer, BufferStore, For, IfThenElse, SeqStmt, Stmt
from .grad import nested
from .reduction import Axis, reduced_shape, source_index
from .util import normalize_axes


def sort_key(value: PrimExpr) -> PrimExpr:
    """Unsigned integer key that orders as the number does: both zeros are equal, NaN is greatest."""
    dtype = value.dtype
    if dtype.is_uint or dtype.is_bool:
        return cast_expr("uint8", value) if dtype.is_bool else value
    if dtype.is_int:
        unsigned = f"uint{dtype.bits}"
        return cast_expr(unsigned, value) ^ const(1 << (dtype.bits - 1), unsigned)
    if dtype.bits < 32:
        return sort_key(cast_expr("float32", value))
    unsigned = f"uint{dtype.bits}"
    sign = const(1 << (dtype.bits - 1), unsigned)
    plain = Select(value.equal(const(0, dtype)), const(0, dtype), value)
    bits = intrin.reinterpret(unsigned, plain)
    key = Select((bits & sign).equal(const(0, unsigned)), bits | sign, intrin.bitwise_not(bits))
    return Select(intrin.isnan(value), intrin.max_value(unsigned), key)


def median(x: te.Tensor, axis: Axis = None, keepdims: bool = False) -> te.Tensor | list[te.Tensor]:
    """The median along `axis`, the lower one of an even number of elements; NaN if any element is.

    Along a single axis, also the int64 index of the first element equal to the median.

    The bits of the median's sort key are determined from the highest to the lowest, by counting the elements that agree
    with the bits so far and have 0 at the next one.
    """
    axes = normalize_axes(axis, x.ndim)
    single = axis is not None and len(axes) == 1
    shape = reduced_shape(x.shape, axes, keepdims)

    def statement(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        outer = [Var(f"i{d}", "int64") for d in range(len(shape))]
        body = _median_of(inputs[0], outputs, axes, keepdims, outer)
        return nested(body, outer, shape)

    dtypes = [x.dtype, "int64"] if single else [x.dtype]
    results = te.extern([shape] * len(dtypes), [x], statement, "median", dtypes)
    return results if single else results[0]


def _median_of(source: Buffer, outputs: list[Buffer], axes: tuple[int, ...], keepdims: bool, outer: list[Var]) -> Stmt:
    """outputs[outer] = the median, and its index, of the elements along the axes."""
    inner = [Var(f"k{d}", "int64") for d in axes]
    sizes = [source.shape[d] for d in axes]
    value = source[tuple(source_index(len(source.shape), axes, keepdims, outer, inner))]
    count, flat = const(1, "int64"), const(0, "int64")
    for size, loop in zip(sizes, inner, strict=True):
        count, flat = count * size, flat * size + loop

    def scan(body: Stmt) -> Stmt:
        return nested(body, inner, sizes)

    key = sort_key(value)
    unsigned = key.dtype
    prefix = decl_buffer((1,), unsigned, "prefix", scope="local")
    rank, below, best = (decl_buffer((1,), "int64", name, scope="local") for name in ("rank", "below", "best"))
    step = Var("step", "int32")
    bit = cast_expr(unsigned, const(unsigned.bits - 1, "int32") - step)
    agrees = (key >> bit).equal(prefix[0] >> bit)
    above = SeqStmt(
        (BufferStore(rank, rank[0] - below[0], 0), BufferStore(prefix, prefix[0] | (const(1, unsigned) << bit), 0))
    )
    one_bit = SeqStmt(
        (
            BufferStore(below, const(0, "int64"), 0),
            scan(BufferStore(below, below[0] + cast_expr("int64", agrees), 0)),
            IfThenElse(rank[0] >= below[0], above),
        )
    )
    of_nan = BufferStore(rank, Select(intrin.isnan(value), count - 1, rank[0]), 0)
    first = SeqStmt((BufferStore(best, flat, 0), BufferStore(outputs[0], value, tuple(outer))))
    steps: list[Stmt] = [
        BufferStore(rank, intrin.floordiv(count - 1, 2), 0),
        *([scan(of_nan)] if value.dtype.is_float else []),
        BufferStore(prefix, const(0, unsigned), 0),
        For(step, 0, unsigned.bits, "serial", one_bit),
        BufferStore(best, const(-1, "int64"), 0),
        scan(IfThenElse(intrin.all(best[0] < 0, key.equal(prefix[0])), first)),
        *(BufferStore(output, best[0], tuple(outer)) for output in outputs[1:]),
    ]
    body: Stmt = SeqStmt(tuple(steps))
    for buffer in (prefix, rank, below, best):
        body = AllocBuffer(buffer, body)
    return body


def bucketize(
    input_tensor: te.Tensor, boundaries: te.Tensor, out_int32: bool = False, right: bool = False
) -> te.Tensor:
    """Number of boundaries, in ascending order, less than each element (with `right`, less or equal).

    `boundaries` of more than one dimension has a row for each row of `input_tensor`, with the same leading dimensions.
    Found by binary search. NaN is greater than every boundary.
    """
    count = boundaries.shape[-1]
    dtype = "int32" if out_int32 else "int64"

    def statement(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        loops = [Var(f"i{d}", "int64") for d in range(input_tensor.ndim)]
        low, high = (decl_buffer((1,), "int64", name, scope="local") for name in ("low", "high"))
        middle = intrin.floordiv(low[0] + high[0], 2)
        value, boundary = (
            sort_key(inputs[0][tuple(loops)]),
            sort_key(inputs[1][(*loops[: boundaries.ndim - 1], middle)]),
        )
        before = boundary <= value if right else boundary < value
        halve = IfThenElse(
            low[0] < high[0], IfThenElse(before, BufferStore(low, middle + 1, 0), BufferStore(high, middle, 0))
        )
        steps = cast_expr("int32", const(64, "int32")) - intrin.clz(count)
        body = SeqStmt(
            (
                BufferStore(low, const(0, "int64"), 0),
                BufferStore(high, count, 0),
                For(Var("step", "int32"), 0, steps, "serial", halve),
                BufferStore(outputs[0], cast_expr(dtype, low[0]), tuple(loops)),
            )
        )
        return nested(AllocBuffer(low, AllocBuffer(high, body)), loops, input_tensor.shape)

    return te.extern([input_tensor.shape], [input_tensor, boundaries], statement, "bucketize", [dtype])[0]
