"""Memory in lockstep: bounds-checked accesses, and detection of dependences between iterations.

An iteration depends on another iteration of the same loop that writes an element it reads or writes. Dependences are
detected after the loop has run: a `Level` records the accesses to written memory, and raises `Conflict` if an element
was written by one iteration and accessed by another. The loop then runs one iteration after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from ...ir import DataType, Node
from ..evaluation import View
from ..stmt import BufferStore, For
from .values import Array, Decline, held_dtype, is_array, numpy

LARGEST: Final = 1 << 22
"""Largest number of elements allocated for all iterations together."""
MOST_NOTED: Final = 1 << 20
"""Largest number of recorded accesses before they are checked."""


class Conflict(Exception):
    """Raised if iterations of `loop` depend on each other."""

    def __init__(self, loop: For) -> None:
        super().__init__(loop.loop_var.name)
        self.loop = loop


class Memory:
    """A piece of memory, allocated inside `depth` lockstep loops: it has a separate part for each of their
    iterations.
    """

    __slots__ = ("array", "depth", "lanes", "shadows", "written")

    def __init__(self, array: Array, depth: int, written: bool) -> None:
        self.array, self.depth, self.written = array, depth, written
        self.lanes = 0
        """Lanes of the elements that buffers view in the memory; 0 before the first view."""
        self.shadows: dict[For, _Shadow] = {}


class _Shadow:
    """The last writer and reader of each element, and the run (`start`) of the loop in which several iterations read
    it.
    """

    __slots__ = ("readers", "several", "writers")

    def __init__(self, size: int) -> None:
        self.writers, self.readers, self.several = (np.full(size, -1, np.int64) for _ in range(3))

    def check(self, start: int, writes: _Accesses, reads: _Accesses, last: bool) -> bool:
        """Return False if an element is written by one iteration and accessed by another; iterations count from
        `start`.

        Without `last`, reads are recorded for later writes.
        """
        for at, by in writes:
            if _by_others(self.writers[at], start, by).any() or _by_others(self.readers[at], start, by).any():
                return False
            self.writers[at] = by
            if (self.writers[at] != by).any() or (self.several[at] == start).any():
                return False
        for at, by in reads:
            if _by_others(self.writers[at], start, by).any():
                return False
            if not last:
                by_others = _by_others(self.readers[at], start, by)
                self.readers[at] = by
                self.several[at[by_others | (self.readers[at] != by)]] = start
        return True


_Accesses: TypeAlias = "list[tuple[Array, Array]]"
"""Pairs of arrays: positions, and the number of the iteration that accesses each."""


def _by_others(noted: Array, start: int, numbers: Array) -> Array:
    return (noted >= start) & (noted != numbers)


Access: TypeAlias = "tuple[Node, Array | None]"
"""A load or store, and its lanes' distances from the first lane's element, if equal in all iterations."""


class Row:
    """The lanes of a ramp with constant stride `step`, the last index of an access."""

    __slots__ = ("lanes", "reach", "step", "steps")

    def __init__(self, lanes: int, step: int) -> None:
        self.lanes, self.step = lanes, step
        self.reach = (lanes - 1) * step
        self.steps: Array = np.arange(lanes) * step

    def part(self, run: Lockstep, view: BufferView, firsts: Sequence[Any]) -> slice | None:
        """The elements as a slice, if they are the same in all iterations; `firsts` are the first lane's indices.

        `firsts` are the indices of the first lane. Raises Decline outside of the shape.
        """
        if run.mask is not None or is_array(view.offset) or (run.levels and view.memory.written):
            return None
        if view.lanes > 1 or any(map(is_array, firsts)):
            return None
        distance = view.strides[-1] * self.step
        start = view.position(firsts, None, self.reach)
        return slice(start, start + (self.lanes - 1) * distance + 1, distance) if distance > 0 else None


class Level:
    """A loop in lockstep, and the accesses of its iterations, which are numbered from `start` (larger in each run)."""

    __slots__ = ("_last", "_noted", "_size", "loop", "numbers", "start")

    def __init__(self, loop: For, start: int, numbers: Array) -> None:
        self.loop, self.start, self.numbers = loop, start, numbers
        self._last: dict[tuple[Node, int], Any] = {}
        self._noted: dict[Memory, tuple[_Accesses, _Accesses]] = {}
        self._size = 0

    def note(self, access: Access, memory: Memory, position: Any, shape: tuple[int, ...], active: Array | None) -> None:
        """Record the elements that an access touches in all iterations and lanes; `shape` is their shape."""
        node, along = access
        if active is None:
            key = node, 0 if along is None else int(along[-1])
            last = self._last.get(key)
            if last is not None and numpy.shape(last) == numpy.shape(position) and np.all(last == position):
                return
            self._last[key] = position
        full: Array = np.zeros(shape, np.int64)
        positions = full + (position if along is None else position + along)
        numbers = full + self.numbers
        if active is not None:
            where = active & (full == 0)
            positions, numbers = positions[where], numbers[where]
        noted = self._noted.setdefault(memory, ([], []))
        noted[0 if isinstance(node, BufferStore) else 1].append((positions.ravel(), numbers.ravel()))
        self._size += positions.size
        if self._size > MOST_NOTED:
            self.settle(last=False)

    def settle(self, last: bool) -> None:
        """Check the recorded accesses. Raises Conflict."""
        noted, self._noted, self._size = self._noted, {}, 0
        for memory, (writes, reads) in noted.items():
            shadow = memory.shadows.get(self.loop)
            if shadow is None:
                shadow = memory.shadows[self.loop] = _Shadow(len(memory.array))
            if not shadow.check(self.start, writes, reads, last):
                raise Conflict(self.loop)


class BufferView:
    """A buffer's view of memory. Offsets and strides are in elements, those of vectors in whole vectors."""

    __slots__ = ("data", "dtype", "held", "lanes", "memory", "offset", "shape", "strides", "wide")

    def __init__(
        self, memory: Memory, data: Array, dtype: DataType, shape: Sequence[int], strides: Sequence[int], offset: Any
    ) -> None:
        self.memory, self.data, self.dtype = memory, data, dtype
        self.shape, self.strides, self.offset = shape, strides, offset
        self.lanes = dtype.lanes
        self.held = held_dtype(dtype)
        self.wide = self.held != data.dtype
        """True if elements are converted when they are loaded."""

    def position(self, values: Sequence[Any], active: Array | None, reach: int = 0) -> Any:
        """Return the position of an element in each iteration and lane. Raises Decline outside of the shape.

        In the last dimension, the element at distance `reach` must be inside, too.
        """
        position = self.offset
        sizes = [*self.shape[:-1], self.shape[-1] - reach] if reach else self.shape
        for value, size, stride in zip(values, sizes, self.strides, strict=True):
            if is_array(value):
                value = value.astype(np.int64)
                if value.view(np.uint64).max() >= size:  # a negative one is a great one without its sign
                    outside = (value < 0) | (value >= size)
                    if active is None or (outside & active).any():
                        raise Decline
                    value = numpy.where(outside, 0, value)
            elif not 0 <= value < size:
                raise Decline
            position = position + (value if stride == 1 else value * stride)
        return position

    def elements(self, position: Any) -> Any:
        """Load the values at positions: a Python scalar for a single position of a scalar buffer, else an array."""
        if self.lanes > 1:
            position = position * self.lanes + np.arange(self.lanes)
        elif not is_array(position):
            return self.data[position].item()
        loaded = self.data[position]
        return loaded.astype(self.held) if self.wide else loaded


