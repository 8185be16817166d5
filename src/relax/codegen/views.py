"""Memory of buffers: the location of each buffer, and checks that it lies inside its memory.

A data variable stands for memory of known extent: that of a parameter's buffer, or an allocation. Every buffer over it
must lie inside. A violation between constant sizes is an error of the program; dynamic sizes are checked where the
buffer is declared, unless the prover shows that they fit. A bare pointer parameter points to as much memory as its
caller says; it must not be null. Any other pointer (the result of a call or a choice) is rejected.
"""

from __future__ import annotations

from math import gcd
from typing import TypeAlias

from ..ir import DataType, structural_equal
from ..native.builder import Operand
from ..native.formula import Val
from ..native.types import memory_element
from ..prim import EQ, LE, IntImm, PrimExpr, Var
from ..runtime.records import dataclass
from ..tir import Buffer
from ..tir.buffer import element_count
from ..tir.usage import buffer_expressions
from .context import Context, Memory, Storage, escaped
from .fact_forms import reads_memory
from .index import index

Number: TypeAlias = "int | Val"
Condition: TypeAlias = "bool | Val"

_UNSTORED = "match it to a parameter, or allocate it around its uses"
_COMPUTED = "view the data of a buffer: T.decl_buffer(shape, data=A.data)"
_SHARED = "give each buffer a data variable of its own"


def storage_of(cx: Context, buffer: Buffer) -> Storage:
    """Location of a buffer. An undeclared buffer views the memory of its data variable."""
    known = cx.storage.get(buffer)
    return _view(cx, buffer) if known is None else known


def declare_view(cx: Context, view: Buffer) -> None:
    """Record the location of a view, after checking that it lies inside the viewed memory."""
    cx.storage[view] = _view(cx, view)


def declare_memory(cx: Context, buffer: Buffer, pointer: Operand, align: int, size: Number | None = None) -> None:
    """Record memory: that of a parameter's buffer, or an allocation of `size` bytes."""
    if buffer.data in cx.memory:
        other = cx.memory[buffer.data].buffer
        message = f"buffers {other.name} and {buffer.name} are in different memory under one data variable"
        cx.report("E5905", message, hint=_SHARED)
    storage = cx.storage[buffer] = _placed(cx, buffer, pointer, align)
    held = cx.i64(size) if isinstance(size, int) else size
    cx.memory[buffer.data] = Memory(buffer, held)
    if size is not None and (buffer.strides or _offset(buffer) is not None):
        within = _Span(0, size, False, False)
        _require_sizes(cx, buffer, f"buffer {buffer.name}", storage)
        _require_inside(cx, buffer, f"buffer {buffer.name}", _span(cx, buffer, storage), within)


