"""Convolution and transposed convolution of 1 to 3 spatial dimensions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np

from ... import topi
from ...expr import Call, ShapeExpr
from ...info.text import prim_text
from ...ir import DataType, RelaxExpr, StructInfo, set_slot
from ...prim import IntImm, PrimExpr, const, is_const, simplify
from ...runtime.rounding import convert_array
from ...struct_info import TensorStructInfo
from ..attributes import VOID
from ..base import Gradients, Operator, Term
from ..dims import require_same_dim, tensor
from ..errors import SHAPES, OperatorError
from ..facts import MixedPrecision, Order, Permuted
from ..gradients import apply, dims_of, is_float, tensor_info
from ..operands import NUMBERS
from ..operator import Array, operator
from ..padded import sums_dtype
from .activation import wide
from .windows import Windowed, in_layout, ndim_of


class AnyConvolution(Windowed):
    """Base class of convolutions and their transposes."""

    __slots__ = ()

    takes = NUMBERS

    mixed_precision: ClassVar[MixedPrecision] = MixedPrecision.ALWAYS
    layout_attribute: ClassVar[str] = "data_layout"
    packs: ClassVar[bool] = True

    shared: ClassVar[Literal["I", "O"]]
    """Channel letter (I or O) of the kernel dimension that covers one group only; the other covers all channels."""

    groups: int
    """Number of groups. In the general form of a depthwise convolution it is an expression: the number of channels."""
    data_layout: str
    kernel_layout: str
    out_dtype: DataType

    def infer(self, data: TensorStructInfo, weight: TensorStructInfo) -> TensorStructInfo:
        self.require_windows()
        self.require_rank("data", data, self.data_layout)
        self.require_rank("weight", weight, self.kernel_layout)
        self.require_attribute(self.has_groups or self.groups == 1, "groups", "at least 1")
        for name, info in (("data", data), ("weight", weight)):
            self.require_dtype(info, name, *self.takes)
        dtype = self.out_dtype or self._common_dtype(data, weight)
        if data.dims is None or weight.dims is None:
            return tensor(None, dtype, ndim_of(self.result_letters))
        size = self.extents("data", data.dims, self.data_layout)
        kernel = self.extents("weight", weight.dims, self.kernel_layout)
        self._require_channels(size["C"], kernel)
        out: dict[str, PrimExpr] = {"N": size["N"], "C": self._all_channels(kernel, "O")}
        for j, axis in enumerate(self.spatial):
            out[axis] = self.require_room(self.extent(size[axis], kernel[axis], j), axis)
        return tensor(self.result_dims(out), dtype)

    @property
    def operand_layouts(self) -> tuple[str, ...]:
        return self.data_layout, self.kernel_layout

    @property
    def has_groups(self) -> bool:
        """True if there are several groups, or as many as a size says."""
        groups: int | PrimExpr = self.groups
        return isinstance(groups, PrimExpr) or groups > 1

    @property
    def known_axes(self) -> Mapping[int, tuple[int, ...]]:
        return {1: tuple(d for d, letter in enumerate(self.kernel_layout) if letter not in "OI")}

    def without_sizes(self, infos: Sequence[StructInfo | None]) -> Operator:
        """A depthwise convolution has 0 groups, which no other one has."""
        weight = infos[1]
        if self.groups == 1 or self.is_packed or not isinstance(weight, TensorStructInfo) or weight.dims is None:
            return self
        kernel = dict(zip(self.kernel_layout, weight.dims, strict=True))
        all_, each = ("O", "I") if self.shared == "I" else ("I", "O")
        if not (is_const(kernel[each], 1) and is_const(kernel[all_], self.groups)):
            return self
        general = self.replace(groups=1)
        set_slot(general, "groups", 0)
        return general

    def over_sizes(self, infos: Sequence[StructInfo | None]) -> Operator:
        """The groups of a depthwise convolution are the channels of its kernel, whatever their number."""
        weight = infos[1]
        if self.groups == 1 or self.is_packed or not isinstance(weight, TensorStructInfo) or weight.dims is None:
            return self
        kernel = dict(zip(self.kernel_layout, weight.dims, strict=True))
        all_, each = ("O", "I") if self.shared == "I" else ("I", "O")
        if not is_const(kernel[each], 1) or isinstance(kernel[all_], IntImm):
            return self
        general = self.replace(groups=1)
        set_slot(general, "groups", kernel[all_])
        return general

    def extent(self, size: PrimExpr, kernel: PrimExpr, j: int) -> PrimExpr:
        """Size of the result along spatial dimension j."""
        raise NotImplementedError

    def _all_channels(self, kernel: dict[str, PrimExpr], letter: str) -> PrimExpr:
        return simplify(kernel[letter] * self.groups) if letter == self.shared else kernel[letter]

    def _common_dtype(self, data: TensorStructInfo, weight: TensorStructInfo) -> DataType:
        if data.dtype.is_void or weight.dtype.is_void or data.dtype == weight.dtype:
            return data.dtype if not data.dtype.is_void else weight.dtype
        self.require(False, "weight", f"a tensor of {data.dtype!s}", found=str(weight.dtype))
        raise AssertionError

    def _require_channels(self, channels: PrimExpr, kernel: dict[str, PrimExpr]) -> None:
        times = f" · {self.groups} groups" if self.shared == "I" and self.has_groups else ""

        def error() -> OperatorError:
            return OperatorError(
                SHAPES,
                "the channels of data and weight differ",
                remarks={
                    "data": f"{prim_text(channels)} channels",
                    "weight": f"{prim_text(kernel['I'])} input channels{times}",
                },
            )

        require_same_dim(channels, self._all_channels(kernel, "I"), error)
        split, kind = ("O", "output") if self.shared == "I" else ("I", "input")
        whole = kernel[split]
        if isinstance(whole, IntImm) and whole.value % self.groups:
            message = f"{whole.value} {kind} channels cannot be split into {self.groups} groups"
            raise OperatorError(SHAPES, message, operand="weight")

    def require_layouts(self) -> None:
        super().require_layouts()
        self.require_layout("kernel_layout", "OI" + self.spatial)

    def blocked(self, order: Order, infos: Sequence[StructInfo]) -> Permuted | None:
        return None  # the layouts of data, kernel and result are chosen together: see in_layouts

    def in_layouts(self, layouts: Sequence[str], infos: Sequence[StructInfo]) -> Permuted | None:
        """Layouts of data, kernel and result. The kernel's defaults to the present one, the result's to the data's."""
        self.require_number_of_layouts(layouts, 2)
        kernel = layouts[1] if len(layouts) > 1 else self.kernel_layout
        result = layouts[2] if len(layouts) > 2 else layouts[0]
        present = [self.data_letters, self.kernel_layout]
        return self.laid_out_as([layouts[0], kernel], present, result, infos, kernel_layout=kernel)

    def reference(self, data: Array, weight: Array) -> Array:
        x, w = self.canonical(wide(data)), in_layout(wide(weight), self.kernel_layout, "OI" + self.spatial)
        dtype = self.out_dtype or DataType(data.dtype.name)
        if not dtype.is_float:
            x, w = x.astype(sums_dtype(dtype)), w.astype(sums_dtype(dtype))
        return convert_array(self.in_result_layout(self.convolved(x, w)), dtype.numpy())

    def convolved(self, x: Array, w: Array) -> Array:
        """Convolve canonical data with a kernel (O, I, …) in NumPy."""
        raise NotImplementedError

    def taps(self, w: Array) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Index of each tap in the kernel, and its offset from the first tap in the data."""
        dilation = self.dilation
        tap_indices = product(*(range(size) for size in w.shape[2:]))
        return [(k, tuple(d * i for d, i in zip(dilation, k, strict=True))) for k in tap_indices]

    def strided(self, start: Sequence[int], counts: Sequence[int]) -> tuple[Any, ...]:
        """Slices of the spatial dimensions: `counts` elements each, `strides` apart, from `start`."""
        slices = zip(start, counts, self.strides, strict=True)
        return (..., *(slice(a, a + s * n, s) if n else slice(0, 0) for a, n, s in slices))

    # ------------------------------------------------------------------------------------ gradients

    def differentiable(self, data: Term, weight: Term) -> bool:
        """True if a gradient is defined: for floats of one dtype, and known shapes."""
        infos = [tensor_info(data), tensor_info(weight)]
        return is_float(data) and infos[0].dtype == infos[1].dtype and all(info.dims is not None for info in infos)

    def weight_gradient(
        self, image: Term, image_layout: str, by: Term, by_layout: str, letters: tuple[str, str], weight: Term
    ) -> RelaxExpr:
        """Gradient with respect to the kernel: the correlation of `image` and `by`, with batch and channels exchanged.

        `letters` name the kernel dimensions of the channels of `image` and of `by`. With groups, a group of `image` is
        correlated with that of `by`: it has the channels of `image` as batch, and the batch as its channels.
        """
        rename = str.maketrans("NC", "CN")
        out = self.kernel_layout.translate(str.maketrans({letters[0]: "N", letters[1]: "C"}))
        if self.groups > 1:
            image, image_layout = self._channels_first(image, image_layout), "CN" + self.spatial
        full = apply(
            f"nn.conv{len(self.spatial)}d",
            image,
            by,
            strides=self.dilation,
            padding=self.padding,
            dilation=self.strides,
            groups=self.groups,
            data_layout=image_layout.translate(rename),
            kernel_layout=by_layout.translate(str.maketrans("NC", "IO")),
            out_layout=out,
        )
        return _cropped(full, self.kernel_layout, self.spatial, dims_of(weight) or ())

    def _channels_first(self, image: Term, layout: str) -> Term:
        """Rearrange (N, groups · C, …) as (C, groups · N, …)."""
        order = [layout.index(letter) for letter in "NC" + self.spatial]
        moved = image if order == sorted(order) else apply("permute_dims", image, axes=order)
        sizes = dims_of(image) or ()
        batch, channels, *outer = [sizes[d] for d in order]
        parts = [batch, const(self.groups, "int64"), simplify(channels // self.groups), *outer]
        split = apply("reshape", moved, ShapeExpr(tuple(parts)))
        exchanged = apply("permute_dims", split, axes=[2, 1, 0, *range(3, len(parts))])
        return apply("reshape", exchanged, ShapeExpr((parts[2], simplify(batch * self.groups), *outer)))


def _cropped(term: Term, layout: str, spatial: str, sizes: Sequence[PrimExpr]) -> RelaxExpr:
    """The first elements of the spatial dimensions of a tensor: as many as a tensor of `sizes` and this layout has."""
    axes = [d for d, letter in enumerate(layout) if letter in spatial]
    return apply("strided_slice", term, axes, [0] * len(axes), [sizes[d] for d in axes])


def _as_dtype(grad: Term, data: Term) -> Term:
    """The gradient with respect to a result of another dtype, in that of the data."""
    dtype = tensor_info(data).dtype
    return grad if tensor_info(grad).dtype == dtype else apply("astype", grad, dtype=dtype)


class Convolution(AnyConvolution):
    """Base class of convolutions: data (N, C, …), weight (O, C / groups, …)."""

    __slots__ = ()

    shared: ClassVar[Literal["I", "O"]] = "I"

    strides: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    dilation: tuple[int, ...] = (1,)
    groups: int = 1
    data_layout: str = "NC*"
    kernel_layout: str = "OI*"
    out_layout: str | None = None
    out_dtype: DataType = VOID

    def extent(self, size: PrimExpr, kernel: PrimExpr, j: int) -> PrimExpr:
        stride, dilation = self.strides[j], self.dilation[j]
        return topi.nn.conv_extent(size, kernel, self.pads[j], stride, dilation)

    def for_all_sizes(self, call: Call) -> RelaxExpr:
        """A convolution that reads single pixels, channels first, is a product: weight (O, I) by data (N, I, H · W)."""
        data, weight = call.args
        dims, kernel = dims_of(data), dims_of(weight)
        reads_pixels = {*self.strides} == {1} and {*self.padding} == {0} and self.groups == 1
        plain = self.data_layout == self.result_letters == self.letters and self.kernel_layout == "OI" + self.spatial
        same_dtype = self.out_dtype in (VOID, tensor_info(data).dtype)
        if dims is None or kernel is None or not (reads_pixels and plain and same_dtype):
            return call
        if not all(is_const(size, 1) for size in kernel[2:]):
            return call
        matrix = apply("reshape", weight, kernel[:2])
        columns = apply("reshape", data, [*dims[:2], math.prod(dims[2:], start=const(1, "int64"))])
        return apply("reshape", apply("matmul", matrix, columns), [dims[0], kernel[0], *dims[2:]])

    def compute(self, data: Any, weight: Any) -> Any:
        return topi.nn.conv(
            data,
            weight,
            self.strides,
            self.padding,
            self.dilation,
            self.groups,
            self.data_layout,
            self.kernel_layout,
            self.out_layout,
            self.out_dtype,
        )

    def convolved(self, x: Array, w: Array) -> Array:
        x = np.pad(x, ((0, 0), (0, 0), *self.pads))
        spans = [d * (k - 1) + 1 for d, k in zip(self.dilation, w.shape[2:], strict=True)]
        sizes = zip(x.shape[2:], spans, self.strides, strict=True)
        counts = [(size - span) // stride + 1 for size, span, stride in sizes]
        out = np.zeros((x.shape[0], w.shape[0], *counts), np.result_type(x, w))
        each, per_group = w.shape[0] // self.groups, w.shape[1]
        for g in range(self.groups):
            group, kernel = x[:, g * per_group :][:, :per_group], w[g * each : (g + 1) * each]
            for k, start in self.taps(w):
                window = group[self.strided(start, counts)]
                out[:, g * each : (g + 1) * each] += np.einsum("nc...,oc->no...", window, kernel[(..., *k)])
        return out

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        if self.is_packed:
            return self.plain_gradient(operands, result, grad)
        data, weight = operands
        if not self.differentiable(data, weight):
            return None
        grad = _as_dtype(grad, data)
        sizes = dict(zip(self.data_layout, dims_of(data) or (), strict=True))
        kernel = dict(zip(self.kernel_layout, dims_of(weight) or (), strict=True))
        left_over: list[int] = []
        exact = True
        for j, axis in enumerate(self.spatial):
            span = (kernel[axis] - 1) * self.dilation[j] + 1
            rest = simplify((sizes[axis] + sum(self.pads[j]) - span) % self.strides[j])
            exact = exact and isinstance(rest, IntImm)
            left_over.append(rest.value if isinstance(rest, IntImm) else self.strides[j] - 1)
        by_data = apply(
            f"nn.conv{len(self.spatial)}d_transpose",
            grad,
            weight,
            strides=self.strides,
            padding=self.padding,
            output_padding=left_over,
            dilation=self.dilation,
            groups=self.groups,
            data_layout=self.result_letters,
            kernel_layout=self.kernel_layout.translate(str.maketrans("IO", "OI")),
            out_layout=self.data_layout,
        )
        if not exact:  # as large as it may be: the elements behind its size were not read
            by_data = _cropped(by_data, self.data_layout, self.spatial, dims_of(data) or ())
        by_weight = self.weight_gradient(data, self.data_layout, grad, self.result_letters, ("I", "O"), weight)
        return by_data, by_weight


class TransposedConvolution(AnyConvolution):
    """Base class of transposed convolutions: data (N, C, …), weight (C, O / groups, …)."""

    __slots__ = ()

    shared: ClassVar[Literal["I", "O"]] = "O"
    per_axis: ClassVar[tuple[str, ...]] = ("strides", "dilation", "output_padding")

    strides: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    output_padding: tuple[int, ...] = (0,)
    dilation: tuple[int, ...] = (1,)
    groups: int = 1
    data_layout: str = "NC*"
    kernel_layout: str = "IO*"
    out_layout: str | None = None
    out_dtype: DataType = VOID

    def require_windows(self) -> None:
        super().require_windows()
        self.require_numbers("output_padding", 0)

    def extent(self, size: PrimExpr, kernel: PrimExpr, j: int) -> PrimExpr:
        stride, dilation = self.strides[j], self.dilation[j]
        more = self.output_padding[j]
        return topi.nn.conv_transpose_extent(size, kernel, self.pads[j], stride, dilation, more)

    def compute(self, data: Any, weight: Any) -> Any:
        return topi.nn.conv_transpose(
            data,
            weight,
            self.strides,
            self.padding,
            self.output_padding,
            self.dilation,
            self.groups,
            self.data_layout,
            self.kernel_layout,
            self.out_layout,
            self.out_dtype,
        )

    def convolved(self, x: Array, w: Array) -> Array:
        counts, each, per_group = x.shape[2:], w.shape[0], x.shape[1] // self.groups
        sizes: list[Any] = [self.extent(n, k, j) for j, (n, k) in enumerate(zip(counts, w.shape[2:], strict=True))]
        whole = [size + sum(pads) for size, pads in zip(sizes, self.pads, strict=True)]
        # Where there is nothing, or no room for a whole element, the last tap may lie outside.
        room = [n + s for n, s in zip(whole, self.strides, strict=True)]
        out = np.zeros((x.shape[0], each * self.groups, *room), np.result_type(x, w))
        for g in range(self.groups):
            group, kernel = x[:, g * per_group :][:, :per_group], w[:, g * per_group :][:, :per_group]
            for k, start in self.taps(w):
                added = np.einsum("nc...,oc->no...", group, kernel[(..., *k)])
                out[:, g * each : (g + 1) * each][self.strided(start, counts)] += added
        crop = zip(self.pads, sizes, strict=True)
        return out[(..., *(slice(low, low + size) for (low, _), size in crop))]

    def gradient(self, operands: Sequence[Term], result: Term, grad: Term) -> Gradients | None:
        if self.is_packed:
            return self.plain_gradient(operands, result, grad)
        data, weight = operands
        if not self.differentiable(data, weight):
            return None
        grad = _as_dtype(grad, data)
        by_data = apply(
            f"nn.conv{len(self.spatial)}d",
            grad,
            weight,
            strides=self.strides,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.groups,
            data_layout=self.result_letters,
            kernel_layout=self.kernel_layout.translate(str.maketrans("IO", "OI")),
            out_layout=self.data_layout,
        )
        if any(more >= stride for more, stride in zip(self.output_padding, self.strides, strict=True)):
            by_data = _cropped(by_data, self.data_layout, self.spatial, dims_of(data) or ())
        by_weight = self.weight_gradient(grad, self.result_letters, data, self.data_layout, ("O", "I"), weight)
        return by_data, by_weight


@operator("relax.nn.conv1d")
class Conv1d(Convolution):
    """Cross-correlation of sequences with kernels, as conv2d: data (N, C, W), weight (O, C / groups, KW)."""

    spatial = "W"


@operator("relax.nn.conv2d")
class Conv2d(Convolution):
    """Cross-correlation of images with kernels.

    data (N, C, H, W), weight (O, C / groups, KH, KW) in the given layouts; result (N, O, H', W') with
    H' = ⌊(H + pads - dilation · (KH - 1) - 1) / stride⌋ + 1. `padding` (zeros) is one number, (H, W), or (top, left,
    bottom, right). Narrow floats are accumulated in float32; `out_dtype` "" keeps the input's dtype. Layouts may be
    packed (NCHW16c, OIHW16i16o); channels of the result that only fill up its last part are 0.
    """

    spatial = "HW"


@operator("relax.nn.conv3d")
class Conv3d(Convolution):
    """Cross-correlation of volumes with kernels, as conv2d: data (N, C, D, H, W), weight (O, C / groups, KD, KH, …)."""

    spatial = "DHW"


@operator("relax.nn.conv1d_transpose")
class Conv1dTranspose(TransposedConvolution):
    """The transpose of conv1d, as conv2d_transpose: data (N, C, W), weight (C, O / groups, KW)."""

    spatial = "W"


@operator("relax.nn.conv2d_transpose")
class Conv2dTranspose(TransposedConvolution):
    """The transpose of conv2d: each element of the data, times the kernel, is added to the result at its position.

    data (N, C, H, W), weight (C, O / groups, KH, KW) in the given layouts; result (N, O, H', W') with
    H' = (H - 1) · stride + dilation · (KH - 1) + 1 - pads + output_padding. `padding` cuts the result, in the forms of
    conv2d; `output_padding` adds to its ends.
    """

    spatial = "HW"


@operator("relax.nn.conv3d_transpose")
class Conv3dTranspose(TransposedConvolution):
    """The transpose of conv3d, as conv2d_transpose: data (N, C, D, H, W), weight (C, O / groups, KD, KH, KW)."""

    spatial = "DHW"
