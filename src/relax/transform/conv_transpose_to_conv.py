"""Compute transposed convolutions by constant weights as convolutions, of which each gives a block of results.

Before   y = R.nn.conv2d_transpose(x, R.const(W), strides=4, padding=1)     # x: (n, i, h, w), W: (i, o, 8, 8)
After    lv = R.nn.conv2d(x, R.const(V), padding=1)                         # V: (o·4·4, i, 2, 2)
         lv1 = R.reshape(lv, (n, o, 4, 4, h + 1, w + 1))
         lv2 = R.permute_dims(lv1, (0, 1, 4, 2, 5, 3))
         lv3 = R.reshape(lv2, (n, o, (h + 1)·4, (w + 1)·4))
         y = R.strided_slice(lv3, (2, 3), (1, 1), (h·4 + 3, w·4 + 3), assume_inbound=True)

Element q·stride + p of the whole result, before its edges are cut off, adds up the taps p + j·stride of the elements
q - j. So a convolution by the taps of all phases p, as channels, gives all of block q. The kernels of convolutions are
5 to 12 times as fast as the loops of transposed ones. Each element is a sum of the same products.

The formula of a transposed convolution that is left adds up the results of one product of matrices (`topi.nn`). That
costs less where few of them meet in an element and strides are up to 2, and for small images, of which blocks would
exceed the edges.

Declines: weights that are not known, or not finite (padding times infinity is no number); dtypes other than float32 and
float64; kernels whose length is no multiple of the stride, as phases would differ in their number of taps; kernels
whose results are better added up; those of 3, 5 or 7 taps a phase of an axis, whose convolutions may be computed by
Winograd's transforms and be less exact; groups, dilations, other layouts; padding as long as the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analysis.properties import NORMAL_FORM, SHAPES_LOWERED
from ..dpl.rewrite import KnownValues
from ..expr import Call, Constant, Function, ShapeExpr, const
from ..ir import IRModule, RelaxExpr
from ..op import is_call_of, operator_of
from ..op.gradients import apply
from ..op.known import known_struct_info
from ..op.nn.convolution import TransposedConvolution
from ..prim import IntImm, PrimExpr, prove, simplify
from ..rewrite import bindings_in
from ..runtime.records import dataclass
from ..struct_info import TensorStructInfo
from ..topi.nn.convolution import FEW, MOST_COLUMNS
from .decorators import function_pass

DTYPES = ("float32", "float64")
MOST_TAPS = 9
"""Taps a phase, of which the results are added up where the stride is up to 2."""
WINOGRAD = {3, 5, 7}
"""Taps a phase of an axis of the convolutions that may be computed by Winograd's transforms."""


@function_pass(opt_level=1, needs={NORMAL_FORM}, breaks={SHAPES_LOWERED})
def ConvTransposeToConv(func: Function, mod: IRModule) -> Function:
    """Make transposed convolutions by constant weights convolutions; see the module's docstring."""
    return _Convolutions(mod).rewrite_function(func)


@dataclass(frozen=True)
class _Axis:
    """A spatial dimension: of `taps`·`stride` taps, and the elements cut off before and after the result."""

    stride: int
    taps: int
    before: int
    after: int

    @property
    def padding(self) -> tuple[int, int]:
        """Padding of the convolution, which leaves out blocks that are cut off as a whole."""
        most = self.taps - 1
        return most - self.before // self.stride, most - self.after // self.stride


class _Convolutions(KnownValues):
    def concerns(self, function: Function) -> bool:
        """True if there is a transposed convolution."""
        return any(is_call_of(binding.value, TransposedConvolution) for binding in bindings_in(function))

    def call(self, call: Call) -> RelaxExpr:
        call = self.parts(call)
        operator = operator_of(call)
        if not isinstance(operator, TransposedConvolution):
            return call
        data, weight = known_struct_info(call.args[0]), self.value(call.args[1])
        if not isinstance(data, TensorStructInfo) or data.dims is None or data.dtype not in DTYPES:
            return call
        if not isinstance(weight, Constant) or not _is_plain(operator, call):
            return call
        shape = tuple(int(size) for size in weight.content.shape)
        axes = _axes(operator, shape[2:])
        if axes is None or _are_added_up(axes, data.dims[2:]):
            return call
        numbers: NDArray[np.floating[Any]] = weight.data.numpy()
        if str(numbers.dtype) != data.dtype or not np.isfinite(numbers).all():
            return call
        new = _convolved(call.args[0], _by_phases(numbers, axes), axes)
        return new if new is not None and _have_equal_dims(new, call) else call


