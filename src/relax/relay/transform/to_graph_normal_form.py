"""ToGraphNormalForm: replace `let` variables by their values, which become shared nodes.

    let %y = add(%x, 1);                    %0 = add(%x, 1);
    let %z = multiply(%y, %y);   becomes    %1 = multiply(%0, %0);
    subtract(%z, %y)                        subtract(%1, %0)

A `let` stays if removing it would change what is evaluated, how often, or its type:

* its value has effects (all nodes with effects of such a program are bound by a `let`, which keeps their order);
* its value is a function that calls itself, or one that may be polymorphic and has several uses;
* only functions inside of its scope use it: their calls would each evaluate it.

Unused values are removed.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..expr import Expr, Function, Let, Var
from ..parts import parts_of, with_parts
from ..scopes import EvaluationScope, Placement, place
from ..types import FuncType
from .effects import Effect, Effects
from .linear import sequenced, typed_like
from .rewriting import Program, relay_pass
from .unused_lets import without_unused


def to_graph_normal_form(expr: Expr, effects: Effects | None = None) -> Expr:
    """Convert to graph normal form; return the expression unchanged if it is."""
    effects = Effects() if effects is None else effects
    ordered = sequenced(expr, effects)
    changed = without_lets(ordered, effects)
    return expr if changed is ordered else changed


def without_lets(expr: Expr, effects: Effects) -> Expr:
    """Substitute `let` variables of a sequenced expression as far as that is valid.

    Unused `let`s are removed first, as they would keep others alive. Substituting one `let` may make another
    substitutable: the steps repeat until all remaining `let`s must stay.
    """
    while True:
        table = effects.of(expr)
        used = without_unused(expr, lambda let, table=table: let.value in table)
        placement = place(used)
        lets = [node for node in placement.order if isinstance(node, Let)]
        kept = kept_lets(placement, lets, effects.of(used, placement)) if lets else set[Let]()
        changed = used if len(kept) == len(lets) else lets_substituted(used, kept)
        if changed is expr:
            return expr
        expr = changed


def kept_lets(placement: Placement, lets: list[Let], effects: Mapping[Expr, Effect]) -> set[Let]:
    """Return the `let`s that must stay; `effects` are those of the expression's nodes."""
    uses: dict[Var, list[EvaluationScope]] = {}
    for node in placement.order:
        for part, scope in placement.positions(node):
            if isinstance(part, Var):
                uses.setdefault(part, []).append(scope)
    functions = _Functions()
    kept = {let for let in lets if let.value in effects}
    for let in lets:
        value, scopes = let.value, uses.get(let.var, [])
        if not scopes or value not in placement.of:
            continue
        if isinstance(value, Function):
            inside = placement.opened[value][0]
            if any(inside.encloses(scope) for scope in scopes) or (len(scopes) > 1 and _may_be_general(value)):
                kept.add(let)
        common = scopes[0]
        for scope in scopes[1:]:
            common = EvaluationScope.common(common, scope)
        if functions.around(common) is not functions.around(placement.of[let]):
            kept.add(let)
    return kept


def _may_be_general(function: Function) -> bool:
    """True if type inference may generalise a function without explicit type parameters."""
    type_ = function.checked_type_
    if isinstance(type_, FuncType):
        return len(type_.type_params) > len(function.type_params)
    return any(param.type_annotation is None for param in function.params)


class _Functions:
    """Body scope of the innermost function around each scope."""

    def __init__(self) -> None:
        self._around: dict[EvaluationScope, EvaluationScope] = {}

    def around(self, scope: EvaluationScope) -> EvaluationScope:
        path: list[EvaluationScope] = []
        while scope not in self._around and scope.parent is not scope and not isinstance(scope.owner, Function):
            path.append(scope)
            scope = scope.parent
        result = self._around.get(scope, scope)
        self._around.update(dict.fromkeys(path, result))
        return result


def lets_substituted(expr: Expr, kept: set[Let]) -> Expr:
    """Substitute the variables of all `let`s except those in `kept`."""
    memo: dict[Expr, Expr] = {}
    stack: list[tuple[Expr, int]] = [(expr, 0)]
    while stack:
        node, step = stack.pop()
        if node in memo:
            continue
        if isinstance(node, Let) and node not in kept:
            if step == 0:
                stack += [(node, 1), (node.value, 0)]
            elif step == 1:
                memo[node.var] = memo[node.value]
                stack += [(node, 2), (node.body, 0)]
            else:
                memo[node] = memo[node.body]
        elif step == 0:
            stack.append((node, 1))
            stack.extend((part, 0) for part in reversed(parts_of(node)))
        else:
            memo[node] = typed_like(with_parts(node, [memo[part] for part in parts_of(node)]), node)
    return memo[expr]


@relay_pass("ToGraphNormalForm", opt_level=1, settles=True)
def ToGraphNormalForm(function: Function, program: Program) -> Expr:
    """Replace `let` variables by their values, in every function."""
    return to_graph_normal_form(function, program.effects)
