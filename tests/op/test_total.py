"""Kernels that may fail are told from those that cannot; `test_cases` holds every operator's own kernels to it."""

from __future__ import annotations

import pytest
from op_harness import all_cases, kernel, variant
from totality import dangers, derived

from relax.analysis.totality import never_fails


@pytest.mark.parametrize("op", ["relax.take", "relax.floor_divide", "relax.floor_mod", "relax.mod"])
def test_dangers_are_seen_where_they_are(op):
    made = next(made for case in all_cases() if case.op == op and dangers(kernel(made := variant(case, True)).func))
    assert not never_fails(derived(made.call))
