"""Direct calls between PrimFuncs of one module: to the inner function, with raw pointers and sizes.

An argument for a buffer parameter is the data variable of one of the caller's buffers and stands for that buffer: its
sizes bind the callee's variables; dimensions that must agree are compared.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir import GlobalVar, Node, walk
from ..native.formula import Val
from ..native.types import register_type
from ..prim import Call, PrimExpr, Var, free_vars
from ..runtime.combine import BODY
from ..runtime.messages import NOT_ALIGNED
from ..tir import Buffer, BufferLoad, PrimFunc
from ..tir.signature import ArgumentField, Signature
from .context import Context, Storage, Unit
from .index import extended
from .matching import WrittenMatching, checked_signature


def inner_symbol(unit: Unit, name: str) -> str:
    """Symbol of a PrimFunc's inner function, which takes raw pointers and sizes."""
    return f"@{BODY}{unit.numbers[name]}"


def call_function(cx: Context, call: Call, callee: str) -> None:
    """Write a call of another PrimFunc as a statement; an error in the callee is propagated."""
    operands = operands_of(cx, call, callee)
    if operands is None:
        return
    status = cx.b.op(f"call i32 {inner_symbol(cx.unit, callee)}({', '.join(operands)})")
    cx.forget()
    cx.leave_unless_zero(status)


def operands_of(cx: Context, call: Call, callee: str, inside: Callable[[], None] | None = None) -> list[str] | None:
    """Typed operands of a call; None if the call was reported as wrong.

    `inside` is called in a context in which the callee's scalars and sizes have their values.
    """
    func = cx.unit.functions.get(callee)
    if func is None:
        cx.report("E5903", f"the function {callee} is not in the module being compiled", call)
        return None
    if len(call.args) != len(func.params):
        cx.report("E5903", f"a call of {callee} has {len(call.args)} arguments, expected {len(func.params)}", call)
        return None
    known = checked_signature(cx.unit, callee, func)
    places: dict[int, Storage] = {}
    matching = _Matching(cx, callee, known, places)
    scalars: dict[Var, Val] = {}
    operands: list[str] = []
    for i, ((param, buffer), arg) in enumerate(zip(known.params, call.args, strict=True)):
        if buffer is None:
            if param.dtype.is_handle and not _may_point(cx, func, param, arg):
                message = f"{callee}: parameter {param.name} is viewed as a buffer, and its argument is a pointer"
                cx.report("E5903", f"{message} that no parameter is", call, _MATCHED.format(param.name))
                return None
            value = scalars[param] = cx.value(arg)
            if param.nonnegative and not cx.facts.nonnegative(arg):
                matching.require_size(extended(value, param), matching.who(param), "the value")
            operands.append(f"{register_type(param.dtype)} {value.ref}")
            continue
        storage = _storage_of_argument(cx, callee, buffer, arg)
        if storage is None:
            return None
        _require_aligned(cx, callee, buffer, storage)
        places[i] = storage
        operands.append(f"ptr {storage.pointer}")
    with cx.elsewhere():
        cx.vars.update(scalars)
        matching.match_sizes()
        operands += [f"i64 {cx.wide[var].ref}" for var in known.bound]
        if inside is not None:
            inside()
    return operands


_MATCHED = "match it to a buffer in the function: T.match_buffer({}, shape)"


def _may_point(cx: Context, func: PrimFunc, param: Var, arg: PrimExpr) -> bool:
    """True if a pointer may be passed on: a parameter of the caller, or one through which `func` accesses no memory.

    A function trusts the extent that external callers state for a bare pointer. A pointer to one of the program's own
    buffers has a known extent, which the call would lose.
    """
    caller = cx.unit.functions[cx.name]
    if any(arg is mine and mine not in caller.buffer_map for mine in caller.params):
        return True
    uses: list[Node] = []

    def visit(node: Node) -> None:
        if isinstance(node, Buffer):
            uses.extend([node] if node.data is param else [])
        elif isinstance(node, Call) and isinstance(node.op, GlobalVar):
            uses.extend([node] if any(param in free_vars(passed) for passed in node.args) else [])

    walk(func.body, visit)
    return not uses


def _require_aligned(cx: Context, callee: str, wanted: Buffer, storage: Storage) -> None:
    """Check the alignment of the first element: a view may begin at an offset counted in narrower elements."""
    needed = max(wanted.dtype.bits // 8, 1)
    if storage.align >= needed:
        return
    address = Val(cx.b, "i64", 1, cx.b.op(f"ptrtoint ptr {storage.pointer} to i64"))
    who = f"call of {cx.unit.title(callee)}: argument {wanted.name}"
    cx.require((address & (needed - 1)).eq(0), NOT_ALIGNED, context=who, expected=str(needed))


def _storage_of_argument(cx: Context, callee: str, wanted: Buffer, arg: PrimExpr) -> Storage | None:
    """The caller's buffer that `arg` refers to."""
    if isinstance(arg, BufferLoad) and all(_is_zero(i) for i in arg.indices):
        found = arg.buffer
    else:
        found = next((b for b in cx.storage if b.data is arg), None)
    if found is None or found not in cx.storage:
        cx.report("E5903", f"{callee}: the argument for buffer {wanted.name} is not a buffer's data variable")
        return None
    storage = cx.storage[found]
    if found.dtype != wanted.dtype or found.ndim != wanted.ndim:
        cx.report(
            "E5903",
            f"{callee}: buffer {found.name} is {found.dtype!s} of {found.ndim} dimensions, parameter {wanted.name} is "
            f"{wanted.dtype!s} of {wanted.ndim}",
        )
        return None
    if storage.strides is not None and not wanted.strides:
        cx.report("E5903", f"{callee}: buffer {found.name} has strides, parameter {wanted.name} is compact")
        return None
    return storage


def _is_zero(expr: PrimExpr) -> bool:
    return getattr(expr, "value", None) == 0


class _Matching(WrittenMatching):
    """Matching of buffer sizes at a call between functions of the module."""

    def __init__(self, cx: Context, callee: str, known: Signature, places: dict[int, Storage]) -> None:
        super().__init__(cx, known, f"call of {cx.unit.title(callee)}: ")
        self.places = places

    def number(self, place: ArgumentField) -> Val:
        storage = self.places[place.param]
        if place.what == "shape":
            return Val(self.b, "i64", 1, storage.shape[place.axis])
        if place.what == "stride" and storage.strides is not None:
            return Val(self.b, "i64", 1, storage.strides[place.axis])
        total = self.cx.i64(int(place.what == "stride"))  # the pointer passed is that of the first element
        for size in storage.shape[place.axis + 1 :] if place.what == "stride" else ():
            total = total * Val(self.b, "i64", 1, size)
        return total
