"""Allocation of a function's own buffers: small buffers of constant size on the stack, others on the heap.

A buffer of scope "local" is a register tile: once its indices are constants, its elements live in registers.

Heap storage is aligned to 64 bytes and freed on every exit, errors included. An invalid dimension, or a size in bytes
that overflows, is an error raised before the allocation.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from ..native.builder import Operand
from ..native.formula import Val
from ..native.support import reserve
from ..native.types import memory_element
from ..prim import GE, IntImm, PrimExpr
from ..runtime.limits import DIMENSION_LIMIT
from ..runtime.messages import NO_SIZE
from ..runtime.sizes import is_size
from ..tir import Buffer
from ..tir.sizes import LARGEST_PRODUCT
from .context import Context, escaped
from .fact_forms import reads_memory
from .index import index
from .views import declare_memory

_ALIGNMENT: Final = 64
_STACK_ALIGNMENT: Final = 16
_STACK_EACH: Final = 16 << 10
_STACK_TOTAL: Final = 64 << 10


@contextmanager
def allocate(cx: Context, buffer: Buffer) -> Generator[None]:
    """Context manager: allocate `buffer` for the duration of the ``with`` block."""
    if cx.plain:
        with _on_stack(cx, buffer):
            yield
        return
    size = _constant_bytes(buffer)
    outside = cx.error_label
    heap = size is None or size > _STACK_EACH or cx.stack_bytes + size > _STACK_TOTAL
    if size is not None and not heap:
        cx.stack_bytes += size
        elements = max(size // _element_bytes(buffer), 1)
        pointer, bytes_ = cx.b.alloca(f"[{elements} x {memory_element(buffer.dtype)}]", _ALIGNMENT), size
        cx.b.module.in_order |= buffer.scope == "local"
    else:
        pointer, bytes_ = _from_heap(cx, buffer)
        cx.error_label = cx.b.label("release")
        with cx.b.cold(cx.error_label):
            _release(cx, pointer)
            cx.b.end(f"br label %{outside}")
    cx.distinct.add(pointer)
    cx.vars[buffer.data] = Val(cx.b, "ptr", 1, pointer)
    declare_memory(cx, buffer, pointer, _ALIGNMENT, bytes_)
    yield
    del cx.storage[buffer], cx.vars[buffer.data], cx.memory[buffer.data]
    cx.error_label = outside
    if heap:
        _release(cx, pointer)


@contextmanager
def _on_stack(cx: Context, buffer: Buffer) -> Generator[None]:
    """Context manager: stack memory of a plain function; of dynamic size, it lives until the function returns."""
    element = memory_element(buffer.dtype)
    count = cx.i64(max(buffer.dtype.lanes, 1))
    for extent in _extents(buffer):
        count = count * index(cx, extent)
    if not count.ref.isdigit():
        pointer = cx.b.op(f"alloca {element}, i64 {count.ref}, align {_STACK_ALIGNMENT}")
    elif count.ref == "1":
        pointer = cx.b.alloca(element, _element_bytes(buffer))
    else:
        pointer = cx.b.alloca(f"[{count.ref} x {element}]", _STACK_ALIGNMENT)
    cx.vars[buffer.data] = Val(cx.b, "ptr", 1, pointer)
    yield
    cx.storage.pop(buffer, None)
    del cx.vars[buffer.data]


def _element_bytes(buffer: Buffer) -> int:
    return max(buffer.dtype.bits // 8, 1)


def _constant_bytes(buffer: Buffer) -> int | None:
    """Size of the buffer in bytes; None unless it is constant and each dimension is valid."""
    size = _element_bytes(buffer) * max(buffer.dtype.lanes, 1)
    for extent in _extents(buffer):
        if not isinstance(extent, IntImm) or not is_size(extent.value):
            return None
        size *= extent.value
    return size


def _extents(buffer: Buffer) -> tuple[PrimExpr, ...]:
    """Factors whose product is the number of elements to reserve."""
    return (buffer.shape[0] * buffer.strides[0],) if buffer.strides else buffer.shape


def _from_heap(cx: Context, buffer: Buffer) -> tuple[Operand, Val]:
    """Allocate a buffer on the heap; return (pointer, size in bytes)."""
    name = f"buffer {escaped(buffer.name)}"
    with cx.exactly():
        for axis, extent in enumerate(buffer.shape):
            size, context = index(cx, extent), f"buffer {buffer.name}"
            fits = size.compare("", "ult", DIMENSION_LIMIT)
            cx.require(fits, NO_SIZE, context=context, place=f"dimension {axis}", found=size)
        bytes_ = _checked_product(cx, buffer, name)
    for extent in buffer.shape:
        if not reads_memory(extent) and not cx.facts.nonnegative(extent):
            cx.facts.assume(GE(extent, IntImm(extent.dtype, 0)))
    rounded = (bytes_ + (_ALIGNMENT - 1)) & -_ALIGNMENT
    requested = rounded.gt(0).choose(rounded, _ALIGNMENT)
    pointer = cx.b.op(reserve(cx.b.module, requested.ref))
    found = Val(cx.b, "i1", 1, cx.b.op(f"icmp ne ptr {pointer}, null"))
    cx.fail_unless(found, "MemoryError", f"out of memory: {name} needs %lld bytes", requested)
    return pointer, bytes_


def _checked_product(cx: Context, buffer: Buffer, name: str) -> Val:
    """Size of the buffer in bytes. Fails at run time if it would exceed 2^62, counting dimensions of 0 as 1."""
    total = cx.i64(_element_bytes(buffer) * max(buffer.dtype.lanes, 1))
    overflow = empty = Val(cx.b, "i1", 1, "false")
    multiply = cx.b.module.intrinsic("llvm.umul.with.overflow.i64", "{ i64, i1 }", "i64", "i64")
    for extent in _extents(buffer):
        size = index(cx, extent)
        pair = cx.b.op(f"call {{ i64, i1 }} {multiply}(i64 {total.ref}, i64 {size.intrinsic('umax', 1).ref})")
        total = Val(cx.b, "i64", 1, cx.b.op(f"extractvalue {{ i64, i1 }} {pair}, 0"))
        overflow = overflow | Val(cx.b, "i1", 1, cx.b.op(f"extractvalue {{ i64, i1 }} {pair}, 1"))
        empty = empty | size.eq(0)
    overflow = overflow | total.compare("", "ugt", LARGEST_PRODUCT)
    cx.fail_unless(overflow ^ 1, "MemoryError", f"{name} is too large for any memory")
    return empty.choose(total.constant(0), total)


def _release(cx: Context, pointer: Operand) -> None:
    function = cx.b.module.declare(
        "free", "void", "ptr allocptr captures(none)", 'nounwind willreturn allockind("free") "alloc-family"="malloc"'
    )
    cx.b.do(f"call void {function}(ptr {pointer})")
