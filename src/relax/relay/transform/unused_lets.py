"""Remove unused `let`s.

    let %a = add(%x, 1); let %f = fn() { %a }; %x        becomes        %x

A `let` is used if its variable occurs in the evaluated result, or in the value of a used `let`; values mentioned only
by unused `let`s are unused, too.
"""

from __future__ import annotations

from collections.abc import Callable

from ..expr import Expr, Let, Var
from ..parts import parts_of, with_parts
from ..scopes import nodes_with_parts
from .linear import typed_like


def without_unused(expr: Expr, stays: Callable[[Let], bool]) -> Expr:
    """Remove unused `let`s except those for which `stays` is true; return the expression unchanged if there are
    none.
    """
    needed = _needed(expr, stays)
    lets = [node for node in nodes_with_parts(expr) if isinstance(node, Let)]
    return _without(expr, needed) if any(let not in needed for let in lets) else expr


def _needed(expr: Expr, stays: Callable[[Let], bool]) -> set[Expr]:
    """Return the `let`s that are used or must stay."""
    waiting: dict[Var, Let] = {}
    used: set[Expr] = set()
    needed: set[Expr] = set()
    seen: set[Expr] = set()
    stack = [expr]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, Let):
            stack.append(node.body)
            if stays(node) or node.var in used:
                needed.add(node)
                stack.append(node.value)
            else:
                waiting[node.var] = node
        elif isinstance(node, Var):
            used.add(node)
            let = waiting.pop(node, None)
            if let is not None:
                needed.add(let)
                stack.append(let.value)
        else:
            stack.extend(reversed(parts_of(node)))
    return needed


def _without(expr: Expr, needed: set[Expr]) -> Expr:
    memo: dict[Expr, Expr] = {}
    stack: list[tuple[Expr, bool]] = [(expr, False)]
    while stack:
        node, entered = stack.pop()
        if node in memo:
            continue
        parts = (node.body,) if isinstance(node, Let) and node not in needed else parts_of(node)
        if not entered:
            stack.append((node, True))
            stack.extend((part, False) for part in reversed(parts))
        elif isinstance(node, Let) and node not in needed:
            memo[node] = memo[node.body]
        else:
            memo[node] = typed_like(with_parts(node, [memo[part] for part in parts]), node)
    return memo[expr]
