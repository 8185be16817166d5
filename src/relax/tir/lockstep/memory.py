"""Memory in lockstep: checked positions, and the proof that iterations do not depend on each other.

An iteration that reads or writes an element which another iteration of the same loop writes depends on it. That is
found out when the loop has run: a `Level` notes the accesses to written memory, and raises `Conflict` if an element was
written by one iteration and touched by another. The loop then runs one iteration after the other.
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
"""Elements of storage that is allocated for all iterations at once."""
MOST_NOTED: Final = 1 << 20
"""Accesses that are kept before they are checked."""


class Conflict(Exception):
    """Iterations of `loop` depend on each other."""

    def __init__(self, loop: For) -> None:
        super().__init__(loop.loop_var.name)
        self.loop = loop


class Memory:
    """A piece of memory, allocated in `depth` loops in lockstep: it has a part for each of their iterations."""

    __slots__ = ("array", "depth", "lanes", "shadows", "written")

    def __init__(self, array: Array, depth: int, written: bool) -> None:
        self.array, self.depth, self.written = array, depth, written
        self.lanes = 0
        """Those of the elements that buffers see in it, once there is one."""
        self.shadows: dict[For, _Shadow] = {}


class _Shadow:
    """For each element the last iteration that wrote and read it, and the run of the loop in which several read it."""

    __slots__ = ("readers", "several", "writers")

    def __init__(self, size: int) -> None:
        self.writers, self.readers, self.several = (np.full(size, -1, np.int64) for _ in range(3))

    def check(self, start: int, writes: _Accesses, reads: _Accesses, last: bool) -> bool:
        """False if an element is written by one iteration and touched by another; iterations count from `start`.

        Without `last`, reads are kept for writes to come.
        """
        for at, by in writes:
            if _others(self.writers[at], start, by).any() or _others(self.readers[at], start, by).any():
                return False
            self.writers[at] = by
            if (self.writers[at] != by).any() or (self.several[at] == start).any():
                return False
        for at, by in reads:
            if _others(self.writers[at], start, by).any():
                return False
            if not last:
                others = _others(self.readers[at], start, by)
                self.readers[at] = by
                self.several[at[others | (self.readers[at] != by)]] = start
        return True


_Accesses: TypeAlias = "list[tuple[Array, Array]]"
"""Positions, and the number of the iteration that touches each."""


def _others(noted: Array, start: int, numbers: Array) -> Array:
    return (noted >= start) & (noted != numbers)


Access: TypeAlias = "tuple[Node, Array | None]"
"""A load or store, and the distances of the lanes' elements from the first one's if all iterations have the same."""


class Row:
    """The lanes of a ramp, the last index of an access, whose distance `step` is a constant."""

    __slots__ = ("lanes", "reach", "step", "steps")

    def __init__(self, lanes: int, step: int) -> None:
        self.lanes, self.step = lanes, step
        self.reach = (lanes - 1) * step
        self.steps: Array = np.arange(lanes) * step

    def part(self, run: Lockstep, place: BufferView, firsts: Sequence[Any]) -> slice | None:
        """The elements as a slice, if they are the same in all iterations; `firsts` are the first lane's indices.

        Raises Decline outside of the shape.
        """
        if run.mask is not None or is_array(place.offset) or (run.levels and place.memory.written):
            return None
        if place.lanes > 1 or any(map(is_array, firsts)):
            return None
        distance = place.strides[-1] * self.step
        start = place.position(firsts, None, self.reach)
        return slice(start, start + (self.lanes - 1) * distance + 1, distance) if distance > 0 else None


class Level:
    """A loop in lockstep, and what its iterations touched. They count from `start`, which grows with each run."""

    __slots__ = ("_last", "_noted", "_size", "loop", "numbers", "start")

    def __init__(self, loop: For, start: int, numbers: Array) -> None:
        self.loop, self.start, self.numbers = loop, start, numbers
        self._last: dict[tuple[Node, int], Any] = {}
        self._noted: dict[Memory, tuple[_Accesses, _Accesses]] = {}
        self._size = 0

    def note(
        self, access: Access, memory: Memory, position: Any, shape: tuple[int, ...], active: Array | None
    ) -> None:
        """Note the elements that an access touches in all iterations and lanes, which make `shape`."""
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
        """Check what was noted. Raises Conflict."""
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
        self,
        memory: Memory,
        data: Array,
        dtype: DataType,
        shape: Sequence[int],
        strides: Sequence[int],
        offset: Any,
    ) -> None:
        self.memory, self.data, self.dtype = memory, data, dtype
        self.shape, self.strides, self.offset = shape, strides, offset
        self.lanes = dtype.lanes
        self.held = held_dtype(dtype)
        self.wide = self.held != data.dtype
        """True if elements are converted when they are read."""

    def position(self, values: Sequence[Any], active: Array | None, reach: int = 0) -> Any:
        """The position of an element in each iteration and lane. Raises Decline outside of the shape.

        In the last dimension, the element `reach` further has to be inside as well.
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
        """The values at positions: a Python scalar at one, unless it is a vector's."""
        if self.lanes > 1:
            position = position * self.lanes + np.arange(self.lanes)
        elif not is_array(position):
            return self.data[position].item()
        found = self.data[position]
        return found.astype(self.held) if self.wide else found


