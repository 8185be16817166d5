"""DeadCodeElimination: no `let` whose variable nothing uses.

    let %a = add(%x, 1);                    let %u = ref_write(%r, 2);
    let %u = ref_write(%r, 2);   becomes    %x
    %x

A value that may write a reference stays, unless `ignore_impurity` is set; one that only creates or reads one goes. A
function that calls itself is unused if nothing else uses it. With `inline_once`, a value without effects that is used
once takes the place of its variable, except inside of a function, whose calls would each evaluate it.
"""

from __future__ import annotations

from ..expr import Expr, Function, Let, Var
from ..parts import parts_of, with_parts
from ..scopes import nodes_with_parts, place
from .effects import Effect, Effects
from .rewriting import Program, ordered_rewrite, relay_pass
from .to_graph_normal_form import kept_lets, lets_substituted


def eliminate_dead_code(
    expr: Expr, effects: Effects, inline_once: bool = False, ignore_impurity: bool = False
) -> Expr:
    """A sequenced expression without bindings that nothing uses; itself if there are none."""
    needed = _needed(expr, {} if ignore_impurity else effects.of(expr))
    lets = [node for node in nodes_with_parts(expr) if isinstance(node, Let)]
    if any(let not in needed for let in lets):
        expr = _without(expr, needed)
    return _inlined_once(expr, effects) if inline_once else expr


def _needed(expr: Expr, table: dict[Expr, Effect]) -> set[Expr]:
    """The nodes that are evaluated for the result, or for their effects; of a `let` that goes, only its body."""
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
            if table.get(node.value) is Effect.WRITES or node.var in used:
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
            memo[node] = with_parts(node, [memo[part] for part in parts])
    return memo[expr]


def _inlined_once(expr: Expr, effects: Effects) -> Expr:
    placement = place(expr)
    uses: dict[Expr, int] = {}
    for node in placement.order:
        for part, _ in placement.positions(node):
            uses[part] = uses.get(part, 0) + 1
    lets = [node for node in placement.order if isinstance(node, Let)]
    kept = kept_lets(placement, lets, effects.of(expr, placement))
    kept |= {let for let in lets if uses.get(let.var, 0) > 1}
    return expr if len(kept) == len(lets) else lets_substituted(expr, kept)


@relay_pass("DeadCodeElimination", opt_level=1, required=["InferType"])
def DeadCodeElimination(
    function: Function, program: Program, inline_once: bool = False, ignore_impurity: bool = False
) -> Expr:
    """Drop the bindings of every function that nothing uses."""
    effects = program.effects
    return ordered_rewrite(
        function, program, lambda expr: eliminate_dead_code(expr, effects, inline_once, ignore_impurity)
    )


__all__ = ["DeadCodeElimination", "eliminate_dead_code"]
