"""Calls between PrimFuncs of one module: straight to the inner function, with raw pointers and sizes.

An argument for a buffer parameter is the data variable of one of the caller's buffers and stands for that buffer: its
sizes bind the callee's variables, and what must agree is compared.
"""

from __future__ import annotations

from ..prim import Call, PrimExpr, Var
from ..runtime.limits import DIMENSION_LIMIT
from ..runtime.sizes import SIZE_RANGE
from ..tir import Buffer, BufferLoad
from .builder import quoted
from .context import Context, Storage, escaped
from .formula import Val
from .index import extended, index
from .signature import Place, Signature, signature
from .types import register_type


def inner_symbol(name: str) -> str:
    """The symbol of a PrimFunc's body, which takes raw pointers and sizes."""
    return quoted(f"relax.body.{name}")


def call_function(cx: Context, call: Call, callee: str) -> None:
    """A call of another PrimFunc, as a statement; its error is the caller's."""
    func = cx.unit.functions.get(callee)
    if func is None:
        cx.report("E5903", f"the function {callee} is not in the module being compiled", call)
        return
    if len(call.args) != len(func.params):
        cx.report(
            "E5903", f"a call of {callee} has {len(call.args)} arguments, expected {len(func.params)}", call
        )
        return
    known = signature(cx.unit, callee, func)
    places: dict[int, Storage] = {}
    scalars: dict[Var, Val] = {}
    operands: list[str] = []
    for i, ((param, buffer), arg) in enumerate(zip(known.params, call.args, strict=True)):
        if buffer is None:
            value = scalars[param] = cx.value(arg)
            if param.nonnegative and not cx.facts.nonnegative(arg):
                who = f"call of {escaped(callee)}: argument {escaped(param.name)}"
                message = f"{who}: the value is %lld, expected a size, {SIZE_RANGE}"
                cx.fail_unless(
                    extended(value, param).compare("", "ult", DIMENSION_LIMIT), "ValueError", message, value
                )
            operands.append(f"{register_type(param.dtype)} {value.ref}")
            continue
        storage = _storage_of_argument(cx, callee, buffer, arg)
        if storage is None:
            return
        places[i] = storage
        operands.append(f"ptr {storage.pointer}")
    with cx.elsewhere():
        cx.vars.update(scalars)
        operands += _sizes(cx, callee, known, places)
    status = cx.b.op(f"call i32 {inner_symbol(callee)}({', '.join(operands)})")
    cx.forget()
    cx.leave_unless_zero(status)


def _storage_of_argument(cx: Context, callee: str, wanted: Buffer, arg: PrimExpr) -> Storage | None:
    """The caller's buffer that an argument means."""
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


def _sizes(cx: Context, callee: str, known: Signature, places: dict[int, Storage]) -> list[str]:
    """Bind the callee's variables to the sizes of the arguments, compare the rest; the operands to pass."""

    def number(place: Place) -> Val:
        storage = places[place.param]
        if place.what == "shape":
            return Val(cx.b, "i64", 1, storage.shape[place.axis])
        if place.what == "stride" and storage.strides is not None:
            return Val(cx.b, "i64", 1, storage.strides[place.axis])
        if place.what == "stride":
            total = cx.i64(1)
            for size in storage.shape[place.axis + 1 :]:
                total = total * Val(cx.b, "i64", 1, size)
            return total
        return cx.i64(0)  # the pointer passed is that of the first element

    for var, place in known.bound.items():
        cx.wide[var] = found = number(place)
        if place.what == "shape":
            who = f"call of {escaped(callee)}: argument {escaped(place.buffer.name)}"
            message = f"{who}: {place.words} is %lld, expected a size, {SIZE_RANGE}"
            cx.fail_unless(found.compare("", "ult", DIMENSION_LIMIT), "ValueError", message, found)
    for place, expr in known.compared:
        with cx.exactly():
            expected, found = index(cx, expr), number(place)
        if expected.ref != found.ref:
            who = f"call of {escaped(callee)}: argument {escaped(place.buffer.name)}"
            message = f"{who}: {place.words} is %lld, expected %lld"
            cx.fail_unless(found.eq(expected), "ValueError", message, found, expected)
    return [f"i64 {cx.wide[var].ref}" for var in known.bound]
