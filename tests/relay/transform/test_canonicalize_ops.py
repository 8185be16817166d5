"""CanonicalizeOps: `nn.bias_add` as an addition."""

from __future__ import annotations

import numpy as np
from pass_checks import check

from relax.relay.transform import CanonicalizeOps


def test_bias_add():
    params = "%x: Tensor[(2, 3, 4, 4), float32], %b: Tensor[(3), float32]"
    check(
        CanonicalizeOps(),
        f"fn({params}) {{ nn.bias_add(%x, %b) }}",
        f"fn({params}) {{ %x + expand_dims(%b, axis=1, num_newaxis=2) }}",
        np.ones((2, 3, 4, 4), "float32"),
        np.arange(3, dtype="float32"),
    )


def test_bias_of_the_last_axis():
    params = "%x: Tensor[(?, 3), float32], %b: Tensor[(3), float32]"
    check(
        CanonicalizeOps(),
        f"fn({params}) {{ nn.bias_add(%x, %b, axis=-1) }}",
        f"fn({params}) {{ %x + %b }}",
        np.ones((2, 3), "float32"),
        np.arange(3, dtype="float32"),
    )
