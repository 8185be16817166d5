"""Buffers, and the expressions that read them.

Buffer(data, dtype, shape, strides, elem_offset, scope)       an array in memory, named by identity
BufferLoad(buffer, indices, predicate?)      one element, or a vector, when the last index is one
Ramp(base, stride, lanes)        base, base + stride, …        Broadcast(value, lanes)
Shuffle(vectors, indices)        lanes of vectors, in the order of constant indices
Reduce(combiner, sources, axes, condition, value_index)        only in tensor expressions, before lowering
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, cast, final

from ..ir import DataType, Node, binder, child, label, node, set_slot, structural_equal
from ..prim import Add, IntImm, PrimExpr, Var, const, convert, dimensions, is_const, simplify
from ..prim.intrin import floordiv, tvm_access_ptr
from .scalar import ScalarOperators, as_tuple


@node
class Range(Node):
    """The integers from `min` up to, not including, `min + extent`.

    ``Range(begin, end)`` ends before `end`, ``Range(end)`` starts at 0; ``Range(min=..., extent=...)`` and
    `from_min_extent` give the number of integers.
    """

    min: PrimExpr = child(converter=convert)
    extent: PrimExpr = child(converter=convert)

    def __init__(
        self, begin: Any = None, end: Any = None, span: Any = None, *, min: Any = None, extent: Any = None
    ) -> None:
        if extent is None:
            if begin is None:
                raise TypeError("Range needs its end: Range(begin, end), Range(end) or Range(min=..., extent=...)")
            low, high = (None, convert(begin)) if end is None else (convert(begin), convert(end))
            for bound in (low, high):
                if bound is not None and not bound.dtype.is_integer:
                    raise TypeError(f"the bounds of a Range are integers, found {bound.dtype!s}")
            min = IntImm(high.dtype, 0) if low is None else low
            extent = high if low is None else extent_between(low, high)
        elif begin is not None or end is not None:
            raise TypeError("Range takes either begin and end, or min= and extent=")
        self.__fields_init__(0 if min is None else min, extent, span=span)

    def __post_init__(self) -> None:
        # A constant takes the dtype of the other bound, so that a range has one form.
        if self.min.dtype != self.extent.dtype:
            if isinstance(self.min, IntImm):
                set_slot(self, "min", IntImm(self.extent.dtype, self.min.value))
            elif isinstance(self.extent, IntImm):
                set_slot(self, "extent", IntImm(self.min.dtype, self.extent.value))

    @staticmethod
    def from_min_extent(min: Any, extent: Any, span: Any = None) -> Range:
        return Range(min=min, extent=extent, span=span)


def _shape(values: Any) -> tuple[PrimExpr, ...]:
    """Convert the sizes of a buffer (integer constants become int64); a single size is a shape of one dimension."""
    if isinstance(values, (PrimExpr, int)):
        values = (values,)
    return dimensions(values)


def _offset(value: Any) -> PrimExpr | None:
    """Convert an offset; zero becomes None, so that equal buffers have one representation."""
    offset = None if value is None else convert(value)
    return None if offset is None or is_const(offset, 0) else offset


@final
@node
class Buffer(Node):
    """An array in memory. `data` is the pointer variable; a buffer without strides is compact row-major.

    `elem_offset` counts elements from `data` (None: zero). `scope` is where it lives: global or local.
    `axis_separators` divide the dimensions into groups, each flattened by `FlattenBuffer` into one dimension: (1, 3)
    with shape (a, b, c, d) yields (a, b * c, d). The layout in CPU memory does not depend on them.
    """

    __is_variable__: ClassVar[bool] = True

    data: Var = binder()
    dtype: DataType = child(converter=DataType)
    shape: tuple[PrimExpr, ...] = child(converter=_shape)
    strides: tuple[PrimExpr, ...] = child(default=(), converter=_shape)
    elem_offset: PrimExpr | None = child(default=None, converter=_offset)
    name: str = label(default="buffer")
    scope: str = child(default="global")
    data_alignment: int = child(default=64)
    offset_factor: int = child(default=1)
    axis_separators: tuple[int, ...] = child(default=(), converter=tuple)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    __iter__: ClassVar[None] = None  # Python would try the indices one after the other

    def __getitem__(self, indices: Any) -> Any:
        """``buffer[i, j]`` reads an element; with slices, a BufferRegion."""
        items = as_tuple(indices)
        if any(isinstance(item, slice) and cast(Any, item).step is not None for item in items):
            return BufferLoad(self, vector_indices(self, items))
        if any(isinstance(item, slice) for item in items):
            return region_of(self, items)
        return BufferLoad(self, items)

    def vload(self, begin: Any, dtype: str | None = None, predicate: Any = None) -> BufferLoad:
        """Read a vector of `dtype` starting at `begin`, or the elements at a vector of indices.

        A lane whose predicate does not hold is not read, and is 0.
        """
        kind = DataType(dtype) if dtype is not None else self.dtype
        return BufferLoad(self, _lanes_from(begin, kind.lanes // self.dtype.lanes), predicate)

    def vstore(self, begin: Any, value: Any, predicate: Any = None) -> Any:
        """Return the statement that stores a vector starting at `begin`, or at a vector of indices.

        A lane whose predicate does not hold is not written.
        """
        vector = convert(value)
        indices = _lanes_from(begin, vector.dtype.lanes // self.dtype.lanes)
        (store,) = STORE
        return store(self, vector, indices, predicate)

    def offset_of(self, indices: Any) -> tuple[PrimExpr, ...]:
        """Return a tuple of one: the index of the element in the flattened buffer."""
        items = to_indices(indices)
        check_indices("offset_of", self, items)
        return (simplify(element_offset(self, items)),)

    def get_flattened_buffer(self) -> Buffer:
        """Return the same memory as a one-dimensional buffer; the buffer itself if it is one without strides."""
        if self.ndim == 1 and not self.strides:
            return self
        return self.replace(shape=(simplify(memory_extent(self)),), strides=(), axis_separators=())

    def access_ptr(
        self,
        access_mask: int | str,
        ptr_type: str = "handle",
        content_lanes: int = 1,
        offset: Any = 0,
        extent: Any = None,
    ) -> PrimExpr:
        """Return the pointer to the element `offset`, as an argument of call_extern.

        `access_mask` is "r", "w" or "rw"; `extent` is the number of accessed elements from `offset` on (None: all).
        """
        mask = access_mask if isinstance(access_mask, int) else _access_mask(access_mask)
        start, count = convert(offset), memory_extent(self)
        length = simplify(count - start) if extent is None else convert(extent)
        if content_lanes > 1:
            start, length = (simplify(floordiv(start, content_lanes)), simplify(floordiv(length, content_lanes)))
        if self.elem_offset is not None:
            base = self.elem_offset
            start = simplify((base if content_lanes == 1 else floordiv(base, content_lanes)) + start)
        kind = self.dtype.with_lanes(self.dtype.lanes * content_lanes)
        return tvm_access_ptr(kind, self.data, start, length, mask)


def _access_mask(text: str) -> int:
    masks = {"r": 1, "w": 2}
    if not text or set(text) - set(masks):
        raise ValueError(f'access_ptr: the access is "r", "w" or "rw", found {text!r}')
    return sum(masks[letter] for letter in set(text))


STORE: list[Callable[..., Node]] = []
"""The class BufferStore, appended by `relax.tir.stmt`, which imports this module."""


def _lanes_from(begin: Any, lanes: int) -> tuple[PrimExpr, ...]:
    """Return the indices of `lanes` adjacent elements of the last dimension; a vector of indices stays unchanged."""
    items = to_indices(begin)
    if lanes <= 1 or (items and items[-1].dtype.lanes > 1):
        return items
    return (*items[:-1], Ramp(items[-1], convert(1).astype(items[-1].dtype), lanes))


def strides_of(buffer: Buffer) -> tuple[PrimExpr, ...]:
    """Return the strides in elements of each dimension; those of a compact row-major array if the buffer has none."""
    return buffer.strides or row_major(buffer.shape)


def row_major(shape: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
    """Return the strides in elements of a compact row-major array."""
    strides: list[PrimExpr] = []
    step: PrimExpr = const(1, "int64")
    for size in reversed(shape):
        strides.append(step)
        step = size if is_const(step, 1) else step * size
    return tuple(reversed(strides))


def element_offset(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
    """Return the offset, in elements, of the element at `indices` from the buffer's pointer."""
    offset = buffer.elem_offset
    for index, stride in zip(indices, strides_of(buffer), strict=True):
        term = index if is_const(stride, 1) else index * stride
        offset = term if offset is None else offset + term
    return const(0, "int64") if offset is None else offset


