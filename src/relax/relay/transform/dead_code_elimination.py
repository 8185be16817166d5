"""DeadCodeElimination: remove unused `let`s.

    let %a = add(%x, 1);                    let %u = ref_write(%r, 2);
    let %u = ref_write(%r, 2);   becomes    %x
    %x

A value that may write a reference stays, unless `ignore_impurity` is set; one that only creates or reads a reference is
removed. A recursive function without other uses is unused. With `inline_once`, a pure value used once replaces its
variable, except inside a nested function, which would evaluate it in each call.
"""

from __future__ import annotations

from ..expr import Expr, Function, Let
from ..scopes import place
from .effects import Effect, Effects
from .rewriting import Program, ordered_rewrite, relay_pass
from .to_graph_normal_form import kept_lets, lets_substituted
from .unused_lets import without_unused


def eliminate_dead_code(expr: Expr, effects: Effects, inline_once: bool = False, ignore_impurity: bool = False) -> Expr:
    """Remove unused bindings of a sequenced expression; return it unchanged if there are none."""
    table = {} if ignore_impurity else effects.of(expr)
    expr = without_unused(expr, lambda let: table.get(let.value) is Effect.WRITES)
    return _inlined_once(expr, effects) if inline_once else expr


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


@relay_pass("DeadCodeElimination", opt_level=1, required=["InferType"], settles=True)
def DeadCodeElimination(
    function: Function, program: Program, inline_once: bool = False, ignore_impurity: bool = False
) -> Expr:
    """Remove unused bindings, in every function."""
    effects = program.effects
    return ordered_rewrite(
        function, program, lambda expr: eliminate_dead_code(expr, effects, inline_once, ignore_impurity)
    )
