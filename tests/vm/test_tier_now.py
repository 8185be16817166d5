"""Tier "now": random programs compute what the interpreter computes."""

from __future__ import annotations

import pytest

import relax
from differential import harness, properties
from differential.generator import SIZES, inputs, random_program
from support import PLAIN_LOOPS

NEGATIVE_SCALARS = (36, 140, 153)
"""Programs that pass numbers below zero to operators: kernels once took these for sizes."""


@pytest.mark.parametrize("seed", [*range(30), *NEGATIVE_SCALARS])
def test_random_programs(seed):
    program = random_program(seed, failing=seed % 3 == 0)
    if program.is_refused():
        return
    cases = [inputs(program, sizes, seed + i, broken=i == seed % 9) for i, sizes in enumerate(SIZES[:4])]
    mod, how = program.module(), harness.precision(program.text, program.exact)
    with harness.quiet():
        run = properties.machine(relax.build(mod, PLAIN_LOOPS, tier="now"))
    properties.compare(
        "now", properties.interpreted(mod, cases), [harness.run(run, case) for case in cases], how, cases
    )