def element_count(buffer: Buffer) -> PrimExpr:
    """Return the number of elements of a buffer without gaps."""
    return product(buffer.shape)


def product(sizes: Iterable[PrimExpr]) -> PrimExpr:
    """Return the product of sizes."""
    count: PrimExpr = const(1, "int64")
    for size in sizes:
        count = size if is_const(count, 1) else count * size
    return count


def axis_groups(buffer: Buffer) -> list[range]:
    """Return the groups of dimensions between the axis separators of a buffer."""
    ends = [0, *buffer.axis_separators, buffer.ndim]
    return [range(first, end) for first, end in itertools.pairwise(ends)]


def memory_extent(buffer: Buffer) -> PrimExpr:
    """Return the number of elements from the first to the end of a buffer, including gaps between strides."""
    return buffer.shape[0] * buffer.strides[0] if buffer.strides else element_count(buffer)


def zero_of(dtype: DataType) -> PrimExpr:
    """Return zero; for a vector dtype, zero in every lane."""
    zero = const(0, dtype.element_of)
    return zero if dtype.lanes == 1 else Broadcast(zero, dtype.lanes)


def decl_buffer(
    shape: Any,
    dtype: str = "float32",
    name: str = "buffer",
    data: Var | None = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    data_alignment: int = 64,
    offset_factor: int = 1,
    axis_separators: Iterable[int] | None = None,
) -> Buffer:
    """Create a buffer, with a new data variable unless `data` is given. Raises TypeError if `data` is no variable."""
    pointer = data if data is not None else Var(name, "handle")
    if not isinstance(pointer, Var):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"the data of a buffer is a variable, found {type(pointer).__name__}")
    return Buffer(
        pointer,
        dtype,
        shape,
        () if strides is None else strides,
        elem_offset,
        name,
        scope or "global",
        data_alignment,
        offset_factor,
        tuple(axis_separators or ()),
    )


