"""Random programs: the interpreter, compiled code and every pass agree. `make fuzz` runs the same for longer."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from differential import properties
from differential.erasing import erased, erased_agree
from differential.generator import SIZES, inputs, programs, random_program

few = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
fewer = settings(few, max_examples=3)


@st.composite
def runs(draw, **kinds):
    """A program, and arguments of three sizes, one of which does not match in some."""
    program = draw(programs(**kinds))
    assume(not program.is_refused())
    seed = draw(st.integers(0, 1 << 20))
    return program, [inputs(program, sizes, seed + i, broken=i == seed % 9) for i, sizes in enumerate(SIZES[:3])]


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
def test_programs_that_know_less_of_their_values_do_the_same(run):
    program, cases = run
    erased_agree(program.text, cases, program.exact)


@pytest.mark.parametrize("seed", range(8))
def test_less_is_known_of_variables(seed):
    program = random_program(seed)
    less = erased(program.text, seed)
    assert less is None or properties.parse(less).script() != properties.parse(program.text).script()
    assert less == erased(program.text, seed)


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


@fewer
@given(runs(effects=True))
def test_what_shares_memory_or_is_changed_is_known_before(run):
    program, cases = run
    properties.aliases_are_known(program.text, cases)


@few
@given(programs(failing=False))
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
@given(runs())
def test_sizes_may_be_bound(run):
    program, cases = run
    properties.binds(program.text, cases, program.exact)


def test_an_executable_runs_without_the_compiler():
    done = 0
    for seed in range(100):
        program = random_program(seed, effects=False)
        cases = [inputs(program, sizes, seed) for sizes in SIZES[:3]]
        if "fuzz." not in program.text and not any(isinstance(arg, (tuple, str)) for arg in cases[0]):
            properties.runs_elsewhere(program.text, cases)
            done += 1
            if done == 2:
                break
    assert done == 2


@fewer
@given(programs(failing=False))
def test_broken_programs_are_rejected(program):
    properties.rejects(program.text)


def test_a_seed_makes_one_program():
    assert random_program("7:3").text == random_program("7:3").text
    assert random_program("7:3").text != random_program("7:4").text
    program = random_program(1)
    one, other = (inputs(program, SIZES[0], 5) for _ in range(2))
    assert str(one) == str(other)


@pytest.mark.parametrize("seed", range(12))
def test_programs_are_well_formed(seed):
    program = random_program(seed)
    assert program.is_refused() or program.module()
