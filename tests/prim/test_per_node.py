"""Answers about nodes that are kept as long as the nodes live (`relax.prim.per_node`)."""

from __future__ import annotations

import gc
import weakref

from relax.prim import Var, facts_in_scope, prove
from relax.prim.analyzer import Analyzer
from relax.prim.expr import LE, Add, IntImm, mark_nonnegative
from relax.prim.per_node import per_node, proved_per_node


def sums(n: Var) -> Add:
    return Add(n, IntImm("int64", 1))


def test_a_question_is_answered_once_per_node():
    asked = []

    @per_node
    def size(node: Add) -> int:
        asked.append(node)
        return len(node.a.name)

    node, equal = sums(Var("count", "int64")), sums(Var("count", "int64"))
    assert [size(node), size(node), size(equal)] == [5, 5, 5]
    assert asked == [node, equal]


def test_the_answer_goes_with_the_node():
    @per_node
    def names(node: Add) -> list[str]:
        return [node.a.name]

    node = sums(Var("n", "int64"))
    assert names(node) == ["n"]
    gone = weakref.ref(node)
    del node
    gc.collect()
    assert gone() is None


@proved_per_node
def is_positive(node: Add) -> bool | None:
    return prove(LE(IntImm("int64", 1), node))


def test_a_mark_on_a_variable_proves_more():
    n = Var("n", "int64")
    node = sums(n)
    assert is_positive(node) is None
    mark_nonnegative(n)
    assert is_positive(node) is True


def test_facts_in_scope_are_not_kept():
    n = Var("n", "int64")
    node, facts = sums(n), Analyzer()
    facts.bind(n, IntImm("int64", 3))
    with facts_in_scope(facts):
        assert is_positive(node) is True
    assert is_positive(node) is None
    with facts_in_scope(facts):
        assert is_positive(node) is True