class Lockstep:
    """The iterations at work, and the memory they touch."""

    __slots__ = (
        "axes", "bases", "clock", "env", "kept", "levels", "mask", "memories", "places", "sequential", "size",
    )  # fmt: skip

    def __init__(self, env: dict[Node, Any], sequential: set[For]) -> None:
        self.env = env
        self.sequential = sequential
        """Loops whose iterations were found to depend on each other."""
        self.axes: tuple[int, ...] = ()
        """The iterations of the loops in lockstep, the innermost loop first."""
        self.size = 1
        """Their product."""
        self.levels: tuple[Level, ...] = ()
        """The loops, the outermost one first."""
        self.mask: Array | None = None
        """The iterations in which the statement runs, None for all."""
        self.clock = 0
        self.places: dict[Node, BufferView] = {}
        self.memories: dict[Node, Memory] = {}
        """The memory of data variables."""
        self.bases: dict[Node, tuple[Any, int]] = {}
        """Of allocated memory, the first element of each iteration's part, and their count."""
        self.kept: dict[Node, tuple[Any, Array | None]] = {}

    def place(self, buffer: Any) -> BufferView:
        """The place of a buffer, from the environment if it comes from outside."""
        place = self.places.get(buffer)
        if place is None:
            view: View = self.env[buffer]
            try:
                view.require_inside("")
            except (ValueError, MemoryError):
                raise Decline from None
            memory = self.memories[buffer.data]
            place = BufferView(memory, view.memory, view.dtype, view.shape, view.strides, view.offset)
            self.put(buffer, place)
        return place

    def put(self, buffer: Any, place: BufferView) -> None:
        """Set the place of a buffer. Written memory is seen as elements of one size, which shadows count."""
        memory = place.memory
        memory.lanes = memory.lanes or place.lanes
        if memory.written and (memory.array.itemsize, memory.lanes) != (place.data.itemsize, place.lanes):
            raise Decline
        self.places[buffer] = place

    def note(
        self, access: Access, place: BufferView, position: Any, lanes: int, active: Array | None
    ) -> None:
        """Note an access for all loops that share the memory."""
        memory = place.memory
        if memory.written:
            for level in self.levels[memory.depth :]:
                level.note(access, memory, position, (*self.axes, lanes), active)

    def settle(self) -> None:
        """Check all accesses up to here: values that are read now are right. Raises Conflict."""
        for level in self.levels:
            level.settle(last=False)

    def position(
        self,
        node: Node,
        place: BufferView,
        indices: Sequence[Any],
        lanes: int,
        active: Array | None,
        row: Row | None,
    ) -> Any:
        """The positions of an access, noted. With `row`, the indices are those of its first lane."""
        if row is None:
            position = place.position(indices, active)
            self.note((node, None), place, position, lanes, active)
            return position
        position, along = place.position(indices, active, row.reach), row.steps * place.strides[-1]
        self.note((node, along), place, position, lanes, active)
        return position + along

    def load(
        self,
        node: Node,
        place: BufferView,
        indices: Sequence[Any],
        lanes: int,
        active: Array | None,
        row: Row | None = None,
    ) -> Any:
        """The elements at `indices`; anything where not active."""
        return place.elements(self.position(node, place, indices, lanes, active, row))

    def store(
        self,
        node: Node,
        place: BufferView,
        indices: Sequence[Any],
        lanes: int,
        active: Array | None,
        value: Any,
        row: Row | None = None,
    ) -> None:
        """Write the elements at `indices` where active."""
        position = self.position(node, place, indices, lanes, active, row)
        width = place.lanes
        if width > 1:
            position = position * width + np.arange(width)
            lanes = width
        if not self.axes and active is None and lanes == 1 and not is_array(value) and not is_array(position):
            place.data[position] = value
            return
        full: Array = np.zeros((*self.axes, lanes), np.int64)
        positions = np.add(
            full, position, order="C"
        )  # of lanes that write one element, the last one is the last
        if active is not None:
            where = active & (full == 0)
            positions = positions[where]
            value = np.broadcast_to(value, full.shape)[where] if is_array(value) else value
        place.data[positions] = value


def address(array: Array) -> tuple[int, int]:
    """The first and the last address of an array."""
    start = int(array.__array_interface__["data"][0])
    return start, start + array.nbytes
