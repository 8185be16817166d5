"""FastMath: faster operators in the places of exact ones."""

from __future__ import annotations

import numpy as np
from pass_checks import check, module, run

from relax.ir.transform import PassContext
from relax.relay.transform import FastMath


def test_operators_are_replaced():
    check(
        FastMath(),
        "fn(%x: Tensor[(4), float32]) { nn.softmax(exp(%x) + erf(tanh(%x)), axis=0) }",
        "fn(%x: Tensor[(4), float32]) { nn.fast_softmax(fast_exp(%x) + fast_erf(fast_tanh(%x)), axis=0) }",
        np.linspace(-1, 1, 4, dtype="float32"),
        rtol=1e-5,
    )


def test_it_takes_the_optimisation_level_4():
    mod = module("fn(%x: float32) { exp(%x) }")
    with PassContext(opt_level=3):
        assert FastMath()(mod) is mod
    assert run(FastMath(), mod) is not mod
    with PassContext(opt_level=4, disabled_pass=["FastMath"]):
        assert FastMath()(mod) is mod
