"""Infrastructure of Relay passes: function passes, and expressions with substituted variables.

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
    """Module under a pass, with analyses shared by its functions."""

    def __init__(self, mod: IRModule | None = None) -> None:
        self.mod = mod

    @cached_property
    def effects(self) -> Effects:
        """Effects of the module's functions."""
        return Effects(self.mod)


def is_optimized(function: BaseFunc) -> bool:
    """True for a Relay function that passes may rewrite: without an external compiler or SkipOptimization."""
    return (
        isinstance(function, Function)
        and not function.attrs.get("Compiler")
        and not function.attrs.get("SkipOptimization")
    )


def relay_pass(
    name: str, opt_level: int = 0, required: Iterable[str] = (), settles: bool = False
) -> Callable[[Any], Any]:
    """Make ``f(function, program, **options)`` a pass factory that runs on each Relay function of a module.

    The pass is registered under ``relay.`` and its name. Functions for external compilers are skipped. If `settles`, it
    runs until nothing changes: code that it drops may be the only reason that calls of unknown closures have effects.
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
    """Make ``f(mod, **options) -> IRModule`` a pass factory, registered under ``relay.`` and its name."""

    def decorate(inner: Callable[..., IRModule]) -> Callable[..., Pass]:
        info = PassInfo.of(f"relay.{name}", opt_level, list(required))
        factory = pass_factory(inner, info, lambda mod, options: inner(mod, **options), subjects=1)
        factory.__name__ = factory.__qualname__ = name
        return factory

    return decorate


def substituted_vars(expr: Expr, table: Mapping[Var, Expr]) -> Expr:
    """Substitute variables; return the expression unchanged if none occurs in it."""
    if not table:
        return expr
    mutator = MixedModeMutator()
    mutator.memo_map.update(table.items())
    return mutator.visit(expr)


def copied(expr: Expr, table: Mapping[Expr, Expr] | None = None) -> Expr:
    """Copy an expression with new nodes and bound variables, preserving its internal sharing.

    `table` maps nodes, such as parameters, to replacements. Nodes without children are not copied.
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
    """Create a new node like `node` with other children."""
    changed = with_parts(node, parts)
    if changed is not node:
        return changed
    values = {spec.parameter: getattr(node, spec.name) for spec in node.__node_fields__}
    return type(node)(**values, span=node.span)


def ordered_rewrite(expr: Expr, program: Program, change: Callable[[Expr], Expr]) -> Expr:
    """Apply a rewrite after binding all effects by `let`s.

    The rewrite keeps these `let`s, so it may drop or move nodes without effects but cannot reorder effects. The
    expression is returned unchanged if the rewrite changes nothing.
    """
    ordered = sequenced(expr, program.effects)
    changed = change(ordered)
    return expr if changed is ordered else changed


class Rewriter:
    """Rewrites an expression bottom-up, with access to types.

    A subclass defines ``rewrite(pre, post)``, called with a node and the node with rewritten children; it returns
    `post`, or an expression of the same type and value, which is rewritten again until nothing changes.
    """

    def __init__(self) -> None:
        self.memo: dict[Expr, Expr] = {}
        self._types: dict[Expr, Type] = {}

    def rewrite(self, pre: Expr, post: Expr) -> Expr:
        """Return the replacement of a node."""
        raise NotImplementedError(type(self).__name__)

    def type_of(self, expr: Expr) -> Type | None:
        """Type of an expression of the program or of a replacement, or None if unknown."""
        if isinstance(expr, Constant):
            return expr.type
        recorded = self._types.get(expr)
        return recorded if recorded is not None else getattr(expr, "checked_type_", None)

    def tensor(self, expr: Expr) -> TensorType | None:
        """Tensor type with known rank and dtype, or None."""
        type_ = self.type_of(expr)
        if not isinstance(type_, TensorType):
            return None
        return None if isinstance(type_.shape, TypeVar) or isinstance(type_.dtype, TypeVar) else type_

    def shape(self, expr: Expr) -> tuple[int, ...] | None:
        """Static shape of a tensor, or None."""
        type_ = self.tensor(expr)
        return None if type_ is None else static_shape(type_)

    def visit(self, expr: Expr) -> Expr:
        """Return the rewritten expression."""
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
"""Most rewrites of one node, which bounds rules that undo each other."""


def static_shape(type_: Type | None) -> tuple[int, ...] | None:
    """Static shape of a tensor type, or None."""
    if not isinstance(type_, TensorType) or isinstance(type_.shape, TypeVar):
        return None
    dims = [dim.value for dim in type_.shape if isinstance(dim, IntImm)]
    return tuple(dims) if len(dims) == len(type_.shape) else None


def is_call(expr: Expr, *names: str) -> TypeGuard[Call]:
    """True if an expression is a call of one of the named operators."""
    return isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name in names
