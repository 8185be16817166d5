"""The shape heap: where a running function keeps the integers its shapes are made of.

One slot holds one dimension or scalar: a shape variable that an argument bound, or an expression over such
variables that compiled code computed. Each slot has a note, for messages:

    "n bound by x, dimension 1"      a variable, and what bound it
    "2 * n from 0"                   an expression, and the slots of its variables
    "float32: q bound by a"          either, with its dtype if that is not int64
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import tvm_ffi

from .tensor import compact_tensor, new_tensor, view_tensor


class Heap:
    """The slots that matching reads and fills: of a shape heap, or the shape variables of an interpreted scope."""

    __slots__ = ()

    def load(self, slot: Any, is_float: bool) -> int | float:
        """Return the number in a slot."""
        raise NotImplementedError

    def store(self, slot: Any, value: float) -> None:
        """Put a number into a slot."""
        raise NotImplementedError

    def expected(self, slot: Any) -> str:
        """The description of a slot in messages: ``n = 784 (n was bound by x, dimension 1)``."""
        raise NotImplementedError

    def name(self, slot: Any) -> str:
        """The variable in a slot, by its name."""
        raise NotImplementedError

    @staticmethod
    def over(heap: Any) -> Heap:
        """The heap itself, or one over the memory of an int64 tensor, which callers from outside may give."""
        return heap if isinstance(heap, Heap) else ShapeHeap.over(heap)


class ShapeHeap(Heap):
    """A tensor of int64 slots; compiled code reads and writes it, the machine indexes it as a list."""

    __slots__ = ("notes", "slots", "tensor")

    def __init__(self, size: int, notes: Sequence[str] = ()) -> None:
        self.tensor = new_tensor((size,), "int64")
        self.slots: Any = (ctypes.c_int64 * size).from_address(self.tensor.data_ptr())
        self.notes = notes

    @staticmethod
    def over(heap: Any) -> ShapeHeap:
        """The heap itself, or one over the memory of an int64 tensor, which callers from outside may give.

        Raises TypeError for another value.
        """
        if type(heap) is ShapeHeap:
            return heap
        tensor = getattr(heap, "tensor", heap)  # an NDArray's
        if not isinstance(tensor, tvm_ffi.Tensor) or str(tensor.dtype) != "int64" or tensor.ndim != 1:
            description = (
                f"a tensor {tensor.dtype} {tensor.shape}"
                if isinstance(tensor, tvm_ffi.Tensor)
                else str(type(heap).__name__)
            )
            raise TypeError(f"a shape heap is an int64 tensor of one dimension, found {description}")
        result = object.__new__(ShapeHeap)
        result.tensor, result.notes = compact_tensor(tensor), ()
        result.slots = (ctypes.c_int64 * tensor.shape[0]).from_address(result.tensor.data_ptr())
        return result

    @staticmethod
    def at(address: int, size: int, notes: Sequence[str]) -> ShapeHeap:
        """Return a heap over memory of compiled code, valid during one call."""
        heap = object.__new__(ShapeHeap)
        heap.slots = (ctypes.c_int64 * size).from_address(address)
        heap.notes = notes
        return heap

    def __tvm_ffi_object__(self) -> tvm_ffi.Tensor:
        return self.tensor

    def floats(self) -> tvm_ffi.Tensor:
        """The same slots as float64, in which floating-point scalars are kept."""
        return view_tensor(self.tensor, self.tensor.shape, "float64")

    def load(self, slot: int, is_float: bool) -> int | float:
        self._check(slot)
        return self.load_float(slot) if is_float else self.slots[slot]

    def store(self, slot: int, value: float) -> None:
        self._check(slot)
        if isinstance(value, float):
            self.store_float(slot, value)
        else:
            self.slots[slot] = value

    def _check(self, slot: int) -> None:
        """Raise IndexError for a slot out of range, as hand-written bytecode may name."""
        if not 0 <= slot < len(self.slots):
            raise IndexError(f"there is no slot {slot} in a shape heap of {len(self.slots)}")

    def load_float(self, slot: int) -> float:
        """The floating-point scalar in a slot."""
        return ctypes.c_double.from_buffer(self.slots, slot * 8).value

    def store_float(self, slot: int, value: float) -> None:
        """Put a floating-point scalar into a slot."""
        ctypes.c_double.from_buffer(self.slots, slot * 8).value = value

    def value(self, slot: int) -> bool | int | float:
        """The content of a slot, as a value of its dtype."""
        dtype = self._note(slot)[1]
        if "float" in dtype:
            return self.load_float(slot)
        value: int = self.slots[slot]
        return bool(value) if dtype == "bool" else value % (1 << 64) if dtype == "uint64" else value

    def name(self, slot: int) -> str:
        return self._note(slot)[0] or f"slot {slot}"

    def expected(self, slot: int) -> str:
        text, _, how, origin = self._note(slot)
        value = self.value(slot)
        if how == "bound by":
            return f"{text} = {value} ({text} was bound by {origin})"
        if how != "from":
            return str(value)
        reasons: list[str] = []
        for source in map(int, origin.split()):
            name, _, _, origin = self._note(source)
            reasons.append(f"{name} = {self.value(source)} was bound by {origin}")
        return f"{text} = {value}" + (f" ({'; '.join(reasons)})" if reasons else "")

    def _note(self, slot: int) -> tuple[str, str, str, str]:
        """The variable or expression, its dtype, "bound by" or "from", and what follows; empty if nothing is noted."""
        note = self.notes[slot] if slot < len(self.notes) else ""
        for how in ("bound by", "from"):
            text, separator, origin = note.partition(f" {how} ")
            if separator:
                dtype, typed, name = text.partition(": ")
                return (name, dtype, how, origin) if typed else (text, "int64", how, origin)
        return "", "int64", "", ""
