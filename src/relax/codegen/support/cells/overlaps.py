"""Overlap check of all output tensors with the arguments at once.

The tensors are sorted by address: a few by insertion on the stack, many by the C library. In a sweep over them, a
tensor is compared with the greatest end of the arguments so far, and with the last output tensor: outputs accepted so
far overlap nothing, so earlier ones end before the last one begins.
"""

from __future__ import annotations

from ....native import ffi_layouts as ffi
from ....script import tir as T
from ..c import C, address
from .objects import held
from .questions import TensorObject
from .values import Any, cells, internal, reset

Span = T.struct("Span")
SPAN_BYTES = T.struct_size("Span")
_FEW = 32


@internal
def earlier(a: Span, b: Span) -> T.int32:
    """Compare two spans by start address, for qsort."""
    if a.start < b.start:
        return -1
    return T.Cast("int32", a.start > b.start)


@internal
def measure(spans: Span, cells: Any, count: T.int64) -> T.int64:
    """Write the spans of all tensors that have elements, sorted if they are few, and return their number."""
    found = T.alloc_var("int64", 0)
    for i in range(count):
        size = held(cells[i])
        if size > 0:
            start = T.Cast("uint64", address(TensorObject(cells[i].object).tensor.data))
            place = T.alloc_var("int64", found)
            if count <= _FEW:
                while place > 0:
                    if spans[place - 1].start <= start:
                        break
                    C.memcpy(spans[place], spans[place - 1], SPAN_BYTES)
                    place -= 1
            span = spans[place]
            span.start = start
            span.end = start + T.Cast("uint64", size)
            span.number = i
            found += 1
    return found


@internal
def drop_overlapping(spans: Span, count: T.int64, cells: Any, given: T.int64):
    """Clear the cell of each output tensor that overlaps an argument or an output tensor with a lower number."""
    used = T.alloc_var("uint64", 0)  # the end of the arguments so far
    kept = T.alloc_var("int64", 0)  # the last tensor kept for a result: its number and end
    kept_end = T.alloc_var("uint64", 0)
    for k in range(count):
        span = spans[k]
        start, index = span.start, span.number
        is_argument = index < given
        in_kept = start < kept_end
        goes = not is_argument and (start < used or (in_kept and index > kept))
        if goes:
            reset(cells[index])
        else:
            if in_kept:
                reset(cells[kept])
                kept_end = T.uint64(0)
            if is_argument:
                used = T.max(used, span.end)
            else:
                kept = index
                kept_end = span.end


@cells
def keep_apart(cells: Any, arguments: T.int64, results: T.int64):
    """Clear the cells of output tensors that overlap an argument or an earlier output tensor.

    `cells` holds the result, the arguments, then the output tensors that the caller provides.
    """
    few = Span.alloc(_FEW)
    given = arguments + 1
    count = given + results
    some = T.alloc_var("bool", T.bool(False))
    for i in range(results):
        if cells[given + i].type_index == ffi.TENSOR:
            some = T.bool(True)
            break
    if not some:
        return
    spans = T.alloc_var("handle", few)
    if count > _FEW:
        spans = C.malloc(count * SPAN_BYTES)
        if T.isnullptr(spans):
            for i in range(results):
                reset(cells[given + i])
            return
    found = measure(spans, cells, count)
    if count > _FEW:
        C.qsort(spans, found, SPAN_BYTES, T.symbol_address(earlier))
    drop_overlapping(spans, found, cells, given)
    if count > _FEW:
        C.free(spans)


FUNCTIONS = (earlier, measure, drop_overlapping, keep_apart)
