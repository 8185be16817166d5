"""What every pass promises, as one function: see `check`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from relax.analysis import assert_well_formed
from relax.ir import IRModule, assert_structural_equal
from relax.transform import Pass, PassContext, VerifyInstrument

Check = Callable[..., IRModule]


@pytest.fixture
def check() -> Check:
    """``check(pass, before, expected)``: the job is done, the output is well-formed, a second run changes nothing.

    Without `expected` the pass must decline: it returns the very module it got.
    """

    def run(step: Pass, before: IRModule, expected: IRModule | None = None) -> IRModule:
        with PassContext(instruments=[VerifyInstrument(assert_well_formed)]):
            after = step(before)
            if expected is None:
                assert after is before, f"changed to\n{after}"
            else:
                assert_structural_equal(after, expected)
            assert step(after) is after, "the second run changed something"
        return after

    return run
