"""The program of the Relax AST design note (seed 001), and the visitor it describes."""

from __future__ import annotations

import numpy as np
import pytest

import relax

PROGRAM = """
from relax.script import relax as R

@R.func
def relax_func(x: R.Tensor[(n, k), "f32"], w: R.Tensor[(k, m), "f32"]):
    # start a DataflowBlock
    with R.dataflow(): ## <= DataflowBlock
        lv0: R.Tensor[(n, m), "f32"] = R.dot(x, w) ## <= VarBinding, lv0 is a DataflowVar
        gv0: R.Tensor[(n * m,), "f32"] = R.flatten(lv0) ## <= VarBinding, gv0 is a Var that escapes to the outer scope
        R.outputs(gv0)

    # start a BindingBlock
    gv1 = R.call_packed("custom_inplace_update", gv0) ## <= side-effect binding
    return gv1
"""


@relax.register_func("custom_inplace_update", override=True)
def custom_inplace_update(tensor):
    tensor.copyfrom(tensor.numpy() * 2)
    return tensor


def test_parses_and_prints():
    func = relax.script.from_source(PROGRAM)
    relax.ir.assert_structural_equal(relax.script.from_source(func.script()), func)


@pytest.mark.parametrize("n, k, m", [(2, 3, 4), (1, 1, 1), (0, 3, 2), (3, 0, 2), (3, 2, 0), (17, 5, 9)])
def test_runs(n, k, m):
    func = relax.script.from_source(PROGRAM)
    mod = relax.IRModule.from_expr(func)
    vm = relax.VirtualMachine(relax.build(mod, "llvm"), relax.cpu())
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, k), dtype="float32")
    w = rng.standard_normal((k, m), dtype="float32")
    result = vm["relax_func"](x, w)
    np.testing.assert_allclose(result.numpy(), 2 * (x @ w).reshape(-1), rtol=1e-5, atol=1e-6)


def test_structure_is_the_one_described():
    func = relax.script.from_source(PROGRAM)
    dataflow, plain = func.body.blocks
    assert isinstance(dataflow, relax.expr.DataflowBlock)
    assert [type(b.var) for b in dataflow.bindings] == [relax.DataflowVar, relax.Var]
    assert not isinstance(plain, relax.expr.DataflowBlock)


def test_count_var_definitions_by_overriding_one_method():
    """CountVarDef of the note: overriding visit_var_def sees every definition ..."""

    @relax.expr_functor.visitor
    class CountVarDef(relax.PyExprVisitor):
        count = 0

        def visit_var_def(self, var):
            self.count += 1

    counter = CountVarDef()
    counter.visit_expr(relax.script.from_source(PROGRAM))
    assert counter.count == 5  # x, w, lv0, gv0, gv1


def test_count_dataflow_var_definitions():
    """... and overriding the one for DataflowVar sees those, because visit_var_def dispatches on the variable."""

    @relax.expr_functor.visitor
    class CountDataflowVarDef(relax.PyExprVisitor):
        count = 0

        def visit_dataflow_var_def_(self, var):
            self.count += 1

    counter = CountDataflowVarDef()
    counter.visit_expr(relax.script.from_source(PROGRAM))
    assert counter.count == 1
