"""Results of programs before and after a pass."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import relax
from relax.ir import IRModule


def results(mod: IRModule, args: list[np.ndarray]) -> list[np.ndarray]:
    """What main gives, as a list of arrays."""
    value = relax.interpret(mod, "main", *args)
    parts = [value] if hasattr(value, "numpy") else value
    return [part.numpy() for part in parts]


@pytest.fixture
def keeps() -> Callable[..., None]:
    """``keeps(before, after, shapes…)``: both give the same for random floats of these shapes, or arrays."""

    def run(before: IRModule, after: IRModule, *shapes: object, rtol: float = 1e-5) -> None:
        rng = np.random.default_rng(0)
        args = [rng.standard_normal(s).astype("float32") if isinstance(s, tuple) else s for s in shapes]
        for old, new in zip(results(before, args), results(after, args), strict=True):
            assert old.dtype == new.dtype
            np.testing.assert_allclose(new, old, rtol=rtol, atol=1e-6)

    return run
