"""take: what its indices mean, where dtypes are at their ends."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.script import ir as I
from relax.script import relax as R
from support import PLAIN_LOOPS


@pytest.mark.parametrize("mode", ["fast", "clip", "wrap", "nan"])
def test_take_with_indices_that_only_uint64_holds(mode):
    """They are large, not negative: out of range, the last element, or counted modulo the size."""

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), i: R.Tensor(("k",), "uint64")) -> R.Tensor(("k",), "float32"):
            return R.take(x, i, axis=0, mode=mode)

    x, i = np.arange(3, dtype="float32"), np.array([1, 2**64 - 1, 2**63], "uint64")
    machine = relax.VirtualMachine(relax.build(Module, PLAIN_LOOPS), relax.cpu())
    for run in (machine["main"], lambda *args: relax.interpret(Module, "main", *args)):
        if mode == "fast":
            with pytest.raises(IndexError, match="out of"):
                run(x, i)
        else:
            wanted = {"clip": [1, 2, 2], "wrap": [1, 0, 2], "nan": [1, np.nan, np.nan]}[mode]
            np.testing.assert_array_equal(run(x, i).numpy(), wanted)
