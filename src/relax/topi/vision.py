"""Formulas of object detection: non-maximum suppression, regions of interest, deformable convolution, col2im."""

# The parameters of a formula are index variables; te.compute says so, but not in a way a type checker can follow.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

from .. import te
from ..ir import DataType
from ..ir.tvm_names import answer_missing
from ..prim import PrimExpr, Select, Var, cast, const, intrin
from ..tir.buffer import Buffer
from ..tir.statements import NOTHING
from ..tir.stmt import AssertStmt, BufferStore, For, IfThenElse, LetStmt, SeqStmt, Stmt
from .image import inside_of
from .nn import conv_extent, pad_pairs, per_axis
from .twofold import let
from .util import accumulator_dtype, sum_of


def _loop(name: str, extent: Any, body: Callable[[Var], Stmt]) -> Stmt:
    var = Var(name, "int64")
    return For(var, 0, extent, "serial", body(var))


def _bound(name: str, value: PrimExpr, body: Callable[[Var], Stmt]) -> Stmt:
    """Bind a value to a variable and return `body` of it."""
    var = Var(name, value.dtype)
    return LetStmt(var, value, body(var))


def _number(value: Any, dtype: DataType | str, name: str) -> te.Tensor:
    """Convert a scalar operand, a scalar expression or a tensor of one element, to a tensor (1,)."""

    def element(_i: PrimExpr) -> PrimExpr:
        number = value(*[0] * value.ndim) if isinstance(value, te.Tensor) else value
        return cast(dtype, number)

    return te.compute((1,), element, name)


# ------------------------------------------------------------------------------- non-maximum suppression