def shape_vars_bound_by(buffer: Buffer) -> Iterator[Var]:
    """Yield the variables that a parameter's buffer binds: each size, stride or offset that is a single variable."""
    for size in (*buffer.shape, *buffer.strides, buffer.elem_offset):
        if isinstance(size, Var):
            yield size


@node
class BufferRegion(Node):
    """A box of a buffer: one Range per dimension."""

    buffer: Buffer
    region: tuple[Range, ...] = child(converter=tuple)

    def asobject(self) -> PrimExpr:
        """Return the elements of the region as a vector: a slice of static length in the last dimension.

        Raises TypeError for a region that has several elements along another dimension.
        """
        *outer, last = self.region
        if any(not is_const(r.extent, 1) for r in outer):
            raise TypeError(f"a vector of buffer {self.buffer.name} is a slice of its last dimension only")
        return BufferLoad(self.buffer, (*(r.min for r in outer), vector_index(self.buffer, last.min, last.extent)))


def extent_between(start: PrimExpr, stop: PrimExpr) -> PrimExpr:
    """Return stop - start; for ``start : start + extent``, return `extent` unchanged."""
    if isinstance(start, IntImm) and start.dtype != stop.dtype and stop.dtype.is_integer:
        start = IntImm(stop.dtype, start.value)
    if isinstance(stop, IntImm) and stop.dtype != start.dtype and start.dtype.is_integer:
        stop = IntImm(start.dtype, stop.value)
    if is_const(start, 0):
        return stop
    if isinstance(stop, Add) and structural_equal(stop.a, start):
        return stop.b
    return simplify(stop - start)


def region_of(buffer: Buffer, items: Iterable[Any]) -> BufferRegion:
    """Return the region of ``buffer[items]``: slices are ranges, indices are ranges of extent 1.

    Raises ValueError for a slice with a step.
    """
    ranges: list[Range] = []
    for item, size in zip(items, buffer.shape, strict=False):
        if isinstance(item, slice):
            ends = cast(Any, item)
            if ends.step is not None:
                raise ValueError(f"a region of buffer {buffer.name} has no step")
            start = convert(0 if ends.start is None else ends.start)
            stop = convert(size if ends.stop is None else ends.stop)
            ranges.append(Range(start, stop))
        elif isinstance(item, Range):
            ranges.append(item)
        else:
            index = convert(item)
            ranges.append(Range.from_min_extent(index, convert(1).astype(index.dtype.element_of)))
    return BufferRegion(buffer, tuple(ranges))


def vector_index(buffer: Buffer, start: PrimExpr, extent: PrimExpr, step: Any = None) -> PrimExpr:
    """Return the indices ``start, start + step, …`` below ``start + extent``, as a Ramp.

    Raises TypeError if their number is not a constant.
    """
    stride = IntImm(start.dtype, 1) if step is None else convert(step)
    number = simplify(floordiv(extent + (stride - 1), stride))
    if not isinstance(stride, IntImm) or stride.value <= 0 or not isinstance(number, IntImm) or number.value <= 0:
        raise TypeError(f"a vector of buffer {buffer.name} has a constant number of elements, found {number}")
    return start if number.value == 1 else Ramp(start, stride.astype(start.dtype), number.value)


