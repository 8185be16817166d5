"""A target's -opt-level: from 2 on the loops of kernels are arranged; results are the same but for rounding."""

import numpy as np
import pytest

import relax
from relax.ir.transform import PassContext, TimingInstrument
from relax.script import ir as I
from relax.script import relax as R


@I.ir_module
class Product:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, "m"), "float32")):
        y = R.matmul(x, w)
        return y


@pytest.mark.parametrize("level", range(4))
def test_loops_are_arranged_from_level_2_on(level: int):
    timing = TimingInstrument()
    with PassContext(instruments=[timing]):
        executable = relax.build(Product, f"llvm -opt-level={level}")
    assert ("PackConstants" in {name for name, _, _ in timing.times}) == (level >= 2)
    main = relax.VirtualMachine(executable, relax.cpu())["main"]
    for n, m in ((0, 3), (1, 1), (5, 17)):
        x, w = (np.random.default_rng(n).normal(size=s).astype("float32") for s in ((n, 8), (8, m)))
        np.testing.assert_allclose(main(x, w).numpy(), x @ w, rtol=1e-4, atol=1e-6)
