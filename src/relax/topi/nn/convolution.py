"""Convolutions and transposed convolutions of 1 to 3 spatial dimensions.

Operands in packed layouts (NCHW16c) are unpacked before the plain formula and its result is packed after it: the
conversions are stages of the same kernel, and the schedule rules know the plain sums.

Narrow floats (16 and 8 bits) are accumulated in float32 and rounded once.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, Final

from ... import te
from ...ir import DataType
from ...prim import IntImm, PrimExpr, Select, const, intrin, is_const, simplify
from ...runtime.records import dataclass
from ...tir.layout import parsed
from ..util import accumulator_dtype
from .windows import conv_extent, conv_transpose_extent, pad_pairs, padded, per_axis, relaid, spatial_axes

MOST_COLUMNS: Final = 16
"""Maximum number of columns summed per result element for a transposed convolution computed as columns."""
FEW: Final = 64
"""Number of data elements below which a tap's columns are not contiguous; see `_Spread.places`."""


def _rounded(out: te.Tensor, dtype: DataType) -> te.Tensor:
    """Cast the accumulated sums to the dtype of the result."""
    if out.dtype == dtype:
        return out
    return te.compute(out.shape, lambda *i: out(*i).astype(dtype), f"{out.name}_cast")


def _is_one(groups: Any) -> bool:
    return isinstance(groups, int) and groups == 1


@dataclass(frozen=True)
class _Plain:
    """Operands of a convolution in packed layouts, unpacked, and the layouts without parts."""

    operands: tuple[te.Tensor, te.Tensor]
    layouts: tuple[str, str, str]
    out_layout: str

    @staticmethod
    def of(data: te.Tensor, weight: te.Tensor, data_layout: str, kernel_layout: str, out_layout: str) -> _Plain | None:
        """Unpack the operands; None if no layout is packed."""
        layouts = data_layout, kernel_layout, out_layout
        if all(layout.isupper() for layout in layouts):
            return None
        plain_data, plain_kernel, plain_out = (parsed(layout).plain for layout in layouts)
        operands = relaid(data, data_layout, plain_data), relaid(weight, kernel_layout, plain_kernel)
        return _Plain(operands, (plain_data, plain_kernel, plain_out), out_layout)

    def packed(self, result: te.Tensor) -> te.Tensor:
        """Pack the result of the plain convolution."""
        return relaid(result, self.layouts[2], self.out_layout)


def conv(
    data: te.Tensor,
    weight: te.Tensor,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int | PrimExpr = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str | None = None,
    out_dtype: str | None = None,
) -> te.Tensor:
    """Cross-correlation of zero-padded data with kernels; layouts name N, C and the spatial dimensions.

    `groups` may be an expression if each channel is a group (a depthwise convolution of any number of channels).
    """
    out_layout = out_layout or data_layout
    plain = _Plain.of(data, weight, data_layout, kernel_layout, out_layout)
    if plain is not None:
        numbers = strides, padding, dilation, groups
        return plain.packed(conv(*plain.operands, *numbers, *plain.layouts, out_dtype))
    kind = DataType(out_dtype) if out_dtype else data.dtype
    wide = accumulator_dtype(kind)
    axes = spatial_axes(data_layout)
    stride, dilate = per_axis(strides, len(axes)), per_axis(dilation, len(axes))
    pads = pad_pairs(padding, len(axes))
    size = dict(zip(data_layout, data.shape, strict=True))
    kernel = dict(zip(kernel_layout, weight.shape, strict=True))
    extent = {"N": size["N"], "C": kernel["O"]}
    for j, axis in enumerate(axes):
        extent[axis] = conv_extent(size[axis], kernel[axis], pads[j], stride[j], dilate[j])
    source = padded(data, data_layout, dict(zip(axes, pads, strict=True)), const(0, data.dtype))
    per_group = None if _is_one(groups) else kernel["O"] // groups if isinstance(groups, int) else 1
    rc = te.reduce_axis((0, kernel["I"]), "rc")
    taps = {axis: te.reduce_axis((0, kernel[axis]), f"r{axis.lower()}") for axis in axes}

    def formula(*i: Any) -> Any:
        at = dict(zip(out_layout, i, strict=True))
        channel = rc.var if per_group is None else at["C"] // per_group * kernel["I"] + rc.var
        read = {"N": at["N"], "C": channel}
        tap = {"O": at["C"], "I": rc.var} | {axis: taps[axis].var for axis in axes}
        for j, axis in enumerate(axes):
            read[axis] = at[axis] * stride[j] + taps[axis].var * dilate[j]
        value = source(*(read[c] for c in data_layout)).astype(wide)
        return te.sum(value * weight(*(tap[c] for c in kernel_layout)).astype(wide), axis=[rc, *taps.values()])

    name = f"conv{len(axes)}d"
    return _rounded(te.compute([extent[c] for c in out_layout], formula, name, tag=name), kind)


