"""Passes, visitors and questions about programs, as users of TVM write them."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import PyExprMutator, PyExprVisitor, tir
from relax.expr_functor import mutator, visitor
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from support import numbers, run, same


@I.ir_module
class Example:
    I.module_attrs({"version": 3})

    @T.prim_func
    def copy(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 4), "float32")
        B = T.match_buffer(b, (n, 4), "float32")
        for i, j in T.grid(n, 4):
            with T.block("copy"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]

    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n", 4), "float32")):
        n = T.int64()
        with R.dataflow():
            lv0 = R.multiply(x, y)
            lv1 = R.add(lv0, R.const(1, "float32"))
            lv2 = R.call_tir(Example.copy, (lv1,), R.Tensor((n, 4), "float32"))
            unused = R.exp(lv2)
            gv = R.nn.relu(lv2)
            R.output(gv)
        return gv


def check(mod, expected):
    x, y = numbers(3, 4), numbers(3, 4, seed=1)
    same(run(mod, x, y), expected(x, y), rtol=1e-5, atol=1e-6)


@mutator
class MultiplyToAdd(PyExprMutator):
    def __init__(self, mod):
        super().__init__(mod)
        self.mod_ = mod
        self.count = 0

    def transform(self):
        for gv, func in self.mod_.functions.items():
            if not isinstance(func, relax.Function):
                continue
            self.builder_.update_func(gv, self.visit_expr(func))
        return self.builder_.get()

    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        if call.op != relax.ir.Op.get("relax.multiply"):
            return call
        self.count += 1
        return relax.op.add(call.args[0], call.args[1])


def test_mutator_over_a_module():
    mutate = MultiplyToAdd(Example)
    mod = mutate.transform()
    assert mutate.count == 1
    assert relax.analysis.well_formed(mod)
    check(mod, lambda x, y: np.maximum(x + y + 1, 0))
    check(Example, lambda x, y: np.maximum(x * y + 1, 0))


def test_module_pass_as_class():
    @relax.ir.transform.module_pass(opt_level=0, name="ToAdd")
    class ToAdd:
        def __init__(self, enabled=True):
            self.enabled = enabled

        def transform_module(self, mod, ctx):
            assert isinstance(ctx, relax.transform.PassContext)
            return MultiplyToAdd(mod).transform() if self.enabled else mod

    assert ToAdd().info.name == "ToAdd"
    check(ToAdd()(Example), lambda x, y: np.maximum(x + y + 1, 0))
    assert ToAdd(enabled=False)(Example) is Example


def test_module_pass_as_function():
    @relax.transform.module_pass(opt_level=1)
    def to_add(mod, ctx):
        return MultiplyToAdd(mod).transform()

    check(to_add(Example), lambda x, y: np.maximum(x + y + 1, 0))
    with relax.transform.PassContext(opt_level=0):
        assert to_add(Example) is Example


def test_function_pass_as_class_and_function():
    @relax.transform.function_pass(opt_level=0)
    class Tag:
        def transform_function(self, func, mod, ctx):
            return func.with_attr("tagged", len(mod.get_global_vars()))

    @relax.transform.function_pass(opt_level=0, name="Double")
    def double(func, mod, ctx):
        return func.with_attr("tagged", func.attrs["tagged"] * 2)

    mod = relax.ir.transform.Sequential([Tag(), double], name="both")(Example)
    assert mod["main"].attrs["tagged"] == 4
    assert "tagged" not in (mod["copy"].attrs or {})
    assert "tagged" not in mod["main"].without_attr("tagged").attrs


def test_dataflowblock_pass():
    @relax.transform.dataflowblock_pass(opt_level=0)
    class KeepAll:
        seen = 0

        def transform_dataflowblock(self, block, mod, ctx):
            KeepAll.inner_seen = len(block.bindings)
            return block

    KeepAll()(Example)

    @relax.transform.dataflowblock_pass(opt_level=0)
    def drop_unused(block, mod, ctx):
        kept = [b for b in block.bindings if b.var.name_hint != "unused"]
        return relax.DataflowBlock(kept)

    mod = drop_unused(Example)
    assert len(mod["main"].body.blocks[0].bindings) == 4
    check(mod, lambda x, y: np.maximum(x * y + 1, 0))


@visitor
class Calls(PyExprVisitor):
    def __init__(self):
        super().__init__()
        self.names = []
        self.defined = []

    def visit_call_(self, op):
        super().visit_call_(op)
        self.names.append(op.op.name)

    def visit_dataflow_var_def_(self, op):
        self.defined.append(op.name_hint)


def test_visitor():
    calls = Calls()
    calls.visit_expr(Example["main"])
    assert calls.names == ["relax.multiply", "relax.add", "relax.call_tir", "relax.exp", "relax.nn.relu"]
    assert calls.defined == ["lv0", "lv1", "lv2", "unused"]
    seen = []
    relax.analysis.post_order_visit(Example["main"], lambda e: seen.append(type(e).__name__))
    assert seen[-1] == "Function"
    assert "Call" in seen


def test_module_and_function_fields():
    mod = Example
    assert mod.attrs["version"] == 3
    assert mod.get_attr("version") == 3
    assert mod.with_attr("k", "v").attrs["k"] == "v"
    assert "version" not in mod.without_attr("version").attrs
    gv = mod.get_global_var("main")
    func = mod[gv]
    assert func is mod["main"]
    assert {g.name_hint for g in mod.functions} == {"copy", "main"}
    assert {g.name_hint for g, _ in mod.functions_items()} == {"copy", "main"}
    assert [p.name_hint for p in func.params] == ["x", "y"]
    assert func.is_pure is True
    assert isinstance(func.body, relax.SeqExpr)
    block = func.body.blocks[0]
    assert isinstance(block, relax.DataflowBlock)
    binding = block.bindings[0]
    assert isinstance(binding, relax.VarBinding)
    call = binding.value
    assert isinstance(call, relax.Call)
    assert call.op.name == "relax.multiply"
    assert call.args[0].same_as(func.params[0])
    assert call.struct_info.dtype == "float32"
    assert func.ret_struct_info.ndim == 2
    assert isinstance(func.struct_info, relax.FuncStructInfo)
    assert func.struct_info.params[0].ndim == 2
    assert isinstance(func.body.body, relax.Var)
    assert func.attrs["global_symbol"] == "main"


def test_a_module_is_updated_by_making_another():
    mod = Example
    func = mod["main"].with_attr("k", 1)
    assert mod.with_function("main", func)["main"].attrs["k"] == 1
    assert "k" not in mod["main"].attrs


def test_analysis():
    func = Example["main"]
    assert relax.analysis.well_formed(Example)
    assert relax.analysis.well_formed(obj=Example, check_struct_info=False)
    assert relax.analysis.free_vars(func) == []
    assert [v.name_hint for v in relax.analysis.free_vars(func.body)] == ["x", "y"]
    assert "gv" in [v.name_hint for v in relax.analysis.bound_vars(func)]
    assert len(relax.analysis.all_vars(func)) == 7
    assert [g.name_hint for g in relax.analysis.all_global_vars(func)] == ["copy"]
    assert [v.name for v in relax.analysis.defined_symbolic_vars(func)] == ["n"]
    assert relax.analysis.free_symbolic_vars(func) == []
    var2val = relax.analysis.get_var2val(func)
    assert var2val[func.body.body].op.name == "relax.nn.relu"
    assert "lv0" in relax.analysis.name_to_binding(func)
    uses = relax.analysis.udchain(func.body.blocks[0])
    assert any(v.name_hint == "lv0" for v in uses)
    assert not relax.analysis.contains_impure_call(func)
    sinfo = func.params[0].struct_info
    assert len(relax.analysis.tir_vars_in_struct_info(sinfo)) == 1
    assert len(relax.analysis.definable_tir_vars_in_struct_info(sinfo)) == 1
    erased = relax.analysis.erase_to_well_defined(sinfo)
    relax.ir.assert_structural_equal(erased, R.Tensor(dtype="float32", ndim=2))
    assert relax.analysis.detect_recursion(Example) == []


def test_structural_equality_and_json():
    again = relax.script.from_source(Example.script(show_meta=True))
    relax.ir.assert_structural_equal(again, Example)
    assert relax.ir.structural_equal(again, Example, map_free_vars=True)
    assert relax.ir.structural_hash(again) == relax.ir.structural_hash(Example)
    relax.ir.assert_structural_equal(relax.ir.load_json(relax.ir.save_json(Example)), Example)
    with pytest.raises(ValueError, match="relax.multiply"):
        relax.ir.assert_structural_equal(MultiplyToAdd(Example).transform(), Example)


def test_before_and_expected():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                y = x
                z = R.add(y, y)
                R.output(z)
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                z = R.add(x, x)
                R.output(z)
            return z

    relax.ir.assert_structural_equal(relax.transform.CanonicalizeBindings()(Before), Expected)


def test_the_lowering_passes_by_hand():
    seq = relax.ir.transform.Sequential(
        [
            relax.transform.LegalizeOps(),
            relax.transform.RewriteDataflowReshape(),
            relax.transform.ToNonDataflow(),
            relax.transform.RemovePurityChecking(),
            relax.transform.CallTIRRewrite(),
            relax.transform.LambdaLift(),
            relax.transform.VMBuiltinLower(),
            relax.transform.VMShapeLower(emit_err_ctx=True),
        ]
    )
    mod = seq(Example)
    assert "main" in [g.name_hint for g in mod.get_global_vars()]


def test_customised_legalisation():
    def by_hand(bb, call):
        return bb.call_te(relax.topi.add, call.args[0], call.args[1])

    mod = relax.transform.LegalizeOps({"relax.multiply": by_hand})(Example)
    check(mod, lambda x, y: np.maximum(x + y + 1, 0))


def test_bind_symbolic_variables():
    mod = relax.transform.BindSymbolicVars({"n": 3})(Example)
    assert mod["main"].params[0].struct_info.shape[0] == 3
    check(mod, lambda x, y: np.maximum(x * y + 1, 0))
    func = Example["main"].bind_symbolic_vars({"n": 5})
    assert func.params[1].struct_info.shape[0] == 5


def test_bind_parameters_of_a_function():
    func = Example["main"].bind_params({"y": np.ones((3, 4), "float32")})
    assert len(func.params) == 1


def test_tir_functions():
    func = Example["copy"]
    assert isinstance(func, tir.PrimFunc)
    assert func.attrs["global_symbol"] == "copy"
    assert [func.buffer_map[p].name for p in func.params] == ["A", "B"]
    assert func.buffer_map[func.params[0]].dtype == "float32"
    loops = []
    tir.stmt_functor.post_order_visit(func.body, lambda node: loops.append(node) if isinstance(node, tir.For) else None)
    assert sorted(loop.loop_var.name for loop in loops) == ["i", "j"]
    assert func.with_attr({"tir.noalias": True}).attrs["tir.noalias"]
    stores = []

    def collect(node):
        if isinstance(node, tir.BufferStore):
            stores.append(node)

    tir.stmt_functor.post_order_visit(func.body, collect)
    assert stores[0].buffer.name == "B"
    replaced = tir.stmt_functor.ir_transform(
        func.body,
        None,
        lambda node: tir.BufferStore(node.buffer, node.value + tir.FloatImm("float32", 1.0), node.indices),
        ["tir.BufferStore"],
    )
    assert not relax.ir.structural_equal(replaced, func.body)


def test_tir_analysis():
    n, m = tir.Var("n", "int64"), tir.Var("n", "int64")
    assert tir.analysis.expr_deep_equal(n + 1, n + 1)
    assert not tir.analysis.expr_deep_equal(n + 1, m + 1)
    assert tir.analysis.verify_well_formed(Example["copy"])
    assert tir.analysis.undefined_vars(tir.Evaluate(n + 1)) == [n]


def test_pass_instruments():
    seen = []

    @relax.ir.instrument.pass_instrument
    class Log:
        def run_before_pass(self, mod, info):
            seen.append(f"before {info.name}")

        def run_after_pass(self, mod, info):
            seen.append(f"after {info.name}")

    with relax.transform.PassContext(opt_level=3, instruments=[Log()]):
        relax.transform.ToNonDataflow()(Example)
    assert seen == ["before ToNonDataflow", "after ToNonDataflow"]


def test_disabled_pass():
    with relax.transform.PassContext(disabled_pass=["ToNonDataflow"]):
        assert relax.transform.ToNonDataflow()(Example) is Example


def test_kernels_are_named_as_tvm_names_them():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            a = R.nn.relu(x)
            b = R.permute_dims(a)
            c = R.concat([b, b])
            d = R.nn.softmax(c)
            e = R.matmul(d, a)
            f = R.sum(R.reshape(e, (18,)))
            g = R.strided_slice(R.expand_dims(x, 0), [1], [0], [1])
            h = R.nn.silu(R.take(x, R.const([0]), axis=0))
            return (f, g, h, R.broadcast_to(x, (2, 2, 3)), R.split(x, 3, axis=1), R.less(x, x))

    names = [g.name_hint for g in relax.transform.LegalizeOps()(Before)]
    assert names == [
        "main", "relu", "transpose", "concatenate", "softmax", "matmul", "reshape", "sum", "expand_dims",
        "strided_slice", "take", "silu", "broadcast_to", "split", "less",
    ]  # fmt: skip
