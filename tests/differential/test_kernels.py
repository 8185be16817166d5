"""Random programs of one heavy operator, built by default: kernels of arranged loops. `make fuzz` runs more."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from differential.kernel_programs import FEATURES, kernel_program
from differential.kernel_properties import kernels_agree
from differential.properties import Failure
from relax.schedules.cpu.convolutions.winograd.winograd import KernelTransform


def check(seed):
    program = kernel_program(seed)
    kernels_agree(program.text, program.cases, known=program.known)


@pytest.mark.parametrize("seed", range(4))
def test_random_kernels(seed):
    check(f"tests:{seed}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 100))
def test_more_random_kernels(seed):
    check(f"tests:{seed}")


def test_every_feature_occurs():
    seen = Counter()
    for seed in range(150):
        seen.update(kernel_program(f"tests:{seed}").features)
    assert set(FEATURES) <= set(seen)


PROGRAM = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 16, 16, 16), "float32"), w: R.Tensor((64, 16, 3, 3), "float32")):
        with R.dataflow():
            y = R.nn.conv2d(x, w, padding=1)
            R.output(y)
        return y
"""


def test_a_constant_that_is_packed_wrongly_is_found(monkeypatch):
    transform = KernelTransform.__call__

    def without_last_channel(self, array):
        result = transform(self, array).copy()
        shape = (self.groups, -1, self.panels, self.inputs, self.width)
        np.reshape(result, shape)[-1, :, -1, :, (self.outputs - 1) % self.width] = 0
        return result

    cases = [[np.ones((1, 16, 16, 16), "float32"), np.ones((64, 16, 3, 3), "float32")]]
    kernels_agree(PROGRAM, cases, known=("w",))
    monkeypatch.setattr(KernelTransform, "__call__", without_last_channel)
    with pytest.raises(Failure, match=r"agrees: values: .*known \['w'\]: 256 of 16384 differ, first \(0, 63, 0, 0\)"):
        kernels_agree(PROGRAM, cases, known=("w",))


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_elements_that_are_not_finite_are_compared(monkeypatch, value):
    """Tiles with a result that is not finite, and no others, are sums of taps: wrong taps show where there are any."""
    x, w = np.ones((1, 16, 16, 16), "float32"), np.ones((64, 16, 3, 3), "float32")
    w[:, 2, 1, 1] = 0
    spoiled = x.copy()
    spoiled[0, 2, 5, 9] = value
    kernels_agree(PROGRAM, [[x, w], [spoiled, w]], known=("w",))
    transform = KernelTransform.__call__

    def with_other_taps(self, array):
        result = transform(self, array).copy()
        result[:, self.slots :] = 1
        return result

    monkeypatch.setattr(KernelTransform, "__call__", with_other_taps)
    kernels_agree(PROGRAM, [[x, w]], known=("w",))
    with pytest.raises(Failure, match=r"of 16384 differ, first \(0, 0, \d+, \d+\): expected 143.0, found 144.0"):
        kernels_agree(PROGRAM, [[x, w], [spoiled, w]], known=("w",))
