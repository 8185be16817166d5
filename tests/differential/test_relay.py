"""Random Relay programs keep what they mean; broken ones are refused. `make fuzz` runs the same for longer."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from differential import relay_properties
from differential.choices import Seeded
from differential.mutate_relay import mutants
from differential.properties import Failure
from differential.relay_programs import FEATURES, relay_program
from relax import DiagnosticError, relay


@pytest.mark.parametrize("first", range(0, 8, 4))
def test_random_programs(first):
    for seed in range(first, first + 4):
        program = relay_program(f"tests:{seed}")
        relay_properties.check_program(program, str(seed), compiles=False)


PROGRAM = """
def @main(%x: int32, %y: (int32, Tensor[(2), float32])) -> (int32, Tensor[(2), float32]) {
  let %f = fn(%a: int32) -> int32 { if (%a < %x) { %y.0 } else { %a + %x } };
  (%f(%y.0), maximum(%y.1, cast(%f(3), dtype="float32")))
}
"""
CASES = [[np.int32(x), (np.int32(5), np.array([-1, 9], "float32"))] for x in (3, 7)]


def test_a_program_is_compiled():
    seen = Counter()
    relay_properties.relay_agrees(PROGRAM, CASES, "0", True, seen)
    assert seen == {"relay:compiled": 1}


def test_every_form_occurs():
    forms = set()
    for seed in range(60):
        forms |= set(relay_program(seed).features)
    assert forms >= FEATURES
    assert relay_program(7).text == relay_program(7).text


def test_mutants_of_programs_are_read_or_refused():
    sorts = mutants("tests", 60, [relay_program(f"tests:{seed}").text for seed in range(4)])
    assert sorts["refused by the parser"] > 10
    assert sorts.total() == 60


def test_a_pass_that_changes_a_value_is_noticed(monkeypatch):
    def wrong(mod):
        return relay.parse(PROGRAM.replace("%a + %x", "%a - %x"))

    monkeypatch.setattr(relay_properties, "passes", lambda: {"Wrong": wrong})
    with pytest.raises(Failure, match="after Wrong: expected .*, found "):
        relay_properties.relay_agrees(PROGRAM, CASES, compiles=False)


@pytest.mark.parametrize("seed", [0, 3, 4, 5])
def test_broken_programs_are_refused_with_a_place(seed):
    mod = relay_program(f"tests:{seed}").mod
    name, text = relay_properties.broken_text(mod, Seeded(seed))
    with pytest.raises(DiagnosticError) as error:
        relay.transform.InferType()(relay.parse(text, "broken.rly"))
    assert name
    assert "broken.rly:" in str(error.value)


def test_a_broken_program_that_is_accepted_is_noticed(monkeypatch):
    monkeypatch.setattr(relay_properties, "broken_text", lambda mod, choices: ("nothing", PROGRAM))
    with pytest.raises(Failure, match="a program is accepted though it has nothing"):
        relay_properties.relay_agrees(PROGRAM, CASES, compiles=False)
