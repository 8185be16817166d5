"""Arithmetic as machines compute it: sizes are less than 2^48, and what leaves 64 bits wraps around."""

from __future__ import annotations

import itertools
import random

import pytest

from relax.prim import (
    EQ,
    GE,
    LT,
    Add,
    Analyzer,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Select,
    SizeVar,
    Sub,
    Var,
    const,
)
from relax.prim.evaluate import evaluate

n, m, k = (SizeVar(name, "int64") for name in "nmk")
w, i, j = (Var(name, "int64") for name in "wij")
LARGEST = 2**48 - 1
SCOPES = []


def number(value):
    return const(value, "int64")


def machine(*limits, **ranges):
    """An analyzer of machine arithmetic for products that are limited and variables that lie in [0, size)."""
    analyzer = Analyzer(wraps=True)
    scope = analyzer.limits_scope([(product, 2**62) for product in limits])
    SCOPES.append(scope)  # one that is dropped takes its limits back
    scope.__enter__()
    for name, size in ranges.items():
        var = {"i": i, "j": j}[name]
        analyzer.assume(GE(var, number(0)))
        analyzer.assume(LT(var, size))
    return analyzer


def test_sizes_are_less_than_their_limit():
    for analyzer in (Analyzer(), Analyzer(wraps=True)):
        assert analyzer.can_prove(n < 2**48)
        assert analyzer.can_prove(n * 4 < 2**50)
        assert analyzer.prove(n < LARGEST) is None


def test_products_of_sizes_fit_where_that_was_checked():
    assert Analyzer().can_prove(n * m >= 0)
    assert Analyzer(wraps=True).prove(n * m >= 0) is None
    assert machine(n * m).can_prove(n * m >= 0)
    analyzer = Analyzer(wraps=True)
    with analyzer.limits_scope([(n * m, 2**62)]):
        assert analyzer.can_prove(n * m <= 2**62)
    assert analyzer.prove(n * m >= 0) is None
    # What is no sum of products of sizes says nothing.
    assert machine(n * m - k).prove(n * m - k <= 2**62) is None
    assert machine(n * w).prove(n * w <= 2**62) is None


def test_quotients_are_simplified_only_of_what_fits():
    expr = n * m // 4 * 4
    assert Analyzer(wraps=True).prove(expr <= n * m) is None
    assert machine(n * m).can_prove(n * m // 4 * 4 <= n * m)
    fours = n * 4 // 4
    assert Analyzer(wraps=True).simplify(fours) is n


def test_flat_indices():
    """i·m + j < n·m, and back to i and j; for products that fit."""
    known = machine(n * m, i=n, j=m)
    assert known.can_prove(i * m + j < n * m)
    assert known.can_prove(i * m + j >= 0)
    assert known.can_prove((i * m + j) // m < n)
    assert known.can_prove((i * m + j) % m < m)
    unknown = machine(i=n, j=m)
    assert unknown.prove(i * m + j >= 0) is None
    assert unknown.prove((i * m + j) // m < n) is None


def test_loops_over_products_that_may_wrap_around():
    """A product that wraps around is less than what it stands for, so what lies below it does."""
    flat = machine(i=n * m)
    flat.assume(GE(m, number(1)))
    assert flat.can_prove(i // m < n)
    assert flat.can_prove(i % m < m)
    assert flat.can_prove((i % m + 3) - 3 >= 0)


def test_what_is_learnt_of_products_that_were_solved_for():
    other = machine(n * m)
    other.assume(EQ(n, k * 2))
    assert other.can_prove(k * m <= 2**61)
    third = machine(n * m)
    third.assume(EQ(n, k - m))
    assert third.can_prove(n * m <= 2**62)
    fourth = Analyzer(wraps=True)
    with fourth.limits_scope([(n * m + k, LARGEST)]):
        assert fourth.can_prove(n * m + 5 > 0)


# ------------------------------------------------------------------------------------- at random

SIZES = (0, 1, 2, 3, 5, 7, 2**24, 2**31, 2**47, LARGEST)
DATA = (0, 1, -1, 3, -8, 2**31, 2**62, -(2**62), 2**63 - 1, -(2**63))


class Expressions:
    """Expressions over two sizes and one number that may be anything."""

    def __init__(self, seed):
        self.pick = random.Random(seed)

    def expr(self, depth):
        pick = self.pick
        if depth == 0 or pick.random() < 0.15:
            values = (0, 1, 2, 3, 4, 8, 16, 2**15, 2**16, 2**47, 2**62, 2**63 - 1, -1, -4)
            return pick.choice([n, n, m, m, w, number(pick.choice(values))])
        kind = pick.choice([Add, Sub, Mul, Mul, FloorDiv, FloorMod, Div, Mod, Min, Max, Select])
        a, b = self.expr(depth - 1), self.expr(depth - 1)
        if kind is Select:
            return Select(LT(a, b), a, self.expr(depth - 1))
        if kind in (FloorDiv, FloorMod, Div, Mod) and pick.random() < 0.5:
            b = pick.choice([n, m, number(pick.choice((2, 3, 4, 8, 2**16, -2)))])
        return kind(a, b)

    def points(self):
        for x, y in itertools.islice(itertools.product(SIZES, SIZES), 0, None, 3):
            yield {n: x, m: y, w: self.pick.choice(DATA)}


def value(expr, point):
    try:
        return evaluate(expr, point)
    except ZeroDivisionError:
        return None


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_simplified_expressions_have_the_same_values(first):
    for seed in range(first, first + 100):
        source = Expressions(seed)
        expr = source.expr(3)
        result = Analyzer(wraps=True).simplify(expr)
        for point in source.points():
            assert value(expr, point) == value(result, point), f"seed {seed} at {point}"


@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (100, 200))])
def test_what_is_proved_is_true(first):
    for seed in range(first, first + 100):
        source = Expressions(seed)
        a, b = source.expr(2), source.expr(2)
        limits = (n * m, n * m * 8)
        for condition in (LT(a, b), a <= b, GE(a, number(0))):
            free, limited = Analyzer(wraps=True).prove(condition), machine(*limits).prove(condition)
            for point in source.points():
                found = value(condition, point)
                assert found is None or free in (None, found), f"seed {seed} at {point}"
                small = point[n] * point[m] * 8 <= 2**62
                assert found is None or not small or limited in (None, found), f"seed {seed} at {point}"


def test_a_division_by_a_difference_that_vanishes():
    expr = n // (n // m - n // m)
    assert Analyzer().simplify(expr) is not None
    with pytest.raises(ZeroDivisionError):
        evaluate(Analyzer(wraps=True).simplify(expr), {n: 4, m: 2})
