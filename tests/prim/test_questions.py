"""Questions that differ in their variables alone: one answer for all of them, which depends on nothing else."""

from __future__ import annotations

import itertools

import pytest

from relax.ir import Span, structural_equal
from relax.prim import (
    EQ,
    Add,
    Analyzer,
    Cast,
    FloorMod,
    Let,
    Max,
    Min,
    Mul,
    Select,
    SizeVar,
    Var,
    const,
    free_vars,
    prove,
    prove_equal,
    questions,
    simplify,
)
from relax.prim.intrin import if_then_else
from relax.prim.questions import question, rewritten, spelled
from relax.tir import decl_buffer

n, m, k = (SizeVar(name, "int64") for name in "nmk")
i, j = (Var(name, "int64") for name in "ij")


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch):
    monkeypatch.setattr(questions, "_answers", {})


def text(*expressions):
    return spelled(expressions).text


def test_the_same_up_to_variables_is_spelled_alike():
    assert text(n * 4 + m) == text(k * 4 + n)
    assert spelled((n * 4 + m,)).variables == (n, m)
    assert text(n * 4 + m, i) == text(m * 4 + n, j)


def test_what_differs_is_spelled_differently():
    i32, bit = Var("i", "int32"), Var("b", "bool")
    texts = [
        text(n + m), text(n + n), text(n - m), text(n + i), text(i + n), text(i + j), text(i32 + i32), text(n + 1),
        text(n + 2), text(const(1, "int64")), text(const(1, "int32")), text(const(1.0, "float32")),
        text(const(-0.0, "float32")), text(const(0.0, "float32")), text(Cast("int64", i32)), text(Cast("int8", i32)),
        text(Select(bit, i, j)), text(if_then_else(bit, i, j)), text(Min(i, j)), text(Max(i, j)), text(i),
        text((i + j) * i), text(i + j * i), text(i < j), text(j > i), text(n, m), text(n, n), text(n), text(n + m, n),
    ]  # fmt: skip
    assert len(set(texts)) == len(texts)


def test_loads_bindings_and_long_expressions_have_no_spelling():
    load = decl_buffer((4,), "int64", "A")[i]
    assert spelled((n + load,)) is None
    assert spelled((Let(i, n + 1, i * i),)) is None
    shared = n + m
    for _ in range(12):
        shared = Add(shared, shared)
    assert spelled((shared,)) is None


