"""Random programs: the interpreter, compiled code and every pass agree. `make fuzz` runs the same for longer."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from differential import properties
from differential.generator import SIZES, all_features, inputs, programs, random_program

few = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
fewer = settings(few, max_examples=3)


@st.composite
def runs(draw, **kinds):
    """A program, and arguments of three sizes, one of which does not match in some."""
    program = draw(programs(**kinds))
    seed = draw(st.integers(0, 1 << 20))
    return program, [
        inputs(program, sizes, seed + i, broken=i == seed % 9) for i, sizes in enumerate(SIZES[:3])
    ]


@few
@given(runs())
def test_compiled_programs_do_what_the_interpreter_does(run):
    program, cases = run
    properties.agrees(program.text, cases, program.exact)


@few
@given(runs(effects=True, failing=True))
def test_effects_and_errors_too(run):
    program, cases = run
    properties.agrees(program.text, cases, program.exact)


@fewer
@given(runs())
def test_every_pass_keeps_what_a_program_does(run):
    program, cases = run
    properties.passes_keep(program.text, cases, program.exact)


@fewer
@given(runs())
def test_passes_in_any_order_keep_it(run):
    program, cases = run
    properties.orders_keep(program.text, cases, program.exact)


@few
@given(programs())
def test_what_is_printed_parses_to_the_same(program):
    properties.prints_and_parses(program.text)


@few
@given(runs())
def test_struct_info_is_true(run):
    program, cases = run
    properties.derives_truly(program.text, cases)


@fewer
@given(runs())
def test_executables_are_saved_and_loaded(run):
    program, cases = run
    properties.saves_and_loads(program.text, cases, program.exact)


@fewer
@given(programs())
def test_broken_programs_are_rejected(program):
    properties.rejects(program.text)


def test_every_construct_occurs():
    found = set()
    for seed in range(1500):
        found |= set(random_program(seed).features)
    assert all_features() <= found


def test_a_seed_makes_one_program():
    assert random_program("7:3").text == random_program("7:3").text
    assert random_program("7:3").text != random_program("7:4").text
    program = random_program(1)
    one, other = (inputs(program, SIZES[0], 5) for _ in range(2))
    assert str(one) == str(other)


@pytest.mark.parametrize("seed", range(12))
def test_programs_are_well_formed(seed):
    random_program(seed).module()
