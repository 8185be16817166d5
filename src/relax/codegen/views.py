"""Views: buffers declared over the memory of another buffer. A view must lie inside of that memory.

What sizes known now decide is an error of the program; what they do not is checked where the view is declared.
"""

from __future__ import annotations

from ..ir import structural_equal
from ..prim import IntImm, PrimExpr, Var
from ..tir import Buffer
from .context import Context, escaped
from .formula import Val
from .index import index
from .memory import storage_of

_HINT = "view the data of a buffer: T.decl_buffer(shape, data=A.data)"


def declare_view(cx: Context, view: Buffer) -> None:
    """Note where a view is, once it is known to lie inside of what it views."""
    source = _source(cx, view)
    if source is not None:
        _require_inside(cx, view, source)
    elif not any(view.data is param for param in cx.unit.functions[cx.name].params):
        cx.report(
            "E5905",
            f"buffer {view.name} views a computed pointer, {view.data.name}, whose memory nobody knows the size of",
            hint=_HINT,
        )
    cx.storage[view] = storage_of(cx, view)


def _source(cx: Context, view: Buffer) -> Buffer | None:
    """The buffer whose memory a view sees: the outermost one of its data variable."""
    table = cx.unit.functions[cx.name].buffer_map
    pointer: Var = table[view.data].data if view.data in table else view.data
    return next((buffer for buffer in cx.storage if buffer.data is pointer), None)


def _require_inside(cx: Context, view: Buffer, source: Buffer) -> None:
    own, other = (
        (buffer.dtype, buffer.shape, buffer.strides, buffer.elem_offset) for buffer in (view, source)
    )
    if structural_equal(own, other):
        return
    needed, held = _constant_end(view), _constant_end(source)
    who = f"buffer {view.name}, a view of {source.name},"
    if needed is not None and held is not None:
        if needed > held:
            cx.report("E5905", f"{who} needs {needed} bytes, but there are {held}")
        return
    for axis, size in enumerate(view.shape):
        if not cx.facts.nonnegative(size):
            found = index(cx, size)
            message = f"{escaped(who)} has dimension {axis} of size %lld"
            cx.fail_unless(found.ge(0), "ValueError", message, found)
    if view.elem_offset is not None and not cx.facts.nonnegative(view.elem_offset):
        offset = index(cx, view.elem_offset)
        cx.fail_unless(offset.ge(0), "ValueError", f"{escaped(who)} starts at element %lld", offset)
    end, limit = (_end(cx, buffer) for buffer in (view, source))
    message = f"{escaped(who)} needs %lld bytes, but there are %lld"
    cx.fail_unless(end.le(limit), "ValueError", message, end, limit)


def _item(buffer: Buffer) -> int:
    """The bytes of an element."""
    return max(buffer.dtype.bits // 8, 1) * max(buffer.dtype.lanes, 1)


def _constant_end(buffer: Buffer) -> int | None:
    """The bytes from a buffer's pointer to its end, if they are known now."""
    parts = (*buffer.shape, *buffer.strides, *(() if buffer.elem_offset is None else (buffer.elem_offset,)))
    if not all(isinstance(part, IntImm) and part.value >= 0 for part in parts):
        return None
    sizes, strides = [_value(size) for size in buffer.shape], [_value(stride) for stride in buffer.strides]
    offset = 0 if buffer.elem_offset is None else _value(buffer.elem_offset)
    if 0 in sizes:
        return 0
    count = 1
    if strides:
        count += sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    else:
        for size in sizes:
            count *= size
    return (offset + count) * _item(buffer)


def _value(expr: PrimExpr) -> int:
    assert isinstance(expr, IntImm)
    return expr.value


def _end(cx: Context, buffer: Buffer) -> Val:
    """The bytes from a buffer's pointer to its end; an error if they cannot be counted."""
    message = f"buffer {escaped(buffer.name)} is too large for any memory"

    def checked(op: str, a: Val, b: Val) -> Val:
        function = cx.b.module.intrinsic(f"llvm.s{op}.with.overflow.i64", "{ i64, i1 }", "i64", "i64")
        pair = cx.b.op(f"call {{ i64, i1 }} {function}(i64 {a.ref}, i64 {b.ref})")
        over = Val(cx.b, "i1", 1, cx.b.op(f"extractvalue {{ i64, i1 }} {pair}, 1"))
        cx.fail_unless(over ^ 1, "MemoryError", message)
        return Val(cx.b, "i64", 1, cx.b.op(f"extractvalue {{ i64, i1 }} {pair}, 0"))

    sizes = [index(cx, size) for size in buffer.shape]
    count = cx.i64(1)
    if buffer.strides:
        for size, stride in zip(sizes, buffer.strides, strict=True):
            count = checked("add", count, checked("mul", checked("sub", size, cx.i64(1)), index(cx, stride)))
    else:
        for size in sizes:
            count = checked("mul", count, size)
    if buffer.elem_offset is not None:
        count = checked("add", count, index(cx, buffer.elem_offset))
    return checked("mul", count, cx.i64(_item(buffer)))


__all__ = ["declare_view"]
