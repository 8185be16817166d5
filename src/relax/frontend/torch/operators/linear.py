"""Products of matrices and of groups, distances, and attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import op
from ....expr import ShapeExpr, Tuple
from ....ir import RelaxExpr
from ....prim import IntImm, PrimExpr, const, intrin, simplify
from ....struct_info import ShapeStructInfo
from ..emitter import Emitter, as_dim
from ..registry import converter
from .shape import repeat_interleave


@converter("aten.matmul", "aten.mm.default", "aten.bmm.default", "aten.mv", "aten.dot")
def matmul(g: Emitter, a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
    return op.matmul(a, b)


@converter("aten.linear")
def linear(g: Emitter, x: RelaxExpr, weight: RelaxExpr, bias: RelaxExpr | None = None) -> RelaxExpr:
    product = op.matmul(x, op.permute_dims(weight) if g.ndim(weight) > 1 else weight)
    return product if bias is None else op.add(product, bias)


def _sum(g: Emitter, bias: RelaxExpr, product: RelaxExpr, beta: Any, alpha: Any) -> RelaxExpr:
    """beta · bias + alpha · product; a bias times 0 does not count."""
    scaled = product if alpha == 1 else op.multiply(product, g.tensor(alpha, g.out_dtype))
    if beta == 0:
        return scaled
    return op.add(scaled, bias if beta == 1 else op.multiply(bias, g.tensor(beta, g.out_dtype)))


@converter("aten.addmm.default", "aten.baddbmm", "aten.addmv")
def addmm(g: Emitter, bias: RelaxExpr, a: RelaxExpr, b: RelaxExpr, *, beta: Any = 1, alpha: Any = 1) -> RelaxExpr:
    return _sum(g, bias, op.matmul(a, b), beta, alpha)


@converter("aten.addbmm")
def addbmm(g: Emitter, bias: RelaxExpr, a: RelaxExpr, b: RelaxExpr, *, beta: Any = 1, alpha: Any = 1) -> RelaxExpr:
    """beta · bias + alpha · the sum of the products of all pairs of matrices."""
    return _sum(g, bias, op.einsum((a, b), "bij,bjk->ik"), beta, alpha)


@converter("aten._trilinear")
def trilinear(
    g: Emitter,
    a: RelaxExpr,
    b: RelaxExpr,
    c: RelaxExpr,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> RelaxExpr:
    """The product of three tensors, each with new axes at places in the result, summed along some of its axes."""
    rank = g.ndim(a) + len(expand1)
    letters = "abcdefghijklmnopqrstuvwxyz"[:rank]
    terms = ["".join(letters[axis] for axis in range(rank) if axis not in axes) for axes in (expand1, expand2, expand3)]
    kept = "".join(letters[axis] for axis in range(rank) if axis not in sumdim)
    return op.einsum((a, b, c), f"{','.join(terms)}->{kept}")


@converter("aten.outer")
def outer(g: Emitter, a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
    if g.ndim(a) != 1 or g.ndim(b) != 1:
        raise g.error(f"operands of {g.ndim(a)} and {g.ndim(b)} dimensions", hint="pass two vectors")
    return op.multiply(op.expand_dims(a, [1]), b)


@converter("aten.einsum")
def einsum(g: Emitter, equation: str, tensors: Sequence[RelaxExpr], *, path: Any = None) -> RelaxExpr:
    return op.einsum(tuple(tensors), equation.replace(" ", ""))


@converter("aten._int_mm")
def int_mm(g: Emitter, a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
    return op.matmul(a, b, out_dtype="int32")


# ------------------------------------------------------------------------------------- products of groups


@converter("aten._grouped_mm", "transformers.grouped_mm_fallback")
def grouped_mm(
    g: Emitter,
    x: RelaxExpr,
    weight: RelaxExpr,
    offs: RelaxExpr | None = None,
    bias: RelaxExpr | None = None,
    out_dtype: Any = None,
) -> RelaxExpr:
    """The rows of each group times its weight, as in a mixture of experts: offs is where groups end.

    Rows behind the last group are 0. The groups are slices whose sizes are read from offs.
    """
    if bias is not None:
        g.unsupported("a product of groups with a bias")
    if offs is None:
        return op.matmul(x, weight)
    count = g.dims(weight)[0]
    if g.ndim(x) != 2 or g.ndim(weight) != 3 or not isinstance(count, IntImm):
        g.unsupported("a product of groups other than of a matrix and a known number of weights")
    rows = g.dims(x)[0]
    ends = [g.fresh_dim("end") for _ in range(count.value)]
    bounded = op.minimum(g.tensor(offs, "int64"), g.tensor(rows, "int64"))
    shape = g.builder.emit(op.tensor_to_shape(g.emit(bounded)))
    g.builder.match_cast(shape, ShapeStructInfo(ends))
    dtype, products, begin = g.out_dtype, list[RelaxExpr](), as_dim(0)
    for index, end in enumerate(ends):
        group_rows = _rows(g, x, begin, end)
        position = const(index, "int64")
        own = op.strided_slice(weight, [0], [position], [position + 1], [1], assume_inbound=True)
        products.append(g.cast(g.emit(op.matmul(group_rows, op.squeeze(own, [0]))), dtype))
        begin = end
    rest = g.dims(_rows(g, x, begin, rows))[0]
    products.append(g.emit(op.zeros(ShapeExpr([rest, g.dims(weight)[2]]), dtype)))
    return g.cast_shape(g.emit(op.concat(products, axis=0)), [rows, g.dims(weight)[2]])


def _rows(g: Emitter, x: RelaxExpr, begin: PrimExpr, end: PrimExpr) -> RelaxExpr:
    """Rows of a matrix, of a size that a new shape variable names."""
    rows = g.emit(op.strided_slice(x, [0], [begin], [end], [1]))
    return g.cast_shape(rows, [g.fresh_dim("rows"), g.dims(x)[1]])


# ------------------------------------------------------------------------------------- distances


@converter("aten._cdist_forward")
def cdist(g: Emitter, a: RelaxExpr, b: RelaxExpr, p: float, compute_mode: int | None = None) -> RelaxExpr:
    """The norm of the difference of each row of a to each row of b."""
    difference = g.emit(op.subtract(op.expand_dims(a, [-2]), op.expand_dims(b, [-3])))
    return _norm(g, difference, p)


@converter("aten._cdist_backward")
def cdist_backward(g: Emitter, grad: RelaxExpr, a: RelaxExpr, b: RelaxExpr, p: float, distance: RelaxExpr) -> RelaxExpr:
    """The gradient by the rows of a; 0 for pairs of equal rows."""
    dims, dtype = g.shape(), g.out_dtype
    if p == 0 or any(isinstance(dim, IntImm) and dim.value == 0 for dim in dims):
        return op.zeros(ShapeExpr(dims), dtype)
    wide = "float64" if dtype == "float64" else "float32"
    a, b, grad, distance = (g.cast(x, wide) for x in (a, b, grad, distance))
    difference = g.emit(op.subtract(op.expand_dims(a, [-2]), op.expand_dims(b, [-3])))
    norm, grad = (g.emit(op.expand_dims(x, [-1])) for x in (distance, grad))
    return g.cast(g.emit(op.sum(_slopes(g, difference, norm, grad, p), axis=[-2])), dtype)


def _slopes(g: Emitter, difference: RelaxExpr, norm: RelaxExpr, grad: RelaxExpr, p: float) -> RelaxExpr:
    """The gradient of a p-norm by the elements of a difference; 0 where the norm is 0."""
    dtype = str(g.dtype(difference))
    zero, one = g.const(0, dtype), g.const(1, dtype)
    signed = op.multiply(op.sign(difference), grad)
    if p == 1:
        return g.emit(signed)
    if p in (float("inf"), float("-inf")):
        return g.emit(op.where(op.equal(op.abs(difference), norm), signed, zero))
    is_zero = op.equal(norm, zero)
    if p == 2:
        return g.emit(op.where(is_zero, zero, op.divide(op.multiply(difference, grad), norm)))
    if p < 1:  # of an element that is 0 the power is infinite
        is_zero = op.logical_or(is_zero, op.equal(difference, zero))
    is_zero = g.emit(is_zero)
    share = op.divide(op.abs(difference), op.where(is_zero, one, norm))
    power = op.power(op.where(is_zero, one, share), g.const(p - 1, dtype))
    return g.emit(op.where(is_zero, zero, op.multiply(signed, power)))


@converter("aten._pdist_forward")
def pdist(g: Emitter, x: RelaxExpr, p: float = 2) -> RelaxExpr:
    """The norm of the difference of each pair of rows."""
    first, second = _pairs(g, x)
    return _norm(g, g.emit(op.subtract(op.take(x, first, 0), op.take(x, second, 0))), p)


@converter("aten._pdist_backward")
def pdist_backward(g: Emitter, grad: RelaxExpr, x: RelaxExpr, p: float, distance: RelaxExpr) -> RelaxExpr:
    """The gradient by the rows: that of each pair is added to its first row and subtracted from the second."""
    dtype, dims = g.out_dtype, g.dims(x)
    if p == 0:
        return op.zeros(ShapeExpr(dims), dtype)
    first, second = _pairs(g, x)
    difference = g.emit(op.subtract(op.take(x, first, 0), op.take(x, second, 0)))
    norm, grad = (g.emit(op.expand_dims(item, [-1])) for item in (distance, grad))
    parts = _slopes(g, difference, norm, grad, p)
    added = op.index_put(op.zeros(ShapeExpr(dims), dtype), Tuple([first]), parts, accumulate=True)
    return op.index_put(added, Tuple([second]), op.negative(parts), accumulate=True)


def _pairs(g: Emitter, x: RelaxExpr) -> list[RelaxExpr]:
    """The numbers of the first and of the second row of each pair of different rows, in order."""
    count = g.dims(x)[0]
    size = simplify(intrin.floordiv(count * (count - 1), 2))
    if isinstance(count, IntImm):
        pairs = [(i, j) for i in range(count.value) for j in range(i + 1, count.value)]
        return [g.const([pair[k] for pair in pairs], "int64") for k in (0, 1)]
    above = op.triu(op.full(ShapeExpr([count, count]), g.const(1, "int32"), "int32"), 1)
    found = g.cast_shape(g.emit(op.nonzero(above)), [const(2, "int64"), size])
    return [g.reshape(g.emit(op.strided_slice(found, [0], [k], [k + 1])), [size]) for k in (0, 1)]


def _norm(g: Emitter, x: RelaxExpr, p: float) -> RelaxExpr:
    """The p-norm along the last axis; for 0 the number of elements other than 0."""
    dtype, last = str(g.dtype(x)), [-1]
    if p == 2:
        return op.sqrt(op.sum(op.multiply(x, x), axis=last))
    if p == 0:
        return op.sum(op.astype(op.not_equal(x, g.const(0, dtype)), dtype), axis=last)
    size = g.emit(op.abs(x))
    if p == 1:
        return op.sum(size, axis=last)
    if p in (float("inf"), float("-inf")):
        return op.max(size, axis=last)  # of -∞, too, as torch does
    return op.power(op.sum(op.power(size, g.const(p, dtype)), axis=last), g.const(1 / p, dtype))


# ------------------------------------------------------------------------------------- attention


@converter("aten.scaled_dot_product_attention")
def attention(
    g: Emitter,
    query: RelaxExpr,
    key: RelaxExpr,
    value: RelaxExpr,
    attn_mask: RelaxExpr | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> RelaxExpr:
    """Heads stand before the sequence in torch, and behind it in Relax; any dimensions before them are the batch."""
    if dropout_p:
        g.unsupported("attention with dropout", "call eval() on the module before torch.export")
    lead = g.dims(query)[:-3]
    operands = _broadcast(g, [_batched(g, operand) for operand in (query, key, value)], heads=not enable_gqa)
    if enable_gqa:
        heads = g.dims(operands[0])[1]
        operands = [operands[0], *(_widened(g, operand, heads) for operand in operands[1:])]
    bias = None if attn_mask is None else _bias(g, attn_mask, str(g.dtype(query)), len(lead))
    q, k, v = (g.emit(op.permute_dims(operand, (0, 2, 1, 3))) for operand in operands)
    causal = "TopLeft" if is_causal else None
    attended = g.emit(op.nn.attention(q, k, v, bias, scale=scale, causal_mask=causal))
    result = g.emit(op.permute_dims(attended, (0, 2, 1, 3)))
    if len(lead) == 1:
        return result
    return g.reshape(result, [*g.dims(query)[:-2], *g.dims(result)[-2:]])


def _batched(g: Emitter, x: RelaxExpr) -> RelaxExpr:
    """(batch, heads, length, size): a missing batch or head is 1, several dimensions of the batch become one."""
    dims = g.dims(x)
    if len(dims) == 4:
        return x
    if len(dims) < 4:
        return g.reshape(x, [*[1] * (4 - len(dims)), *dims])
    count = dims[0]
    for dim in dims[1:-3]:
        count = count * dim
    return g.reshape(x, [count, *dims[-3:]])


def _broadcast(g: Emitter, operands: list[RelaxExpr], heads: bool) -> list[RelaxExpr]:
    """Operands with batches, and if asked for with heads, of one size: one of size 1 is repeated, as in a product."""
    dims = [g.dims(operand) for operand in operands]
    for axis in (0, 1) if heads else (0,):
        size = next((own[axis] for own in dims if not g.same_size(own[axis], 1)), 1)
        for own in dims:
            own[axis] = as_dim(size) if g.same_size(own[axis], 1) else own[axis]
    return [
        operand if all(map(g.same_size, g.dims(operand), own)) else g.emit(op.broadcast_to(operand, ShapeExpr(own)))
        for operand, own in zip(operands, dims, strict=True)
    ]


def _widened(g: Emitter, x: RelaxExpr, heads: Any) -> RelaxExpr:
    """Keys or values of fewer heads, each repeated for the queries of its group."""
    own = g.dims(x)[1]
    if g.same_size(own, heads):
        return x
    return g.emit(repeat_interleave(g, x, heads // own, 1))


def _bias(g: Emitter, mask: RelaxExpr, dtype: str, lead: int) -> RelaxExpr:
    """The bias of the scores: a mask of bool is 0 where it is True, else -inf."""
    if lead > 1:
        g.unsupported("attention with a mask and more than one dimension of the batch")
    if not (g.dtype(mask).is_bool or g.dtype(mask).is_float):
        raise g.error(f"the mask is of {g.dtype(mask)}", hint="pass a mask of bool, or one of floats to be added")
    if g.dtype(mask).is_bool:
        mask = g.emit(op.where(mask, g.const(0, dtype), g.const(float("-inf"), dtype)))
    dims = g.dims(mask)
    return g.reshape(g.cast(mask, dtype), [*[1] * (4 - len(dims)), *dims])
