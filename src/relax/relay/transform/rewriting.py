"""The shared parts of Relay's passes: a pass of a function over functions, and expressions with other variables.

    @relay_pass("ToANormalForm", opt_level=1)
    def ToANormalForm(function: Function, program: Program) -> Expr:
        return to_a_normal_form(function)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from ...ir import BaseFunc, GlobalVar, IRModule
from ...ir.transform import Pass, PassInfo, pass_factory
from ..expr import Expr, Function, Var
from ..functor import MixedModeMutator
from ..parts import bound_by, parts_of, with_parts
from ..scopes import nodes_with_parts
from .effects import Effects


class Program:
    """The module under a pass, and facts about it that several functions ask for."""

    def __init__(self, mod: IRModule | None = None) -> None:
        self.mod = mod

    @cached_property
    def effects(self) -> Effects:
        """The effects of the module's functions."""
        return Effects(self.mod)


def is_optimized(function: BaseFunc) -> bool:
    """True for a function of Relay that passes may rewrite: one for Relay's own compiler, without SkipOptimization."""
    return (
        isinstance(function, Function)
        and not function.attrs.get("Compiler")
        and not function.attrs.get("SkipOptimization")
    )


def relay_pass(name: str, opt_level: int = 0, required: Iterable[str] = ()) -> Callable[[Any], Any]:
    """Make ``f(function, program, **options)`` a pass factory, run on each function of Relay of a module.

    It is declared under ``relay.`` and its name. Functions for other compilers are left alone.
    """

    def decorate(inner: Callable[..., Expr]) -> Callable[..., Pass]:
        def run(mod: IRModule, options: dict[str, Any]) -> IRModule:
            program = Program(mod)
            updated: dict[GlobalVar, Any] = {
                name: inner(function, program, **options) if is_optimized(function) else function
                for name, function in mod.functions.items()
            }
            return mod.with_functions(updated)

        factory = pass_factory(inner, PassInfo.of(f"relay.{name}", opt_level, list(required)), run)
        factory.__name__ = factory.__qualname__ = name
        return factory

    return decorate


def relay_module_pass(name: str, opt_level: int = 0, required: Iterable[str] = ()) -> Callable[[Any], Any]:
    """Make ``f(mod, **options) -> IRModule`` a pass factory, declared under ``relay.`` and its name."""

    def decorate(inner: Callable[..., IRModule]) -> Callable[..., Pass]:
        info = PassInfo.of(f"relay.{name}", opt_level, list(required))
        factory = pass_factory(inner, info, lambda mod, options: inner(mod, **options))
        factory.__name__ = factory.__qualname__ = name
        return factory

    return decorate


def substituted_vars(expr: Expr, table: Mapping[Var, Expr]) -> Expr:
    """The expression with other expressions in the places of variables; itself if none stands in it."""
    if not table:
        return expr
    mutator = MixedModeMutator()
    mutator.memo_map.update(table)
    return mutator.visit(expr)


def copied(expr: Expr, table: Mapping[Expr, Expr] | None = None) -> Expr:
    """A copy that shares no node and no bound variable with the expression, whose sharing it has inside.

    `table` has what is to stand in the places of some nodes, such as parameters. Nodes without parts are not copied.
    """
    copies: dict[Expr, Expr] = dict(table or {})
    order = nodes_with_parts(expr)
    for node in order:
        for var in bound_by(node):
            copies.setdefault(var, Var(var.name_hint, var.type_annotation, span=var.span))
    for node in order:
        if node not in copies:
            copies[node] = fresh_node(node, [copies.get(part, part) for part in parts_of(node)])
    return copies.get(expr, expr)


def fresh_node(node: Any, parts: Iterable[Expr]) -> Expr:
    """A new node like one, of other parts."""
    changed = with_parts(node, parts)
    if changed is not node:
        return changed
    values = {spec.parameter: getattr(node, spec.name) for spec in node.__node_fields__}
    return type(node)(**values, span=node.span)


__all__ = [
    "Program", "copied", "fresh_node", "is_optimized", "relay_module_pass", "relay_pass", "substituted_vars",
]  # fmt: skip