def vector_indices(buffer: Buffer, items: Iterable[Any]) -> tuple[PrimExpr, ...]:
    """Convert subscripts to indices; a slice becomes the vector of its indices."""
    indices: list[PrimExpr] = []
    for item, size in zip(items, buffer.shape, strict=False):
        if isinstance(item, slice):
            ends = cast(Any, item)
            bounds = Range(0 if ends.start is None else ends.start, size if ends.stop is None else ends.stop)
            indices.append(vector_index(buffer, bounds.min, bounds.extent, ends.step))
        else:
            indices.append(convert(item))
    return tuple(indices)


def to_indices(values: Any) -> tuple[PrimExpr, ...]:
    """Convert subscripts to expressions; a single one becomes a tuple of one."""
    return tuple(convert(item) for item in as_tuple(values))


def optional(value: Any) -> PrimExpr | None:
    """Convert a value to an expression, unless it is None."""
    return None if value is None else convert(value)


@final
@node
class BufferLoad(PrimExpr):
    """The element of `buffer` at `indices`. Raises ValueError for a wrong number of indices.

    If the last index is a vector, so is the value; the other indices may be vectors with the same number of lanes, or
    scalars. `predicate`, a vector of bool, selects the lanes that are read; other lanes are 0, and their indices may be
    out of range.
    """

    buffer: Buffer
    indices: tuple[PrimExpr, ...] = child(converter=to_indices)
    predicate: PrimExpr | None = child(default=None, converter=optional)

    def __post_init__(self) -> None:
        check_indices("BufferLoad", self.buffer, self.indices, self.predicate)
        lanes = self.indices[-1].dtype.lanes if self.indices else 1
        set_slot(self, "dtype", self.buffer.dtype.with_lanes(lanes * self.buffer.dtype.lanes))


def check_indices(
    subject: str, buffer: Buffer, indices: tuple[PrimExpr, ...], predicate: PrimExpr | None = None
) -> None:
    """Raise ValueError for a wrong number of subscripts, TypeError for one that is no integer, or of wrong lanes."""
    if len(indices) != len(buffer.shape):
        raise ValueError(
            f"{subject}: buffer {buffer.name} has {len(buffer.shape)} dimensions, found {len(indices)} indices"
        )
    for index in indices:
        if not (index.dtype.is_integer or index.dtype.is_bool):
            raise TypeError(
                f"{subject}: an index of buffer {buffer.name} has dtype {index.dtype!s}, expected an integer"
            )
    lanes = indices[-1].dtype.lanes if indices else 1
    for index in indices[:-1]:
        if index.dtype.lanes not in (1, lanes):
            raise TypeError(
                f"{subject}: an index of buffer {buffer.name} has {index.dtype.lanes} lanes, the last one has {lanes}"
            )
    if predicate is not None and (lanes == 1 or predicate.dtype != DataType("bool").with_lanes(lanes)):
        wanted = "no predicate without a vector of indices" if lanes == 1 else f"boolx{lanes}"
        raise TypeError(f"{subject}: the predicate has dtype {predicate.dtype!s}, expected {wanted}")


@final
@node
class Ramp(PrimExpr):
    """The vector base, base + stride, …, base + (lanes - 1) * stride."""

    base: PrimExpr = child(converter=convert)
    stride: PrimExpr = child(converter=convert)
    lanes: int = child(converter=operator.index)

    def __post_init__(self) -> None:
        set_slot(self, "dtype", self.base.dtype.with_lanes(self.lanes))


@final
@node
class Broadcast(PrimExpr):
    """A vector of `lanes` equal elements."""

    value: PrimExpr = child(converter=convert)
    lanes: int = child(converter=operator.index)

    def __post_init__(self) -> None:
        set_slot(self, "dtype", self.value.dtype.with_lanes(self.lanes))


def _lane_numbers(value: Any) -> tuple[IntImm, ...]:
    numbers = tuple(convert(item) for item in as_tuple(value))
    if not all(isinstance(number, IntImm) for number in numbers):
        raise TypeError("Shuffle: the indices are constant integers")
    return cast("tuple[IntImm, ...]", numbers)


