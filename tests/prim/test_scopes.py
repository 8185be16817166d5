"""What an analyzer is told in scopes: when it is asked, once, and taken back at the end."""

from __future__ import annotations

import itertools

import pytest

from relax.prim import EQ, GE, GT, LE, LT, NE, Analyzer, FloorMod, Max, Min, Not, SizeVar, Var, const, scopes
from relax.prim.evaluate import evaluate
from relax.prim.intervals import narrowed_by, plain_interval

n, m = (SizeVar(name, "int64") for name in "nm")
i, j = (Var(name, "int64") for name in "ij")
a, b = (Var(name, "int8") for name in "ab")


def test_a_condition_is_learnt_once(monkeypatch):
    learnt = []
    learn = scopes.learn
    monkeypatch.setattr(scopes, "learn", lambda normalizer, c: learnt.append(c) or learn(normalizer, c))
    analyzer = Analyzer(wraps=True)
    with analyzer.constraint_scope(n >= 3):
        for limit in (5, 6):
            with analyzer.constraint_scope(m >= limit), analyzer.limits_scope([(n * m, 2**62)]):
                assert analyzer.can_prove(n + m >= 3 + limit)
        with analyzer.constraint_scope(m >= 9):
            pass
    assert [str(condition) for condition in learnt] == ["n >= 3", "m >= 5", "m >= 6"]
    assert analyzer.prove(n >= 3) is None


@pytest.mark.parametrize(
    ("condition", "learnt"),
    [
        (j >= 4, ["i >= 0", "i <= 9", "j == i + 4"]),  # its definition, and the range of what that names
        (j < n + 4, ["i >= 0", "i <= 9", "i < n", "j == i + 4"]),
        (j < m + 4, ["i >= 0", "i <= 9", "j == i + 4", "i < n", "n <= m", "j == i + 4"]),  # these do not prove it alone
    ],
)
def test_the_nearest_statements_are_learnt_first(monkeypatch, condition, learnt):
    heard = []
    learn = scopes.learn
    monkeypatch.setattr(scopes, "learn", lambda normalizer, c: heard.append(str(c)) or learn(normalizer, c))
    analyzer = Analyzer()
    for fact in (i >= 0, LE(i, const(9, "int64")), i < n, n <= m, EQ(j, i + 4)):
        analyzer.assume(fact)
    assert analyzer.prove(condition) is True
    assert heard == learnt


def test_a_limit_helps_conditions_from_before():
    analyzer = Analyzer(wraps=True)
    analyzer.assume(GE(i, const(0, "int64")))
    analyzer.assume(LT(i, n * m))
    assert analyzer.prove(i * 4 + 3 < n * m * 4) is None
    with analyzer.limits_scope([(n * m * 4, 2**62)]):
        assert analyzer.can_prove(i * 4 + 3 < n * m * 4)
    assert analyzer.prove(i * 4 + 3 < n * m * 4) is None


def test_the_value_of_a_minimum_is_a_limit_of_each_operand():
    analyzer = Analyzer(wraps=True)
    for condition in (GE(i, const(0, "int64")), LT(i, const(16, "int64"))):
        analyzer.assume(condition)
    analyzer.assume(EQ(j, Min(const(64, "int64"), 1000 - i * 64)))
    assert analyzer.prove(i * 64 + 63 < 1000) is None
    with analyzer.constraint_scope(EQ(j, const(64, "int64"))):
        assert analyzer.can_prove(i * 64 + 63 < 1000)


def test_remainders_however_many_were_asked_about():
    analyzer = Analyzer(wraps=True)
    with analyzer.constraint_scope(GE(n, const(0, "int64"))), analyzer.constraint_scope(n < 100):
        for add in range(10):
            remainder = FloorMod(Var(f"x{add}", "int64"), n + add + 1)
            assert analyzer.can_prove(remainder < n + add + 1)


EXPRESSIONS = (a, a + 3, 3 - a, a * 2, a // 4, (a + 5) // 6, Min(a, b), Max(a, b - 1), a + b, a - b, a * b)
VALUES = (-128, -6, -1, 0, 2, 64, 127)


@pytest.mark.parametrize("kind", [LT, LE, GT, GE, EQ, NE])
@pytest.mark.parametrize("left", EXPRESSIONS, ids=str)
def test_variables_lie_where_a_condition_says(kind, left):
    """Also where something wraps around."""
    for right, negated in itertools.product((const(1, "int8"), const(-7, "int8"), b, b * 2), (False, True)):
        condition = Not(kind(left, right)) if negated else kind(left, right)
        places = list(narrowed_by(condition, plain_interval))
        for x, y in itertools.product(VALUES, VALUES):
            values = {a: x, b: y}
            if evaluate(condition, values):
                assert all(low <= values[var] <= high for var, (low, high) in places), (condition, x, y)


def test_what_a_condition_says_of_a_size():
    places = dict(narrowed_by((n + 5) // 6 >= 1, plain_interval))
    assert places[n][0] == 1
    assert dict(narrowed_by(Not(n < 4), plain_interval))[n][0] == 4
