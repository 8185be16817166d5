"""Inline: replace calls of functions with the attribute Inline by their bodies.

    def @twice(%x: int32, Inline=1) -> int32 { %x + %x }               def @main(%y: int32) -> int32 {
    def @main(%y: int32) -> int32 { @twice(%y * 3) }          becomes    %0 = multiply(%y, 3);
                                                                         add(%0, %0)
                                                                       }

Recursive functions are not inlined. An argument is evaluated once: it becomes a shared node, or is bound by a `let` if
only nested functions use the parameter. A function whose calls are all inlined is kept, for RemoveUnusedFunctions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...derive.call_graph import components
from ...ir import GlobalVar, IRModule
from ..expr import Call, Expr, Function, Let, Var
from ..functor import MixedModeMutator
from ..parts import LEAVES, parts_of
from ..scopes import EvaluationScope, nodes_with_parts, place
from ..type_walk import substituted
from ..types import IncompleteType, Type
from .rewriting import Program, copied, is_optimized, ordered_rewrite, relay_module_pass


class _Inliner(MixedModeMutator):
    def __init__(self, bodies: dict[str, Function]) -> None:
        super().__init__()
        self.bodies = bodies

    def rewrite_call(self, pre: Call, post: Call) -> Expr:
        del pre
        if isinstance(post.op, GlobalVar) and post.op.name_hint in self.bodies:
            return inlined(self.bodies[post.op.name_hint], post.args, post.type_args)
        return post


class _Retyped(MixedModeMutator):
    def __init__(self, types: dict[Any, Any]) -> None:
        super().__init__()
        self.types = types

    def visit_type(self, type_: Type) -> Type:
        return substituted(type_, self.types)


def inlined(function: Function, args: Sequence[Expr], type_args: Sequence[Type] = ()) -> Expr:
    """Inline a call of a closed function: a copy of its body with arguments for parameters.

    The arguments have no effects. An argument used only inside nested functions is bound by a `let`.
    """
    inside = _used_in_functions_only(function)
    table: dict[Expr, Expr] = {}
    bound: list[tuple[Var, Expr]] = []
    for param, arg in zip(function.params, args, strict=True):
        if param in inside and not isinstance(arg, LEAVES):
            bound.append((Var(param.name_hint, span=param.span), arg))
            table[param] = bound[-1][0]
        else:
            table[param] = arg
    body = copied(function.body, table)
    if function.type_params:
        chosen: Sequence[Any] = type_args or [IncompleteType(var.kind) for var in function.type_params]
        body = _Retyped(dict(zip(function.type_params, chosen, strict=True))).visit(body)
    for var, arg in reversed(bound):
        body = Let(var, arg, body)
    return body


def _used_in_functions_only(function: Function) -> set[Var]:
    """Parameters used only inside nested functions."""
    placement = place(function)
    common: dict[Expr, EvaluationScope] = {}
    for node in placement.order:
        for part, scope in placement.positions(node):
            if isinstance(part, Var):
                common[part] = EvaluationScope.common(common.get(part, scope), scope)
    inside: set[Var] = set()
    for param in function.params:
        scope = common.get(param)
        while scope is not None and not isinstance(scope.owner, Function):
            scope = scope.parent
        if scope is not None and scope.owner is not function:
            inside.add(param)
    return inside


@relay_module_pass("Inline", opt_level=1)
def Inline(mod: IRModule) -> IRModule:
    """Inline the functions with the attribute Inline, in every function."""
    functions = {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, Function)}
    calls = {
        name: [
            part.name_hint
            for node in nodes_with_parts(function)
            for part in parts_of(node)
            if isinstance(part, GlobalVar) and part.name_hint in functions
        ]
        for name, function in functions.items()
    }
    program = Program(mod)
    bodies: dict[str, Function] = {}
    changed: dict[str, Function] = {}
    for group in components(calls):
        for name in group:
            function = functions[name]
            if is_optimized(function) and any(callee in bodies for callee in calls[name]):
                inliner = _Inliner(bodies)
                function = ordered_rewrite(function, program, inliner.visit)
            changed[name] = function  # type: ignore[assignment]
        name = group[0]
        if len(group) == 1 and functions[name].attrs.get("Inline") and name not in calls[name]:
            bodies[name] = changed[name]
    return mod.with_functions({g: changed.get(g.name_hint, f) for g, f in mod.functions.items()})
