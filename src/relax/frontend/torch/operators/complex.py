"""Operators of complex tensors, which are pairs of a real and an imaginary part."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from .... import op
from ....ir import RelaxExpr
from ....prim import const
from ..emitter import Dim, Emitter, product
from ..pairs import (
    Pair,
    as_pair,
    joined_parts,
    map_parts,
    of_parts,
    pair_converter,
    promoted_pairs,
    real_tensor,
    split_parts,
)
from . import nn, reduce, shape
from .complex_functions import FUNCTIONS, absolute, angle, multiplied, power, quotient

# ------------------------------------------------------------------------------------- parts


@pair_converter("aten.complex")
def complex_(g: Emitter, real: RelaxExpr, imag: RelaxExpr) -> Pair:
    a, b = g.emit(op.add(real, op.zeros_like(imag))), g.emit(op.add(imag, op.zeros_like(real)))
    same = len(g.dims(real)) == len(g.dims(imag)) and all(map(g.same_size, g.dims(real), g.dims(imag)))
    return Pair(real, imag) if same else Pair(a, b)


@pair_converter("aten.polar")
def polar(g: Emitter, abs: RelaxExpr, angle: RelaxExpr) -> Pair:
    return Pair(g.emit(op.multiply(abs, op.cos(angle))), g.emit(op.multiply(abs, op.sin(angle))))


@pair_converter("aten.view_as_real", "aten.view_as_real_copy")
def view_as_real(g: Emitter, x: Pair) -> RelaxExpr:
    return joined_parts(g, x)


@pair_converter("aten.view_as_complex", "aten.view_as_complex_copy")
def view_as_complex(g: Emitter, x: RelaxExpr) -> Pair:
    return split_parts(g, x)


@pair_converter("aten.view.dtype")
def view_as_dtype(g: Emitter, x: Any, dtype: str) -> Any:
    """The elements of a complex tensor as floats, twice as many along the last axis; and back."""
    if isinstance(x, Pair):
        if str(g.dtype(x.real)) != dtype:
            g.unsupported(f"a view of complex numbers of {g.dtype(x.real)} as {dtype}")
        return x if _is_complex_result(g) else g.reshape(joined_parts(g, x), g.shape())
    if str(g.dtype(x)) != dtype:
        g.unsupported(f"a view of {g.dtype(x)} as complex numbers of {dtype}")
    return split_parts(g, g.reshape(x, [*g.shape(), 2]))


def _is_complex_result(g: Emitter) -> bool:
    return bool(g.value.dtype.is_complex)


@pair_converter("aten.real")
def real(g: Emitter, x: Any) -> RelaxExpr:
    return real_tensor(x)


@pair_converter("aten.imag")
def imag(g: Emitter, x: Pair) -> RelaxExpr:
    return x.imag


@pair_converter("aten._conj", "aten.conj", "aten.conj_physical", "aten._conj_physical", "aten._conj_copy")
def conj(g: Emitter, x: Any) -> Pair:
    value = x if isinstance(x, Pair) else as_pair(g, x, g.out_dtype)
    return Pair(value.real, g.emit(op.negative(value.imag)))


@pair_converter("aten.adjoint", "aten.mH", "aten.matrix_H")
def adjoint(g: Emitter, x: Pair) -> Pair:
    return conj(g, x.map(lambda part: g.emit(shape.transpose(g, part, -2, -1)) if g.ndim(part) else part))


@pair_converter("aten.abs")
def abs_(g: Emitter, x: Pair) -> RelaxExpr:
    return absolute(g, x)


@pair_converter("aten.angle")
def angle_(g: Emitter, x: Pair) -> RelaxExpr:
    return angle(g, x)


@pair_converter("aten.to", "aten._to_copy", "aten.type_as", "prims.convert_element_type")
def to(g: Emitter, x: Any, *others: Any, **options: Any) -> Any:
    """Of a tensor that becomes real, the imaginary part is dropped, as torch does."""
    if _is_complex_result(g):
        return as_pair(g, x, g.out_dtype)
    return _truth(g, x) if g.out_dtype == "bool" else g.cast(real_tensor(x), g.out_dtype)


# ------------------------------------------------------------------------------------- moves

map_parts(
    "aten.view.default", "aten._unsafe_view", "aten.reshape", "aten.view_copy.default", "aten.flatten.using_ints",
    "aten.unflatten.int", "aten.squeeze", "aten.unsqueeze", "aten.permute", "aten.transpose.int", "aten.swapaxes",
    "aten.swapdims", "aten.t", "aten.numpy_T", "aten.mT", "aten.movedim.intlist", "aten.movedim.int",
    "aten.expand.default", "aten.broadcast_to", "aten.expand_as", "aten.repeat.default", "aten.tile",
    "aten.repeat_interleave.self_int", "aten.slice.Tensor", "aten.narrow.default", "aten.select.int",
    "aten.split.Tensor", "aten.chunk", "aten.split_with_sizes", "aten.split.sizes", "aten.unbind.int", "aten.unfold",
    "aten.flip", "aten.roll", "aten.tril", "aten.triu", "aten.diagonal", "aten.embedding.default", "aten.index_select",
    "aten.gather", "aten.index.Tensor", "aten._unsafe_index.Tensor", "aten.as_strided", "aten.as_strided_copy",
    "aten.masked_select", "aten.meshgrid.indexing", "aten.meshgrid.default", "aten.pixel_shuffle",
    "aten.pixel_unshuffle", "aten.channel_shuffle", "aten.narrow_copy", "aten.unbind_copy.int", "aten.im2col",
    "aten.col2im",
    "aten.reflection_pad1d", "aten.reflection_pad2d", "aten.reflection_pad3d",
    "aten.replication_pad1d", "aten.replication_pad2d", "aten.replication_pad3d",
)  # fmt: skip
map_parts(
    "aten.clone", "aten.alias", "aten.contiguous", "aten.detach", "aten.detach_", "aten.lift_fresh_copy",
    "aten.lift_fresh", "aten.positive", "aten.resolve_conj", "aten.resolve_neg",
)  # fmt: skip
map_parts("aten.neg", "aten._neg_view")
map_parts("aten.sum", "aten.mean", "aten.cumsum", "aten.diff", promoted=[0])
map_parts("aten.cat", "aten.concat", "aten.stack", promoted=[0])
map_parts("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar", promoted=[1, 2])
map_parts("aten.masked_fill", promoted=[0, 2])
map_parts("aten.copy", "aten.slice_scatter", "aten.select_scatter", promoted=[0, 1])
map_parts("aten.diagonal_scatter", "aten.as_strided_scatter", promoted=[0, 1])
map_parts("aten.index_put", "aten._unsafe_index_put", "aten.masked_scatter", "aten.put", promoted=[0, 2])
map_parts("aten.scatter.src", "aten.scatter.value", "aten.scatter_add", "aten.index_copy", promoted=[0, 3])
map_parts("aten.index_fill.int_Scalar", promoted=[0, 3])


@pair_converter("aten.pad")
def pad(g: Emitter, x: Pair, pad: Sequence[Dim], mode: str = "constant", value: Any = None) -> Pair:
    """The value around a tensor is real or complex; of the imaginary part of a real one it is 0."""
    fill = complex(0 if value is None else value)
    return Pair(nn.pad(g, x.real, pad, mode, fill.real), nn.pad(g, x.imag, pad, mode, fill.imag))


@pair_converter("aten.constant_pad_nd")
def constant_pad(g: Emitter, x: Pair, pad: Sequence[Dim], value: Any = 0) -> Pair:
    fill = complex(value)
    return Pair(nn.constant_pad(g, x.real, pad, fill.real), nn.constant_pad(g, x.imag, pad, fill.imag))


# ------------------------------------------------------------------------------------- creation


def _filled(g: Emitter, dims: Any, value: Any) -> Pair:
    fill = as_pair(g, value, g.out_dtype)
    return fill.map(lambda part: g.emit(op.broadcast_to(part, dims)) if len(dims) else part)


def _created(value: int) -> Callable[..., Pair]:
    def convert(g: Emitter, *args: Any, **options: Any) -> Pair:
        return _filled(g, g.shape(), value)

    return convert


for _name, _value in {"zeros": 0, "ones": 1, "empty": 0}.items():
    pair_converter(f"aten.{_name}", f"aten.{_name}_like", f"aten.new_{_name}")(_created(_value))
pair_converter("aten.empty_strided", "aten.new_empty_strided", "aten.empty_permuted")(_created(0))


@pair_converter("aten.full.default", "aten.scalar_tensor")
def full(g: Emitter, *args: Any, **options: Any) -> Pair:
    return _filled(g, g.shape(), args[-1])


@pair_converter("aten.full_like", "aten.new_full", "aten.fill")
def full_like(g: Emitter, x: Any, *args: Any, **options: Any) -> Pair:
    return _filled(g, g.shape(), args[-1])


# ------------------------------------------------------------------------------------- arithmetic


def _scaled(g: Emitter, x: Any, alpha: Any) -> Pair:
    value = as_pair(g, x, g.out_dtype)
    return value if alpha == 1 else multiplied(g, value, as_pair(g, alpha, g.out_dtype))


def _added(g: Emitter, function: Callable[..., RelaxExpr], a: Pair, b: Pair) -> Pair:
    return Pair(g.emit(function(a.real, b.real)), g.emit(function(a.imag, b.imag)))


@pair_converter("aten.add")
def add(g: Emitter, a: Any, b: Any, alpha: Any = 1) -> Pair:
    return _added(g, op.add, as_pair(g, a, g.out_dtype), _scaled(g, b, alpha))


@pair_converter("aten.sub", "aten.subtract")
def sub(g: Emitter, a: Any, b: Any, alpha: Any = 1) -> Pair:
    return _added(g, op.subtract, as_pair(g, a, g.out_dtype), _scaled(g, b, alpha))


@pair_converter("aten.index_add")
def index_add(g: Emitter, x: Any, dim: int, index: RelaxExpr, source: Any, *, alpha: Any = 1) -> Pair:
    return of_parts("aten.index_add", promoted=[0, 3])(g, x, dim, index, _scaled(g, source, alpha))


@pair_converter("aten.rsub")
def rsub(g: Emitter, a: Any, b: Any, alpha: Any = 1) -> Pair:
    return sub(g, b, a, alpha)


@pair_converter("aten.mul", "aten.multiply")
def mul(g: Emitter, a: Any, b: Any) -> Pair:
    return multiplied(g, as_pair(g, a, g.out_dtype), as_pair(g, b, g.out_dtype))


@pair_converter("aten.div.Tensor", "aten.div.Scalar", "aten.divide", "aten.true_divide")
def div(g: Emitter, a: Any, b: Any) -> Pair:
    return quotient(g, as_pair(g, a, g.out_dtype), as_pair(g, b, g.out_dtype))


@pair_converter("aten.pow")
def pow_(g: Emitter, base: Any, exponent: Any) -> Pair:
    return power(g, as_pair(g, base, g.out_dtype), exponent)


@pair_converter("aten.addcmul")
def addcmul(g: Emitter, x: Any, a: Any, b: Any, value: Any = 1) -> Pair:
    return add(g, x, mul(g, a, b), value)


@pair_converter("aten.addcdiv")
def addcdiv(g: Emitter, x: Any, a: Any, b: Any, value: Any = 1) -> Pair:
    return add(g, x, div(g, a, b), value)


@pair_converter("aten.lerp")
def lerp(g: Emitter, start: Pair, end: Pair, weight: Any) -> Pair:
    """From the start for weights below 0.5 in magnitude, else from the end, as torch reckons it."""
    share = as_pair(g, weight, g.out_dtype)
    difference = sub(g, end, start)
    near = add(g, start, multiplied(g, share, difference))
    far = sub(g, end, multiplied(g, difference, sub(g, 1, share)))
    is_near = g.emit(op.less(absolute(g, share), g.const(0.5, g.out_dtype)))
    return Pair(g.emit(op.where(is_near, near.real, far.real)), g.emit(op.where(is_near, near.imag, far.imag)))


def _function(name: str) -> Callable[..., Pair]:
    def convert(g: Emitter, x: Any) -> Pair:
        return FUNCTIONS[name](g, as_pair(g, x, g.out_dtype))

    return convert


for _name in FUNCTIONS:
    pair_converter(f"aten.{_name}")(_function(_name))


# ------------------------------------------------------------------------------------- questions


def _truth(g: Emitter, x: Any) -> RelaxExpr:
    """True where an element is not 0."""
    if not isinstance(x, Pair):
        return g.cast(x, "bool")
    return g.emit(op.logical_or(*(op.not_equal(part, g.const(0, str(g.dtype(part)))) for part in (x.real, x.imag))))


@pair_converter("aten.eq")
def eq(g: Emitter, a: Any, b: Any) -> RelaxExpr:
    x, y = promoted_pairs(g, a, b)
    return op.logical_and(op.equal(x.real, y.real), op.equal(x.imag, y.imag))


@pair_converter("aten.ne")
def ne(g: Emitter, a: Any, b: Any) -> RelaxExpr:
    return op.logical_not(g.emit(eq(g, a, b)))


@pair_converter("aten.isfinite")
def isfinite(g: Emitter, x: Pair) -> RelaxExpr:
    return op.logical_and(op.isfinite(x.real), op.isfinite(x.imag))


@pair_converter("aten.isnan")
def isnan(g: Emitter, x: Pair) -> RelaxExpr:
    return op.logical_or(op.isnan(x.real), op.isnan(x.imag))


@pair_converter("aten.isinf")
def isinf(g: Emitter, x: Pair) -> RelaxExpr:
    return op.logical_or(op.isinf(x.real), op.isinf(x.imag))


@pair_converter("aten.isreal")
def isreal(g: Emitter, x: Pair) -> RelaxExpr:
    return op.equal(x.imag, g.const(0, str(g.dtype(x.imag))))


def _of_truth(function: Callable[..., RelaxExpr]) -> Callable[..., RelaxExpr]:
    def convert(g: Emitter, *operands: Any) -> RelaxExpr:
        return function(*(_truth(g, x) for x in operands))

    return convert


for _name, _question in {
    "logical_and": op.logical_and,
    "logical_or": op.logical_or,
    "logical_xor": op.logical_xor,
    "logical_not": op.logical_not,
}.items():
    pair_converter(f"aten.{_name}")(_of_truth(_question))


@pair_converter("aten.any")
def any_(g: Emitter, x: Pair, dim: Any = None, keepdim: bool = False) -> RelaxExpr:
    return reduce.any_(g, _truth(g, x), dim, keepdim)


@pair_converter("aten.all")
def all_(g: Emitter, x: Pair, dim: Any = None, keepdim: bool = False) -> RelaxExpr:
    return reduce.all_(g, _truth(g, x), dim, keepdim)


# ------------------------------------------------------------------------------------- products, reductions


def _bilinear(g: Emitter, function: Callable[..., RelaxExpr], operands: Sequence[Any]) -> Pair:
    """Return a product that is linear in each operand: the sum of those of all choices of one part of each."""
    values = [as_pair(g, x, g.out_dtype) if isinstance(x, Pair) else g.tensor(x, g.out_dtype) for x in operands]
    sums: list[RelaxExpr | None] = [None, None]
    for choice in itertools.product(*((0, 1) if isinstance(x, Pair) else (0,) for x in values)):
        parts = [(x.real, x.imag)[place] if isinstance(x, Pair) else x for x, place in zip(values, choice, strict=True)]
        term, count = g.emit(function(*parts)), sum(choice)
        total, is_negative = sums[count % 2], count % 4 >= 2  # by the powers of i
        if total is None:
            sums[count % 2] = g.emit(op.negative(term)) if is_negative else term
        else:
            sums[count % 2] = g.emit((op.subtract if is_negative else op.add)(total, term))
    real, imag = sums
    if real is None or imag is None:
        raise g.error("no operand of a complex product is complex")
    return Pair(real, imag)


@pair_converter("aten.matmul", "aten.mm.default", "aten.bmm.default", "aten.mv", "aten.dot")
def matmul(g: Emitter, a: Any, b: Any) -> Pair:
    return _bilinear(g, op.matmul, [a, b])


@pair_converter("aten.vdot")
def vdot(g: Emitter, a: Pair, b: Pair) -> Pair:
    return matmul(g, conj(g, a), b)


@pair_converter("aten.linalg_vecdot")
def vecdot(g: Emitter, a: Pair, b: Pair, *, dim: int = -1) -> Pair:
    products = multiplied(g, conj(g, as_pair(g, a, g.out_dtype)), as_pair(g, b, g.out_dtype))
    axes = [g.axis(dim, g.ndim(products.real))]
    return products.map(lambda part: g.emit(op.sum(part, axis=axes)))


@pair_converter("aten.outer")
def outer(g: Emitter, a: Any, b: Any) -> Pair:
    def product(x: RelaxExpr, y: RelaxExpr) -> RelaxExpr:
        return op.multiply(op.expand_dims(x, [1]), y)

    return _bilinear(g, product, [a, b])


@pair_converter("aten.einsum")
def einsum(g: Emitter, equation: str, tensors: Sequence[Any], *, path: Any = None) -> Pair:
    def product(*parts: RelaxExpr) -> RelaxExpr:
        return op.einsum(parts, equation.replace(" ", ""))

    return _bilinear(g, product, tensors)


@pair_converter("aten.linear")
def linear(g: Emitter, x: Any, weight: Any, bias: Any = None) -> Pair:
    turned = of_parts("aten.t")(g, weight) if isinstance(weight, Pair) else g.emit(shape.t(g, weight))
    result = matmul(g, x, turned)
    return result if bias is None else add(g, result, bias)


@pair_converter("aten.addmm.default", "aten.baddbmm", "aten.addmv")
def addmm(g: Emitter, bias: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Pair:
    scaled = _scaled(g, matmul(g, a, b), alpha)
    return scaled if beta == 0 else add(g, scaled, bias, beta)


@pair_converter("aten.prod")
def prod(g: Emitter, x: Any, dim: Any = None, keepdim: bool = False, **options: Any) -> Pair:
    """The product of the elements along axes of static sizes, one multiplication after the other."""
    value = as_pair(g, x, g.out_dtype)
    if dim is None:
        value = value.map(lambda part: g.reshape(part, [product(g.dims(part))]))
    if not g.ndim(value.real):
        return value
    axis = g.axis(0 if dim is None else dim, g.ndim(value.real))
    return _prod_along(g, value, axis, keepdim)


def _prod_along(g: Emitter, value: Pair, axis: int, keepdim: bool) -> Pair:
    """Halve the axis until one element is left, of an open size by magnitude and angle."""
    size = g.dims(value.real)[axis]
    count = getattr(size, "value", None)
    if count is None:
        length = g.emit(op.prod(absolute(g, value), axis=[axis], keepdims=keepdim))
        turn = g.emit(op.sum(angle(g, value), axis=[axis], keepdims=keepdim))
        return Pair(g.emit(op.multiply(length, op.cos(turn))), g.emit(op.multiply(length, op.sin(turn))))
    ones = [d if i != axis else const(1, "int64") for i, d in enumerate(g.dims(value.real))]
    result = _filled(g, ones, 1) if count == 0 else value
    while count > 1:
        half = count // 2
        low, high, rest = (_cut(g, result, axis, *ends) for ends in ((0, half), (half, 2 * half), (2 * half, count)))
        result = multiplied(g, low, high)
        if count % 2:
            joined = zip((result.real, result.imag), (rest.real, rest.imag), strict=True)
            result = Pair(*(g.emit(op.concat(list(parts), axis=axis)) for parts in joined))
        count = count - half
    return result if keepdim else result.map(lambda part: g.emit(op.squeeze(part, [axis])))


def _cut(g: Emitter, x: Pair, axis: int, begin: int, end: int) -> Pair:
    bounds = [const(begin, "int64")], [const(end, "int64")]
    return x.map(lambda part: g.emit(op.strided_slice(part, [axis], *bounds, [1], assume_inbound=True)))


@pair_converter("aten.cumprod")
def cumprod(g: Emitter, x: Any, dim: int, **options: Any) -> Pair:
    """Running products of an axis of a static size."""
    value = as_pair(g, x, g.out_dtype)
    if not g.ndim(value.real):
        return value
    axis = g.axis(dim, g.ndim(value.real))
    count = getattr(g.dims(value.real)[axis], "value", None)
    if count is None:
        g.unsupported("cumprod of complex numbers along an axis of an open size")
    rows = [_cut(g, value, axis, index, index + 1) for index in range(count)]
    running = list(itertools.accumulate(rows, lambda a, b: multiplied(g, a, b)))
    if count < 2:
        return value
    return Pair(*(g.emit(op.concat([getattr(row, part) for row in running], axis=axis)) for part in ("real", "imag")))


@pair_converter("aten.linalg_vector_norm", "aten.norm.ScalarOpt_dim", "aten.norm.Scalar")
def vector_norm(g: Emitter, x: Pair, *args: Any, **options: Any) -> RelaxExpr:
    return reduce.vector_norm(g, g.emit(absolute(g, x)), *args, **options)


def _spread(finish: Callable[[RelaxExpr], RelaxExpr], real_function: Callable[..., RelaxExpr]) -> Callable[..., Any]:
    """The variance of complex numbers is the sum of the variances of their parts."""

    def convert(g: Emitter, x: Pair, *args: Any, **options: Any) -> RelaxExpr:
        parts = [g.emit(real_function(g, part, *args, **options)) for part in (x.real, x.imag)]
        return finish(g.emit(op.add(*parts)))

    return convert


pair_converter("aten.var")(_spread(lambda variance: variance, reduce.var))
pair_converter("aten.std")(_spread(op.sqrt, reduce.var))
