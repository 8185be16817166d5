"""LambdaLift: make nested functions global.

    def @main(%x: int32) {                     def @f(%x: int32, Closure=1) { fn (%y: int32) { add(%x, %y) } }
      let %f = fn (%y: int32) { %x + %y };
      %f(1)                            becomes def @main(%x: int32) {
    }                                            let %f = @f(%x);
                                                 %f(1)
                                               }

A function without free variables becomes global itself. Otherwise a global function with the attribute Closure takes
the free variables and returns the function. A recursive function calls the global one. Not lifted: functions whose
types mention type parameters of an enclosing function, polymorphic functions with free variables, and primitive
functions.
"""

from __future__ import annotations

from typing import Any, cast

from ...ir import GlobalVar, IRModule
from ..analysis import free_type_vars, free_vars
from ..expr import Call, Expr, Function, Let, Var
from ..parts import parts_of, with_parts
from ..scopes import nodes_with_parts
from ..types import FuncType
from .effects import Effects
from .rewriting import copied, is_optimized, relay_module_pass
from .to_basic_block_normal_form import to_basic_block_normal_form


class _Lifter:
    """Functions lifted out of a module's functions."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.effects = Effects(mod)
        self.lifted: dict[GlobalVar, Function] = {}
        self.names = {g.name_hint for g in mod.functions}

    def function(self, name: str, function: Function) -> Expr:
        """Return a global function without nested functions."""
        if not any(_is_inner(node, function) for node in nodes_with_parts(function)):
            return function
        blocks = cast(Function, to_basic_block_normal_form(function, self.effects))
        memo: dict[Expr, Expr] = {}
        order = nodes_with_parts(blocks)
        lets = {node.value: node for node in order if isinstance(node, Let)}  # each value is bound once
        changed = False
        for node in order:
            if isinstance(node, Let) and isinstance(memo.get(node.var), GlobalVar):
                memo[node] = memo.get(node.body, node.body)
                continue
            post = with_parts(node, [memo.get(part, part) for part in parts_of(node)])
            if isinstance(node, Function) and isinstance(post, Function) and _is_inner(node, blocks):
                lifted = self._lift(name, node, post, lets.get(node))
                changed |= lifted is not post
                if isinstance(lifted, GlobalVar) and node in lets:
                    memo[lets[node].var] = lifted
                post = lifted
            memo[node] = post
        return memo[blocks] if changed else function

    def _lift(self, name: str, node: Function, function: Function, let: Let | None) -> Expr:
        """Return the global function, or a call of it, that replaces a nested function."""
        own = None if let is None else let.var
        captured = [var for var in free_vars(function) if var is not own]
        types: list[Any] = [var.checked_type_ for var in captured]
        general = isinstance(node.checked_type_, FuncType) and node.checked_type_.type_params
        if free_type_vars(function) or (captured and (general or not all(map(_is_plain, types)))):
            return function
        global_var = self._name(f"{name}_{own.name_hint}" if own is not None else f"{name}_lambda")
        params = [Var(var.name_hint, type_) for var, type_ in zip(captured, types, strict=True)]
        table: dict[Expr, Expr] = dict(zip(captured, params, strict=True))
        if own is not None:
            table[own] = Call(global_var, params) if captured else global_var
        inner = copied(function, table)
        assert isinstance(inner, Function)
        self.lifted[global_var] = Function(params, inner, attrs={"Closure": 1}) if captured else inner
        return Call(global_var, captured, span=function.span) if captured else global_var

    def _name(self, hint: str) -> GlobalVar:
        name, count = hint, 0
        while name in self.names:
            count += 1
            name = f"{hint}_{count}"
        self.names.add(name)
        return GlobalVar(name)


def _is_plain(type_: Any) -> bool:
    """True for a complete, monomorphic parameter type."""
    return type_ is not None and not (isinstance(type_, FuncType) and type_.type_params)


def _is_inner(node: Expr, function: Function) -> bool:
    """True for a nested function that must be lifted."""
    if not isinstance(node, Function) or node is function or node.attrs.get("Primitive"):
        return False
    return not (function.attrs.get("Closure") and function.body is node)


@relay_module_pass("LambdaLift", opt_level=1, required=["InferType"])
def LambdaLift(mod: IRModule) -> IRModule:
    """Make all nested functions global."""
    lifter = _Lifter(mod)
    updated: dict[GlobalVar, Any] = {}
    for name, function in mod.functions.items():
        if isinstance(function, Function) and is_optimized(function):
            updated[name] = lifter.function(name.name_hint, function)
        else:
            updated[name] = function
    return mod.with_functions({**updated, **lifter.lifted})
