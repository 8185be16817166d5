"""Visitors and mutators: the hierarchy of hooks, sharing, remapping, re-derivation."""

from __future__ import annotations

import pytest

from relax import op
from relax.analysis import well_formed
from relax.derive.normalize import normalize_function
from relax.expr import Call, DataflowVar, If, SeqExpr, Tuple, TupleGetItem, Var, VarBinding, const
from relax.expr_functor import PyExprMutator, PyExprVisitor, mutator, visitor
from relax.info.mapping import bound_in
from relax.info.text import struct_info_text
from relax.ir import IRModule, Op, assert_structural_equal, structural_equal
from relax.prim import IntImm
from relax.rewrite.visitor import ExprMutator, ExprVisitor, post_order_visit
from relax.struct_info import TensorStructInfo
from support import calls, parse

PROGRAM = """
@R.function
def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool")):
    n, m = T.int64(), T.int64()
    with R.dataflow():
        lv = R.exp(x)
        gv = R.add(lv, R.const(1.0, "float32"))
        R.output(gv)
    y = R.match_cast(gv, R.Tensor((m, 4), "float32"))
    if c:
        z = R.sin(y)
    else:
        z = R.cos(y)
    @R.function
    def f(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        b = R.exp(a)
        return b
    t = (z, R.shape([n]))
    return t
"""


@pytest.fixture
def mod():
    return parse(PROGRAM)


# -------------------------------------------------------------------------------- visitors


def test_definitions_are_counted_by_overriding_one_hook(mod):
    """The example of the 2022 AST note."""

    @visitor
    class CountVarDef(PyExprVisitor):
        def __init__(self):
            self.count = 0

        def visit_var_def(self, var):
            self.count += 1

    class CountDataflowVarDef(ExprVisitor):
        def __init__(self):
            self.count = 0

        def visit_dataflow_var_def_(self, var):
            self.count += 1

    everything, dataflow = CountVarDef(), CountDataflowVarDef()
    everything.visit_expr(mod["main"])
    dataflow.visit_expr(mod["main"])
    assert (everything.count, dataflow.count) == (12, 1)


def test_every_hook_is_called(mod):
    seen = []

    class Trace(ExprVisitor):
        pass

    for name in dir(ExprVisitor):
        if name.startswith("visit_"):

            def hook(self, *args, name=name):
                seen.append(name)
                getattr(ExprVisitor, name)(self, *args)

            setattr(Trace, name, hook)
    Trace().visit_expr(mod["main"])
    extra = Tuple(["text", op.astype(const(1), "int8"), TupleGetItem(Tuple([1]), 0)])
    Trace().visit_expr(extra)
    missed = {name for name in dir(ExprVisitor) if name.startswith("visit_")} - set(seen)
    assert missed <= {"visit_extern_func_", "visit_global_var_", "visit_prim_func_", "visit_data_type_imm_"}
    assert seen.index("visit_binding_block") < seen.index("visit_dataflow_block_") < seen.index("visit_var_binding_")
    assert seen.index("visit_var_def") < seen.index("visit_var_def_")


def test_dispatch_to_the_parts_of_a_function(mod):
    found = []

    class Calls(ExprVisitor):
        def visit_call_(self, op):
            found.append(op.op.name)
            super().visit_call_(op)

    Calls().visit_expr(mod["main"])
    assert found == ["relax.exp", "relax.add", "relax.sin", "relax.cos", "relax.exp"]


def test_shapes_in_struct_info_are_visited(mod):
    found = set()

    class Dimensions(ExprVisitor):
        def visit_prim_expr(self, expr):
            found.add(str(getattr(expr, "name", expr)))

    Dimensions().visit_expr(mod["main"])
    assert {"n", "m"} <= found


def test_parts_come_before_what_they_are_parts_of():
    order = []
    x = Var("x", TensorStructInfo((4,)))
    post_order_visit(op.add(op.exp(x), x), lambda e: order.append(type(e).__name__))
    assert order == ["Op", "Op", "Var", "Call", "Var", "Call"]


def test_what_cannot_be_visited_is_refused():
    with pytest.raises(TypeError, match="ExprVisitor: cannot visit a int"):
        ExprVisitor().visit_expr(3)


# -------------------------------------------------------------------------------- mutators


def run(cls, mod, name="main"):
    return cls(mod).visit_expr(mod[name])


