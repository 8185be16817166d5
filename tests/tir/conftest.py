"""Helpers of TIR's tests: programs from text."""

from __future__ import annotations

import pytest

from relax.script import from_source


@pytest.fixture(scope="session")
def parse():
    """``parse(text)``: the PrimFunc (or module) of a text; `check=False` leaves out the check."""

    def run(text, check=True, **variables):
        head = "from relax.script import tir as T\n"
        return from_source(head + text, variables, check_well_formed=check, allow_extern=True)

    return run
