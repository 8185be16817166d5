"""The program of the informal specification (seed 000), as written there: only the imports are added.

A name bound again in a branch is another variable. Functions did not state their purity then: it is inferred.
"""

from __future__ import annotations

import numpy as np
import pytest

import relax

PROGRAM = """
from relax.script import relax as R
from relax.script.relax import Tensor

@R.function
def func(x: Tensor) -> Tensor:
    if True:
        # the true branch will be a nested SeqExpr and hence a new scope
        # this x will shadow the function parameter x
        x = R.const(1)
        R.print(x) # prints 1
        # the inner x goes out of scope
    else:
        R.print("not executed")
    R.print(x) # this x is the function parameter
    return x
"""


def test_parses_and_prints():
    func = relax.script.from_source(PROGRAM)
    relax.ir.assert_structural_equal(relax.script.from_source(func.script()), func)


@pytest.mark.parametrize("value", [np.float32(7), np.zeros((0,), "int8"), np.ones((2, 1), "float64")])
def test_the_inner_x_goes_out_of_scope(value, capfd):
    mod = relax.IRModule.from_expr(relax.script.from_source(PROGRAM))
    vm = relax.VirtualMachine(relax.build(mod, "llvm"), relax.cpu())
    array = np.asarray(value)
    result = vm["func"](array)
    np.testing.assert_array_equal(result.numpy(), array)
    assert result.numpy().dtype == array.dtype
    printed = capfd.readouterr().out
    assert printed.splitlines()[0] == "1"
    assert "not executed" not in printed
    assert printed.splitlines()[1:] == str(array).splitlines()