def test_a_mutator_that_changes_nothing_returns_the_object_it_got(mod):
    assert run(ExprMutator, mod) is mod["main"]


def test_a_call_is_replaced_and_derived_anew(mod):
    @mutator
    class ExpToSin(PyExprMutator):
        def __init__(self, mod=None):
            super().__init__(mod)

        def visit_call_(self, call):
            call = super().visit_call_(call)
            return op.sin(call.args[0]) if call.op.name == "relax.exp" else call

    found = run(ExpToSin, mod)
    expected = parse(PROGRAM.replace("exp", "sin"))["main"]
    assert_structural_equal(found, expected)
    assert well_formed(IRModule({"main": found}))
    # What is not touched is shared.
    assert found.params is mod["main"].params
    assert structural_equal(mod["main"], parse(PROGRAM)["main"])


def test_one_binding_becomes_several():
    class Expand(ExprMutator):
        def visit_call_(self, call):
            call = super().visit_call_(call)
            if call.op.name != "relax.exp":
                return call
            inner = self.builder_.emit(op.sin(call.args[0]), "inner")
            return op.cos(op.sin(inner))

    mod = parse("""
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            lv = R.exp(x)
            gv = R.exp(lv)
            R.output(gv)
        return gv
    """)
    found = run(Expand, mod)
    names = [binding.value.op.name for block in found.body.blocks for binding in block.bindings]
    assert names == ["relax.sin", "relax.sin", "relax.cos"] * 2
    kinds = [type(binding.var) for binding in found.body.blocks[0].bindings]
    assert kinds == [DataflowVar] * 5 + [Var]


def test_a_binding_is_dropped_and_its_variable_remapped():
    class DropExp(ExprMutator):
        def visit_var_binding_(self, binding):
            if isinstance(binding.value, Call) and binding.value.op is Op.get("relax.exp"):
                self.set_var_remap(binding.var, self.visit_expr(binding.value.args[0]))
                return
            super().visit_var_binding_(binding)

    mod = parse("""
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        y = R.exp(x)
        z = R.exp(y)
        w = R.sin(z)
        return (w, z)
    """)
    assert_structural_equal(run(DropExp, mod), parse("""
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        w = R.sin(x)
        return (w, x)
    """)["main"])  # fmt: skip


def test_a_variable_follows_its_value():
    """A value of another struct info gives a new variable, and what uses it is derived anew."""

    class ToHalf(ExprMutator):
        def visit_call_(self, call):
            call = super().visit_call_(call)
            return op.astype(call.args[0], "float16") if call.op.name == "relax.exp" else call

    mod = parse("""
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        y = R.exp(x)
        z = R.sin(y)
        return z
    """)
    found = ToHalf(mod).visit_expr(mod["main"].replace(ret_struct_info=None))
    dtypes = [binding.var.struct_info.dtype for binding in found.body.blocks[0].bindings]
    assert dtypes == ["float16", "float16"]
    assert found.struct_info.ret.dtype == "float16"
    assert mod["main"].body.blocks[0].bindings[0].var.struct_info.dtype == "float32"


def test_bindings_can_be_looked_up():
    values = {}

    class Look(ExprMutator):
        def visit_call_(self, call):
            for arg in call.args:
                if isinstance(arg, Var):
                    values[arg.name_hint] = self.lookup_binding(arg)
            return super().visit_call_(call)

    mod = parse("""
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        y = R.exp(x)
        z = R.sin(y)
        return z
    """)
    run(Look, mod)
    assert values["x"] is None
    assert values["y"].op.name == "relax.exp"


def test_shape_variables_are_remapped_everywhere(mod):
    main = mod["main"]
    n = next(iter(bound_in(main.params[0].struct_info)))
    found = ExprMutator(mod)
    found.set_shape_var_remap(n, IntImm("int64", 7))
    result = found.visit_expr(main)
    assert struct_info_text(result.params[0].struct_info) == 'R.Tensor((7, 4), "float32")'
    assert struct_info_text(result.body.blocks[0].bindings[0].var.struct_info) == 'R.Tensor((7, 4), "float32")'
    assert struct_info_text(result.ret_struct_info) == ('R.Tuple(R.Tensor((7, 4), "float32"), R.Shape([7]))')
    assert well_formed(IRModule({"main": result}))


