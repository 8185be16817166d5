"""Recognise kernels of convolutions over 2-D images in NCHW order.

    padded[n, c, y, x] = if_then_else(inside, X[n, c, y - 1, x - 1], 0)         (if there is padding)
    C[n, co, h, w] += W[co, ci, i, j] * padded[n, ci, h + i, w + j]             a reduction
    R[n, co, h, w] = max(C[n, co, h, w] + bias[co], 0)                          (optional epilogue)

Only the kind of convolution is determined here; schedule rules check padding, strides and groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..prim import Add, Cast, IntImm, Mul, PrimExpr, Var, const, is_const, simplify, substitute
from .buffer import Buffer, BufferLoad
from .nests import Nest, nest_of, root_of
from .stmt import PrimFunc

DTYPE = "float32"
NARROW: Final = "bfloat16"
"""Dtype of data and weights that is supported beside float32, with sums in float32."""
RANK = 4
LENGTH: Final = 3
"""Number of convolutions in a chain."""
FEW: Final = 4
"""Largest number of input channels of a first layer: colours, and one more."""


@dataclass(frozen=True)
class Convolution:
    """A convolution in float32, or in bfloat16 with float32 sums, with static channels and window."""

    data: Buffer
    """The data parameter."""
    weights: Buffer
    """The weight parameter."""
    is_of_elements: bool
    """True for a 1×1 window over all input channels."""
    is_depthwise: bool
    """True for a depthwise convolution: a larger window, one input channel per output channel."""
    is_first: bool
    """True for a larger window in float32 over at most `FEW` input channels, as in the first layer of a network."""
    is_dense: bool
    """True without dilation."""


@dataclass(frozen=True)
class ConvolutionChain:
    """A kernel of three convolutions, each of which reads the result of the previous one.

    The first is 1×1 or over few channels, the second depthwise, the last 1×1. None has dilation, which the loops fused
    row by row do not support.
    """

    data: Buffer
    """The data parameter of the first convolution."""
    is_first: bool
    """True if the first convolution has a larger window over few channels; False if it is 1×1."""
    weights: tuple[Buffer, ...]
    result: Buffer
    """The result parameter."""
    beside: tuple[Buffer, ...]
    """Other parameters of four dimensions that the result depends on, such as a residual."""


def chain_of(func: PrimFunc) -> ConvolutionChain | None:
    """Return the chain of convolutions that a kernel computes, or None."""
    nests = [nest_of(stmt) for stmt in root_of(func)[1]]
    valid_nests = [nest for nest in nests if nest is not None]
    sums = [nest for nest in valid_nests if nest.is_reduction]
    if len(valid_nests) < len(nests) or len(sums) != LENGTH or sums[-1] not in valid_nests[-2:]:
        return None
    buffers = [*func.buffer_map.values(), *root_of(func)[0]]
    convolutions = [convolution for nest in sums if (convolution := _of_sum(nest, valid_nests, buffers)) is not None]
    if len(convolutions) != LENGTH:
        return None
    first, middle, last = convolutions
    params = tuple(func.buffer_map.values())
    source = _source(first.data, [nest for nest in valid_nests if not nest.is_reduction], params)
    result = valid_nests[-1].stores[0].buffer
    begins = first.is_of_elements or first.is_first
    if not (begins and middle.is_depthwise and last.is_of_elements) or source is None or result not in params:
        return None
    if not all(convolution.is_dense for convolution in convolutions):
        return None
    read = {load.buffer: None for nest in valid_nests[valid_nests.index(sums[-1]) :] for load in nest.loads()}
    beside = tuple(b for b in read if b in params and b.ndim == RANK and b is not last.weights)
    return ConvolutionChain(
        source, first.is_first, tuple(convolution.weights for convolution in convolutions), result, beside
    )


def _is_dense(nest: Nest, weight: BufferLoad, data: BufferLoad) -> bool:
    """True if the convolution has no dilation: every index steps by 0 or 1 from tap to tap."""
    taps = [v.var for v in nest.block.iter_vars if v.iter_type == "reduce"]

    def step(index: PrimExpr, tap: Var) -> PrimExpr:
        ends = (substitute(index, {tap: const(number, tap.dtype)}) for number in (1, 0))
        return simplify(next(ends) - next(ends))

    indices = [index for load in (weight, data) for index in load.indices]
    return all(is_const(step(index, tap), 0) or is_const(step(index, tap), 1) for index in indices for tap in taps)


def _of_sum(nest: Nest, nests: Sequence[Nest], buffers: Sequence[Buffer]) -> Convolution | None:
    """Return the convolution of a reduction whose data and weights are among `buffers`, or None."""
    factors = _factors(nest)
    if factors is None:
        return None
    other_nests = [other for other in nests if other is not nest]
    pairs = (factors, factors[::-1])
    candidates = (_convolution(nest, weight, data, other_nests, buffers) for weight, data in pairs)
    return next((candidate for candidate in candidates if candidate is not None), None)


def convolution_of(func: PrimFunc) -> Convolution | None:
    """Return the single convolution that a kernel computes, or None."""
    nests = [nest_of(stmt) for stmt in root_of(func)[1]]
    valid_nests = [nest for nest in nests if nest is not None]
    sums = [nest for nest in valid_nests if nest.is_reduction]
    if len(sums) != 1 or len(valid_nests) < len(nests):
        return None
    return _of_sum(sums[0], valid_nests, list(func.buffer_map.values()))


def _factors(nest: Nest) -> tuple[BufferLoad, BufferLoad] | None:
    """Return the two loads whose products a reduction sums, or None."""
    product = summed_product(nest)
    if product is None:
        return None
    a, b = (_unwidened(factor) for factor in (product.a, product.b))
    return (a, b) if isinstance(a, BufferLoad) and isinstance(b, BufferLoad) else None


def summed_product(nest: Nest) -> Mul | None:
    """Return the product that a reduction adds to its result, or None."""
    store = nest.stores[0]
    if len(nest.stores) != 1 or not isinstance(store.value, Add):
        return None
    total, product = store.value.a, store.value.b
    if not isinstance(product, Mul):
        total, product = product, total
    is_sum = isinstance(total, BufferLoad) and total.buffer is store.buffer
    return product if is_sum and isinstance(product, Mul) else None


def _unwidened(factor: PrimExpr) -> PrimExpr:
    """Strip a cast from bfloat16 to float32."""
    is_wide = isinstance(factor, Cast) and factor.dtype == DTYPE and factor.value.dtype == NARROW
    return factor.value if isinstance(factor, Cast) and is_wide else factor


def _convolution(
    nest: Nest, weight: BufferLoad, data: BufferLoad, other_nests: Sequence[Nest], params: Sequence[Buffer]
) -> Convolution | None:
    store = nest.stores[0]
    source = _source(data.buffer, other_nests, params)
    if (
        source is None
        or weight.buffer not in params
        or source.dtype != weight.buffer.dtype
        or source.dtype not in (DTYPE, NARROW)
    ):
        return None
    if store.buffer.dtype != DTYPE or any(len(a.indices) != RANK for a in (store, weight, data)):
        return None
    if not all(isinstance(index, Var) for index in weight.indices) or weight.indices[0] is not store.indices[1]:
        return None
    channels, inputs, *taps = weight.buffer.shape
    sizes = (channels, inputs, *taps, data.buffer.shape[1])
    if not all(isinstance(size, IntImm) for size in sizes):
        return None
    of_elements = all(is_const(size, 1) for size in taps) and data.indices[1] is weight.indices[1]
    depthwise = not of_elements and is_const(inputs, 1) and _equal(data.buffer.shape[1], channels)
    is_few = isinstance(inputs, IntImm) and inputs.value <= FEW and source.dtype == DTYPE
    first = not of_elements and not depthwise and is_few and data.indices[1] is weight.indices[1]
    dense = _is_dense(nest, weight, data)
    return Convolution(source, weight.buffer, of_elements, depthwise, first, dense)


def _source(buffer: Buffer, nests: Sequence[Nest], params: Sequence[Buffer]) -> Buffer | None:
    """Return the parameter that `buffer` is, or is a (padded) copy of; None if it is neither."""
    if buffer in params:
        return buffer
    for nest in nests:
        loads = nest.loads()
        if nest.stores[0].buffer is buffer and len(loads) == 1 and loads[0].buffer in params:
            return loads[0].buffer
    return None


def _equal(a: PrimExpr, b: PrimExpr) -> bool:
    return isinstance(a, IntImm) and isinstance(b, IntImm) and a.value == b.value