@final
@node
class Shuffle(PrimExpr):
    """Select lanes of the concatenation of `vectors` by `indices`.

    The vectors have the same element type; a scalar is a vector of one lane. Raises TypeError for indices that are no
    constants, ValueError for indices out of range.
    """

    vectors: tuple[PrimExpr, ...] = child(converter=to_indices)
    indices: tuple[IntImm, ...] = child(converter=_lane_numbers)

    def __post_init__(self) -> None:
        kinds = {vector.dtype.element_of for vector in self.vectors}
        if len(kinds) != 1:
            dtypes = ", ".join(str(vector.dtype) for vector in self.vectors) or "none"
            raise TypeError(f"Shuffle: expected vectors of one element type, found {dtypes}")
        count = sum(max(vector.dtype.lanes, 1) for vector in self.vectors)
        for index in self.indices:
            if not 0 <= index.value < count:
                raise ValueError(f"Shuffle: lane {index.value} of {count}")
        if not self.indices:
            raise ValueError("Shuffle: expected at least one index")
        set_slot(self, "dtype", DataType(kinds.pop()).with_lanes(len(self.indices)))


def _constant(bound: PrimExpr, dtype: DataType) -> PrimExpr:
    """Convert a constant to another integer dtype; other expressions stay unchanged."""
    if isinstance(bound, IntImm) and bound.dtype != dtype and dtype.is_integer:
        return IntImm(dtype, bound.value)
    return bound


def _domain(value: Any) -> Range | None:
    """Convert the domain of an IterVar: a Range, or its begin and end."""
    if value is None or isinstance(value, Range):
        return value
    bounds = as_tuple(value)
    if len(bounds) > 2:
        raise TypeError(f"the domain of an IterVar is a Range or (begin, end), found {value!s}")
    return Range(*bounds)


_ITER_TYPES: dict[Any, str] = {
    0: "spatial", 1: "thread", 2: "reduce", 3: "scan", 4: "opaque",
    "DataPar": "spatial", "ThreadIndex": "thread", "CommReduce": "reduce", "Ordered": "scan", "Opaque": "opaque",
}  # fmt: skip


def _iter_type(value: Any) -> str:
    kind = value if value in _ITER_TYPES.values() else _ITER_TYPES.get(value)
    if kind is None:
        raise ValueError(f"an IterVar is spatial, reduce, scan, opaque or thread, found {value!r}")
    return kind


@final
@node
class IterVar(ScalarOperators, Node):
    """A variable that ranges over a domain. Kinds: spatial (data-parallel), reduce, scan (ordered), opaque, thread.

    The domain may be given as ``(begin, end)``, the variable by its name, the kind by TVM's number or name. An IterVar
    used as a scalar denotes its variable.
    """

    DataPar: ClassVar[str] = "spatial"
    ThreadIndex: ClassVar[str] = "thread"
    CommReduce: ClassVar[str] = "reduce"
    Ordered: ClassVar[str] = "scan"
    DimInfo: ClassVar[str] = "opaque"
    Opaque: ClassVar[str] = "opaque"

    dom: Range | None = child(converter=_domain)
    var: Var = binder()
    iter_type: str = child(default="spatial", converter=_iter_type)
    thread_tag: str = child(default="")
    """Thread index that the variable is bound to, such as ``threadIdx.x``."""

    def __post_init__(self) -> None:
        if not isinstance(self.var, Var):  # pyright: ignore[reportUnnecessaryIsInstance]
            set_slot(self, "var", Var(self.var, "int32" if self.dom is None else self.dom.extent.dtype))
        if self.dom is not None:
            bounds = (_constant(self.dom.min, self.var.dtype), _constant(self.dom.extent, self.var.dtype))
            set_slot(self, "dom", self.dom.replace(min=bounds[0], extent=bounds[1]))

    @property
    def name(self) -> str:
        return self.var.name

    @property
    def dtype(self) -> DataType:
        return self.var.dtype

    def asobject(self) -> PrimExpr:
        """The variable."""
        return self.var


@final
@node
class CommReducer(Node):
    """A reduction: from `lhs` (so far) and `rhs` (next) to `result`, starting at `identity_element`."""

    lhs: tuple[Var, ...] = binder(converter=tuple)
    rhs: tuple[Var, ...] = binder(converter=tuple)
    result: tuple[PrimExpr, ...] = child(converter=to_indices)
    identity_element: tuple[PrimExpr, ...] = child(converter=to_indices)


@final
@node
class Reduce(PrimExpr):
    """Reduction of `source` over `axis` where `condition` holds; `value_index` selects one of its results."""

    combiner: CommReducer
    source: tuple[PrimExpr, ...] = child(converter=to_indices)
    axis: tuple[IterVar, ...] = binder(converter=as_tuple)
    condition: PrimExpr = child(converter=convert)
    value_index: int = child(default=0)
    init: tuple[PrimExpr, ...] = child(default=(), converter=to_indices)

    def __post_init__(self) -> None:
        set_slot(self, "dtype", self.source[self.value_index].dtype)