class Lockstep:
    """The state of a lockstep execution: active iterations, and accessed memory."""

    __slots__ = (
        "axes", "bases", "clock", "env", "kept", "levels", "mask", "memories", "places", "sequential", "size",
    )  # fmt: skip

    def __init__(self, env: dict[Node, Any], sequential: set[For]) -> None:
        self.env = env
        self.sequential = sequential
        """Loops whose iterations were found to depend on each other."""
        self.axes: tuple[int, ...] = ()
        """Iteration counts of the lockstep loops, from the innermost to the outermost."""
        self.size = 1
        """The product of `axes`."""
        self.levels: tuple[Level, ...] = ()
        """The lockstep loops, from the outermost to the innermost."""
        self.mask: Array | None = None
        """Iterations in which the current statement runs; None for all."""
        self.clock = 0
        self.places: dict[Node, BufferView] = {}
        self.memories: dict[Node, Memory] = {}
        """Memory of each data variable."""
        self.bases: dict[Node, tuple[Any, int]] = {}
        """First element of each iteration's part of allocated memory, and the part's number of elements."""
        self.kept: dict[Node, tuple[Any, Array | None]] = {}

    def place(self, buffer: Any) -> BufferView:
        """The place of a buffer, from the environment if it comes from outside."""
        buffer_view = self.places.get(buffer)
        if buffer_view is None:
            view: View = self.env[buffer]
            try:
                view.require_inside("")
            except (ValueError, MemoryError):
                raise Decline from None
            memory = self.memories[buffer.data]
            buffer_view = BufferView(memory, view.memory, view.dtype, view.shape, view.strides, view.offset)
            self.put(buffer, buffer_view)
        return buffer_view

    def put(self, buffer: Any, view: BufferView) -> None:
        """Set the place of a buffer. Written memory is seen as elements of one size, which shadows count."""
        memory = view.memory
        memory.lanes = memory.lanes or view.lanes
        if memory.written and (memory.array.itemsize, memory.lanes) != (view.data.itemsize, view.lanes):
            raise Decline
        self.places[buffer] = view

    def note(self, access: Access, view: BufferView, position: Any, lanes: int, active: Array | None) -> None:
        """Note an access for all loops that share the memory."""
        memory = view.memory
        if memory.written:
            for level in self.levels[memory.depth :]:
                level.note(access, memory, position, (*self.axes, lanes), active)

    def settle(self) -> None:
        """Check all recorded accesses, after which loaded values are final. Raises Conflict."""
        for level in self.levels:
            level.settle(last=False)

    def position(
        self, node: Node, view: BufferView, indices: Sequence[Any], lanes: int, active: Array | None, row: Row | None
    ) -> Any:
        """Return the positions of an access, which is recorded. With `row`, the indices are those of its first lane."""
        if row is None:
            position = view.position(indices, active)
            self.note((node, None), view, position, lanes, active)
            return position
        position, along = view.position(indices, active, row.reach), row.steps * view.strides[-1]
        self.note((node, along), view, position, lanes, active)
        return position + along

    def load(
        self,
        node: Node,
        view: BufferView,
        indices: Sequence[Any],
        lanes: int,
        active: Array | None,
        row: Row | None = None,
    ) -> Any:
        """Load the elements at `indices`; inactive lanes have arbitrary values."""
        return view.elements(self.position(node, view, indices, lanes, active, row))

    def store(
        self,
        node: Node,
        view: BufferView,
        indices: Sequence[Any],
        lanes: int,
        active: Array | None,
        value: Any,
        row: Row | None = None,
    ) -> None:
        """Store the elements at `indices` of active lanes."""
        position = self.position(node, view, indices, lanes, active, row)
        width = view.lanes
        if width > 1:
            position = position * width + np.arange(width)
            lanes = width
        if not self.axes and active is None and lanes == 1 and not is_array(value) and not is_array(position):
            view.data[position] = value
            return
        full: Array = np.zeros((*self.axes, lanes), np.int64)
        positions = np.add(full, position, order="C")  # of lanes that write one element, the last one is the last
        if active is not None:
            where = active & (full == 0)
            positions = positions[where]
            value = np.broadcast_to(value, full.shape)[where] if is_array(value) else value
        view.data[positions] = value


def address(array: Array) -> tuple[int, int]:
    """Return the first address of an array, and the end of its bytes."""
    start = int(array.__array_interface__["data"][0])
    return start, start + array.nbytes
