"""Proof by cases, and facts: what ends a search, what excludes a case, what equations are solved for."""

from __future__ import annotations

import itertools
import random

import pytest
from prim_spell import spell

from relax.prim import (
    EQ,
    GE,
    LT,
    NE,
    Add,
    Analyzer,
    And,
    Cast,
    ConstIntBound,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    SizeVar,
    Sub,
    Var,
    Verdict,
    const,
    const_int_bound,
    evaluate,
    facts_in_scope,
    intrin,
    prove,
    prove_equal,
    prove_shape_equal,
    simplify,
)
from relax.prim.bounds import Facts
from relax.prim.normal import Normalizer
from support import python_calls

EQUAL, DIFFERENT, UNKNOWN = Verdict.YES, Verdict.NO, Verdict.POSSIBLY

n, m, k, h = (SizeVar(name, "int64") for name in "nmkh")
i, j = Var("i", "int64"), Var("j", "int64")
s = Var("s", "int8")
p, q = Var("p", "bool"), Var("q", "bool")
top, low = intrin.max, intrin.min
SIZES = [SizeVar(f"a{number}", "int64") for number in range(40)]


def total(terms):
    return sum(terms[1:], start=terms[0])


def under(*conditions: object) -> Analyzer:
    analyzer = Analyzer()
    for condition in conditions:
        analyzer.assume(condition)
    return analyzer


# ------------------------------------------------------------------------------------------ cases

