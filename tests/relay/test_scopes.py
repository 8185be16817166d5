"""Places of evaluation: a node belongs to the innermost scope that holds all the places where it stands."""

from __future__ import annotations

import random

from relax import relay
from relax.relay.scopes import EvaluationScope, place


def bindings_by_owner(text: str) -> dict[str, list[str]]:
    """The operators of a program's calls, by the kind of node that opened the scope where they are evaluated."""
    placement = place(relay.parse_expr(text))
    table: dict[str, list[str]] = {}
    for node in placement.order:
        if isinstance(node, relay.Call):
            owner = placement.of[node].owner
            table.setdefault("program" if owner is None else type(owner).__name__, []).append(node.op.name)
    return table


def test_a_value_of_both_branches_is_above_the_if_and_one_of_a_single_branch_inside():
    text = "%1 = 1 + 2; if (True) { %2 = %1 * 3; %2 - %2 } else { %1 }"
    assert bindings_by_owner(text) == {"program": ["add"], "If": ["multiply", "subtract"]}


def test_a_value_used_by_a_value_above_is_above():
    text = "%1 = 1 + 2; %2 = %1 * 3; if (True) { %2 } else { %2 / %1 }"
    assert bindings_by_owner(text) == {"program": ["add", "multiply"], "If": ["divide"]}


def test_the_body_of_a_let_is_a_scope():
    text = "%1 = 1 + 2; let %x = %1; %2 = %x * 3; %2 - %1"
    assert bindings_by_owner(text) == {"program": ["add"], "Let": ["multiply", "subtract"]}


def test_bodies_of_functions_and_clauses_are_scopes():
    text = "%1 = 1 + 2; (fn(%x) { %x * %1 }, match (1) { _ => %1 - 1 })"
    assert bindings_by_owner(text) == {"program": ["add"], "Function": ["multiply"], "Match": ["subtract"]}


def test_the_common_scope_is_that_of_the_paths_to_the_root():
    rng = random.Random(1)
    scopes = [EvaluationScope(None, None)]
    for _ in range(500):
        scopes.append(EvaluationScope(rng.choice(scopes[-20:]), None))
    for _ in range(500):
        a, b = rng.choice(scopes), rng.choice(scopes)
        path = [a]
        while path[-1].parent is not path[-1]:
            path.append(path[-1].parent)
        expected = b
        while expected not in path:
            expected = expected.parent
        assert EvaluationScope.common(a, b) is expected
        assert a.encloses(b) is (expected is a)


def test_deep_scopes_and_shared_nodes_take_no_time_to_speak_of():
    shared = relay.const(1) + relay.const(1)
    expr: relay.Expr = shared
    for _ in range(12_000):
        expr = relay.Let(relay.var("x"), shared, expr)
    placement = place(expr)
    assert placement.of[shared] is placement.root