def test_branches_are_visited_in_scopes_of_their_own(mod):
    class Emit(ExprMutator):
        def visit_call_(self, call):
            call = super().visit_call_(call)
            if call.op.name in ("relax.sin", "relax.cos"):
                return op.add(self.builder_.emit(call), call.args[0])
            return call

    found = run(Emit, mod)
    branch = next(b.value for block in found.body.blocks for b in block.bindings if isinstance(b.value, If))
    assert [len(s.blocks[0].bindings) for s in (branch.true_branch, branch.false_branch)] == [2, 2]
    assert well_formed(IRModule({"main": found}))


def test_a_leaf_branch_may_become_more():
    class NegateBranches(ExprMutator):
        def visit_var_(self, var):
            return op.negative(var) if var.name_hint == "y" else super().visit_var_(var)

    x, y, c = (Var(name, TensorStructInfo((4,))) for name in "xyc")
    c = Var("c", TensorStructInfo((), "bool"))
    func = normalize_function(type(parse(PROGRAM)["main"])([x, y, c], If(c, x, y)))
    found = NegateBranches().visit_expr(func)
    branch = found.body.blocks[0].bindings[0].value
    assert isinstance(branch.false_branch, SeqExpr)
    assert branch.false_branch.blocks[0].bindings[0].value.op.name == "relax.negative"


def test_a_local_function_that_changes_still_calls_itself():
    class Half(ExprMutator):
        def visit_var_def_(self, var):
            if var.name_hint in ("a", "x"):
                new = self.with_struct_info(var, TensorStructInfo(var.struct_info.shape, "float16"))
                self.set_var_remap(var, new)
                return new
            return super().visit_var_def_(var)

        def visit_expr_dep_struct_info_field(self, info):
            info = super().visit_expr_dep_struct_info_field(info)
            return TensorStructInfo(info.shape, "float16") if isinstance(info, TensorStructInfo) else info

    mod = parse("""
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        @R.function
        def f(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            b = f(a)
            return b
        y = f(x)
        return y
    """)
    found = run(Half, mod)
    assert well_formed(IRModule({"main": found}))
    local = found.body.blocks[0].bindings[0]
    assert local.value.body.blocks[0].bindings[0].value.op is local.var


def test_a_sequence_with_a_dataflow_block_is_inlined_into_an_ordinary_block():
    class Inline(ExprMutator):
        def visit_call_(self, call):
            call = super().visit_call_(call)
            if call.op.name != "relax.exp":
                return call
            inner = parse("""
            @R.function
            def main(x: R.Tensor((4,), "float32")):
                with R.dataflow():
                    gv = R.sin(x)
                    R.output(gv)
                return gv
            """)["main"]
            from relax.derive.substitution import substitute

            return substitute(inner.body, {inner.params[0]: call.args[0]})

    mod = parse("""
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        y = R.cos(x)
        z = R.exp(y)
        w = R.cos(z)
        return w
    """)
    found = run(Inline, mod)
    kinds = [(type(b).__name__, len(b.bindings)) for b in found.body.blocks]
    assert kinds == [("BindingBlock", 1), ("DataflowBlock", 1), ("BindingBlock", 2)]
    assert well_formed(IRModule({"main": found}))


def test_variables_of_other_names_only_by_remap():
    mutated = ExprMutator()
    x = Var("x", TensorStructInfo((4,)))
    with pytest.raises(KeyError):
        mutated.get_var_remap(x)
    mutated.set_var_remap(x, x)
    assert mutated.get_var_remap(x) is x
    assert mutated.with_struct_info(x, TensorStructInfo((4,))) is x


def test_visits_of_a_thousand_bindings_take_few_calls():
    lines = "\n".join(f"        lv{i + 1} = R.exp(lv{i})" for i in range(1000))
    mod = parse(
        "@R.function\ndef main(lv0: R.Tensor((4,), 'float32')):\n    with R.dataflow():\n"
        + lines
        + "\n        R.output(lv1000)\n    return lv1000"
    )

    class ExpToSin(ExprMutator):
        def visit_call_(self, call):
            call = super().visit_call_(call)
            return op.sin(call.args[0])

    kept, changed = [], []
    assert calls(lambda: kept.append(run(ExprMutator, mod))) < 1000 * 250
    assert calls(lambda: changed.append(run(ExpToSin, mod))) < 1000 * 500
    assert kept[0] is mod["main"]
    found = changed[0]
    assert all(isinstance(b, VarBinding) for b in found.body.blocks[0].bindings)
