"""Mutators as users of TVM write them: what they override, and what follows from it."""

from __future__ import annotations

import numpy as np
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


def test_a_functor_gives_what_its_methods_give():
    class Count(relax.ExprFunctor):
        def visit_call_(self, op):
            return 1 + sum(map(self.visit_expr, op.args))

        def visit_var_(self, op):
            return 10

    x, y = relax.Var("x", R.Tensor((4,))), relax.DataflowVar("y", R.Tensor((4,)))
    assert Count().visit_expr(relax.op.add(relax.op.exp(x), y)) == 22
    with pytest.raises(NotImplementedError, match="Count has no visit_constant_"):
        Count().visit_expr(relax.const(1.0))

    class Kinds(Count):
        def visit_dataflow_var_(self, op):
            return 100

    assert Kinds().visit_expr(relax.op.add(x, y)) == 111


def test_questions_about_variables_and_functions():
    @I.ir_module
    class Module:
        @R.function(private=True)
        def f(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            return x

        @R.function(private=True)
        def g(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            return Module.f(x)

        @R.function
        def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("k",), "float32")):
            h = Module.g
            z = Module.f(y)
            return (h(z), x)

    main = Module["main"]
    assert [var.name for var in relax.analysis.shape_vars(main)] == ["n", "m", "k"]
    assert [g.name_hint for g in relax.analysis.called_global_vars(main)] == ["f"]
    assert [g.name_hint for g in relax.analysis.all_global_vars(main)] == ["g", "f"]
    lowered = relax.transform.LegalizeOps()(relax.IRModule({"main": Example["main"]}))
    assert len(relax.analysis.called_global_vars(lowered["main"])) == 2
    copy = relax.utils.copy_with_new_vars(main)
    relax.ir.assert_structural_equal(copy, main)
    assert not set(copy.params) & set(main.params)


def test_statements_of_a_sequence():
    stmts = [relax.tir.Evaluate(relax.tir.const(i)) for i in range(3)]
    seq = relax.tir.SeqStmt(stmts)
    assert len(seq) == 3
    assert seq[0] is stmts[0]
    assert seq[-1] is stmts[2]
    assert list(seq) == stmts
    assert relax.tir.SeqStmt([])  # a statement that does nothing


def test_constants_of_a_given_type():
    assert relax.const(65505.0, "float16").data == 65504  # rounded to nearest, as NumPy does
    assert np.isinf(relax.const(float("inf"), "float16").data)
    assert relax.const(np.array([300]), "int8").data == 44  # an array is cast
    for value, dtype in (
        (70000.0, "float16"),
        ([1.0, -1e39], "float32"),
        (300, "int8"),
        (-1, "uint8"),
        (2**70, "int64"),
    ):
        with pytest.raises(ValueError, match=f"is out of the range of {dtype}"):
            relax.const(value, dtype)
