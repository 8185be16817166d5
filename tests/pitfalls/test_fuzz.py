"""Random programs: compiled, pass by pass, printed and parsed, they compute what the operators' references say."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pitfall_helpers import arrays, machine, parse
from relax_fuzz import inputs, programs, run

import relax
from relax.analysis import assert_well_formed
from relax.transform.pipeline import GRAPH

SIZES = ((0, 0), (0, 2), (1, 0), (1, 1), (1, 3), (2, 1), (3, 2), (5, 4))


def assert_same(found, wanted, context):
    for got, expected in zip(found, wanted, strict=True):
        expected = np.asarray(expected)
        assert got.dtype == expected.dtype, context
        np.testing.assert_array_equal(got, expected, err_msg=str(context))


def compiled(vm, args):
    """The results and then the arguments, which may be changed."""
    args = [np.array(arg) for arg in args]
    try:
        return (*arrays(vm["main"](*args)), *args)
    except (ValueError, IndexError, AssertionError):
        return "fails"


fuzz = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))


def check(text):
    """A program compiled against the evaluator, for all sizes."""
    mod = parse(text)
    vm = machine(mod)
    for seed, (n, m) in enumerate(SIZES):
        args = inputs(n, m, seed)
        wanted = run(mod, args)
        found = compiled(vm, args)
        if isinstance(wanted, str):
            continue  # an optimiser may remove what fails
        assert found != "fails", (n, m)
        assert_same(found, wanted, (n, m))


@fuzz
@given(programs())
def test_compiled_programs(text):
    check(text)


@fuzz
@given(programs(mutating=True))
def test_programs_that_change_tensors(text):
    """What one name of a tensor is changed to, all its names show, and no other tensor."""
    check(text)


@fuzz
@given(st.booleans().flatmap(programs))
def test_graph_passes_one_at_a_time(text):
    """Each graph pass, on the program as the passes before it left it, twice: the second time changes nothing it computes."""
    original = parse(text)
    cases = [(inputs(n, m, seed), (n, m)) for seed, (n, m) in enumerate(SIZES[::2])]
    wanted = [run(original, args) for args, _ in cases]
    mod = original
    for step in GRAPH:
        for _ in range(2):
            mod = step.make()(mod)
            assert_well_formed(mod)
            for (args, sizes), expected in zip(cases, wanted, strict=True):
                if not isinstance(expected, str):
                    found = run(mod, args)
                    assert found != "fails", (step, sizes)
                    assert_same(found, expected, (step, sizes))


@settings(fuzz, max_examples=5)
@given(st.booleans().flatmap(programs))
def test_printed_programs(text):
    """parse ∘ print is the identity, before and after every pass."""
    mod = parse(text)
    pipeline = [step.make() for step in relax.transform.pipeline.DEFAULT]
    for transform in [None, *pipeline]:
        mod = mod if transform is None else transform(mod)
        again = relax.script.from_source(mod.script())
        relax.ir.assert_structural_equal(again, mod)
        assert again.script() == mod.script()