def conv2d(
    data: te.Tensor,
    weight: te.Tensor,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
) -> te.Tensor:
    """`conv` of images, with TVM's parameter order."""
    letters = kernel_layout or "OIHW"
    return conv(data, weight, strides, padding, dilation, 1, data_layout, letters, None, out_dtype)


def conv_transpose(
    data: te.Tensor,
    weight: te.Tensor,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "IOHW",
    out_layout: str | None = None,
    out_dtype: str | None = None,
) -> te.Tensor:
    """Gradient of a convolution with respect to its data: w[k] · data[y] is added to element y·stride + k·dilation -
    pad.
    """
    out_layout = out_layout or data_layout
    plain = _Plain.of(data, weight, data_layout, kernel_layout, out_layout)
    if plain is not None:
        numbers = strides, padding, output_padding, dilation, groups
        return plain.packed(conv_transpose(*plain.operands, *numbers, *plain.layouts, out_dtype))
    kind = DataType(out_dtype) if out_dtype else data.dtype
    wide = accumulator_dtype(kind)
    letters = spatial_axes(data_layout)
    stride, dilate = per_axis(strides, len(letters)), per_axis(dilation, len(letters))
    pads, more = pad_pairs(padding, len(letters)), per_axis(output_padding, len(letters))
    size = dict(zip(data_layout, data.shape, strict=True))
    kernel = dict(zip(kernel_layout, weight.shape, strict=True))
    extent = {"N": size["N"], "C": kernel["O"] * groups}
    axes: dict[str, _Phases] = {}
    for j, axis in enumerate(letters):
        extent[axis] = conv_transpose_extent(size[axis], kernel[axis], pads[j], stride[j], dilate[j], more[j])
        whole = stride[j] > 1 and is_const(kernel[axis], stride[j]) and dilate[j] == 1
        make = _Blocks if whole and pads[j] == (0, 0) and not more[j] else _Phases
        axes[axis] = make(axis, size[axis], kernel[axis], extent[axis], pads[j][0], stride[j], dilate[j])
    phased = [axis for axis in letters if axes[axis].stride > 1]
    if _is_one(groups) and _is_spread(axes.values()):
        spread = _Spread(data_layout, kernel_layout, out_layout, axes, extent, wide)
        return _rounded(spread.sums(spread.columns(data, weight)), kind)
    dimensions = _dimensions(out_layout, [axis.lower() for axis in phased], _is_one(groups))
    reach = {axis: part.reach for axis, part in axes.items()}
    source = padded(data, data_layout, reach, const(0, data.dtype))
    per_group = kernel["I"] // groups if not _is_one(groups) else kernel["I"]
    rc = te.reduce_axis((0, per_group), "rc")

    def formula(*i: Any) -> Any:
        at = dict(zip(dimensions, i, strict=True))
        channel = rc.var if _is_one(groups) else at["C"] // kernel["O"] * per_group + rc.var
        read = {"N": at["N"], "C": channel}
        tap = {"O": at["C"] if _is_one(groups) else at["C"] % kernel["O"], "I": channel}
        within: list[PrimExpr] = []
        inside: list[PrimExpr] = []
        for axis, part in axes.items():
            tap[axis], index = part.meet(at.get(axis.lower(), 0), at[axis])
            read[axis] = index
            if not isinstance(part, _Blocks):
                read[axis] = index + part.reach[0]
                within += [tap[axis] < kernel[axis]] if part.step > 1 else []
                inside += [index >= 0, index < size[axis]]
        value = source(*(read[c] for c in data_layout)).astype(wide)
        value = value * weight(*(tap[c] for c in kernel_layout)).astype(wide)
        if inside:
            value = Select(intrin.all(*inside), value, const(0, wide))
        if within:
            value = intrin.if_then_else(intrin.all(*within), value, const(0, wide))
        taps = [part.taps for part in axes.values() if not isinstance(part, _Blocks)]
        return te.sum(value, axis=[rc, *taps])

    name = f"conv{len(letters)}d_transpose"
    rows = extent | {axis: part.count for axis, part in axes.items()}
    rows |= {axis.lower(): axes[axis].stride for axis in phased}
    phases = te.compute([rows[dimension] for dimension in dimensions], formula, name, tag=name)
    if not phased:
        return _rounded(phases, kind)
    steps = {axis: axes[axis] for axis in phased}
    return _interleaved(phases, dimensions, steps, extent, out_layout, kind)


