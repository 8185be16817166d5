"""Recognise channels-first convolutions: sums over channels and taps of weights times windows of the data.

    padded[n, c, y, x] = if_then_else(inside, X[n, c, y - 1, x - 1], 0)                           (if there is padding)
    C[n, co, h, w] += W[co, ci, i, j] * padded[n, co // 8 * 4 + ci, h * 2 + i * 3, w * 2 + j * 3]

is a convolution of `X` with 8 output and 4 input channels per group, stride 2, dilation 3 and 1 pixel of padding before
each row. Any number of pixel dimensions is supported; leading dimensions of data and result are batches.

`windows_of` refuses other dimension orders, dynamic kernel sizes, several groups with a dynamic size, windows
not provably inside the data, and sums that are no convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Final, TypeAlias

from ....prim import (
    GE,
    GT,
    LE,
    LT,
    And,
    Call,
    FloatImm,
    FloorDiv,
    IntImm,
    PrimExpr,
    Select,
    Var,
    Verdict,
    const,
    is_const,
    post_order,
    prove,
    prove_equal,
    simplify,
    substitute,
)
from ....prim.intrin import floordiv
from ....prim.per_node import proved_per_node
from ....runtime.records import dataclass
from ....tir import Block, BlockRealize, Buffer, BufferLoad, BufferStore, IterVar, PrimFunc, Range, Stmt
from ....tir.buffer import decl_buffer
from ....tir.nests import Nest, buffers_used, is_compact, nest_of, root_of, same_size
from ....tir.statements import seq_of
from ....tir.usage import free_vars
from ...build import int64, ramp, size_of, spread
from ...matrix_product import plain, sum_of_products
from ...rule import ALIASED, Refusal, refused
from ..large_sums import float_sum

Condition: TypeAlias = Callable[[BufferStore, PrimExpr, Sequence[BufferLoad], Block], Refusal | None]
"""Objection to a sum, or None: (store, initial value, factors of the products, block)."""

LONGEST_SHUFFLE: Final = 4
"""Greatest stride along rows whose elements are shuffled out of contiguous vectors."""

_LAYOUT: Final = "the layout is not channels-first: weights (output channel, input channel, taps …), pixels last"


@dataclass(frozen=True)
class Axis:
    """Spatial dimension: a tap reads element ``pixel * stride + tap * dilation - before`` of the data."""

    pixel: IterVar
    taps: int
    stride: int
    dilation: int
    before: PrimExpr
    """Zero padding before the data."""
    extent: PrimExpr
    """Number of data elements; the padding after them is zero."""

    @property
    def size(self) -> PrimExpr:
        """Number of pixels of the result."""
        return size_of(self.pixel)

    @property
    def reach(self) -> int:
        """Distance from the first to the last tap, in strides."""
        return (self.taps - 1) * self.dilation // self.stride


_ONE_LINE: Final = Axis(
    IterVar(Range.from_min_extent(const(0, "int64"), const(1, "int64")), Var("line", "int64")),
    1, 1, 1, const(0, "int64"), const(1, "int64"),
)  # fmt: skip


@dataclass(frozen=True)
class Windows:
    """Convolution recognised in a block."""

    out: BufferStore
    weight: BufferLoad
    data: Buffer
    """Data without padding."""
    batch: tuple[IterVar, ...]
    channel: IterVar
    """Output channel, over all groups."""
    depth: IterVar | None
    """Input channel of a group; None if there is no such dimension."""
    axes: tuple[Axis, ...]
    groups: int | PrimExpr
    """Number of groups. An expression if the number of channels is dynamic: then each channel is a group."""
    padding: Buffer | None
    """Padded copy of the data, read by the convolution in the original function."""

    @property
    def channels(self) -> PrimExpr:
        """Output channels per group."""
        size = size_of(self.channel)
        if not isinstance(self.groups, int):
            return const(1, "int64")
        return size if self.groups == 1 else simplify(floordiv(size, self.groups))

    @property
    def is_grouped(self) -> bool:
        """True if there is more than one group, or an unknown number of them."""
        return not isinstance(self.groups, int) or self.groups != 1

    @property
    def inputs(self) -> PrimExpr:
        """Input channels per group."""
        return const(1, "int64") if self.depth is None else size_of(self.depth)

    def channels_of_group(self, axes: int = 3, *, may_lack_inputs: bool = False) -> tuple[int, int] | Refusal:
        """Static numbers of input and output channels of a single group, for at most `axes` pixel dimensions."""
        inputs, outputs = self.inputs, self.channels
        if self.is_grouped:
            return Refusal(f"there are {self.groups if isinstance(self.groups, int) else 'several'} groups")
        if self.depth is None and not may_lack_inputs:
            return Refusal("there is no dimension of input channels")
        if not isinstance(inputs, IntImm) or not isinstance(outputs, IntImm):
            return Refusal("the number of input or output channels is dynamic")
        if len(self.axes) > axes:
            return Refusal(f"there are {len(self.axes)} pixel dimensions, more than {axes}")
        return inputs.value, outputs.value

    @property
    def taps(self) -> int:
        """Elements of a window of one input channel."""
        return prod(axis.taps for axis in self.axes)

    @property
    def lines(self) -> tuple[Axis, Axis]:
        """Axes (across rows, along rows) of pixels.

        A convolution of one axis, or whose second axis has a single pixel, has a single row.
        """
        if len(self.axes) == 1:
            return _ONE_LINE, self.axes[0]
        first, second = self.axes
        return (second, first) if self.turned else (first, second)

    @property
    def turned(self) -> bool:
        """True if rows run along the first of two axes because the second has a single pixel, so memory is contiguous
        along it.
        """
        if len(self.axes) != 2:
            return False
        second = self.axes[1]
        return second.taps == 1 and is_const(second.size, 1) and is_const(second.extent, 1)

    def lines_of_data(self) -> Buffer:
        """Data without the trailing dimension of one pixel."""
        if not self.turned:
            return self.data
        shape, dtype = self.data.shape[:-1], str(self.data.dtype)
        return decl_buffer(shape, dtype, f"{self.data.name}_lines", data=self.data.data)

    def pixels_of_line(
        self, source: Buffer, channel: Sequence[PrimExpr], y: PrimExpr, x: PrimExpr, lanes: int
    ) -> PrimExpr:
        """Load pixels of a row of `lines_of_data`, from `x` on; those outside of the row are zeros.

        `channel` are the batch and channel indices; `y`, the index of the row, is ignored if there is a single one.
        """
        at = ramp(x, lanes)
        zero, end = spread(const(0, "int64"), lanes), spread(self.lines[1].extent, lanes)
        outer = (*channel, y) if source.ndim == len(channel) + 2 else tuple(channel)
        return BufferLoad(source, (*outer, at), And(at >= zero, at < end))

    def pixel(self, before: Sequence[PrimExpr], line: PrimExpr, x: PrimExpr) -> tuple[PrimExpr, ...]:
        """Indices of a pixel of the data or result, given the batch and channel indices in `before`."""
        if len(self.axes) == 1:
            return (*before, x)
        return (*before, x, line) if self.turned else (*before, line, x)


@dataclass(frozen=True)
class Kernel:
    """Convolution in its function, with the nests fused into it."""

    windows: Windows
    epilogue: Nest | None
    """Nest that computes one element per result (epilogue); the unmodified result is then not stored."""

    @property
    def parts(self) -> int:
        """Number of statements of the function that the convolution stands for."""
        return 1 + (self.windows.padding is not None) + (self.epilogue is not None)


def rewritten_kernels(
    func: PrimFunc, rewrite: Callable[[Kernel], Stmt | Refusal], condition: Condition = float_sum
) -> PrimFunc | Refusal:
    """Replace each convolution for which `rewrite` returns a statement.

    Returns a refusal if there is none. `condition` is on the sums; by default they are of float32 or float64.
    """
    allocated, statements = root_of(func)
    results: list[Stmt | None] = list(statements)
    kept, refusals = list(allocated), list[Refusal]()
    for found in _located(func, condition):
        if isinstance(found, Refusal):
            refusals.append(found)
            continue
        windows, epilogue = found.kernel.windows, found.kernel.epilogue
        changed = rewrite(found.kernel) if func.attrs.get("tir.noalias") else ALIASED
        if isinstance(changed, Refusal):
            refusals.append(changed)
            continue
        results[found.position] = changed
        if found.padding is not None and windows.padding is not None:
            results[found.padding] = None
            kept.remove(windows.padding)
        if epilogue is not None:
            results[found.position + 1] = None
            kept.remove(windows.out.buffer)
    if all(a is b for a, b in zip(results, statements, strict=True)):
        return refused(refusals, "no nest sums products")
    body = seq_of([stmt for stmt in results if stmt is not None])
    if isinstance(func.body, BlockRealize):
        root = func.body.block.replace(body=body, alloc_buffers=tuple(kept))
        body = func.body.replace(block=root)
    return func.replace(body=body)


@dataclass(frozen=True)
class _Located:
    """Convolution at a position among the statements of a function, and the position of the nest that pads its data."""

    position: int
    kernel: Kernel
    padding: int | None


def _located(func: PrimFunc, condition: Condition) -> tuple[_Located | Refusal, ...]:
    """Return the convolutions of a function; a refusal for each other reduction. Several rules ask in turn."""
    known = _known_located(func)
    if condition not in known:
        known[condition] = tuple(_convolutions(func, condition))
    return known[condition]


@proved_per_node
def _known_located(func: PrimFunc) -> dict[Condition, tuple[_Located | Refusal, ...]]:
    """Answers of `_located` for a function, by the condition."""
    del func
    return {}


def _convolutions(func: PrimFunc, condition: Condition) -> Iterator[_Located | Refusal]:
    allocated, statements = root_of(func)
    nests = [nest_of(stmt) for stmt in statements]
    for position, nest in enumerate(nests):
        if nest is None or not nest.is_reduction:
            continue
        windows = windows_of(nest.block, condition)
        if not windows:
            yield windows
            continue
        padding = only_source(windows.data, nests, statements, position, allocated)
        if padding is not None:
            windows = _without_padding(windows, padding)
        epilogue = _epilogue(windows, nests, statements, position, allocated)
        yield _Located(position, Kernel(windows, epilogue), None if padding is None else nests.index(padding))


def users_in(buffer: Buffer, statements: Sequence[Stmt]) -> tuple[list[int], list[int]]:
    """Return (positions of statements that may read the buffer, positions of those that may write it)."""
    used = [buffers_used(stmt) for stmt in statements]
    readers = [i for i, (reads, _) in enumerate(used) if buffer.data in reads]
    return readers, [i for i, (_, writes) in enumerate(used) if buffer.data in writes]


def only_source(
    buffer: Buffer, nests: Sequence[Nest | None], statements: Sequence[Stmt], reader: int, allocated: Sequence[Buffer]
) -> Nest | None:
    """Return the nest that fills an allocated buffer only for statement `reader`, if its inputs do not change in
    between.
    """
    if buffer not in allocated:
        return None
    readers, writers = users_in(buffer, statements)
    if readers != [reader] or len(writers) != 1 or writers[0] > reader:
        return None
    source = nests[writers[0]]
    if source is None or source.is_reduction:
        return None
    read, _ = buffers_used(source.stmt)
    between = (buffers_used(stmt)[1] for stmt in statements[writers[0] + 1 : reader + 1])
    return None if any(read & written for written in between) else source


def _epilogue(
    windows: Windows,
    nests: Sequence[Nest | None],
    statements: Sequence[Stmt],
    position: int,
    allocated: Sequence[Buffer],
) -> Nest | None:
    """Return the nest after a convolution that computes one element per result and is its only reader, or None."""
    result = windows.out.buffer
    if position + 1 >= len(statements) or result not in allocated:
        return None
    nest, (readers, writers) = nests[position + 1], users_in(result, statements)
    reads_itself = position in readers
    if nest is None or nest.is_reduction or writers != [position]:
        return None
    if readers != ([position, position + 1] if reads_itself else [position + 1]):
        return None
    store = nest.stores[0]
    if not same_shape(store.buffer, result) or store.buffer.data in {windows.data.data, windows.weight.buffer.data}:
        return None
    loads = [load for load in nest.loads() if load.buffer is result]
    in_place = all(same_place(load, store) for load in loads)
    return nest if in_place and is_compact(store.buffer) else None


def same_shape(a: Buffer, b: Buffer) -> bool:
    """True if two buffers have provably equal shapes."""
    return a.ndim == b.ndim and all(same_size(x, y) for x, y in zip(a.shape, b.shape, strict=True))


def same_place(load: BufferLoad, store: BufferStore) -> bool:
    """True for equal indices, up to 0 in dimensions of one element."""
    pairs = zip(load.indices, store.indices, load.buffer.shape, strict=True)
    return all(a is b or (is_const(size, 1) and is_const(a, 0)) for a, b, size in pairs)


def windows_of(block: Block, condition: Condition = float_sum) -> Windows | Refusal:
    """Return the convolution that a block computes."""
    sums = sum_of_products(block)
    if sums is None:
        return Refusal("a nest does not sum products of two elements", unrelated=True)
    store, start, a, b = sums
    refusal, refusals = condition(store, start, (a, b), block), list[Refusal]()
    for weight, data in ((a, b), (b, a)):
        windows = _windows(block, store, weight, data) if refusal is None else refusal
        if windows:
            return windows
        if _has_windows(data, block):
            refusals.append(windows)
    return refused(refusals, "the products are not of weights and windows of data")


def _has_windows(data: BufferLoad, block: Block) -> bool:
    """True if an index depends on variables of the result and of the reduction: windows of pixels or channels."""
    kinds = {v.var: v.iter_type == "reduce" for v in block.iter_vars}
    return any(len({kinds[var] for var in free_vars(index) if var in kinds}) > 1 for index in data.indices)


def _windows(block: Block, store: BufferStore, weight: BufferLoad, data: BufferLoad) -> Windows | Refusal:
    by_var = {v.var: v for v in block.iter_vars}
    vars_ = [index for index in (*weight.indices, *store.indices) if isinstance(index, Var)]
    if not weight.indices or not plain(weight.buffer, weight.indices, block):
        return Refusal("the weights are not indexed by variables")
    if len(vars_) < len(weight.indices) + len(store.indices):
        return Refusal("the weights or the result have a constant index")
    if data.buffer.strides or data.buffer.elem_offset is not None:
        return Refusal("the data are a view with strides or an offset")
    outputs = [by_var[var] for var in vars_[len(weight.indices) :]]
    channel, *reduced = (by_var[var] for var in vars_[: len(weight.indices)])
    if channel not in outputs or len(outputs) + len(reduced) != len(block.iter_vars):
        return Refusal(_LAYOUT)
    if any(v.iter_type != "reduce" for v in reduced) or any(v.iter_type == "reduce" for v in outputs):
        return Refusal(_LAYOUT)
    place = outputs.index(channel)
    batch, pixels = tuple(outputs[:place]), outputs[place + 1 :]
    depth = reduced[: -len(pixels)] if pixels else []
    if not pixels or len(depth) > 1 or len(reduced) != len(depth) + len(pixels):
        return Refusal(_LAYOUT)
    return _with_data(store, weight, data, batch, channel, depth[0] if depth else None, pixels)


def _with_data(
    store: BufferStore,
    weight: BufferLoad,
    data: BufferLoad,
    batch: tuple[IterVar, ...],
    channel: IterVar,
    depth: IterVar | None,
    pixels: list[IterVar],
) -> Windows | Refusal:
    """Return the convolution if the data are indexed by batch, input channel and windows, in this order."""
    leading = len(batch) + (depth is not None)
    if len(data.indices) != leading + len(pixels):
        return Refusal(_LAYOUT)
    if any(simplify(at) is not v.var and not _both_zero(at, v) for at, v in zip(data.indices, batch, strict=False)):
        return Refusal(_LAYOUT)
    groups: int | PrimExpr = 1
    if depth is not None:
        groups = _groups(data.indices[len(batch)], data.buffer.shape[len(batch)], channel, depth)
        if isinstance(groups, int) and not groups:
            return Refusal("the groups have dynamic numbers of channels, or their channels are not consecutive")
    taps = [v for v in weight.indices[-len(pixels) :] if isinstance(v, Var)]
    axes: list[Axis] = []
    for d, (pixel, tap) in enumerate(zip(pixels, taps, strict=True)):
        tap_size = weight.buffer.shape[len(weight.indices) - len(pixels) + d]
        at, size = data.indices[leading + d], data.buffer.shape[leading + d]
        axis = axis_of(simplify(at), int64(size), pixel, tap, tap_size)
        if not axis:
            return axis
        axes.append(axis)
    return Windows(store, weight, data.buffer, batch, channel, depth, tuple(axes), groups, None)


def _both_zero(at: PrimExpr, v: IterVar) -> bool:
    return is_const(at, 0) and is_const(size_of(v), 1)


def _groups(at: PrimExpr, size: PrimExpr, channel: IterVar, depth: IterVar) -> int | PrimExpr:
    """Number of groups, from the relation of input to output channels; 0 if there is no such relation."""
    unit = is_const(size_of(depth), 1)
    at = simplify(substitute(at, {depth.var: const(0, depth.var.dtype)}) if unit else at)
    if at is depth.var or (unit and is_const(at, 0)):
        return 1
    total, inputs, outputs = size, size_of(depth), size_of(channel)
    if unit and at is channel.var and not isinstance(total, IntImm) and prove_equal(total, outputs) is Verdict.YES:
        return int64(total)
    if not (isinstance(total, IntImm) and isinstance(inputs, IntImm) and isinstance(outputs, IntImm)):
        return 0
    divisors: list[int] = []

    def visit(part: PrimExpr) -> None:
        if isinstance(part, FloorDiv) and part.a is channel.var and isinstance(part.b, IntImm):
            divisors.append(part.b.value)

    post_order(at, visit)
    per_group = divisors[0] if divisors else 1
    if per_group < 1 or outputs.value % per_group or total.value != outputs.value // per_group * inputs.value:
        return 0
    expected = floordiv(channel.var, per_group) * inputs.value
    expected = expected if unit else expected + depth.var
    return outputs.value // per_group if is_const(simplify(at - expected), 0) else 0


def axis_of(at: PrimExpr, size: PrimExpr, pixel: IterVar, tap: Var, taps: PrimExpr) -> Axis | Refusal:
    """Return the window axis of an index."""
    if not isinstance(taps, IntImm) or taps.value < 1:
        return Refusal("the number of taps of an axis is dynamic or 0")

    def value(p: int, t: int) -> PrimExpr:
        numbers = {pixel.var: const(p, pixel.var.dtype), tap: const(t, tap.dtype)}
        return simplify(substitute(at, numbers))

    first = value(0, 0)
    stride, dilation = simplify(value(1, 0) - first), simplify(value(0, 1) - first)
    other = Refusal("an index of the data is not of windows that move forward by constant steps")
    if not isinstance(stride, IntImm) or not isinstance(dilation, IntImm):
        return other
    steps = stride.value, dilation.value
    if is_const(size_of(pixel), 1) and steps[0] == 0:
        steps = 1, steps[1]
    if taps.value == 1 and steps[1] == 0:
        steps = steps[0], 1
    line = pixel.var * stride.value + tap * dilation.value + first
    if min(steps) < 1 or not _is_zero(at - line) or not isinstance(first, IntImm) or first.value < 0:
        return other
    last = (size_of(pixel) - 1) * stride.value + (taps.value - 1) * dilation.value + first.value
    if not prove(last < size):
        return Refusal("windows are not proved to end within the data")
    return Axis(pixel, taps.value, *steps, simplify(-int64(first)), size)


# ------------------------------------------------------------------------------------- padding


def _without_padding(windows: Windows, nest: Nest) -> Windows:
    """Read the data directly if `nest` is their zero padding; else return the convolution unchanged."""
    padding = padding_of(nest)
    if padding is None or padding.fill.value:
        return windows
    axes = padding.without(windows.axes)
    if axes is None:
        return windows
    return Windows(
        windows.out, windows.weight, padding.data, windows.batch, windows.channel, windows.depth, axes,
        windows.groups, padding.result,
    )  # fmt: skip


@dataclass(frozen=True)
class Padding:
    """Nest that pads data with a constant."""

    data: Buffer
    result: Buffer
    fill: FloatImm | IntImm
    before: tuple[int, ...]
    """Padding before the data, per dimension."""

    def without(self, axes: Sequence[Axis]) -> tuple[Axis, ...] | None:
        """Rewrite the last dimensions as axes of the unpadded data; None if other dimensions are padded."""
        leading = len(self.before) - len(axes)
        if leading < 0 or any(self.before[:leading]):
            return None
        sizes = zip(self.data.shape[:leading], self.result.shape[:leading], strict=True)
        if not all(is_const(simplify(int64(a) - int64(b)), 0) for a, b in sizes):
            return None
        return tuple(
            Axis(a.pixel, a.taps, a.stride, a.dilation, simplify(a.before + shift), int64(size))
            for a, shift, size in zip(axes, self.before[leading:], self.data.shape[leading:], strict=True)
        )


def padding_of(nest: Nest) -> Padding | None:
    """Return the padding that a spatial nest computes, or None."""
    store = nest.stores[0]
    parts = _choice(store.value)
    if parts is None:
        return None
    condition, source, fill = parts
    if not isinstance(source, BufferLoad) or not isinstance(fill, (FloatImm, IntImm)):
        return None
    data = source.buffer
    if data.strides or data.elem_offset is not None or data.dtype != store.buffer.dtype:
        return None
    if len(source.indices) != len(store.indices) or not _is_inside(condition, source):
        return None
    positions = zip(source.indices, store.indices, data.shape, strict=True)
    before = [_shift(at, position, size) for at, position, size in positions]
    if any(shift is None for shift in before):
        return None
    return Padding(data, store.buffer, fill, tuple(shift or 0 for shift in before))


def _choice(value: PrimExpr) -> tuple[PrimExpr, PrimExpr, PrimExpr] | None:
    match value:
        case Call(args=(condition, a, b)) if value.intrinsic == "if_then_else":
            return condition, a, b
        case Select(condition, a, b):
            return condition, a, b
        case _:
            return None


def _shift(at: PrimExpr, position: PrimExpr, size: PrimExpr) -> int | None:
    """Constant difference position - index, or None."""
    if is_const(at, 0) and is_const(size, 1):
        return 0
    difference = simplify(int64(position) - int64(at))
    return difference.value if isinstance(difference, IntImm) else None


def _is_inside(condition: PrimExpr, source: BufferLoad) -> bool:
    """True if a condition only says that the indices of a load are in bounds."""
    match condition:
        case And(a, b):
            return _is_inside(a, source) and _is_inside(b, source)
        case GE(a, b) | LE(b, a):
            return any(_is_zero(int64(at) - (int64(a) - int64(b))) for at in source.indices)
        case LT(a, b) | GT(b, a):
            rest = int64(b) - int64(a)
            bounds = zip(source.indices, source.buffer.shape, strict=True)
            return any(_is_zero(int64(size) - int64(at) - rest) for at, size in bounds)
        case _:
            return is_const(condition, 1)


def _is_zero(expr: PrimExpr) -> bool:
    return is_const(simplify(expr), 0)