def require_offset(cx: Context, data: Var, dtype: DataType, offset: Val) -> None:
    """Check that `offset`, in elements of `dtype` from the pointer of `data`, is within its memory or at its end."""
    memory = cx.memory.get(data)
    if memory is None:
        return
    held = _extent(cx, memory)
    end = _choose(cx, _either(held.empty, held.too_large), 0, held.end)
    bytes_ = max(dtype.bits // 8, 1) * max(dtype.lanes, 1)
    limit = end // bytes_ if isinstance(end, int) else end / bytes_
    # A negative offset is a huge number without its sign.
    inside = offset.compare("", "ule", _val(cx, limit))
    message = f"tvm_access_ptr: element %lld is outside of the memory of {escaped(memory.buffer.name)}, %lld elements"
    cx.fail_unless(inside, "IndexError", message, offset, _val(cx, limit))


def _view(cx: Context, view: Buffer) -> Storage:
    pointer, memory = cx.vars.get(view.data), cx.memory.get(view.data)
    if cx.plain and pointer is not None:
        sizes = tuple(index(cx, size).ref for size in view.shape[1:])  # the first one does not matter to addresses
        return Storage(pointer.ref, ("0", *sizes)[: view.ndim], None, align=_lane(view))
    if pointer is None:
        cx.report("E5905", f"buffer {view.name} is used where it has no storage", hint=_UNSTORED)
        return Storage("poison", ("0",) * view.ndim, None)
    if memory is not None:
        storage = _placed(cx, view, pointer.ref, cx.storage[memory.buffer].align)
        if not _proven_inside(cx, view, memory.buffer):
            who = f"buffer {view.name}, a view of {memory.buffer.name},"
            _require_sizes(cx, view, who, storage)
            within = _extent(cx, memory)
            _require_inside(cx, view, who, _span(cx, view, storage), within)
        return storage
    storage = _placed(cx, view, pointer.ref, 1)
    if any(view.data is param for param in cx.unit.functions[cx.name].params):
        found = Val(cx.b, "i1", 1, cx.b.op(f"icmp ne ptr {pointer.ref}, null"))
        message = f"buffer {escaped(view.name)}: the pointer {escaped(view.data.name)} is null"
        cx.fail_unless(found, "ValueError", message)
        _require_sizes(cx, view, f"buffer {view.name}, a view of {view.data.name},", storage)
    else:
        cx.report(
            "E5905",
            f"buffer {view.name} views a computed pointer, {view.data.name}, whose memory nobody knows the size of",
            hint=_COMPUTED,
        )
    return storage


def _placed(cx: Context, buffer: Buffer, pointer: Operand, align: int) -> Storage:
    """Location of a buffer at its offset from `pointer`, which is aligned to `align` bytes."""
    with cx.exactly():
        shape = tuple(index(cx, size).ref for size in buffer.shape)
        strides = tuple(index(cx, stride).ref for stride in buffer.strides) if buffer.strides else None
    align = gcd(align, _lane(buffer))
    start = _offset(buffer)
    if start is None:
        return Storage(pointer, shape, strides, "0", align)
    offset = index(cx, start)
    lanes = offset * max(buffer.dtype.lanes, 1)
    pointer = cx.b.op(f"getelementptr {memory_element(buffer.dtype)}, ptr {pointer}, i64 {lanes.ref}")
    return Storage(pointer, shape, strides, offset.ref, align)


def _offset(buffer: Buffer) -> PrimExpr | None:
    """Offset of a buffer's first element; None if it is 0."""
    offset = buffer.elem_offset
    return None if isinstance(offset, IntImm) and offset.value == 0 else offset


def _lane(buffer: Buffer) -> int:
    """Size of one lane of an element in bytes."""
    return max(buffer.dtype.bits // 8, 1)


def _item(buffer: Buffer) -> int:
    """Size of an element in bytes."""
    return _lane(buffer) * max(buffer.dtype.lanes, 1)


# ------------------------------------------------------------------------------------- proofs


def _proven_inside(cx: Context, view: Buffer, source: Buffer) -> bool:
    """True if a view provably lies inside a buffer although dynamic sizes are involved.

    Sizes read from memory may have changed. No product of the sizes of a buffer in memory exceeds 64 bits, so an equal
    product does not either.
    """
    own, other = ((b.dtype, b.shape, b.strides, b.elem_offset) for b in (view, source))
    sizes = (*view.shape, *source.shape)
    if any(reads_memory(part) for buffer in (view, source) for part in buffer_expressions(buffer)):
        return False
    if structural_equal(own, other):
        return True
    compact = all(not b.strides and _offset(b) is None for b in (view, source))
    if not compact or all(isinstance(size, IntImm) for size in sizes):
        return False
    if any(size.dtype != "int64" for size in sizes) or not all(map(cx.facts.nonnegative, view.shape)):
        return False
    needed, held = (element_count(buffer) * _item(buffer) for buffer in (view, source))
    if cx.facts.holds(EQ(needed, held)):
        return True
    fits = all(cx.facts.interval(b.shape[0])[1] * _item(b) < 2**63 for b in (view, source) if b.shape)
    return len(sizes) == 2 and fits and cx.facts.holds(LE(needed, held))


# ------------------------------------------------------------------------------------- extents


@dataclass(frozen=True)
class _Span:
    """Byte range from `start` to `end` (exclusive), counted from a data variable's pointer."""

    start: Number
    end: Number
    empty: Condition
    too_large: Condition
    """True if the range overflows 64 bits."""


class _Counter:
    """Integer arithmetic that records overflow of 64 bits."""

    def __init__(self, cx: Context) -> None:
        self.cx = cx
        self.overflow: Condition = False

    def add(self, a: Number, b: Number) -> Number:
        if isinstance(a, int) and isinstance(b, int):
            return self._fitting(a + b)
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self._exact("add", a, b)

    def mul(self, a: Number, b: Number) -> Number:
        if isinstance(a, int) and isinstance(b, int):
            return self._fitting(a * b)
        if a == 1 or b == 1:
            return b if a == 1 else a
        return self._exact("mul", a, b)

    def _fitting(self, value: int) -> int:
        if -(2**63) <= value < 2**63:
            return value
        self.overflow = True
        return 0

    def _exact(self, op: str, a: Number, b: Number) -> Val:
        b_ = self.cx.b
        function = b_.module.intrinsic(f"llvm.s{op}.with.overflow.i64", "{ i64, i1 }", "i64", "i64")
        pair = b_.op(f"call {{ i64, i1 }} {function}(i64 {_val(self.cx, a).ref}, i64 {_val(self.cx, b).ref})")
        self.overflow = _either(self.overflow, Val(b_, "i1", 1, b_.op(f"extractvalue {{ i64, i1 }} {pair}, 1")))
        return Val(b_, "i64", 1, b_.op(f"extractvalue {{ i64, i1 }} {pair}, 0"))


def _extent(cx: Context, memory: Memory) -> _Span:
    """Byte range of memory: an allocation, or a parameter's buffer."""
    if memory.size is not None:
        return _Span(0, _number(cx, memory.size.ref), False, False)
    return _span(cx, memory.buffer, cx.storage[memory.buffer])


def _span(cx: Context, buffer: Buffer, storage: Storage) -> _Span:
    """Byte range of a buffer's elements, from the first in memory to the last."""
    counter = _Counter(cx)
    sizes = [_number(cx, size) for size in storage.shape]
    offset = _number(cx, storage.offset)
    empty: Condition = False
    for size in sizes:
        empty = _either(empty, size <= 0 if isinstance(size, int) else size.le(0))
    first, last = offset, offset
    if storage.strides is None:
        count: Number = 1
        for size in sizes:
            count = counter.mul(count, size)
        end = counter.add(offset, count)
    else:
        for size, stride in zip(sizes, storage.strides, strict=True):
            way = counter.mul(counter.add(size, -1), _number(cx, stride))
            first = counter.add(first, min(way, 0) if isinstance(way, int) else way.intrinsic("smin", cx.i64(0)))
            last = counter.add(last, max(way, 0) if isinstance(way, int) else way.intrinsic("smax", cx.i64(0)))
        end = counter.add(last, 1)
    item = _item(buffer)
    start, end = counter.mul(first, item), counter.mul(end, item)
    return _Span(start, end, empty, counter.overflow)


def _require_sizes(cx: Context, view: Buffer, who: str, storage: Storage) -> None:
    for axis, (size, ref) in enumerate(zip(view.shape, storage.shape, strict=True)):
        if not cx.facts.nonnegative(size):
            found = Val(cx.b, "i64", 1, ref)
            message = f"{escaped(who)} has dimension {axis} of size %lld"
            cx.fail_unless(found.ge(0), "ValueError", message, found)


def _require_inside(cx: Context, view: Buffer, who: str, needed: _Span, held: _Span) -> None:
    none: Condition = _either(held.empty, held.too_large)
    start, end = _choose(cx, none, 0, held.start), _choose(cx, none, 0, held.end)
    fits = _either(needed.empty, _not(needed.too_large))
    above = _either(needed.empty, _at_most(cx, start, needed.start))
    below = _either(needed.empty, _at_most(cx, needed.end, end))
    if fits is False:
        cx.report("E5905", f"buffer {view.name} is too large for any memory")
    elif above is False:
        cx.report("E5905", f"{who} starts at byte {needed.start}, but the memory at byte {start}")
    elif below is False:
        cx.report("E5905", f"{who} needs {needed.end} bytes, but there are {end}")
    else:
        name = escaped(who)
        _fail_unless(cx, fits, "MemoryError", f"buffer {escaped(view.name)} is too large for any memory")
        message = f"{name} starts at byte %lld, but the memory at byte %lld"
        _fail_unless(cx, above, "ValueError", message, needed.start, start)
        message = f"{name} needs %lld bytes, but there are %lld"
        _fail_unless(cx, below, "ValueError", message, needed.end, end)


def _fail_unless(cx: Context, condition: Condition, kind: str, message: str, *numbers: Number) -> None:
    if condition is not True:
        assert isinstance(condition, Val)
        cx.fail_unless(condition, kind, message, *(_val(cx, number) for number in numbers))


def _number(cx: Context, ref: Operand) -> Number:
    """A 64-bit operand; an int if it is a constant."""
    return int(ref) if ref.lstrip("-").isdigit() else Val(cx.b, "i64", 1, ref)


def _val(cx: Context, number: Number) -> Val:
    return cx.i64(number) if isinstance(number, int) else number


def _at_most(cx: Context, a: Number, b: Number) -> Condition:
    if isinstance(a, int) and isinstance(b, int):
        return a <= b
    return _val(cx, a).le(_val(cx, b))


def _either(a: Condition, b: Condition) -> Condition:
    if isinstance(a, bool):
        return True if a else b
    if isinstance(b, bool):
        return True if b else a
    return a | b


def _not(a: Condition) -> Condition:
    return not a if isinstance(a, bool) else a ^ 1


def _choose(cx: Context, condition: Condition, yes: Number, no: Number) -> Number:
    if isinstance(condition, bool):
        return yes if condition else no
    return condition.choose(_val(cx, yes), _val(cx, no))