def test_an_answer_is_worked_out_once_for_all_variables():
    first = simplify((n + 15) // 16 * 16 + n % 16 * 0)
    second = simplify((m + 15) // 16 * 16 + m % 16 * 0)
    assert len(questions._answers) == 1
    assert free_vars(second) == [m]
    assert structural_equal(second, (m + 15) // 16 * 16)
    assert structural_equal(first, (n + 15) // 16 * 16)


def test_exchanged_variables():
    assert structural_equal(simplify(n * 2 + m - n), n + m)
    assert structural_equal(simplify(m * 2 + n - m), m + n)


def test_what_is_simple_stays_the_very_object():
    for size in (n, m):
        expr = (size + 15) // 16
        assert simplify(expr) is expr
    assert len(questions._answers) == 1


def test_a_mark_is_part_of_the_question():
    plain = Var("p", "int64")
    assert prove(n >= 0) is True
    assert prove(plain >= 0) is None
    assert structural_equal(simplify(Max(n, const(0, "int64"))), n)
    assert simplify(Max(m, const(0, "int64"))) is m
    expr = Max(plain, const(0, "int64"))
    assert simplify(expr) is expr


def test_places_in_a_text_are_not_given_to_other_expressions():
    def spanned(var):
        return Add(Mul(var, const(2, "int64"), span=Span("a.py", 1, 1, 1, 2)), const(0, "int64"))

    asked = question("simplify", spelled((spanned(n),)))
    result = rewritten(asked, spanned(n), lambda: spanned(n).a)
    assert result.span is not None
    assert not questions._answers
    assert prove_equal(simplify(spanned(m)), m * 2)


def test_facts_are_part_of_the_question():
    for size, var in ((n, i), (m, j)):
        analyzer = Analyzer(wraps=True)
        with analyzer.constraint_scope(var >= 0), analyzer.constraint_scope(var < size):
            assert analyzer.prove(var < size + 1) is True
            assert analyzer.prove(var + 1 < size) is None
            with analyzer.constraint_scope(var < size - 1):
                assert analyzer.prove(var + 1 < size) is True
        assert analyzer.prove(var < size + 1) is None
    assert len(questions._answers) == 4


def test_facts_about_other_variables_are_not():
    for known in ((), (k >= 7,), (k >= 8, EQ(k % 2, 0))):
        analyzer = Analyzer()
        for condition in (*known, n < m):
            analyzer.assume(condition)
        assert analyzer.prove(n + 1 <= m) is True
        assert structural_equal(analyzer.simplify(Min(n, m)), n)
    assert len(questions._answers) == 2


def test_facts_that_others_relate_to_a_variable_are():
    analyzer = Analyzer()
    for condition in (n < m, m < k, k < 10):
        analyzer.assume(condition)
    assert analyzer.prove(n < 8) is True
    assert analyzer.prove(n < 7) is None


def test_arithmetic_of_machines_and_of_sizes_are_different_questions():
    answers = []
    for wraps in (True, False):
        analyzer = Analyzer(wraps=wraps)
        analyzer.assume(n >= 1)
        answers.append(analyzer.prove(n * n * n * n >= n))
    assert answers == [None, True]


@pytest.mark.parametrize("before", [*itertools.permutations((0, 1, 2))])
def test_an_answer_does_not_depend_on_what_was_asked_before(before):
    asked = (Max(m, k) * n - m, FloorMod(m * k + n, n), Min(n * k, m) + m * n)
    alone = []
    for expr in asked:
        questions._answers.clear()
        analyzer = Analyzer(wraps=True)
        analyzer.assume(n <= m)
        alone.append(analyzer.simplify(expr))
    questions._answers.clear()
    analyzer = Analyzer(wraps=True)
    analyzer.assume(n <= m)
    for place in before:
        assert structural_equal(analyzer.simplify(asked[place]), alone[place], map_free_vars=False)


def test_statements_that_are_taken_back_are_told_again():
    analyzer = Analyzer(wraps=True)
    with analyzer.constraint_scope(n >= 3):
        for least in (1, 5, 7):
            with analyzer.constraint_scope(m >= least):
                assert analyzer.prove(n + m >= 3 + least) is True
                assert analyzer.prove(n + m >= 4 + least) is None
            assert analyzer.prove(n + m >= 4) is None
        assert analyzer.prove(n >= 3) is True
    assert analyzer.prove(n >= 3) is None


def test_definitions_that_nothing_uses_are_no_part_of_a_question():
    for known in ((), (EQ(j, n * 3),), (EQ(j, n * 3), EQ(m, j + n))):
        analyzer = Analyzer(wraps=True)
        for condition in (i >= 0, *known, i < n):
            analyzer.assume(condition)
        assert analyzer.prove(i < n + 1) is True
    assert len(questions._answers) == 1
    analyzer = Analyzer(wraps=True)
    for condition in (EQ(j, n * 3), j < 10):
        analyzer.assume(condition)
    assert analyzer.prove(n < 4) is True
    assert analyzer.prove(j < 10) is True


def test_what_was_said_twice_is_known_until_the_first_is_taken_back():
    analyzer = Analyzer()
    with analyzer.constraint_scope(n < 5):
        with analyzer.constraint_scope(n < 5):
            assert analyzer.prove(n < 6) is True
        assert analyzer.prove(n < 6) is True
        assert analyzer.prove(n < 5) is True
    assert analyzer.prove(n < 6) is None
    with analyzer.constraint_scope(n < 5):
        assert analyzer.prove(n < 5) is True


@pytest.mark.parametrize("number", [0, 1, 31, 127, 128, 131])
def test_however_many_statements_there_are(number):
    analyzer = Analyzer()
    for place in range(number):
        var, size = Var(f"x{place}", "int64"), SizeVar(f"n{place}", "int64")
        analyzer.assume(var < size)
        assert analyzer.prove(var < size + 1) is True
        assert analyzer.prove(var < size) is True
        assert analyzer.prove(var < size - 1) is None
    analyzer.assume(n < 7)
    assert analyzer.prove(n < 8) is True
    assert analyzer.prove(n < 6) is None


def test_operands_of_loads_and_vectors_are_questions_of_their_own():
    data = decl_buffer((64,), "float32", "A")
    for size, var in ((n, i), (m, j)):
        analyzer = Analyzer(wraps=True)
        for condition in (var >= 0, var < size, size < 60):
            analyzer.assume(condition)
        load = data[Min(var, size)]
        simplified = analyzer.simplify(load)
        assert structural_equal(simplified, data[var], map_free_vars=False)
        assert analyzer.simplify(simplified) is simplified
    assert len(questions._answers) == 2


def test_a_condition_that_reads_memory_is_known_as_before():
    load = decl_buffer((4,), "int64", "A")[0]
    analyzer = Analyzer(wraps=True)
    with analyzer.constraint_scope(i < load), analyzer.constraint_scope(load < 10):
        assert analyzer.prove(i < 10) is True
        assert analyzer.prove(j < 10) is None