CLAIMS = [
    ("maxima in maxima", top(top(n, m) + k, n) >= m, True),
    ("opposite of a maximum", top(n, m) * 2 < n + m, False),
    ("a choice by a variable", Select(p, n, m) <= top(n, m), True),
    ("a choice by a comparison", EQ(Select(n < m, n, m), low(n, m)), None),
    ("the same choice twice", EQ(Select(p, n, m) + Select(p, m, n), n + m), None),
    ("a choice in a quotient", Select(p, n * 2, m * 2) // 2 <= n + m, True),
    ("a maximum of three", EQ(top(top(n, m), k) * 2, top(top(2 * n, 2 * m), 2 * k)), True),
    ("a quotient that is truncated", EQ(Div(n * m + k, m), n + k // m), True),
    ("a maximum in one of three",
     EQ(top(top(top(n, m) // 2, k), h) * 2, top(top(top(n, m) // 2 * 2, 2 * k), 2 * h)), True),
    ("a maximum among three", top(top(top(n, m) // 2, k), n) <= n + m + k, True),
    ("a maximum of three in a quotient", top(top(n, m), k) // 4 <= n + m + k, True),
    ("three times a quotient in one", (3 * (n // m)) // 4 <= 3 * n, True),
    ("a size that is truncated", EQ(Div(n * m + 1, m + 1), (n * m + 1) // (m + 1)), True),
    ("a multiple and more, truncated", EQ(Div(i * 2, 2), i), None),
    ("a choice between equal values", EQ(Select(top(n, m) >= k, top(n, 0), n), n), True),
    ("a quotient of products", (n * m) // (k + 1) <= n * m, True),
    ("division of what may be negative", EQ((n - m) // k, -((m - n + k - 1) // k)), True),
    ("by what is negative", EQ(n // (-1 - m), (-n) // (m + 1)), True),
    ("remainders of opaque values", EQ(intrin.popcount(n) // 2 + (intrin.popcount(n) + 1) // 2, intrin.popcount(n)), True),
    ("an opaque value alone", EQ(intrin.popcount(n), intrin.popcount(m)), None),
    ("conversions", EQ(Cast("int64", s) // 2 + (Cast("int64", s) + 1) // 2, Cast("int64", s)), None),
    ("what may wrap around", (top(i, j) + 1) // 2 <= top(i, j) + 1, None),
    ("one that fails on numbers", EQ(top(n, m) // 2, n // 2), None),
    ("after a maximum, an impossible arm", top(n, m) + top(m, n + 1) >= n + m, True),
    ("squares", n * n + m >= n, True),
    ("cubes", n * n * n >= n * n, True),
    ("a large modulus", n // 64 * 64 + n % 64 >= n, True),
    ("with a large modulus, an inequality", (n % 100) * (n % 100) <= n * n, True),
]  # fmt: skip


@pytest.mark.parametrize("name, claim, answer", [pytest.param(*c, id=c[0]) for c in CLAIMS])
def test_claims(name, claim, answer):
    known = prove(claim)
    assert known is answer or (answer is None and known is True and name.startswith(("a choice", "the same", "conver")))
    _agrees_on_numbers(claim, known)


def _agrees_on_numbers(claim: PrimExpr, known: bool | None) -> None:
    values = {n: range(6), m: range(6), k: range(4), h: (0, 3), s: (-3, 0, 5), p: (False, True), i: (-3, 4), j: (0, 5)}
    for point in itertools.product(*values.values()):
        try:
            value = evaluate(claim, dict(zip(values, point)))
        except ZeroDivisionError:
            continue
        assert known in (None, value)


def test_a_claim_that_grows_is_given_up():
    grown = top(total(SIZES[:4]), total(SIZES[4:8]))
    power = grown * grown * grown * grown
    assert prove(power >= grown * grown) is None
    cube = EQ(n * n * n * m, h * h * h + k * k)
    for conditions in itertools.permutations((EQ(n, total(SIZES[:6])), cube)):
        assert under(*conditions).prove(n >= SIZES[0]) is True


def test_a_claim_of_many_terms_is_not_divided():
    many = [size * size for size in SIZES]
    assert prove(total(many) >= total(SIZES)) is None
    assert prove(total(many[:3]) >= total(SIZES[:3])) is True


def test_a_product_of_many_variables_is_not_divided_for_each():
    five = total([SIZES[t] * SIZES[t] for t in range(5)])
    assert prove(five >= total(SIZES[:5])) is None


def test_long_divisions_end():
    assert prove_equal(total([size * m for size in SIZES]) // m, total(SIZES)) is EQUAL
    five, thirteen = total(SIZES[:5]), total(SIZES[5:18])
    assert prove((n // five + thirteen) // (k + 1) >= 0) is True


# ------------------------------------------------------------------------------------------ facts


def test_facts_exclude_cases():
    assert under(n % 4 < 1).prove_equal(n // 4 * 4, n) is EQUAL
    assert under(NE(n % 2, 1)).prove_equal(n // 2 * 2, n) is EQUAL
    assert under(n <= 2).prove_equal(n * n * n // 4 * 2, n * n // 4 * 4) is EQUAL
    assert under(n % 2 == 1, n <= 4).prove_equal(n * n // 8 * 8, n * n - 1) is EQUAL
    assert under(low(n, m) >= 1).prove(n * m >= 1) is True or under(n >= 1, m >= 1).prove(n * m >= 1) is True


EQUATIONS = [
    ([EQ(n, 2 * k)], EQ(n // 2, k), True),
    ([EQ(2 * n, 4 * k)], EQ(n, 2 * k), True),
    ([EQ(2 * n, 4 * k + 2)], EQ(n, 2 * k + 1), True),
    ([EQ(n % 4, 1)], EQ((n + 3) // 4 * 4, n + 3), True),
    ([EQ(1, n % 4)], EQ(n % 2, 1), True),
    ([EQ(n % m, 0)], EQ(n // m * m, n), True),
    ([EQ(n % m, 0)], NE(m, 0), True),
    ([EQ(n % m, k)], EQ(n // m * m + k, n), True),
    ([EQ(n * m, h), EQ(n, 4)], EQ(h // 4, m), True),
    ([EQ(n, m), EQ(m, k), EQ(k, h)], EQ(n + 1, h + 1), True),
    ([EQ(n, m + 1), n <= 4], m <= 3, True),
    ([EQ(n + 3, m)], m >= 3, True),
    ([n >= 2, EQ(n, m - 3)], m >= 5, True),
    ([NE(n, 0), EQ(n, m)], NE(m, 0), True),
    ([EQ(3 * n, 2 * m)], EQ(9 * n, 6 * m), True),
    ([EQ(n * n, m * m)], n * n <= m * m, True),
    ([EQ(i, n + 1)], i > n, True),
    ([i >= 0, i <= 20, EQ(i % 8, 0)], EQ(i // 8 * 8, i), True),
    ([EQ(intrin.popcount(n), m)], m <= 64, True),
    ([EQ((n // 2) % 3, m // 4 * 4)], EQ((n // 2) % 3, m // 4 * 4), True),
    ([EQ(EQ(n, m), const(True))], EQ(n, m), True),
    ([NE(EQ(n, m), const(True))], EQ(n, m), False),
    ([EQ(NE(n, m), const(False))], EQ(n, m), True),
    ([Not(Or(n < 3, NE(m, n)))], m >= 3, True),
    ([intrin.likely(EQ(n, m))], EQ(m, n), True),
    ([And(p, EQ(n, m))], EQ(n, m), True),
    ([Or(EQ(n, m), EQ(n, k))], EQ(n, m), None),
    ([EQ(p, q)], p, None),
    ([EQ(Var("x", "float32"), 1.0)], EQ(n, m), None),
    ([EQ(s + 1, Cast("int8", n))], EQ(n, m), None),
    ([const(True)], EQ(n, m), None),
    ([And(p, const(True))], p, True),
    ([EQ(intrin.call_extern("int64", "rand"), n)], EQ(n, m), None),
    ([EQ(Select(p, m, k), n), EQ(m, 2 * h)], EQ(n, Select(p, 2 * h, k)), None),
    ([EQ(n, k * 8), EQ(m, k * 2)], EQ(n, m * 4), True),
]  # fmt: skip


@pytest.mark.parametrize("known, claim, answer", EQUATIONS)
def test_equations(known, claim, answer):
    assert under(*known).prove(claim) is answer


def test_a_choice_that_was_solved_for_and_changed_has_no_spelling():
    """The simplifier leaves it; the prover is asked what it cannot decide by polynomials alone."""
    analyzer = under(EQ(n, Select(p, m, k)), EQ(m, 2 * h), i >= 0, i <= 9)
    assert analyzer.prove(Or(And(q, n + 1 > h * 3 + k), n + 1 > 0)) is True
    assert analyzer.prove(And(q, n + k + 1 < k + h * k)) is None
    assert spell(analyzer.simplify(n + 1)) == "(n + 1)"


def test_a_choice_by_what_it_gives():
    """n is a choice by n itself; trying that on numbers must end."""
    analyzer = under(EQ(n, Select(n < 3, m, k)))
    assert analyzer.prove(n * n >= n) is True
    assert analyzer.prove(EQ(n // 2 * 2, n)) is None
    load = intrin.call_pure_extern("bool", "peek", n)
    assert prove(EQ(Select(load, n, m) // 2 * 2, n)) is None


def test_copies_learn_on_their_own():
    first = under(EQ(n, m))
    second = first.copy()
    second.assume(EQ(m, 4))
    assert (first.prove(EQ(n, 4)), second.prove(EQ(n, 4))) == (None, True)
    assert [spell(condition) for condition in second.conditions] == ["(n == m)", "(m == 4)"]


def test_scopes_after_questions():
    analyzer = under(EQ(n, m))
    assert analyzer.prove(EQ(n, m)) is True
    with analyzer.constraint_scope(EQ(m, k)):
        assert analyzer.prove(EQ(n, k)) is True
    assert analyzer.prove(EQ(n, k)) is None
    assert analyzer.prove(EQ(n, m)) is True


def test_binding_after_conditions():
    analyzer = under(n <= m)
    assert analyzer.prove(n <= 4) is None
    analyzer.bind(m, const(4, "int64"))
    assert analyzer.prove(n <= 4) is True
    analyzer.update(n, ConstIntBound(2, 3))
    assert analyzer.const_int_bound(n) == ConstIntBound(2, 3)


def test_narrow_facts():
    analyzer = Analyzer()
    analyzer.update(i, ConstIntBound(0, 100))
    analyzer.assume(Cast("int8", i) < 50)
    assert analyzer.prove(Cast("int8", i) < 60) is True
    bound = analyzer.const_int_bound(Cast("int8", i % 8))
    assert bound.min_value <= 0 < 7 <= bound.max_value


def test_facts_in_scope():
    assert prove_equal(n, m) is UNKNOWN
    with facts_in_scope(under(EQ(n, m), n <= 4)):
        assert prove_equal(n, m) is EQUAL
        assert prove_equal(n, n) is EQUAL
        assert prove(m <= 4) is True
        assert prove_shape_equal((n, 2), (m, 2)) is EQUAL
        assert const_int_bound(m) == ConstIntBound(0, 4)
        assert simplify(n + 1 - m).dtype == "int64"
        assert spell(simplify(n - m)) == "(n - m)"  # facts decide, they do not respell
        with facts_in_scope(None):
            assert prove_equal(n, m) is UNKNOWN
        assert prove_equal(m, n) is EQUAL
    assert prove_equal(n, m) is UNKNOWN


def test_what_has_no_answer():
    single, double = Var("x", "float32"), Var("y", "float64")
    vector = Var("v", "int32x4")
    assert prove_equal(single, double) is UNKNOWN
    assert prove_equal(single, single + 0.0) is UNKNOWN
    assert const_int_bound(single) == ConstIntBound(ConstIntBound.NEG_INF, ConstIntBound.POS_INF)
    assert const_int_bound(vector).min_value == -(2**31)
    assert Analyzer().prove(const(True)) is True
    assert Analyzer().prove(n) is None


# ------------------------------------------------------------------------------------------ random facts


def _random_expression(rng: random.Random, depth: int):
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([n, m, k]) if rng.random() < 0.7 else const(rng.randint(-3, 8), "int64")
    a, b = _random_expression(rng, depth - 1), _random_expression(rng, depth - 1)
    c = const(rng.choice([2, 3, 4]), "int64")
    return rng.choice([Add, Sub, Mul, FloorDiv, FloorMod, Min, Max, "c//", "c%", "?"]) and rng.choice(
        [a + b, a - b, a * b, FloorDiv(a, b), FloorMod(a, b), Min(a, b), Max(a, b), FloorDiv(a, c), FloorMod(a, c)]
    )


@pytest.mark.parametrize("seed", range(60))
def test_nothing_false_is_proved(seed):
    """Random claims under random facts, tried on all small sizes."""
    rng = random.Random(seed)
    kinds = [EQ, EQ, NE, LT, GE]
    facts = [rng.choice(kinds)(_random_expression(rng, 2), _random_expression(rng, 1)) for _ in range(seed % 3)]
    claim = rng.choice(kinds)(_random_expression(rng, 3), _random_expression(rng, 2))
    known, bound = under(*facts).prove(claim), under(*facts).const_int_bound(claim.a)
    for point in itertools.product((0, 1, 2, 3, 5, 8), repeat=3):
        env = dict(zip((n, m, k), point))
        try:
            if all(evaluate(fact, env) for fact in facts):
                value = evaluate(claim.a, env)
                assert bound.min_value <= value <= bound.max_value
                assert known in (None, evaluate(claim, env))
        except ZeroDivisionError:
            continue


# ------------------------------------------------------------------------------------------ termination


def repeated(step, times=40):
    x = n
    for _ in range(times):
        x = step(x)
    return x


SHARED = {
    "sums": lambda: repeated(lambda x: Add(x, x)),
    "differences": lambda: repeated(lambda x: Sub(x, Add(x, m))),
    "products": lambda: repeated(lambda x: Mul(x, x), 30),
    "sums in products": lambda: repeated(lambda x: Mul(Add(x, n), Add(x, m)), 10),
    "maxima": lambda: repeated(lambda x: Max(Max(x, m), Max(x, n))),
    "one maximum": lambda: repeated(lambda x: Max(x, x)),
    "quotients": lambda: repeated(lambda x: FloorDiv(Add(x, x), IntImm("int64", 3))),
    "remainders": lambda: repeated(lambda x: FloorMod(Add(x, x), IntImm("int64", 7))),
    "convolutions": lambda: repeated(lambda x: (x + 2 - 3) // 2 + 1, 30),
    "paddings": lambda: repeated(lambda x: (x + 7) // 8 * 8 + x % 3, 8),
    "clamps": lambda: repeated(lambda x: Min(Max(x, m), Add(x, n)), 8),
    "choices": lambda: repeated(lambda x: Select(x < m, x, Add(x, n)), 8),
    "quotients by sums": lambda: repeated(lambda x: FloorDiv(Add(x, n), Add(x, m)), 6),
}


@pytest.mark.parametrize("name", SHARED)
def test_shared_and_deep_expressions_end(name):
    """A bound ten times what it takes; one that is exponential takes years."""
    make = SHARED[name]
    expr = make()

    def ask():
        simplify(expr)
        assert prove_equal(expr, expr) is EQUAL
        assert prove_equal(expr, make()) is EQUAL
        assert prove_equal(expr, n * m) is not EQUAL
        false = ("differences", "quotients", "remainders", "quotients by sums")
        assert prove(expr >= n) is not False or name in false
        const_int_bound(expr)
        under(EQ(n, m), n >= 1).prove(EQ(expr, n))

    python_calls(ask, most=10_000_000)


def test_shared_conditions_end():
    condition = n < m
    for _ in range(40):
        condition = And(Or(condition, condition), Not(Not(condition)))
    assert prove(condition) is None
    assert spell(simplify(condition)) == "(n < m)"
    both = n >= 0
    for _ in range(40):
        both = And(both, both)
    assert prove(both) is True
    assert prove(Or(Not(both), EQ(Let(i, n, i + 1), n + 1))) is True


def test_a_remainder_by_a_sum_of_many():
    """Too many terms to be written as a quotient: it stays a remainder, whose range is known."""
    many = [SizeVar(f"b{number}", "int64") for number in range(70)]
    assert prove(n % total(many) >= 0) is True
    assert prove(n % (total(many) + 1) <= total(many)) is None
    assert prove(n % (total(many) - 1) >= 0) is None
    assert evaluate(simplify(n % (many[0] + 1)), {n: 7, many[0]: 3}) == 3


def test_ranges_of_narrow_integers():
    assert const_int_bound(Cast("int8", n % 8)).min_value <= 0
    x, y, z = (Var(name, "int8") for name in "xyz")
    analyzer = Analyzer()
    for var, least, most in ((x, 0, 127), (y, -128, 27), (z, -100, 100)):
        analyzer.update(var, ConstIntBound(least, most))
    largest = Max(Max(x - 100, y + 100), z)
    assert analyzer.prove(GE(largest, z)) is True
    assert analyzer.prove(GE(largest, y + 100)) is True
    assert analyzer.prove(LT(largest, z + 1)) is None


def test_an_effect_is_like_no_other():
    normalizer = Normalizer(Facts())
    call = intrin.call_extern("int64", "rand")
    assert normalizer.key(call) != normalizer.key(call)
    assert normalizer.key(n + m) == normalizer.key(m + n)


def test_a_factor_that_may_be_zero_is_not_shortened():
    assert spell(simplify(n * m // (m * k))) == "((n * m) // (m * k))"
    assert spell(simplify((n * m + k) // (m * h))) == "(((n * m) + k) // (m * h))"
    assert prove_equal(n, const(-1, "int64")) is DIFFERENT
    assert prove_equal(const(3, "int64"), n) is UNKNOWN
    assert prove_equal(const(3, "int64"), i) is UNKNOWN


def test_a_maximum_of_three_is_written_as_it_was():
    assert spell(simplify(top(top(n, m), k) + h - h)) == "max(max(n, m), k)"
    assert spell(simplify(n + m + k - top(top(n, m), k) + h - h)).count("max") == 2


def test_indices_of_flattened_sizes():
    """What a kernel over convolved sizes asks: the quotients are sizes of which it is known that they are not 0."""
    rows, columns = (n + 1) // 4, (m + 1) // 4
    analyzer = under(i >= 0, i < k * (rows * columns * 8), k >= 1, rows >= 1, columns >= 1)
    for claim in (
        i // (rows * columns * 8) < k,
        i // (rows * columns * 8) >= 0,
        (i // rows) % columns < columns,
        (i // rows) % columns >= 0,
        i % rows < rows,
    ):
        assert analyzer.prove(claim) is True
    assert analyzer.prove(i // (rows * columns * 8) < k - 1) is None


def test_a_constant_that_does_not_fit_stays_outside():
    x, y = Var("x", "int8"), Var("y", "int8")
    analyzer = Analyzer()
    for var in (x, y):
        analyzer.update(var, ConstIntBound(0, 100))
    assert spell(analyzer.simplify(Max(x, y) + 100)) == "(max(x, y) + 100)"
    assert spell(analyzer.simplify(Max(x, y) + 10 + 5)) == "(max(x, y) + 15)"
