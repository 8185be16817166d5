"""The programs of the `sinfo_args` issue (seed 003), as written there: a call states its result, but only a match_cast
binds. Functions did not state their purity then: it is inferred, with a warning.
"""

from __future__ import annotations

import numpy as np
import pytest

import relax

VALID = """
from relax.script import relax as R

@R.function
def main(x: R.Tensor(("m", "n"), "float32")) -> R.Tensor(("m", "n"), "float32"):
    y: R.Tensor((m, n), "float32") = R.call_packed(
        "vm.builtin.copy", x, R.Tensor((m, n), "float32")
    )
    return y
"""

INVALID = """
from relax.script import relax as R, tir

@R.function
def main(x: R.Tensor(("m", "n"), "float32")) -> R.Tensor(("m", "n"), "float32"):
    m1 = tir.Var("m1", "int64")
    n1 = tir.Var("n1", "int64")
    y: R.Tensor((m1, n1), "float32") = R.call_packed(
        "my_packed_func", x, R.Tensor((m1, n1), "float32")
    )
    return y
"""

WITH_MATCH_CAST = """
from relax.script import relax as R, tir

@R.function
def main(x: R.Tensor(("m", "n"), "float32")) -> R.Tensor(("m", "n"), "float32"):
    y: R.Tensor("float32", ndim=2) = R.call_packed(
        "my_packed_func", x, R.Tensor("float32", ndim=2)
    )
    m1 = tir.Var("m1", "int64")
    n1 = tir.Var("n2", "int64")
    y1: R.Tensor((m1, n1), "float32") = R.match_cast(
        y, R.Tensor((m1, n1), "float32")
    )
    return y1
"""


@relax.register_func("my_packed_func", override=True)
def my_packed_func(x):
    return relax.nd.array(x.numpy() + 1)


def run(source, x):
    mod = relax.IRModule.from_expr(relax.script.from_source(source))
    return relax.VirtualMachine(relax.build(mod, "llvm"), relax.cpu())["main"](x).numpy()


@pytest.mark.parametrize("source", [VALID, WITH_MATCH_CAST])
@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
def test_parses_and_prints(source):
    func = relax.script.from_source(source)
    relax.ir.assert_structural_equal(relax.script.from_source(func.script()), func)


@pytest.mark.parametrize("m, n", [(2, 3), (1, 1), (0, 4), (4, 0)])
@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
def test_variables_of_the_signature_may_be_used(m, n):
    x = np.random.default_rng(0).standard_normal((m, n), dtype="float32")
    np.testing.assert_array_equal(run(VALID, x), x)


@pytest.mark.parametrize("source", [VALID, WITH_MATCH_CAST])
def test_impurity_is_inferred_with_a_warning(source):
    with pytest.warns(relax.ir.RelaxWarning) as caught:
        func = relax.script.from_source(source)
    assert not func.is_pure
    [diagnostic] = [w.message.diagnostic for w in caught if w.message.diagnostic.code == "W1012"]
    assert diagnostic.message == "`main` calls packed functions and is impure, which its decorator does not say"
    assert diagnostic.hint == "write @R.function(pure=False)"
    assert "pure=False" in func.script()


def test_functions_in_todays_spelling_state_their_purity():
    with pytest.raises(relax.ir.DiagnosticError, match="(?s)E3005.*declare the function with pure=False"):
        relax.script.from_source("""
@R.function
def main(x: R.Tensor(("m", "n"), "float32")):
    m, n = T.int64(), T.int64()
    return R.call_packed("vm.builtin.copy", x, sinfo_args=R.Tensor((m, n), "float32"))
""")


@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
def test_variables_that_nothing_binds_are_an_error():
    with pytest.raises(relax.ir.DiagnosticError) as caught:
        relax.script.from_source(INVALID)
    text = str(caught.value)
    assert "m1" in text
    assert "n1" in text
    assert "error[E2005]" in text
    assert ":8:" in text or ":9:" in text


@pytest.mark.parametrize("m, n", [(2, 3), (1, 1), (0, 4), (4, 0)])
@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
def test_a_match_cast_binds_them(m, n):
    x = np.random.default_rng(0).standard_normal((m, n), dtype="float32")
    np.testing.assert_array_equal(run(WITH_MATCH_CAST, x), x + 1)
