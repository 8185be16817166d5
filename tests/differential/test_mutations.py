"""What breaks a program is found, and only that: every mutation on one small program, and on random ones."""

from __future__ import annotations

import re

import numpy as np
import pytest
from differential import generator, harness
from differential.mutate_tree import scan
from differential.mutations import (
    MUTATIONS,
    NEIGHBOURS,
    TEXT_MUTATIONS,
    Unrefused,
    check,
    check_neighbour,
    check_program,
    check_text,
    mutated_programs,
    refusal,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import relax
from relax.analysis import check_well_formed
from relax.interpreter import Interpreter
from relax.ir import IRModule
from relax.script import from_source

PROGRAM = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
        cls = Module
        n = T.int64()
        k = T.int64()
        with R.dataflow():
            a = R.add(x, y)
            b = R.exp(a)
            R.output(b)
        d = cls.helper(y)
        e = R.match_cast(d, R.Tensor((k,), "float32"))
        with R.dataflow():
            t = R.call_tir(cls.double, (y,), R.Tensor((4,), "float32"))
            u = R.multiply(t, y)
            v = R.negative(u)
            R.output(v)

        @R.function
        def local(p: R.Tensor((n, 4), "float32")) -> R.Tensor((n, 4), "float32"):
            q = R.exp(p)
            r = R.add(q, b)
            return r

        f = local(b)
        if c:
            g = R.exp(f)
            h = R.negative(g)
        else:
            h = f
        pair = (h, (e, v))
        s = pair[1]
        return (h, s)

    @R.function(private=True)
    def helper(w: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor(ndim=1, dtype="float32"):
        return R.negative(w)

    @T.prim_func
    def double(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = A[i] + A[i]
"""

MODULE = from_source(PROGRAM)


class First:
    """The first of all choices."""

    def pick(self, items):
        return items[0]

    def integer(self, low, high):
        return low

    def chance(self, percent):
        return False


# ------------------------------------------------------------------------------- one by one, on the program above

EXPECTED = {
}  # fmt: skip
"""What the first way to apply each mutation is answered with: line, column, message."""


def names(table):
    return [item.name for item in table]


def applied(mutation):
    """The module with a mutation applied in the first possible way."""
    broken = mutation.apply(MODULE, First())
    assert isinstance(broken, IRModule)
    return broken


@pytest.mark.parametrize("mutation", MUTATIONS, ids=names(MUTATIONS))
def test_a_mutation_is_refused_with_its_rule_at_its_place(mutation):
    first = check(MODULE, mutation, First())[0]
    assert first.code == mutation.code
    assert (first.span.line, first.span.column, first.message) == EXPECTED[mutation.name]
    text = PROGRAM.splitlines()[first.span.line - 1]
    assert text in first.render()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=names(MUTATIONS))
def test_a_mutation_is_refused_wherever_it_is_applied(mutation):
    for seed in range(3):
        assert check(MODULE, mutation, seed) is not None


def test_every_rule_is_broken_by_a_mutation():
    assert {m.rule for m in MUTATIONS if m.rule is not None} == set(range(1, 23))


def test_every_error_of_derivation_is_provoked_by_a_mutation():
    """Those that a program can make: E3013 to E3015 are about registering operators and building with blocks."""
    codes = {m.code for m in MUTATIONS}
    derivation = {f"E30{i:02d}" for i in range(1, 13)} | {"E3016"}
    operators = {"E3101", "E3102", "E3103", "E3104", "E3105", "E3106", "E3110", "E3111", "E3112"}
    assert derivation | operators | {"E4006"} <= codes


def test_mutations_are_told_by_their_names():
    for table in (MUTATIONS, NEIGHBOURS, TEXT_MUTATIONS):
        assert len(set(names(table))) == len(table)
        assert all(item.doc.endswith(".") for item in table)


def test_a_mutation_leaves_the_program_as_it_is_where_it_does_not_apply():
    nothing = from_source("@I.ir_module\nclass M:\n    @R.function\n    def main(c: R.Object):\n        return c\n")
    by_name = {m.name: m for m in MUTATIONS}
    for name in ("use_dataflow_var_outside_its_block", "use_variable_before_its_binding", "if_in_dataflow_block"):
        assert check(nothing, by_name[name], 0) is None


def test_the_module_that_is_mutated_stays_as_it_was():
    before = MODULE.script()
    for mutation in MUTATIONS:
        mutation.apply(MODULE, First())
    assert MODULE.script() == before
    assert relax.analysis.well_formed(MODULE)


def test_what_is_not_refused_is_told():
    """The checks can fail: they are given mutations that break nothing, or something else than they say."""
    broken = {m.name: m for m in MUTATIONS}["use_unbound_size"]
    harmless = type(broken)("harmless", "E2005", lambda module, choices: module, "Change nothing.")
    with pytest.raises(Unrefused, match="check_well_formed says nothing"):
        check(MODULE, harmless, 0)
    mistaken = type(broken)("mistaken", "E2006", broken.apply, "Break another rule.")
    with pytest.raises(Unrefused, match="check_well_formed says {'E2005'}"):
        check(MODULE, mistaken, 0)
    named = NEIGHBOURS[0]
    breaking = type(named)("breaking", lambda module, choices: applied(broken), "Break it.", "results")
    with pytest.raises(Unrefused, match="refused"):
        check_neighbour(MODULE, breaking, 0)


# ------------------------------------------------------------------------------------------- neighbours


def case(n=2):
    return (np.arange(4 * n, dtype="float32").reshape(n, 4), np.ones(4, "float32"), np.array(n % 2 == 0))


def difference(cases, exact=True):
    """How what two modules do differs; where the first fails, the other may do what it likes."""

    def compare(before, after):
        for args in cases:
            expected = harness.run(Interpreter(before)["main"], args)
            if expected.error is None:
                told = harness.difference(expected, harness.run(Interpreter(after)["main"], args), exact)
                if told is not None:
                    return told
        return None

    return compare


@pytest.mark.parametrize("neighbour", NEIGHBOURS, ids=names(NEIGHBOURS))
def test_a_neighbour_is_accepted_and_means_the_same(neighbour):
    same = difference([case(0), case(1), case(2)])
    for choices in (First(), 1, 2):
        assert check_neighbour(MODULE, neighbour, choices, same) is not None


def test_a_difference_is_seen():
    other = from_source(PROGRAM.replace("R.multiply(t, y)", "R.subtract(t, y)"))
    assert difference([case()])(MODULE, other) is not None


# ------------------------------------------------------------------------------------------- text


@pytest.mark.parametrize("mutation", TEXT_MUTATIONS, ids=names(TEXT_MUTATIONS))
def test_a_typing_error_is_answered_with_a_place_in_the_text(mutation):
    for seed in range(12):
        found = check_text(PROGRAM, mutation, seed)
        assert found is not None
        if mutation.breaks:
            assert found[0].span is not None


def test_an_undefined_name_is_pointed_at():
    mutation = {m.name: m for m in TEXT_MUTATIONS}["undefined_name"]
    broken = mutation.apply(PROGRAM, First())
    [found] = refusal(lambda: from_source(broken))
    assert (found.code, found.message) == ("E1002", "`undefined_name` is not defined")
    line = broken.splitlines()[found.span.line - 1]
    assert line[found.span.column - 1 :].startswith("undefined_name")


# ------------------------------------------------------------------------------------------- random programs

short = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))


@short
@given(generator.programs(), st.integers(0, 10**6))
def test_random_programs(program, seed):
    check_program(generator.HEADER + program.text, seed, count=3)


@short
@given(generator.programs(failing=False), st.sampled_from(NEIGHBOURS), st.integers(0, 10**6))
def test_neighbours_of_random_programs(program, neighbour, seed):
    with harness.quiet():
        module = program.module()
    cases = [generator.inputs(program, sizes, seed) for sizes in generator.SIZES[:2]]
    check_neighbour(module, neighbour, seed, difference(cases))


@short
@given(mutated_programs(generator.programs().map(lambda program: program.module())))
def test_broken_programs_are_a_strategy(broken):
    mutation, module = broken
    if mutation.stage == "rules":
        assert {d.code for d in check_well_formed(module)} == {mutation.code}
    assert scan(module).functions
    assert re.search("class Module", module.script())
