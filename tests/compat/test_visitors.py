"""Mutators as users of TVM write them: what they override, and what follows from it."""

from __future__ import annotations

import pytest

import relax
from relax import PyExprMutator
from relax.expr_functor import mutator
from relax.script import ir as I
from relax.script import relax as R


@I.ir_module
class Example:
    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
        with R.dataflow():
            lv = R.add(x, y)
            gv = R.multiply(lv, x)
            R.output(gv)
        return gv


@pytest.mark.parametrize("method", ["visit_var_def_", "visit_var_def"])
def test_uses_follow_a_definition_that_is_replaced(method):
    def rename(self, var):
        return type(var)(f"{var.name_hint}_new", var.struct_info)

    renamer = mutator(type("Renamer", (PyExprMutator,), {method: rename}))
    after = renamer(Example).visit_expr(Example["main"])
    mod = Example.with_function("main", after)
    assert relax.analysis.well_formed(mod)
    assert [param.name_hint for param in after.params] == ["x_new", "y_new"]
    relax.ir.assert_structural_equal(after, Example["main"])


def test_uses_follow_the_variables_of_casts_and_local_functions():
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        @R.function
        def again(y: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            return again(y)

        z = R.match_cast(x, R.Tensor((4,), "float32"))
        return again(z)

    @mutator
    class Renamer(PyExprMutator):
        def visit_var_def_(self, var):
            return relax.Var(f"{var.name_hint}_new", var.struct_info)

    after = Renamer().visit_expr(main)
    assert relax.analysis.well_formed(after)
    relax.ir.assert_structural_equal(after, main)


def test_a_mutator_of_both_kinds_of_variables():
    @mutator
    class Log(PyExprMutator):
        def __init__(self):
            super().__init__()
            self.log = []

        def visit_var_(self, op):
            self.log.append(f"Var {op.name_hint}")
            return self.visit_expr_post_order(op)

        def visit_dataflow_var_(self, op):
            self.log.append(f"DataflowVar {op.name_hint}")
            return self.visit_expr_post_order(op)

    log = Log()
    assert log.visit_expr(Example["main"]) is Example["main"]
    assert log.log == ["Var x", "Var y", "DataflowVar lv", "Var x", "Var gv"]


def test_a_mutator_whose_visits_of_variables_share_a_default():
    @mutator
    class Log(PyExprMutator):
        def visit_var_(self, op):
            return self.visit_dataflow_var_(op)

        def visit_dataflow_var_(self, op):
            return super().visit_dataflow_var_(op)

    assert Log().visit_expr(Example["main"]) is Example["main"]


def test_a_mutator_of_variables_sees_dataflow_variables():
    seen = []

    @mutator
    class Log(PyExprMutator):
        def visit_var_(self, op):
            seen.append(op.name_hint)
            return super().visit_var_(op)

    Log().visit_expr(Example["main"])
    assert seen == ["x", "y", "lv", "x", "gv"]
