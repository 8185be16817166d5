"""A module of PrimFuncs as LLVM IR: for each, an inner function and the packed wrapper around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..ir import Diagnostic, DiagnosticError
from ..target import Target
from ..tir import PrimFunc
from ..tir.transform import PARALLEL_BODY
from . import expr, intrinsics, memory
from .builder import FunctionBuilder, ModuleBuilder
from .calls import inner_symbol
from .context import Context, Rule, Unit
from .floats import SmallFloats
from .formula import Val
from .known import FUNCTION_ATTRIBUTES, LOWER_FIRST, UNKNOWN, unknown_among
from .signature import Signature, signature
from .stmt import write
from .types import register_type
from .views import declare_memory
from .wrapper import Wrapper

_RULES: Final[dict[type, Rule]] = {**expr.RULES, **memory.RULES, **intrinsics.RULES}


def module_text(funcs: Mapping[str, PrimFunc], target: Target) -> str:
    """LLVM IR for lowered functions by name. Raises DiagnosticError with all that was found wrong."""
    module = ModuleBuilder()
    unit = Unit(module, target, SmallFloats(target.has_half_conversion), dict(funcs))
    for name, func in funcs.items():
        _refuse_unknown(unit, name, func)
        try:
            known = signature(unit, name, func)
            _write_inner(unit, name, func, known)
            if PARALLEL_BODY not in func.attrs:
                Wrapper(unit, name, known, _RULES).write()
        except DiagnosticError as error:
            for diagnostic in error.diagnostics:
                unit.report(name, diagnostic)
    if unit.diagnostics:
        raise DiagnosticError(unit.diagnostics)
    return f'target triple = "{target.triple}"\n{module.text()}'


def _refuse_unknown(unit: Unit, name: str, func: PrimFunc) -> None:
    for key, hint in unknown_among(func.attrs, FUNCTION_ATTRIBUTES):
        message = f"code generation does not know the function attribute {key}"
        unit.report(name, Diagnostic(UNKNOWN, message, func.span, hint=hint))
    if func.preconditions:
        message = "a precondition must be lowered to an assertion first"
        unit.report(name, Diagnostic("E5904", message, func.preconditions[0].span, hint=LOWER_FIRST))


def _write_inner(unit: Unit, name: str, func: PrimFunc, known: Signature) -> None:
    """The body, on raw pointers and sizes: ``i32 body(ptr a, …, i64 n, …)``, 0 or -1 with the error set."""
    alias = " noalias" if func.attrs.get("tir.noalias") else ""
    parameters: list[str] = []
    for i, (param, buffer) in enumerate(known.params):
        text = register_type(param.dtype) if buffer is None else f"ptr{alias}"
        parameters.append(f"{text} %p{i}")
    parameters += [f"i64 %s{i}" for i in range(len(known.bound))]
    attributes = f'nounwind %s "prefer-vector-width"="{unit.target.vector_bits}"'
    group = unit.module.attribute_group(attributes % "noinline")
    inline = (
        unit.module.attribute_group(attributes % "alwaysinline") if PARALLEL_BODY in func.attrs else group
    )
    head = f"define internal i32 {inner_symbol(name)}({', '.join(parameters)}) #{inline}"
    b = FunctionBuilder(unit.module, head)
    cx = Context(unit, b, name, _RULES)
    cx.attributes = group
    cx.title = str(func.attrs.get(PARALLEL_BODY, name))
    cx.checked = cx.exact = bool(func.attrs.get("tir.is_host_func"))
    for i, var in enumerate(known.bound):
        cx.wide[var] = Val(b, "i64", 1, f"%s{i}")
    for i, (param, buffer) in enumerate(known.params):
        if buffer is None:
            cx.vars[param] = cx.val(param.dtype, f"%p{i}")
        else:
            cx.vars[buffer.data] = cx.vars[param] = Val(b, "ptr", 1, f"%p{i}")
            cx.distinct.update([f"%p{i}"] if alias else [])
    for _, buffer in known.params:
        if buffer is not None:
            cx.facts.sizes(buffer)
    for i, (param, buffer) in enumerate(known.params):
        if buffer is not None:
            declare_memory(cx, buffer, f"%p{i}", max(buffer.dtype.bits // 8, 1))
            cx.memory[param] = cx.memory[buffer.data]
    write(cx, func.body)
    b.end("ret i32 0")
    with b.cold("error"):
        b.end("ret i32 -1")
    unit.module.define(b)
