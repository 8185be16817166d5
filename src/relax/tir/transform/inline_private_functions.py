"""Inline calls of private functions.

    def main(A: T.Buffer((16,))):                       def main(A: T.Buffer((16,))):
        cls.twice(A.data, 3)                                for i in range(16):
                                                                A[i] = A[i] * 3
    @T.prim_func(private=True)              gives
    def twice(B: T.Buffer((16,)), k: T.int32):
        for i in range(16):
            B[i] = B[i] * k

Private functions without remaining references are removed.

Declines for recursive functions; functions with preconditions, or with attributes other than ``tir.noalias``; tensor
arguments that are not buffers of the caller, proved to have the shape, dtype and layout of the parameter; an argument
passed to two parameters of a function with ``tir.noalias``; calls whose value is used.
"""

from __future__ import annotations

from typing import Any

from ...ir import BaseFunc, GlobalVar, IRModule, Node, walk
from ...ir.transform import module_pass
from ...prim import Call, IntImm, PrimExpr, Var
from ..buffer import Buffer
from ..functor import substitute
from ..renew import renew_bound_vars
from ..stmt import Evaluate, LetStmt, PrimFunc, Stmt
from .facts import FactsMutator


@module_pass
def InlinePrivateFunctions(mod: IRModule) -> IRModule:
    """Inline calls of private functions."""
    inlining = _Module(mod)
    functions: dict[GlobalVar, BaseFunc] = {var: inlining.function(var) for var in mod.functions}
    inlined = mod.with_functions(functions)
    if inlined is mod:
        return mod
    unused = _inlined_and_unused(inlined, inlining.inlined)
    return inlined.without(unused) if unused else inlined


def _inlined_and_unused(mod: IRModule, inlined: set[GlobalVar]) -> list[str]:
    used: set[str] = set()
    for func in mod.functions.values():
        walk(func, lambda node: used.add(node.name_hint) if isinstance(node, GlobalVar) else None)
    return [var.name_hint for var in inlined if var.name_hint not in used]


class _Module:
    """The functions of a module, with calls inlined."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.done: dict[str, BaseFunc] = {}
        self.running: list[str] = []
        self.inlined: set[GlobalVar] = set()

    def function(self, var: GlobalVar) -> BaseFunc:
        """Return a function with its calls inlined."""
        name = var.name_hint
        func = self.mod[var]
        if not isinstance(func, PrimFunc):
            return func
        if name not in self.done:
            self.running.append(name)
            self.done[name] = _Calls(func, self).run()
            self.running.pop()
        return self.done[name]

    def callee(self, var: GlobalVar) -> PrimFunc | None:
        """Return a private function that may be inlined, or None."""
        func = self.mod.get(var)
        if not isinstance(func, PrimFunc) or set(func.attrs) - {"tir.noalias"} or func.preconditions:
            return None
        if var.name_hint in self.running or _calls(func, self.mod, var.name_hint):
            return None
        inlined = self.function(var)
        return inlined if isinstance(inlined, PrimFunc) and not _returns(inlined) else None


def _callees(func: PrimFunc) -> set[str]:
    names: set[str] = set()
    walk(func, lambda node: names.add(node.name_hint) if isinstance(node, GlobalVar) else None)
    return names


def _calls(func: PrimFunc, mod: IRModule, name: str) -> bool:
    """True if a function calls `name`, directly or indirectly."""
    pending, seen = [func], set[str]()
    while pending:
        for callee in _callees(pending.pop()) - seen:
            seen.add(callee)
            other = mod.get(callee)
            if isinstance(other, PrimFunc):
                pending.append(other)
    return name in seen


def _returns(func: PrimFunc) -> bool:
    returns: list[Node] = []

    def visit(node: Node) -> None:
        if isinstance(node, Call) and node.intrinsic == "ret":
            returns.append(node)

    walk(func.body, visit)
    return bool(returns) or func.ret_type is not None


class _Calls(FactsMutator):
    def __init__(self, func: PrimFunc, module: _Module) -> None:
        super().__init__(func)
        self.module = module

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        call = node.value
        if not isinstance(call, Call) or not isinstance(call.op, GlobalVar):
            return node
        callee = self.module.callee(call.op)
        body = None if callee is None else self.inlined(callee, call.args)
        if body is None:
            return node
        self.module.inlined.add(call.op)
        return body

    def inlined(self, callee: PrimFunc, args: tuple[PrimExpr, ...]) -> Stmt | None:
        """Return the callee's body for the arguments, or None if they are not proved to fit the parameters."""
        func = renew_bound_vars(callee)
        if len(args) != len(func.params) or (callee.attrs.get("tir.noalias") and _repeats(args)):
            return None
        values: dict[Any, Any] = {}
        lets: list[tuple[Var, PrimExpr]] = []
        checks: list[tuple[PrimExpr, PrimExpr]] = []
        for param, arg in zip(func.params, args, strict=True):
            buffer = func.buffer_map.get(param)
            if buffer is not None:
                own = self.storage.get(arg) if isinstance(arg, Var) else None
                if own is None or not _same_layout(buffer, own):
                    return None
                values[buffer], values[buffer.data] = own, own.data
                for size, value in zip(buffer.shape, own.shape, strict=True):
                    if isinstance(size, Var) and size not in values and size.dtype == value.dtype:
                        values[size] = value
                    else:
                        checks.append((size, value))
            elif arg.dtype != param.dtype or param.nonnegative:
                return None
            else:
                lets.append((param, arg))
        if not all(self.analyzer.can_prove_equal(substitute(a, values), b) for a, b in checks):
            return None
        body: Stmt = substitute(func.body, values)
        for param, arg in reversed(lets):
            body = substitute(body, {param: arg}) if isinstance(arg, (Var, IntImm)) else LetStmt(param, arg, body)
        return body


def _repeats(args: tuple[PrimExpr, ...]) -> bool:
    pointers = [arg for arg in args if isinstance(arg, Var) and arg.dtype.is_handle]
    return len(set(pointers)) != len(pointers)


def _same_layout(param: Buffer, own: Buffer) -> bool:
    """True if a caller's buffer has a parameter's dtype, rank, scope, layout and alignment; sizes are not compared."""
    compact = not (param.strides or own.strides)
    at_start = param.elem_offset is None and own.elem_offset is None
    same = param.dtype == own.dtype and param.ndim == own.ndim and param.scope == own.scope
    return compact and at_start and same and param.data_alignment <= own.data_alignment
