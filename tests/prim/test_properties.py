"""Random expressions: the simplifier keeps values and failures, the prover and the bounds never claim what is not so."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from relax.prim import (
    ARITHMETIC,
    COMPARISONS,
    Analyzer,
    And,
    Cast,
    ConstIntBound,
    IntImm,
    Let,
    Not,
    Or,
    PrimExpr,
    Select,
    SizeVar,
    Var,
    Verdict,
    const_int_bound,
    evaluate,
    intrin,
    prove,
    prove_equal,
    simplify,
)
from relax.prim.traits import cost

INTEGERS = ("int64", "int32", "int8", "uint8")
VARIABLES = {dtype: [SizeVar("n", dtype), Var("i", dtype), Var("j", dtype)] for dtype in INTEGERS}
CONDITIONS = [Var("p", "bool"), Var("q", "bool")]
VALUES = {
    "int64": (-7, -3, -2, -1, 0, 1, 2, 3, 4, 5, 8, 11, 2**63 - 1, -(2**63), 2**62, -(2**62) - 1),
    "int32": (-7, -3, -1, 0, 1, 2, 5, 8, 2**31 - 1, -(2**31)),
    "int8": (-128, -127, -64, -5, -2, -1, 0, 1, 3, 7, 64, 127),
    "uint8": (0, 1, 2, 3, 7, 64, 127, 128, 200, 255),
}
CONSTANTS = {
    "int64": st.integers(-9, 9),
    "int32": st.integers(-9, 9),
    "int8": st.one_of(st.integers(-5, 5), st.sampled_from([-128, 127, 64])),
    "uint8": st.one_of(st.integers(0, 5), st.sampled_from([255, 128, 127, 200])),
}


@st.composite
def integers(draw, dtype: str, depth: int = 3) -> PrimExpr:
    """An integer expression."""
    kind = draw(st.integers(0, 12)) if depth else draw(st.integers(0, 1))
    if kind == 0:
        return IntImm(dtype, draw(CONSTANTS[dtype]))
    if kind <= 2 or depth == 0:
        return draw(st.sampled_from(VARIABLES[dtype]))
    if kind == 3:
        make = Select if draw(st.booleans()) else intrin.if_then_else
        return make(draw(conditions(depth - 1)), draw(integers(dtype, depth - 1)), draw(integers(dtype, depth - 1)))
    if kind == 4:
        source = draw(st.sampled_from(INTEGERS))
        return Cast(dtype, draw(integers(source, depth - 1)))
    if kind == 5:
        bound = Var("t", dtype)
        value = draw(integers(dtype, depth - 1))
        return Let(bound, value, bound * draw(integers(dtype, depth - 1)) + bound)
    if kind == 6:
        return draw(st.sampled_from([intrin.shift_right, intrin.shift_left, intrin.bitwise_and]))(
            draw(integers(dtype, depth - 1)), IntImm(dtype, draw(st.sampled_from([0, 1, 3, 7])))
        )
    operation = draw(st.sampled_from(ARITHMETIC))
    return operation(draw(integers(dtype, depth - 1)), draw(integers(dtype, depth - 1)))


@st.composite
def conditions(draw, depth: int = 2) -> PrimExpr:
    """A condition."""
    kind = draw(st.integers(0, 6)) if depth else 0
    if kind == 0:
        return draw(st.sampled_from([*CONDITIONS, IntImm("bool", 1), IntImm("bool", 0)]))
    if kind == 1:
        return Not(draw(conditions(depth - 1)))
    if kind <= 3:
        return draw(st.sampled_from([And, Or]))(draw(conditions(depth - 1)), draw(conditions(depth - 1)))
    dtype = draw(st.sampled_from(INTEGERS))
    return draw(st.sampled_from(COMPARISONS))(draw(integers(dtype, depth - 1)), draw(integers(dtype, depth - 1)))


anything = st.one_of(*(integers(dtype) for dtype in INTEGERS), conditions(3))


def points(seed: int) -> list[dict[Var, object]]:
    """Values for all variables, eight times."""
    rng = random.Random(seed)
    result: list[dict[Var, object]] = []
    for _ in range(8):
        env: dict[Var, object] = {var: rng.random() < 0.5 for var in CONDITIONS}
        for dtype, variables in VARIABLES.items():
            for var in variables:
                # Arithmetic on sizes is taken not to overflow, so sizes are small; other values are any.
                env[var] = rng.choice([v for v in VALUES[dtype] if 0 <= v < 2**40 or not var.nonnegative])
        result.append(env)
    return result


some_points = st.integers(0, 2**32).map(points)


def outcome(expr: PrimExpr, env: dict[Var, object]) -> object:
    try:
        return evaluate(expr, env)
    except ZeroDivisionError:
        return "division by zero"


@settings(max_examples=120)
@given(anything, some_points)
def test_simplify_keeps_values_and_failures(expr, envs):
    simplified = simplify(expr)
    for env in envs:
        assert outcome(simplified, env) == outcome(expr, env)


@settings(max_examples=100)
@given(anything)
def test_simplify_is_idempotent_and_never_dearer(expr):
    simplified = simplify(expr)
    assert simplify(simplified) is simplified
    from relax.prim.bounds import Facts
    from relax.prim.simplify import Simplifier

    assert Simplifier(Facts()).simplify(simplified) is simplified
    assert simplified is expr or cost(simplified) <= cost(expr)


@settings(max_examples=100)
@given(st.sampled_from(INTEGERS).flatmap(lambda d: st.tuples(integers(d), integers(d))), some_points)
def test_prove_equal_is_sound(pair, envs):
    a, b = pair
    answer = prove_equal(a, b)
    for env in envs:
        left, right = outcome(a, env), outcome(b, env)
        if "division by zero" not in (left, right):
            assert answer is not (Verdict.NO if left == right else Verdict.YES)


@settings(max_examples=100)
@given(conditions(3), some_points)
def test_prove_is_sound(condition, envs):
    answer = prove(condition)
    for env in envs:
        value = outcome(condition, env)
        if value != "division by zero":
            assert answer in (None, value)


@settings(max_examples=100)
@given(st.sampled_from(INTEGERS).flatmap(integers), some_points)
def test_bounds_are_sound(expr, envs):
    bound = const_int_bound(expr)
    for env in envs:
        value = outcome(expr, env)
        if value != "division by zero":
            assert bound.min_value <= value or bound.min_value == ConstIntBound.NEG_INF
            assert value <= bound.max_value


@settings(max_examples=100)
@given(conditions(2), st.one_of(anything), some_points)
def test_constraints_are_sound(condition, expr, envs):
    analyzer = Analyzer()
    with analyzer.constraint_scope(condition):
        simplified = analyzer.simplify(expr)
    for env in envs:
        if outcome(condition, env) is True:
            assert outcome(simplified, env) == outcome(expr, env)
    assert simplify(expr) is analyzer.simplify(expr)  # the constraint is gone