class _Boxes:
    """Overlap of the boxes of an image."""

    def __init__(self, boxes: Buffer, wide: DataType, centred: bool) -> None:
        self.boxes, self.wide, self.centred = boxes, wide, centred

    def side(self, image: PrimExpr, box: PrimExpr, axis: int) -> tuple[PrimExpr, PrimExpr]:
        """Least and greatest coordinate of a box along axis 0 or 1, in the order of its coordinates."""
        a = self.boxes[image, box, axis].astype(self.wide)
        b = self.boxes[image, box, axis + 2].astype(self.wide)
        if self.centred:
            half = b * 0.5
            return a - half, a + half
        return intrin.min(a, b), intrin.max(a, b)

    def overlap(self, image: PrimExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """Intersection over union; 0 for boxes of zero area."""
        zero = const(0, self.wide)
        inner: PrimExpr = const(1, self.wide)
        areas: list[PrimExpr] = [const(1, self.wide)] * 2
        for axis in (0, 1):
            (low_a, high_a), (low_b, high_b) = self.side(image, a, axis), self.side(image, b, axis)
            common = intrin.max(intrin.min(high_a, high_b) - intrin.max(low_a, low_b), zero)
            inner = inner * common
            areas = [areas[0] * (high_a - low_a), areas[1] * (high_b - low_b)]
        solid = intrin.all(inner > zero, areas[0] > zero, areas[1] > zero)
        return Select(solid, inner / (areas[0] + areas[1] - inner), zero)


def padded_non_max_suppression(
    boxes: te.Tensor,
    scores: te.Tensor,
    max_output_boxes_per_class: Any,
    iou_threshold: Any,
    score_threshold: Any = None,
    center_point_box: bool = False,
) -> list[te.Tensor]:
    """Selected (image, class, box) by descending score per image and class, followed by rows of -1; and the selected
    count.
    """
    batch, classes, count = scores.shape
    wide, score_wide = accumulator_dtype(boxes.dtype), accumulator_dtype(scores.dtype)
    numbers = [_number(max_output_boxes_per_class, "int64", "nms_most"), _number(iou_threshold, wide, "nms_overlap")]
    if score_threshold is not None:
        numbers.append(_number(score_threshold, score_wide, "nms_score"))

    def statement(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        return _Suppression(ins, outs, wide, score_wide, center_point_box).statement()

    shapes = [(batch * classes * count, 3), (1,), (count,), (1,)]
    outs = te.extern(shapes, [boxes, scores, *numbers], statement, "non_max_suppression", ["int64"] * len(shapes))
    return [outs[0], outs[1]]


class _Suppression:
    """Greedy suppression per class: take the best candidate and drop those that it covers."""

    def __init__(
        self, ins: list[Buffer], outs: list[Buffer], wide: DataType, score_wide: DataType, centred: bool
    ) -> None:
        boxes, self.scores, self.most, self.limit = ins[:4]
        self.least = ins[4] if len(ins) > 4 else None
        self.rows, self.count, self.candidates, self.left = outs
        self.boxes, self.score_wide = _Boxes(boxes, wide, centred), score_wide

    def statement(self) -> Stmt:
        batch, classes, _ = self.scores.shape
        clear = _loop(
            "row",
            self.rows.shape[0],
            lambda i: _loop("k", 3, lambda k: BufferStore(self.rows, const(-1, "int64"), (i, k))),
        )
        each = _loop("b", batch, lambda b: _loop("c", classes, lambda c: self._class(b, c)))
        return SeqStmt((clear, BufferStore(self.count, const(0, "int64"), (0,)), each))

    def _score(self, b: PrimExpr, c: PrimExpr, box: PrimExpr) -> PrimExpr:
        return self.scores[b, c, box].astype(self.score_wide)

    def _keep(self, candidate: PrimExpr) -> Stmt:
        """Append a candidate to the list."""
        return SeqStmt(
            (BufferStore(self.candidates, candidate, (self.left[0],)), BufferStore(self.left, self.left[0] + 1, (0,)))
        )

    def _class(self, b: PrimExpr, c: PrimExpr) -> Stmt:
        boxes = self.scores.shape[2]

        def listed(i: Var) -> Stmt:
            score = self._score(b, c, i)
            least = const(float("-inf"), self.score_wide)
            allowed = score >= least if self.least is None else score > self.least[0]
            return IfThenElse(allowed, self._keep(i))

        rounds = _loop(
            "round", intrin.min(self.most[0], boxes), lambda _round: IfThenElse(self.left[0] > 0, self._round(b, c))
        )
        return SeqStmt((BufferStore(self.left, const(0, "int64"), (0,)), _loop("i", boxes, listed), rounds))

    def _round(self, b: PrimExpr, c: PrimExpr) -> Stmt:
        """Move the best candidate to the rows, and drop the candidates that it covers."""

        def compared(i: Var) -> Stmt:  # the best so far comes first
            return _bound("other", self.candidates[i + 1], lambda other: swapped(i, other))

        def swapped(i: Var, other: Var) -> Stmt:
            best = self.candidates[0]
            score, best_score = self._score(b, c, other), self._score(b, c, best)
            equal = intrin.all(score.equal(best_score), other < best)
            swap = (BufferStore(self.candidates, best, (i + 1,)), BufferStore(self.candidates, other, (0,)))
            return IfThenElse(intrin.any(score > best_score, equal), SeqStmt(swap))

        def filtered(chosen: Var, many: Var) -> Stmt:
            def kept(i: Var) -> Stmt:
                return _bound("other", self.candidates[i + 1], lambda other: spared(chosen, other))

            row = self.count[0]
            written = [BufferStore(self.rows, value, (row, k)) for k, value in enumerate((b, c, chosen))]
            clear = BufferStore(self.left, const(0, "int64"), (0,))
            return SeqStmt((*written, BufferStore(self.count, row + 1, (0,)), clear, _loop("i", many - 1, kept)))

        def spared(chosen: Var, other: Var) -> Stmt:
            covered = self.boxes.overlap(b, chosen, other) > self.limit[0]
            return IfThenElse(covered, NOTHING, self._keep(other))

        def halves(many: Var) -> Stmt:
            drop = _bound("chosen", self.candidates[0], lambda chosen: filtered(chosen, many))
            return SeqStmt((_loop("i", many - 1, compared), drop))

        return _bound("many", self.left[0], halves)


# ------------------------------------------------------------------------------------ bilinear sampling


def _add(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return a + b


def bilinear(
    read: Callable[[PrimExpr, PrimExpr], PrimExpr],
    y: PrimExpr,
    x: PrimExpr,
    sizes: Sequence[PrimExpr],
    outside: bool,
    combine: Callable[[PrimExpr, PrimExpr], PrimExpr] = _add,
) -> PrimExpr:
    """Bilinear interpolation at (y, x), or another combination of the four weighted elements.

    Elements outside are zeros (`outside`), or the nearest border elements.
    """

    def at(pairs: Sequence[tuple[PrimExpr, PrimExpr]]) -> PrimExpr:
        (y0, fy), (x0, fx) = pairs
        values: list[PrimExpr] = []
        for dy, dx in ((0, 0), (0, 1), (1, 0), (1, 1)):
            weight = (fy if dy else 1.0 - fy) * (fx if dx else 1.0 - fx)
            row, column = y0 + dy, x0 + dx
            if outside:
                inside = intrin.all(row >= 0, row < sizes[0], column >= 0, column < sizes[1])
                value = intrin.if_then_else(inside, read(row, column), const(0, weight.dtype))
            else:
                value = read(inside_of(row, sizes[0]), inside_of(column, sizes[1]))
            values.append(value * weight)
        return functools.reduce(combine, values)

    def split(v: PrimExpr, body: Callable[[tuple[PrimExpr, PrimExpr]], PrimExpr]) -> PrimExpr:
        return let(v, lambda p: let(intrin.floor(p), lambda low: let(cast("int64", low), lambda i: body((i, p - low)))))

    return split(y, lambda row: split(x, lambda column: at((row, column))))


# ------------------------------------------------------------------------------------------- roi_align


MOST_SAMPLES: Final = 1 << 20
"""Maximum samples along one side of a pooled element; only nearly infinite regions need more."""


def _regions(
    rois: te.Tensor, batch_indices: te.Tensor | None, spatial_scale: float, aligned: bool, wide: DataType
) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """Return (top-left (y, x), (height, width), image index) of each region of interest."""
    columns = 5 if batch_indices is None else 4
    count = rois.shape[0]

    def corner(r: PrimExpr, k: int) -> PrimExpr:
        """Coordinate k of a region (x1, y1, x2, y2) in the data."""
        value = rois(r, columns - 4 + k).astype(wide) * const(spatial_scale, wide)
        return value - 0.5 if aligned else value

    def extent(r: PrimExpr, axis: int) -> PrimExpr:
        whole = corner(r, 3 - axis) - corner(r, 1 - axis)
        return whole if aligned else intrin.max(whole, const(1.0, wide))

    def image(r: PrimExpr) -> PrimExpr:
        return cast("int64", rois(r, 0) if batch_indices is None else batch_indices(r))

    starts = te.compute((count, 2), lambda r, a: Select(a.equal(0), corner(r, 1), corner(r, 0)), "roi_start")
    extents = te.compute((count, 2), lambda r, a: Select(a.equal(0), extent(r, 0), extent(r, 1)), "roi_extent")
    return starts, extents, te.compute((count,), image, "roi_image")


def roi_align(
    data: te.Tensor,
    rois: te.Tensor,
    batch_indices: te.Tensor | None = None,
    pooled_size: Sequence[int] = (1, 1),
    spatial_scale: float = 1.0,
    sample_ratio: int = -1,
    aligned: bool = False,
    layout: str = "NCHW",
    mode: str = "avg",
) -> te.Tensor:
    """Pooled samples of regions of interest; see `relax.op.vision.RoiAlign`."""
    wide = accumulator_dtype(data.dtype)
    heights, widths = per_axis(pooled_size, 2)
    sizes = [data.shape[layout.index(c)] for c in "HW"]
    channels = data.shape[layout.index("C")]
    count = rois.shape[0]
    starts, extents, images = _regions(rois, batch_indices, spatial_scale, aligned, wide)

    def statement(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        source, start, size, where = ins
        out = outs[0]
        pooled = (heights, widths)

        def grid(r: PrimExpr, a: int) -> PrimExpr:
            if sample_ratio > 0:
                return const(sample_ratio, "int64")
            return intrin.max(cast("int64", intrin.ceil(size[r, a] / float(pooled[a]))), 0)

        def sample(r: PrimExpr, c: PrimExpr, at: Sequence[Any], grids: Sequence[Any], i: Sequence[Any]) -> PrimExpr:
            coordinates: list[PrimExpr] = []
            for a in range(2):
                bin_size = size[r, a] / float(pooled[a])
                step = (cast(wide, i[a]) + 0.5) * bin_size / cast(wide, grids[a])
                coordinates.append(start[r, a] + cast(wide, at[a]) * bin_size + step)

            def read(row: PrimExpr, column: PrimExpr) -> PrimExpr:
                index = {"N": where[r], "C": c, "H": row, "W": column}
                return source[tuple(index[k] for k in layout)].astype(wide)

            inside = [c for p, s in zip(coordinates, sizes, strict=True) for c in (p >= -1.0, p <= cast(wide, s))]
            # Within one element of the border, its values hold.
            clipped = [
                intrin.max(intrin.min(p, cast(wide, s) - 1.0), const(0.0, wide))
                for p, s in zip(coordinates, sizes, strict=True)
            ]
            combine = intrin.max if mode == "weighted_max" else _add
            value = bilinear(read, clipped[0], clipped[1], sizes, False, combine)
            return intrin.if_then_else(intrin.all(*inside), value, const(0, wide))

        return _roi_loops(out, where, data.shape[layout.index("N")], channels, pooled, grid, sample, mode, wide)

    out = te.extern(
        [(count, channels, heights, widths)], [data, starts, extents, images], statement, "roi_align", [wide]
    )[0]
    order = [("NCHW").index(c) for c in layout]
    shape = [out.shape[k] for k in order]

    def element(*i: Any) -> PrimExpr:
        at = dict(zip(layout, i, strict=True))
        return out(*(at[c] for c in "NCHW")).astype(data.dtype)

    return out if layout == "NCHW" and wide == data.dtype else te.compute(shape, element, "roi_align_cast")


def _roi_loops(
    out: Buffer,
    where: Buffer,
    batch: PrimExpr,
    channels: PrimExpr,
    pooled: tuple[int, int],
    grid: Callable[[PrimExpr, int], PrimExpr],
    sample: Callable[..., PrimExpr],
    mode: str,
    wide: DataType,
) -> Stmt:
    """Loops over regions, channels, and the samples of each pooled element."""
    greatest = mode != "avg"

    def element(r: Var, c: Var, y: Var, x: Var, gy: Var, gx: Var) -> Stmt:
        index = (r, c, y, x)

        def add(iy: Var, ix: Var) -> Stmt:
            value = sample(r, c, (y, x), (gy, gx), (iy, ix))
            so_far = out[index]
            if not greatest:
                return BufferStore(out, so_far + value, index)
            first = intrin.all(iy.equal(0), ix.equal(0))
            return BufferStore(out, let(value, lambda v: Select(first, v, intrin.max(so_far, v))), index)

        samples = _loop("iy", gy, lambda iy: _loop("ix", gx, lambda ix: add(iy, ix)))
        statements: list[Stmt] = [BufferStore(out, const(0, wide), index), samples]
        if not greatest:
            statements.append(BufferStore(out, out[index] / cast(wide, intrin.max(gy * gx, 1)), index))
        return SeqStmt(tuple(statements))

    def region(r: Var) -> Stmt:
        def elements(gy: Var, gx: Var) -> Stmt:
            return _loop(
                "c",
                channels,
                lambda c: _loop("y", pooled[0], lambda y: _loop("x", pooled[1], lambda x: element(r, c, y, x, gy, gx))),
            )

        body = _bound("gy", grid(r, 0), lambda gy: _bound("gx", grid(r, 1), lambda gx: elements(gy, gx)))
        legal = intrin.all(where[r] >= 0, where[r] < batch)
        small = intrin.all(grid(r, 0) <= MOST_SAMPLES, grid(r, 1) <= MOST_SAMPLES)
        body = AssertStmt(small, "a region is too large to sample", body)
        return AssertStmt(legal, "the image of a region is out of range", body)

    return _loop("r", out.shape[0], region)


# ------------------------------------------------------------------------------- deformable convolution


def deform_conv2d(
    data: te.Tensor,
    offset: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor | None = None,
    mask: te.Tensor | None = None,
    strides: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    offset_groups: int = 1,
) -> te.Tensor:
    """Convolution whose taps are moved by offsets; see `relax.op.vision.DeformConv2d`."""
    wide = accumulator_dtype(data.dtype)
    strides, dilation, pads = per_axis(strides, 2), per_axis(dilation, 2), pad_pairs(padding)
    batch, channels, *sizes = data.shape
    outputs, per_group, *window = weight.shape
    out = [conv_extent(sizes[a], window[a], pads[a], strides[a], dilation[a]) for a in range(2)]
    each = intrin.max(channels // offset_groups, 1)

    def sampled(n: Any, c: Any, ky: Any, kx: Any, y: Any, x: Any) -> PrimExpr:
        group = c // each
        tap = (group * window[0] + ky) * window[1] + kx
        coordinates = [
            cast(wide, at * strides[a] + k * dilation[a] - pads[a][0]) + offset(n, tap * 2 + a, y, x).astype(wide)
            for a, (at, k) in enumerate(((y, ky), (x, kx)))
        ]
        value = bilinear(lambda r, s: data(n, c, r, s).astype(wide), coordinates[0], coordinates[1], sizes, True)
        return value if mask is None else value * mask(n, tap, y, x).astype(wide)

    taps = te.compute((batch, channels, *window, *out), sampled, "deform_sample")
    rc = te.reduce_axis((0, per_group), "rc")
    ry = te.reduce_axis((0, window[0]), "ry")
    rx = te.reduce_axis((0, window[1]), "rx")

    def summed(n: Any, o: Any, y: Any, x: Any) -> PrimExpr:
        c = rc.var if groups == 1 else o // intrin.max(outputs // groups, 1) * per_group + rc.var
        product = taps(n, c, ry.var, rx.var, y, x) * weight(o, rc.var, ry.var, rx.var).astype(wide)
        return te.sum(product, axis=[rc, ry, rx])

    total = te.compute((batch, outputs, *out), summed, "deform_conv2d", tag="conv2d")
    if bias is None and wide == data.dtype:
        return total

    def finished(n: Any, o: Any, y: Any, x: Any) -> PrimExpr:
        value = total(n, o, y, x)
        return (value if bias is None else value + bias(o).astype(wide)).astype(data.dtype)

    return te.compute(total.shape, finished, "deform_conv2d_bias")


# ----------------------------------------------------------------------------------------------- col2im


def col2im(
    data: te.Tensor,
    image_shape: Sequence[PrimExpr],
    block_shape: Sequence[PrimExpr],
    strides: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
) -> te.Tensor:
    """Sums of overlapping blocks; see `relax.op.vision.Col2Im`."""
    rank = len(image_shape)
    strides, dilation = per_axis(strides, rank), per_axis(dilation, rank)
    pads = pad_pairs(padding, rank)
    wide = accumulator_dtype(data.dtype)
    blocks = [conv_extent(image_shape[a], block_shape[a], pads[a], strides[a], dilation[a]) for a in range(rank)]
    elements: PrimExpr = const(1, "int64")
    for size in block_shape:
        elements = elements * size
    channels = data.shape[1] // intrin.max(elements, 1)
    inner = [te.reduce_axis((0, size), f"k{a}") for a, size in enumerate(block_shape)]

    def total(n: Any, c: Any, *place: Any) -> PrimExpr:
        row, block = c, const(0, "int64")
        inside: list[PrimExpr] = []
        for a in range(rank):
            distance = place[a] + pads[a][0] - inner[a].var * dilation[a]
            at = distance // strides[a]
            inside += [distance >= 0, (distance % strides[a]).equal(0), at < blocks[a]]
            row, block = row * block_shape[a] + inner[a].var, block * blocks[a] + at
        value = intrin.if_then_else(intrin.all(*inside), data(n, row, block).astype(wide), const(0, wide))
        return sum_of(value, inner)

    sums = te.compute((data.shape[0], channels, *image_shape), total, "col2im", tag="comm_reduce")
    if wide == data.dtype:
        return sums
    return te.compute(sums.shape, lambda *i: sums(*i).astype(data.dtype), "col2im_cast")


answer_missing(__name__)