def _is_plain(operator: TransposedConvolution, call: Call) -> bool:
    """True for a transposed convolution of one group, without dilation, in the usual layouts."""
    letters = operator.spatial
    info = known_struct_info(call)
    return (
        operator.groups == 1
        and set(operator.dilation) == {1}
        and (operator.data_layout, operator.out_layout) == ("NC" + letters, None)
        and operator.kernel_layout == "IO" + letters
        and isinstance(info, TensorStructInfo)
        and operator.out_dtype in ("", info.dtype)
        and info.dtype in DTYPES
    )


def _axes(operator: TransposedConvolution, kernel: tuple[int, ...]) -> list[_Axis] | None:
    """The spatial dimensions; None where the transposed convolution is better left as it is."""
    axes: list[_Axis] = []
    numbers = zip(kernel, operator.strides, operator.output_padding, operator.pads, strict=True)
    for size, stride, late, (before, after) in numbers:
        cut = after - late
        if not size or size % stride or not 0 <= before < size or not 0 <= cut < size:
            return None
        axes.append(_Axis(stride, size // stride, before, cut))
    taps = {axis.taps for axis in axes}
    return None if taps == {1} or taps & WINOGRAD else axes


def _are_added_up(axes: list[_Axis], sizes: Sequence[PrimExpr]) -> bool:
    """True where the results of one product of matrices, added up, cost less than a convolution."""
    meeting = math.prod(axis.taps for axis in axes)
    if meeting <= MOST_TAPS and all(axis.stride <= 2 for axis in axes):
        return True
    count = math.prod(size.value if isinstance(size, IntImm) else FEW for size in sizes)
    return count < FEW and meeting <= MOST_COLUMNS


def _by_phases(weight: Any, axes: list[_Axis]) -> NDArray[Any]:
    """A kernel (i, o, …) as that of the convolution: (o · phases, i, …), the last tap first."""
    inputs, outputs = weight.shape[:2]
    count = len(axes)
    taps, phases = tuple(range(2, 2 + 2 * count, 2)), tuple(range(3, 3 + 2 * count, 2))
    kernel: Any = weight.reshape(inputs, outputs, *(size for axis in axes for size in (axis.taps, axis.stride)))
    kernel = np.flip(kernel, taps).transpose(1, *phases, 0, *taps)
    rows = outputs * int(np.prod([axis.stride for axis in axes]))
    return np.ascontiguousarray(kernel.reshape(rows, inputs, *(axis.taps for axis in axes)))


def _convolved(data: RelaxExpr, weight: NDArray[Any], axes: list[_Axis]) -> RelaxExpr | None:
    """The convolution, its blocks put side by side, and the edges cut off."""
    count = len(axes)
    padding = [axis.padding[0] for axis in axes] + [axis.padding[1] for axis in axes]
    whole: RelaxExpr = apply(f"nn.conv{count}d", data, const(weight), padding=padding)
    sizes = _dims(whole)
    if sizes is None:
        return None
    batch, channels, *blocks = sizes
    strides = [axis.stride for axis in axes]
    if any(stride > 1 for stride in strides):
        outputs = int(channels.value if isinstance(channels, IntImm) else 0) // int(np.prod(strides))
        apart = ShapeExpr((batch, *_ints([outputs, *strides]), *blocks))
        order = [position for d in range(count) for position in (2 + count + d, 2 + d)]
        spread = [simplify(block * stride) for block, stride in zip(blocks, strides, strict=True)]
        moved = apply("permute_dims", apply("reshape", whole, apart), axes=(0, 1, *order))
        whole = apply("reshape", moved, ShapeExpr((batch, *_ints([outputs]), *spread)))
        blocks = spread
    cut = [(axis.before % axis.stride, axis.after % axis.stride) for axis in axes]
    if not any(first or last for first, last in cut):
        return whole
    begin = [first for first, _ in cut]
    end = [simplify(size - last) for size, (_, last) in zip(blocks, cut, strict=True)]
    return apply("strided_slice", whole, list(range(2, 2 + count)), begin, end, assume_inbound=True)


def _ints(values: list[int]) -> list[PrimExpr]:
    return [IntImm("int64", value) for value in values]


def _dims(expr: RelaxExpr) -> tuple[PrimExpr, ...] | None:
    info = known_struct_info(expr)
    return tuple(info.dims) if isinstance(info, TensorStructInfo) and info.dims is not None else None


def _have_equal_dims(new: RelaxExpr, old: RelaxExpr) -> bool:
    """True if both have provably the same shape."""
    ours, theirs = _dims(new), _dims(old)
    if ours is None or theirs is None or len(ours) != len(theirs):
        return False
    return all(prove(a.equal(b)) is True for a, b in zip(ours, theirs, strict=True))
