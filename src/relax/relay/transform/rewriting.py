"""The shared parts of Relay's passes: a pass of a function over functions, and expressions with other variables.

@relay_pass("ToANormalForm", opt_level=1)
def ToANormalForm(function: Function, program: Program) -> Expr:
    return to_a_normal_form(function)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, TypeGuard

from ...ir import BaseFunc, GlobalVar, IRModule, Op
from ...ir.transform import Pass, PassInfo, pass_factory
from ...prim import IntImm
from ..expr import Call, Constant, Expr, Function, Var
from ..functor import MixedModeMutator
from ..parts import bound_by, parts_of, with_parts
from ..scopes import nodes_with_parts
from ..types import TensorType, Type, TypeVar
from .effects import Effects
from .linear import sequenced


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


def relay_pass(
    name: str, opt_level: int = 0, required: Iterable[str] = (), settles: bool = False
) -> Callable[[Any], Any]:
    """Make ``f(function, program, **options)`` a pass factory, run on each function of Relay of a module.

    It is declared under ``relay.`` and its name. Functions for other compilers are left alone. One that `settles` is
    run until it changes nothing: what it drops may be the only reason why calls of unknown closures have effects.
    """

    def decorate(inner: Callable[..., Expr]) -> Callable[..., Pass]:
        def once(mod: IRModule, options: dict[str, Any]) -> IRModule:
            program = Program(mod)
            updated: dict[GlobalVar, Any] = {
                name: inner(function, program, **options) if is_optimized(function) else function
                for name, function in mod.functions.items()
            }
            return mod.with_functions(updated)

        def run(mod: IRModule, options: dict[str, Any]) -> IRModule:
            changed = once(mod, options)
            while settles and changed is not mod:
                mod, changed = changed, once(changed, options)
            return changed

        factory = pass_factory(inner, PassInfo.of(f"relay.{name}", opt_level, list(required)), run)
        factory.__name__ = factory.__qualname__ = name
        return factory

    return decorate


def relay_module_pass(name: str, opt_level: int = 0, required: Iterable[str] = ()) -> Callable[[Any], Any]:
    """Make ``f(mod, **options) -> IRModule`` a pass factory, declared under ``relay.`` and its name."""

    def decorate(inner: Callable[..., IRModule]) -> Callable[..., Pass]:
        info = PassInfo.of(f"relay.{name}", opt_level, list(required))
        factory = pass_factory(inner, info, lambda mod, options: inner(mod, **options), subjects=1)
        factory.__name__ = factory.__qualname__ = name
        return factory

    return decorate


def substituted_vars(expr: Expr, table: Mapping[Var, Expr]) -> Expr:
    """The expression with other expressions in the places of variables; itself if none stands in it."""
    if not table:
        return expr
    mutator = MixedModeMutator()
    mutator.memo_map.update(table.items())
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


def ordered_rewrite(expr: Expr, program: Program, change: Callable[[Expr], Expr]) -> Expr:
    """The expression changed by a rewrite that keeps each `let`, with its effects bound by `let` before.

    So the rewrite, which drops or moves nodes without effects, cannot change the order of the others. The expression
    itself if the rewrite changes nothing.
    """
    ordered = sequenced(expr, program.effects)
    changed = change(ordered)
    return expr if changed is ordered else changed


class Rewriter:
    """Rewrites an expression from the leaves up, knowing the types of what it replaces.

    A subclass has ``rewrite(pre, post)``: a node of the expression, and the node of rewritten parts; it returns `post`,
    or an expression of the same type and value. What it returns is handed in again, until nothing changes.
    """

    def __init__(self) -> None:
        self.memo: dict[Expr, Expr] = {}
        self._types: dict[Expr, Type] = {}

    def rewrite(self, pre: Expr, post: Expr) -> Expr:
        """The expression to stand in the place of a node."""
        raise NotImplementedError(type(self).__name__)

    def type_of(self, expr: Expr) -> Type | None:
        """The type of an expression of the program, or of one that stands for such; None if it is not known."""
        if isinstance(expr, Constant):
            return expr.type
        known = self._types.get(expr)
        return known if known is not None else getattr(expr, "checked_type_", None)

    def tensor(self, expr: Expr) -> TensorType | None:
        """The type of a tensor whose rank and dtype are known."""
        type_ = self.type_of(expr)
        if not isinstance(type_, TensorType):
            return None
        return None if isinstance(type_.shape, TypeVar) or isinstance(type_.dtype, TypeVar) else type_

    def shape(self, expr: Expr) -> tuple[int, ...] | None:
        """The shape of a tensor all of whose dimensions are numbers."""
        type_ = self.tensor(expr)
        return None if type_ is None else static_shape(type_)

    def visit(self, expr: Expr) -> Expr:
        """The expression rewritten."""
        memo = self.memo
        stack: list[tuple[Expr, bool]] = [(expr, False)]
        while stack:
            node, entered = stack.pop()
            if node in memo:
                continue
            if entered:
                memo[node] = self._rewritten(node, with_parts(node, [memo[part] for part in parts_of(node)]))
            else:
                stack.append((node, True))
                stack.extend((part, False) for part in reversed(parts_of(node)))
        return memo[expr]

    def _rewritten(self, pre: Expr, post: Expr) -> Expr:
        type_ = self.type_of(pre)
        for _ in range(_MOST_STEPS):
            if type_ is not None and post is not pre:
                self._types.setdefault(post, type_)
            changed = self.rewrite(pre, post)
            if changed is post:
                break
            post = changed
        return post


_MOST_STEPS = 16
"""Rewrites of one node; rules that undo each other end here."""


def static_shape(type_: Type | None) -> tuple[int, ...] | None:
    """The shape of a tensor type all of whose dimensions are numbers; None for another type."""
    if not isinstance(type_, TensorType) or isinstance(type_.shape, TypeVar):
        return None
    dims = [dim.value for dim in type_.shape if isinstance(dim, IntImm)]
    return tuple(dims) if len(dims) == len(type_.shape) else None


def is_call(expr: Expr, *names: str) -> TypeGuard[Call]:
    """True if an expression is a call of one of these operators."""
    return isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name in names


__all__ = [
    "Program", "Rewriter", "copied", "fresh_node", "is_call", "is_optimized", "ordered_rewrite", "relay_module_pass",
    "relay_pass", "static_shape", "substituted_vars",
]  # fmt: skip
