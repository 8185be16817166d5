"""ToBasicBlockNormalForm: bind by a `let` every node used in a scope nested in its own.

    fn (%c: bool, %x: int32) {                    fn (%c: bool, %x: int32) {
      %0 = add(%x, 1);                              let %x1 = add(%x, 1);
      if (%c) { multiply(%0, 2) } else { %0 }   →   if (%c) { multiply(%x1, 2) } else { %x1 }
    }                                             }

Each function body, `if` branch and right side of a clause is a block; the body of a `let` belongs to the enclosing
block. Nodes with effects are bound as well, which keeps their order.
"""

from __future__ import annotations

from ..expr import Expr, Function, Let
from ..scopes import EvaluationScope, Placement, place
from .effects import Effects
from .linear import linearized
from .rewriting import Program, relay_pass


def to_basic_block_normal_form(expr: Expr, effects: Effects | None = None) -> Expr:
    """Convert to basic-block normal form; return the expression unchanged if it is."""
    placement = place(expr)
    bound = used_in_other_blocks(placement)
    bound |= (effects or Effects()).of(expr, placement).keys()
    operands = _operands(placement)
    for node in list(bound):
        if isinstance(node, Let) and node not in operands:
            continue  # its result belongs to the enclosing block
        while isinstance(node, Let):  # bind its result
            node = node.body
        bound.add(node)
    return linearized(expr, bound.__contains__) if bound else expr


def _operands(placement: Placement) -> set[Expr]:
    """Nodes used other than as the result of a scope."""
    return {part for node in placement.order for part, scope in placement.positions(node) if scope.owner is not node}


def used_in_other_blocks(placement: Placement) -> set[Expr]:
    """Nodes used in blocks nested in their own."""
    blocks: dict[EvaluationScope, EvaluationScope] = {}

    def block(scope: EvaluationScope) -> EvaluationScope:
        path: list[EvaluationScope] = []
        while scope not in blocks and isinstance(scope.owner, Let):
            path.append(scope)
            scope = scope.parent
        result = blocks.get(scope, scope)
        blocks.update(dict.fromkeys(path, result))
        return result

    return {
        part
        for node in placement.order
        for part, scope in placement.positions(node)
        if part in placement.of and block(scope) is not block(placement.of[part])
    }


@relay_pass("ToBasicBlockNormalForm", opt_level=1)
def ToBasicBlockNormalForm(function: Function, program: Program) -> Expr:
    """Bind by a `let` what several blocks use, in every function."""
    return to_basic_block_normal_form(function, program.effects)
