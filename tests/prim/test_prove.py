"""The prover: equal, different or unknown; true, false or unknown; bounds; the Analyzer."""

from __future__ import annotations

import contextlib
import functools
import operator
import random

import pytest
from prim_spell import spell

from relax.prim import (
    EQ,
    Add,
    Analyzer,
    And,
    Cast,
    ConstIntBound,
    FloatImm,
    IntImm,
    ModularSet,
    Not,
    Or,
    Select,
    SizeVar,
    Var,
    Verdict,
    const,
    const_int_bound,
    evaluate,
    facts_in_scope,
    implies,
    intrin,
    prove,
    prove_equal,
    prove_shape_equal,
    questions,
    simplify,
)
from support import python_calls

EQUAL, DIFFERENT, UNKNOWN = Verdict.YES, Verdict.NO, Verdict.POSSIBLY

n, m, k, h = (SizeVar(name, "int64") for name in "nmkh")
i, j = Var("i", "int64"), Var("j", "int64")
b = Var("b", "int8")
p = Var("p", "bool")
top, low = intrin.max, intrin.min

RELATIONS = [
    (n + 1, 1 + n, EQUAL),
    (n, n + 1, DIFFERENT),
    (n, m, UNKNOWN),
    (n, 0, UNKNOWN),
    (n, -1, DIFFERENT),
    (n + 1, 0, DIFFERENT),
    (n * 2, n * 3, UNKNOWN),  # equal for 0
    (2 * n, 2 * m + 1, DIFFERENT),
    (n * n + 1, 0, DIFFERENT),
    (i * i + 1, 0, UNKNOWN),  # of any int64, the square may wrap around
    (n * (m + 1), n * m + n, EQUAL),
    ((n + m) * (n - m), n * n - m * m, EQUAL),
    (n * m // m, n, EQUAL),
    ((n * m + n) // (m + 1), n, EQUAL),
    (n * m * 4 // (m * 4), n, EQUAL),
    ((n + 7) // 8 * 8 % 8, 0, EQUAL),
    ((n // 2) // 3, n // 6, EQUAL),
    (n % 6 // 2, n // 2 % 3, EQUAL),
    ((n * 8 + m % 8) // 8, n, EQUAL),
    (n * m // 8 * 8 + n * m % 8, m * n, EQUAL),
    ((h + 2 - 3) // 1 + 1, h, EQUAL),
    (((h - 1) // 2 + 1 - 1) // 2 + 1, (h - 1) // 4 + 1, EQUAL),
    (intrin.ceildiv(n, 4), (n + 3) // 4, EQUAL),
    (intrin.ceildiv(n * 4, 4), n, EQUAL),
    (n // 4 * 4, n, UNKNOWN),
    (top(n, m), top(m, n), EQUAL),
    (top(top(n, m), k), top(n, top(k, m)), EQUAL),
    (low(n, m) + top(n, m), n + m, EQUAL),
    (low(n, m) + k, low(n + k, k + m), EQUAL),
    (top(n - 1, 0) + 1, top(n, 1), EQUAL),
    (top(n, 1), n, UNKNOWN),
    (top(n, 1), 0, DIFFERENT),
    (Select(p, n, m) + 1, 1 + Select(p, n, m), EQUAL),
    (Select(n < m, n, m), Select(m > n, n, m), EQUAL),
    (Cast("int64", Var("s", "int32")), 0, UNKNOWN),
    (const(3), const(3, "int64"), EQUAL),
    (const(3), 4, DIFFERENT),
    (b + 1, b - 127 - 127 - 1, EQUAL),  # modulo 256
    (b * 2, b * 2 + 1, DIFFERENT),
    (b + 1, 0, UNKNOWN),
    (FloatImm("float32", 1.5), FloatImm("float32", 1.5), EQUAL),
    (FloatImm("float32", 1.5), FloatImm("float32", 2.5), DIFFERENT),
    (p, p, EQUAL),
    (const(True), const(False), DIFFERENT),
]


@pytest.mark.parametrize("a, b, answer", [pytest.param(*case, id=f"{n}") for n, case in enumerate(RELATIONS)])
def test_prove_equal(a, b, answer):
    assert prove_equal(a, b) is answer
    assert prove_equal(b, a) is answer


def test_verdicts_are_ordered():
    assert DIFFERENT < UNKNOWN < EQUAL


def test_shapes():
    assert prove_shape_equal((n, m + 1), (n, 1 + m)) is EQUAL
    assert prove_shape_equal((n,), (n, n)) is DIFFERENT
    assert prove_shape_equal((n, 2), (m, 3)) is DIFFERENT
    assert prove_shape_equal((n, 2), (m, 2)) is UNKNOWN
    assert prove_shape_equal((), ()) is EQUAL


def test_effects_are_never_equal():
    call = intrin.call_extern("int64", "rand")
    assert prove_equal(call, call) is UNKNOWN
    assert prove(EQ(call, call)) is None


CLAIMS = [
    (n >= 0, True),
    (i >= 0, None),
    (n < 0, False),
    (n + 1 > n, True),
    ((n + 3) // 4 * 4 >= n, True),
    ((n + 7) // 8 * 8 - n < 8, True),
    (n // 2 <= n, True),
    ((n + 1) // 2 <= n, True),
    (i // 2 <= i, None),  # not for -1
    (n // m * m <= n, True),
    (n % m < m, True),  # wherever it has a value
    (n % 4 + i % 4 <= 6, True),
    (n * m >= 0, True),
    (n * (m + 1) >= n, True),
    ((n + 1) * (m + 1) > n * m, True),
    (top(n, m) >= m, True),
    (low(n, m) > n, False),
    (low(n, m) + top(n, m) - n - m < 1, True),
    (Select(p, n, m) >= 0, True),
    (And(n >= 0, i >= 0), None),
    (And(n >= 0, n < 0), False),
    (Or(n < m, n >= m), True),
    (Or(n >= 0, i > 0), True),
    (Not(n < 0), True),
    (intrin.likely(n >= 0), True),
    (EQ(n * 2, m * 2 + 1), False),
    (b + 1 > b, None),
    (Cast("int64", b) + 1 > Cast("int64", b), True),
    (intrin.popcount(n) <= 64, True),
    (const(True), True),
    (const(0) > 1, False),
    (Var("f", "float32") >= 0.0, None),
]


@pytest.mark.parametrize("claim, answer", [pytest.param(c, a, id=spell(c)) for c, a in CLAIMS])
def test_prove(claim, answer):
    assert prove(claim) is answer


def test_polynomial_identities_are_complete():
    """Whatever way a polynomial is written, it is recognised; and another one is not."""
    rng = random.Random(0)
    variables = [n, m, i, j]

    def written(terms):
        terms = list(terms)
        rng.shuffle(terms)
        total = const(0, "int64")
        for coefficient, factors in terms:
            factors = list(factors)
            rng.shuffle(factors)
            split = rng.randint(-3, 3)  # the coefficient in two parts
            for part in (split, coefficient - split):
                term = const(part, "int64")
                for factor in factors:
                    term = factor * term if rng.random() < 0.5 else term * factor
                total = total + term if rng.random() < 0.5 else total - (0 - term)
        return total

    for _ in range(100):
        terms = [
            (rng.randint(-5, 5), [rng.choice(variables) for _ in range(rng.randint(0, 3))])
            for _ in range(rng.randint(1, 5))
        ]
        a, b = written(terms), written(terms)
        assert prove_equal(a, b) is EQUAL
        assert prove_equal(a, b + 1) is DIFFERENT
        assert prove_equal(a, b + i) is UNKNOWN


class Range:
    """What TIR's Range looks like to the analyzer."""

    def __init__(self, low, extent):
        self.min = low
        self.extent = extent


def test_binding_a_range():
    analyzer = Analyzer()
    analyzer.bind(i, Range(0, n))
    analyzer.bind(j, Range(0, 64))
    assert analyzer.can_prove(i < n)
    assert analyzer.can_prove(i >= 0)
    assert analyzer.can_prove(i * 64 + j < n * 64)
    assert analyzer.simplify(i // n).value == 0
    assert analyzer.simplify(i % n) is i
    assert analyzer.simplify((i * 64 + j) // 64) is i
    assert analyzer.simplify((i * 64 + j) % 64) is j
    assert spell(analyzer.simplify((i * 64 + j) // 128)) == "(i // 2)"
    assert analyzer.simplify(low(i + 1, n)) is not None
    assert spell(analyzer.simplify(low(i + 1, n))) == "(i + 1)"
    assert not analyzer.can_prove(i < m)


def test_binding_a_narrow_loop_variable():
    s, t = Var("s", "int32"), Var("t", "int32")
    analyzer = Analyzer()
    assert spell(analyzer.simplify((s * 4 + t) // 4)) == "(((s * 4) + t) // 4)"  # s * 4 may wrap around
    analyzer.bind(s, Range(0, 1000))
    analyzer.bind(t, Range(0, 4))
    assert analyzer.simplify((s * 4 + t) // 4) is s
    assert analyzer.const_int_bound(s * 4 + t) == ConstIntBound(0, 3999)


def test_binding_a_narrow_variable_to_a_wide_range():
    s = Var("s", "int32")
    analyzer = Analyzer()
    analyzer.bind(s, Range(const(0, "int64"), const(16, "int64")))
    assert analyzer.const_int_bound(s) == ConstIntBound(0, 15)
    assert analyzer.simplify(s // 16).value == 0
    other = Analyzer()
    other.bind(s, Range(0, n))
    assert other.can_prove(s < n)


def test_an_int64_of_unknown_origin_may_wrap_around():
    """Loaded indices are any int64: a bounds check must not be proved away by arithmetic that may overflow."""
    assert prove(i + 1 > i) is None
    assert prove_equal(i * 4 // 4, i) is UNKNOWN
    assert prove_equal(i * 4 - i * 4, 0) is EQUAL  # modulo 2^64, too
    assert prove(i % 10 < 10) is True
    assert prove(top(i, 3) >= 3) is True
    assert prove(low(i, n - 1) < n) is True
    analyzer = Analyzer()
    with analyzer.constraint_scope(i + 1 <= n):
        assert analyzer.prove(i < n) is None  # i may be 2^63 - 1
        with analyzer.constraint_scope(i >= 0):
            assert analyzer.prove(i < n) is None
    with analyzer.constraint_scope(And(i >= 0, i < n)):
        assert analyzer.can_prove(i * 4 + 3 < n * 4)
        assert analyzer.can_prove(i + 1 <= n)


def test_the_largest_int64_stands_for_the_end():
    assert simplify(low(n, const(2**63 - 1, "int64"))) is n


def test_binding_a_value():
    analyzer = Analyzer()
    analyzer.bind(i, n + 1)
    assert analyzer.can_prove_equal(i, n + 1)
    assert analyzer.can_prove(i > n)
    assert spell(analyzer.simplify(i - 1)) == "n"
    with pytest.raises(TypeError, match="Analyzer.bind: j has dtype int64, its value float32"):
        analyzer.bind(j, 0.5)
    with pytest.raises(ValueError, match="Analyzer.bind: i is bound already; pass override=True"):
        analyzer.bind(i, 3)
    analyzer.bind(i, 3, override=True)
    assert analyzer.simplify(i + 1).value == 4


def test_an_empty_range_makes_everything_so():
    analyzer = Analyzer()
    analyzer.bind(i, Range(0, 0))
    assert analyzer.can_prove(i < 0)  # the loop has no iteration in which this could be wrong


def test_constraints():
    analyzer = Analyzer()
    with analyzer.constraint_scope(And(m > 4, i < j)):
        assert analyzer.can_prove(m > 2)
        assert analyzer.can_prove(m * n >= n * 5)
        assert analyzer.can_prove(i + 1 <= j)
        assert analyzer.prove(m < 3) is False
        assert spell(analyzer.simplify(top(i, j))) == "j"
        with analyzer.constraint_scope(EQ(n, 4)):
            assert analyzer.simplify(n * 2).value == 8
        assert analyzer.simplify(n * 2).dtype == "int64"
        assert analyzer.can_prove_equal(n % m, n % m)
    assert analyzer.prove(m > 2) is None
    assert spell(analyzer.simplify(top(i, j))) == "max(i, j)"


def test_a_constraint_can_exclude_zero():
    analyzer = Analyzer()
    assert spell(analyzer.simplify(n // n)) == "(n // n)"
    with analyzer.constraint_scope(n != 0):
        assert analyzer.simplify(n // n).value == 1
        assert analyzer.simplify((m // n) * 0).value == 0
        assert analyzer.prove(EQ(n, 0)) is False
    with analyzer.constraint_scope(n > 0):
        assert analyzer.simplify(n // n).value == 1


def test_a_constraint_on_a_quotient():
    analyzer = Analyzer()
    with analyzer.constraint_scope(n // 4 < m):
        assert analyzer.can_prove(n // 4 + 1 <= m)
        assert analyzer.can_prove(n < m * 4)
    with analyzer.constraint_scope(n % 4 == 0):
        assert analyzer.prove_equal(n // 4 * 4, n) is EQUAL


def test_a_constraint_that_is_a_variable():
    analyzer = Analyzer()
    with analyzer.constraint_scope(p):
        assert analyzer.simplify(Select(p, n, m)) is n
        assert analyzer.can_prove(p)
        assert analyzer.prove(Not(p)) is False


def test_a_scope_left_by_an_exception_is_left():
    analyzer = Analyzer()
    with pytest.raises(RuntimeError), analyzer.constraint_scope(i > 0):
        raise RuntimeError
    assert not analyzer.can_prove(i > 0)


@pytest.mark.parametrize(
    "expr, least, most",
    [
        (n, 0, 2**48 - 1),
        (n * 4 + 3, 3, 2**50 - 1),
        (i, ConstIntBound.NEG_INF, ConstIntBound.POS_INF),
        (n % 7, 0, 6),
        (n % -7, -6, 0),
        (n - n // 2 * 2, 0, 1),
        (low(n, 5), 0, 5),
        (top(low(i, 5), -3), -3, 5),
        (Select(p, n % 3, const(9, "int64")), 0, 9),
        (b, -128, 127),
        (b + b, -128, 127),
        (Cast("int64", b) * 2, -256, 254),
        (n < 3, 0, 1),
        (n >= 0, 1, 1),
        (const(4), 4, 4),
        (intrin.clz(n), 0, 64),
        (Cast("int64", p), 0, 1),
        ((i % 4) * (j % 4), 0, 9),
        ((i % 5 - 2) * (i % 5 - 2), ConstIntBound.NEG_INF, ConstIntBound.POS_INF),
    ],
)
def test_bounds(expr, least, most):
    bound = const_int_bound(expr)
    if spell(expr).startswith("(((i % 5)"):
        assert bound.min_value <= 0
        assert bound.max_value >= 4
    else:
        assert bound == ConstIntBound(least, most)


def test_update_gives_a_constant_range():
    analyzer = Analyzer()
    analyzer.update(i, ConstIntBound(3, 7))
    assert analyzer.const_int_bound(i * 2 + 1) == ConstIntBound(7, 15)
    assert analyzer.interval(j) == (-(2**63), 2**63 - 1)
    assert analyzer.can_prove_greater_equal(i, 3)
    assert analyzer.can_prove_less(i, 8)
    assert analyzer.can_prove_less_equal(i, 7)
    assert not analyzer.can_prove_less(i, 7)


def test_answers_take_few_calls():
    """Bounds ten times what it takes, so that only an accident of complexity fails it."""
    a, b = (n + 3) // 4 * 4, 4 * ((3 + n) // 4)
    for ask in (lambda: prove_equal(a, b), lambda: prove(n * m + 1 > 0)):
        assert python_calls(ask) < 5000
        assert python_calls(ask) < 600
    simplify(a)
    for ask in (lambda: prove_equal(n, m), lambda: simplify(a)):  # known, the second from the first time
        assert python_calls(ask) < 40


def test_hard_questions_end():
    """Nested quotients and maxima of many variables: an answer, perhaps unknown, in bounded time."""
    variables = [SizeVar(f"a{t}", "int64") for t in range(12)]
    expr: object = variables[0]
    for t, var in enumerate(variables[1:]):
        expr = top((expr + var) // (t + 2), low(var, expr) % (t + 3))
    assert prove(expr >= 0) is True
    assert prove(Add(expr, IntImm("int64", 0)) < 1) is None


def test_an_equation_whose_solution_would_overgrow_the_facts_leaves_them_as_they_are():
    x, *terms = (SizeVar(name, "int64") for name in ("x", *(f"v{i}" for i in range(12))))
    analyzer = Analyzer()
    with contextlib.ExitStack() as scopes:
        for var in (x, *terms):
            scopes.enter_context(analyzer.constraint_scope(var * var >= var * 3))
        scopes.enter_context(analyzer.constraint_scope(EQ(x, functools.reduce(operator.add, terms))))
        for var in (x, *terms):
            assert analyzer.can_prove(var * var >= var * 3)


def test_the_numbers_an_expression_may_be():
    """All values are `base` and a multiple of `coeff`; a coeff of 0 says that there is one."""
    unbounded, single = Var("unbounded", "uint32"), Analyzer()
    for expr, coeff, base in (
        (n * 6 + 10, 6, 4),
        (n * 6 + m * 4, 2, 0),
        (const(7, "int32"), 0, 7),
        (n, 1, 0),
        (unbounded * 12 + 5, 4, 1),  # the product may wrap around modulo 2**32
        (Var("x", "float32"), 1, 0),
    ):
        assert single.modular_set(expr) == ModularSet(coeff, base)


def test_what_conditions_imply():
    n, m = Var("n", "int64"), Var("m", "int64")
    for _ in range(2):  # the second answer is remembered
        assert implies([n >= 3], n > 2)
        assert not implies([n >= 3], n > 3)
        assert implies([n.equal(m), m > 1], n >= 2)
    facts = Analyzer()
    facts.assume(m >= 5)
    with facts_in_scope(facts):
        assert implies([n > m], n >= 6)
    assert not implies([n > m], n >= 6)


def test_questions_beyond_the_number_kept_are_answered(monkeypatch):
    monkeypatch.setattr(questions, "KEPT", 1)
    n = Var("n", "int64")
    assert [prove(n + k > n) for k in (1, 2, 1)] == [prove(n + 1 > n)] * 3


def test_long_questions_are_answered_anew():
    n = Var("n", "int64")
    total = n
    for number in range(200):
        total = total + n * number
    assert prove_equal(total, n * (sum(range(200)) + 1)) is Verdict.YES


CONSTANT_CALLS = [
    intrin.reinterpret("int8", IntImm("uint8", 127)).astype("int64"),
    intrin.reinterpret("int32", IntImm("uint32", 2**32 - 1)).astype("int64"),
    Cast("int64", Cast("int8", IntImm("int64", 300))),
    Cast("int64", Cast("uint8", IntImm("int64", -1))),
    Cast("int64", FloatImm("float32", 3.5)),
    Cast("int64", FloatImm("float16", float("nan"))),
]


@pytest.mark.parametrize("expr", CONSTANT_CALLS, ids=str)
def test_the_prover_knows_the_value_of_a_constant_cast_or_call(expr):
    value = evaluate(expr)
    for analyzer in (Analyzer(), Analyzer(wraps=True)):
        assert analyzer.interval(expr) == (value, value)
        assert analyzer.can_prove_equal(expr + i, i + value)