def _interleaved(
    phases: te.Tensor,
    dimensions: Sequence[str],
    steps: dict[str, _Phases],
    extent: dict[str, PrimExpr],
    out_layout: str,
    kind: DataType,
) -> te.Tensor:
    """Interleave the phases of a transposed convolution along `steps` into its result."""

    def element(*i: Any) -> PrimExpr:
        at = dict(zip(out_layout, i, strict=True))
        ends = {axis: at[axis] + part.pad for axis, part in steps.items()}
        at |= {axis: end // steps[axis].stride for axis, end in ends.items()}
        at |= {axis.lower(): end % steps[axis].stride for axis, end in ends.items()}
        value = phases(*(at[dimension] for dimension in dimensions))
        gaps = [(end % steps[axis].shared).equal(0) for axis, end in ends.items() if steps[axis].shared > 1]
        return (Select(intrin.all(*gaps), value, const(0, phases.dtype)) if gaps else value).astype(kind)

    return te.compute([extent[c] for c in out_layout], element, f"{phases.name}_interleaved")


def _is_spread(axes: Iterable[_Phases]) -> bool:
    """True if a transposed convolution is computed as columns: at most `MOST_COLUMNS` overlap in a result element."""
    several = [axis for axis in axes if not isinstance(axis, _Blocks)]
    most = math.prod(axis.most for axis in several)
    return bool(several) and 0 < most <= MOST_COLUMNS


@dataclass(frozen=True)
class _Spread:
    """A transposed convolution of one group as a matrix product, whose columns are added up (col2im).

        columns[n, o, ky, kx, y, x] = Σ_i data[n, i, y, x] · weight[i, o, ky, kx]
        result[n, o, y·s + ky·d - pad, x·s + kx·d - pad] += columns[n, o, ky, kx, y, x]

    The product computes no padding and runs at matrix-product speed. Each result element is the sum of the overlapping
    columns.
    """

    data_layout: str
    kernel_layout: str
    out_layout: str
    axes: dict[str, _Phases]
    extent: dict[str, PrimExpr]
    wide: DataType

    @property
    def places(self) -> list[str]:
        """Dimensions of the columns: those of the result, with the data's spatial ones, and the taps.

        With few data elements, these are the rows of the product, and the long rows of the weights its columns.
        """
        sizes = [part.size for part in self.axes.values()]
        count = math.prod(size.value if isinstance(size, IntImm) else FEW for size in sizes)
        layout = f"N{''.join(self.axes)}C" if count < FEW else self.out_layout
        return _dimensions(layout, [axis.lower() for axis in self.axes], True)

    def columns(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        kernel = dict(zip(self.kernel_layout, weight.shape, strict=True))
        rc = te.reduce_axis((0, kernel["I"]), "rc")

        def formula(*i: Any) -> Any:
            at = dict(zip(self.places, i, strict=True))
            read = {**at, "C": rc.var}
            tap = {"O": at["C"], "I": rc.var} | {axis: at[axis.lower()] for axis in self.axes}
            value = data(*(read[c] for c in self.data_layout)).astype(self.wide)
            return te.sum(value * weight(*(tap[c] for c in self.kernel_layout)).astype(self.wide), axis=rc)

        sizes = self.extent | {axis: part.size for axis, part in self.axes.items()}
        sizes |= {axis.lower(): kernel[axis] for axis in self.axes}
        name = f"conv{len(self.axes)}d_transpose"
        return te.compute([sizes[dimension] for dimension in self.places], formula, name, tag=name)

    def sums(self, columns: te.Tensor) -> te.Tensor:
        """Compute the result: the sum of the overlapping columns of each element."""

        def element(*i: Any) -> PrimExpr:
            at = dict(zip(self.out_layout, i, strict=True))
            options = [part.columns(axis, at[axis]) for axis, part in self.axes.items()]
            total: PrimExpr | None = None
            for chosen in product(*options):
                there = at.copy()
                for column in chosen:
                    there |= column.places
                value: PrimExpr = columns(*(there[dimension] for dimension in self.places))
                inside = [condition for column in chosen for condition in column.inside]
                if inside:
                    value = intrin.if_then_else(intrin.all(*inside), value, const(0, self.wide))
                total = value if total is None else total + value
            assert total is not None
            return total

        shape = [self.extent[c] for c in self.out_layout]
        return te.compute(shape, element, f"conv{len(self.axes)}d_transpose_sum")


@dataclass(frozen=True)
class _Column:
    """A column along one axis that contributes to a result element: its tap and index, and the conditions for its
    existence.
    """

    places: dict[str, PrimExpr]
    inside: list[PrimExpr]


def _dimensions(layout: str, phases: Sequence[str], apart: bool) -> list[str]:
    """Dimensions of the sums: those of the result, and the phases.

    The phases follow the output channels (`apart`), as the taps do in the weights, so that full windows form a matrix
    product. With groups they come first.
    """
    at = layout.index("C") + 1 if apart else 0
    return [*layout[:at], *phases, *layout[at:]]


class _Phases:
    """One dimension of a transposed convolution; element i of its result has the index t = i + pad before cropping.

    Elements with the same phase p = t mod stride read the same taps, and adjacent ones, t = q·stride + p, read adjacent
    data: with g = gcd(stride, dilation), none unless g divides p; else the taps k = first + j·step, where step =
    stride/g and first = (p/g) · (dilation/g)⁻¹ modulo step, and of the data the elements q + (p -
    first·dilation)/stride - j·dilation/g.
    """

    def __init__(
        self, axis: str, size: PrimExpr, kernel: PrimExpr, extent: PrimExpr, pad: int, stride: int, dilation: int
    ) -> None:
        self.pad, self.stride, self.dilation = pad, stride, dilation
        self.size, self.kernel = size, kernel
        self.shared = math.gcd(stride, dilation)
        self.step = stride // self.shared
        self.inverse = pow(dilation // self.shared, -1, self.step) if self.step > 1 else 0
        taps = intrin.ceildiv(kernel, self.step)
        self.taps = te.reduce_axis((0, taps), f"r{axis.lower()}")
        self.count = intrin.ceildiv(extent + pad, stride) if stride > 1 else extent
        """Number of elements per phase (of the result, if there is one phase)."""
        first = 0 if stride > 1 else pad
        earliest = first - (taps - 1) * (dilation // self.shared) - ((self.step - 1) * dilation // stride + 1)
        self.reach = intrin.max(-earliest, 0), intrin.max(self.count + first - size, 0)
        """Extent of windows before and after the data."""

    @property
    def most(self) -> int:
        """Maximum number of columns that overlap in a result element; 0 if unknown."""
        return -(-self.kernel.value // self.step) if isinstance(self.kernel, IntImm) else 0

    def columns(self, axis: str, at: PrimExpr) -> list[_Column]:
        """Columns that overlap in the result element `at`."""
        end = at + self.pad
        phase = end % self.stride if self.stride > 1 else const(0, "int64")
        first: PrimExpr = phase
        start: PrimExpr = const(0, "int64")
        if self.dilation != 1:
            first = phase // self.shared * self.inverse % self.step if self.step > 1 else start
            start = (phase - first * self.dilation) // self.stride
        result: list[_Column] = []
        for j in range(self.most):
            tap = first + j * self.step
            index = end // self.stride + start - j * (self.dilation // self.shared)
            is_first = j == 0 and self.dilation == 1 and self.pad >= 0
            inside = [*([] if is_first else [index >= 0]), index < self.size]
            if not is_const(simplify(self.kernel % self.step), 0):
                inside.append(tap < self.kernel)
            if self.shared > 1:
                inside.append((phase % self.shared).equal(0))
            result.append(_Column({axis.lower(): tap, axis: index}, inside))
        return result

    def meet(self, phase: Any, q: Any) -> tuple[Any, Any]:
        """Return (tap, index into the data, which may be out of bounds)."""
        if self.stride == 1:
            return self.taps.var, q + self.pad - self.taps.var * self.dilation
        first = phase // self.shared * self.inverse % self.step if self.step > 1 else 0
        start = (phase - first * self.dilation) // self.stride
        return first + self.taps.var * self.step, q + start - self.taps.var * (self.dilation // self.shared)


class _Blocks(_Phases):
    """A dimension whose kernel is as long as its stride, so that each data element produces a separate block."""

    def __init__(
        self, axis: str, size: PrimExpr, kernel: PrimExpr, extent: PrimExpr, pad: int, stride: int, dilation: int
    ) -> None:
        super().__init__(axis, size, kernel, extent, pad, stride, dilation)
        self.count, self.reach = size, (const(0, "int64"), const(0, "int64"))

    def meet(self, phase: Any, q: Any) -> tuple[Any, Any]:
        """Return (tap, which is the offset in the block; index into the data)."""
        return phase, q
