"""Sets of integers, and the values of expressions over them."""

from __future__ import annotations

import itertools
import random

import pytest

import relax  # noqa: F401  with the printer of expressions
from relax.arith import Analyzer, IntervalSet, IntSet, neg_inf, pos_inf
from relax.prim import Cast, Div, FloatImm, Let, Mod, Select, SizeVar, Var, evaluate, intrin
from relax.tir import Broadcast, Ramp, Range

n, m = (SizeVar(name, "int64") for name in "nm")
x, y = (Var(name, "int64") for name in "xy")
digit = IntervalSet(0, 9)


def values(expr, domains) -> str:
    return str(Analyzer().int_set(expr, domains))


@pytest.mark.parametrize(
    "expr, expected",
    [
        (x * 2 + y, "[0, 19]"),
        (x - y, "[-1, 9]"),
        (0 - x, "[-9, 0]"),
        (x + n, "[n, 9 + n]"),
        (x * n, "[0, 9 * n]"),
        (x * (0 - n), "[n * -9, 0]"),
        (x * (n - m), "[min(0, 9 * (n - m)), max(0, 9 * (n - m))]"),
        (x * (y - 5), "[-45, 0]"),
        (x * (y + n), "[neg_inf, pos_inf]"),
        (x // 4, "[0, 2]"),
        (x // -4, "[-3, 0]"),
        (x // n, "[neg_inf, pos_inf]"),
        (x // (n + 1), "[0, 9 // (n + 1)]"),
        (x // (y + 1), "[0, 9]"),
        ((x - 9) // (y + 1), "[-9, 0]"),
        (x // y, "[neg_inf, pos_inf]"),
        (x % 4, "[0, 3]"),
        ((x % 4 + 8) % 4, "[0, 3]"),
        ((y + 8) % 4, "[0, 1]"),
        (x % n, "[neg_inf, pos_inf]"),
        (Div(x, 4), "[0, 2]"),
        (Div(x - 5, 4), "[neg_inf, pos_inf]"),
        (Mod(y, 4), "[0, 1]"),
        (Mod(x - 5, 4), "[neg_inf, pos_inf]"),
        (intrin.min(x, 5), "[0, 5]"),
        (intrin.max(x, 5), "[5, 9]"),
        (Select(n > 3, x, y + 20), "[0, 21]"),
        (intrin.if_then_else(n > 3, x, y + 20), "[0, 21]"),
        (Let(y, x + 1, y * 2), "[2, 20]"),
        (Cast("int64", Cast("int32", x)), "[neg_inf, pos_inf]"),
        (intrin.popcount(x), "[neg_inf, pos_inf]"),
        (n + m, "[n + m, n + m]"),
        (Ramp(x, 2, 4), "[0, 15]"),
        (Ramp(x, -2, 4), "[-6, 9]"),
        (Broadcast(x, 4), "[0, 9]"),
        (FloatImm("float32", 1.0), "[neg_inf, pos_inf]"),
    ],
)
def test_the_values_of_expressions(expr, expected):
    got = values(expr, {x: digit, y: IntervalSet(0, 1)})
    assert got.replace("T.", "") == f"IntervalSet{expected}"


def test_sets_without_an_end():
    above = {x: IntervalSet(3, pos_inf())}
    assert values(x + 1, above) == "IntervalSet[4, pos_inf]"
    assert values(0 - x, above) == "IntervalSet[neg_inf, -3]"
    assert values(x * 2, above) == "IntervalSet[6, pos_inf]"
    assert values(x * (n - m), above) == "IntervalSet[neg_inf, pos_inf]"
    assert values(x % 5, above) == "IntervalSet[0, 4]"
    assert values(intrin.min(x, 7), above) == "IntervalSet[3, 7]"
    assert values(intrin.max(x, y), {**above, y: IntervalSet(neg_inf(), 5)}) == "IntervalSet[3, pos_inf]"
    assert values(Select(n > 0, x, 0), above) == "IntervalSet[0, pos_inf]"
    assert values(x, {}) == "IntervalSet[x, x]"


def test_conversions_that_keep_every_value():
    small = Var("small", "int32")
    assert values(Cast("int64", small) + 1, {small: Range(0, 10)}) == "IntervalSet[1, 10]"
    assert values(Cast("int64", small), {small: IntervalSet(0, pos_inf())}) == "IntervalSet[0, pos_inf]"


def test_ranges_are_sets():
    assert values(x + 1, {x: Range(2, n)}) == "IntervalSet[3, n]"


def test_kinds_of_sets():
    assert IntSet.nothing().is_nothing()
    assert not IntSet.nothing().is_everything()
    assert IntSet.everything().is_everything()
    assert not IntSet.everything().is_nothing()
    assert IntervalSet(3, 2).is_nothing()
    assert not IntervalSet(3, n).is_nothing()
    assert str(IntSet.single_point(n)) == "IntervalSet[n, n]"
    assert str(IntSet.vector(Ramp(n, 2, 4))) == "IntervalSet[n, n + 6]"
    assert str(IntervalSet(0, n).max_value.dtype) == str(IntervalSet(0, n).min_value.dtype) == "int64"
    with pytest.raises(TypeError, match="IntervalSet: the ends are integers, found .* of dtype float32"):
        IntervalSet(0.5, 3)


@pytest.mark.parametrize("seed", range(40))
def test_no_value_is_left_out(seed):
    r = random.Random(seed)

    def draw(depth: int):
        if depth == 0:
            return r.choice([x, y, x + r.randint(-4, 4), y * r.randint(-3, 3)])
        a, b = draw(depth - 1), draw(depth - 1)
        c = r.choice([-3, -2, 1, 2, 3, 5])
        return r.choice(
            [a + b, a - b, a * c, a // c, a % abs(c), intrin.min(a, b), intrin.max(a, b), a * b, Div(a, c), Mod(a, c)]
        )

    expr = draw(r.randint(1, 3))
    domains = {v: IntervalSet(low, low + r.randint(0, 5)) for v in (x, y) for low in [r.randint(-6, 6)]}
    result = Analyzer().int_set(expr, domains)
    spans = [range(d.min_value.value, d.max_value.value + 1) for d in domains.values()]
    for point in itertools.product(*spans):
        value = evaluate(expr, dict(zip(domains, point, strict=True)))
        assert result.min_value is neg_inf() or evaluate(result.min_value) <= value
        assert result.max_value is pos_inf() or value <= evaluate(result.max_value)
