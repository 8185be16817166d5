"""Examples that refute a bound: what they say is true, and no answer is lost by them."""

from __future__ import annotations

import random

import pytest

from relax.ir import DataType, structural_equal
from relax.prim import (
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
    questions,
)
from relax.prim.bounds import Bounds
from relax.prim.examples import Examples
from relax.prim.poly import Atom, add

INT64 = DataType("int64")
INF = float("inf")
x, y = (Var(name, "int64") for name in "xy")
X, Y = {(x,): 1}, {(y,): 1}


def unit(kind, *args, exact=True):
    """An operation on polynomials."""
    return {(Atom(kind, args, INT64, None, False, exact),): 1}


def refutes(p, most, ranges=None, known=(), limits=None):
    """True if an example has a greater value than `most`; what has no range is an index below 100."""
    ranges = {} if ranges is None else ranges
    examples = Examples(lambda factor: ranges.get(factor, (0, 99) if isinstance(factor, Var) else (-INF, INF)))
    first = examples.refute(p, most, known, {} if limits is None else limits)
    assert examples.refute(p, most, known, {} if limits is None else limits) is first  # they are kept
    return first


def test_values_in_ranges():
    assert refutes(X, 98)
    assert not refutes(X, 99)
    assert not refutes(X, 5, {x: (3, 5)})
    assert refutes({(x,): -1}, 6, {x: (-INF, INF)})
    assert refutes({(x,): -1}, -6, {x: (-INF, 5)})
    assert refutes(X, 2**40, {x: (0, 2**48)})


def test_facts_are_fulfilled():
    below = add(add(Y, X, -1), {(): -1})  # x < y
    assert refutes(add(X, Y, -1), 0)
    assert not refutes(add(X, Y, -1), -1, known=[below])
    assert refutes({(x, y): 1}, 100)
    assert not refutes({(x, y): 1}, 100, limits={(x, y): 100})


def test_numbers_are_changed_to_fulfil_facts():
    assert refutes(Y, 30, known=[{(x,): 1, (y,): -1, (): -50}])
    assert refutes(X, 49, known=[{(x,): 1, (y,): -1, (): -50}])
    assert not refutes(Y, 3, known=[{(): 3, (y,): -1}])
    assert refutes(Y, 2, known=[{(): 3, (y,): -1}])
    assert not refutes(X, -1, known=[{(x,): 1, (): -200}])
    assert not refutes(X, -1, known=[{(x, y): 1, (): -20000}])
    assert not refutes(X, -1, known=[{(x,): 1, (y,): -1, (): -1}, {(x,): -1, (y,): 1, (): -1}])


def test_operations_are_computed():
    three = {(): 3}
    assert refutes(add(unit(FloorDiv, X, three), X, -1), -1)
    assert not refutes(add(unit(FloorDiv, X, three), X, -1), 0)
    assert not refutes(unit(FloorMod, X, three), 2)
    assert refutes(add(unit(Max, X, Y), X, -1), 0)
    assert not refutes(add(X, unit(Max, X, Y), -1), 0)
    assert refutes(unit("cast", X), 98)
    assert not refutes(unit("cast", X), 99)
    assert refutes(unit(Select, X, {(): 200}), 199)
    assert not refutes(unit(Select, X, {(): 200}), 200)
    assert refutes(unit(Mul, X, Y), 50)
    assert refutes({(x,): 1, next(iter(unit(Max, X, Y))): 0}, 98)  # of a term that only stands for a failure


def test_what_has_no_value_refutes_nothing():
    assert not refutes(unit(FloorDiv, X, {}), -100)
    assert not refutes(unit("popcount", X), -100)
    assert not refutes(X, -1, known=[unit(FloorDiv, X, {})])
    narrow = unit(Mul, X, {(): 3})
    ((factor,),) = narrow
    assert not refutes(narrow, -1, {factor: (-5, -1)})
    assert refutes(unit("popcount", X, exact=False), 2)  # of which nothing but the range is known


n, m = SizeVar("n", "int64"), SizeVar("m", "int64")
i, j = Var("i", "int64"), Var("j", "int64")


def expression(pick, depth):
    if depth == 0 or pick.random() < 0.2:
        return pick.choice([n, m, i, i, j, const(pick.choice((0, 1, 2, 3, 8, 16, -1, 2**31)), "int64")])
    kind = pick.choice([Add, Add, Sub, Mul, FloorDiv, FloorMod, Div, Mod, Min, Max, Select])
    a, b = expression(pick, depth - 1), expression(pick, depth - 1)
    if kind is Select:
        return Select(LT(a, b), a, expression(pick, depth - 1))
    if kind in (FloorDiv, FloorMod, Div, Mod):
        b = pick.choice([n, m, const(pick.choice((2, 3, 16)), "int64")])
    return kind(a, b)


def answers(seed, wraps):
    """What is proved, and made of an expression, in two loops."""
    questions._answers.clear()
    pick = random.Random(seed)
    a, b = expression(pick, 2), expression(pick, 2)
    analyzer = Analyzer(wraps=wraps)
    for condition in (i >= 0, LT(i, n), j >= 0, LT(j, const(16, "int64"))):
        analyzer.assume(condition)
    conditions = (LT(a, b), a <= b, GE(a, const(0, "int64")), a < n)
    return [analyzer.prove(condition) for condition in conditions], analyzer.simplify(a)


@pytest.mark.parametrize("wraps", [False, True])
def test_no_answer_is_lost(monkeypatch, wraps):
    refuted = []
    ask = Bounds._is_refuted

    def noted(self, p, most):
        refuted.append(ask(self, p, most))
        return refuted[-1]

    for seed in range(60):
        monkeypatch.setattr(Bounds, "_is_refuted", noted)
        verdicts, simple = answers(seed, wraps)
        monkeypatch.setattr(Bounds, "_is_refuted", lambda self, p, most: False)
        expected, searched = answers(seed, wraps)
        assert verdicts == expected, f"seed {seed}"
        assert structural_equal(simple, searched), f"seed {seed}"
    assert refuted.count(True) > 100
