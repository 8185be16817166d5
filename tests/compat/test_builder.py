"""Programs built by calls: BlockBuilder, expressions and struct infos with TVM's names and keywords."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import te, tir, topi
from relax.script import relax as R
from relax.script import tir as T
from support import numbers, run


def one_function(body, *params):
    bb = relax.BlockBuilder()
    with bb.function("main", list(params)):
        bb.emit_func_output(body(bb))
    return bb.get()


def test_variables_by_position_and_keyword():
    n = tir.Var("n", "int64")
    x = relax.Var("x", relax.TensorStructInfo([n, 4], "float32"))
    y = relax.Var(name_hint="y", struct_info=R.Tensor((n, 4), "float32"))
    relax.ir.assert_structural_equal(x.struct_info, y.struct_info)
    lv = relax.DataflowVar("lv", relax.TensorStructInfo(shape=[n, 4], dtype="float32"))
    assert isinstance(lv, relax.Var)
    assert lv.name_hint == "lv"
    assert relax.TensorStructInfo(dtype="float16", ndim=2).ndim == 2
    assert x.struct_info.dtype == "float32"
    assert x.struct_info.ndim == 2
    assert x.struct_info.shape[1] == 4
    assert next(iter(x.struct_info.shape)).same_as(n)
    s = relax.Var("s", relax.ShapeStructInfo([n, 4]))
    assert relax.TensorStructInfo(s, "float32").ndim == 2
    assert relax.Var("p", relax.PrimStructInfo("int64")).struct_info.dtype == "int64"
    assert relax.PrimStructInfo(value=n).value.same_as(n)
    f = relax.FuncStructInfo([x.struct_info], ret=relax.ObjectStructInfo(), purity=False)
    assert f.params[0] is x.struct_info
    assert relax.FuncStructInfo.opaque_func(ret=R.Tensor(ndim=2)).params is None


def test_struct_info_relations():
    known = relax.TensorStructInfo([2, 3], "float32")
    assert relax.TensorStructInfo(ndim=2, dtype="float32").is_base_of(known)
    assert not known.is_base_of(relax.TensorStructInfo(ndim=2, dtype="float32"))
    lca = relax.analysis.struct_info_lca(known, relax.TensorStructInfo([2, 4], "float32"))
    relax.ir.assert_structural_equal(lca, relax.TensorStructInfo(ndim=2, dtype="float32"))


def test_emit_and_operators_in_python():
    n = tir.Var("n", "int64")
    x = relax.Var("x", R.Tensor((n, 4), "float32"))
    y = relax.Var("y", R.Tensor((n, 4), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x, y]):
        with bb.dataflow():
            lv0 = bb.emit(x + y)
            lv1 = bb.emit(lv0 * x - y / relax.const(2.0, "float32"))
            lv2 = bb.emit(-lv1, name_hint="negated")
            gv = bb.emit_output((lv2, relax.Tuple([lv0, lv1])))
        bb.emit_func_output(gv)
    mod = bb.get()
    assert lv2.name_hint == "negated"
    a, b = numbers(3, 4), numbers(3, 4, seed=1)
    first, (second, third) = run(mod, a, b)
    l1 = (a + b) * a - b / 2
    np.testing.assert_allclose(first, -l1, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(second, a + b, rtol=1e-6)
    np.testing.assert_allclose(third, l1, rtol=1e-5, atol=1e-6)


def test_emit_te_with_attributes_and_shapes():
    n = tir.Var("n", "int64")
    x = relax.Var("x", R.Tensor((n, 4), "float32"))

    def scaled(a, factor, bias=0.0):
        return te.compute(a.shape, lambda *i: a(*i) * factor + bias, name="scaled")

    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit_te(scaled, x, 3.0, bias=1.0, primfunc_name_hint="scale_by_three")
        z = bb.emit_te(topi.sum, y, axis=1, keepdims=True)
        w = bb.emit(bb.call_te(topi.transpose, z, axes=[1, 0]))
        v = bb.emit_te(topi.reshape, w, (n,))
        bb.emit_func_output(v)
    mod = bb.get()
    assert "scale_by_three" in [g.name_hint for g in mod.get_global_vars()]
    a = numbers(5, 4)
    np.testing.assert_allclose(run(mod, a), (3 * a + 1).sum(1), rtol=1e-4, atol=1e-5)


def test_match_cast_and_shape_values():
    x = relax.Var("x", R.Tensor("float32", ndim=2))
    m, k = tir.Var("m", "int64"), tir.Var("k", "int64")
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        y = bb.match_cast(x, R.Tensor((m, k), "float32"))
        z = bb.emit(relax.op.reshape(y, (m * k,)))
        s = bb.emit(relax.ShapeExpr([m, k, m * k]))
        bb.emit_func_output(relax.Tuple([z, s, relax.PrimValue(m + 1)]))
    a = numbers(3, 4)
    z, s, p = run(bb.get(), a)
    np.testing.assert_array_equal(z, a.reshape(-1))
    assert list(s) == [3, 4, 12]
    assert p == 4


def test_several_functions_and_calls_between_them():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((4,), "float32"))
    with bb.function("square", [x], private=True):
        gv_square = bb.emit_func_output(bb.emit(relax.op.multiply(x, x)))
    y = relax.Var("y", R.Tensor((4,), "float32"))
    with bb.function("main", [y], attrs={"num_input": 1}):
        bb.emit_func_output(bb.emit(relax.Call(gv_square, [bb.emit(gv_square(y))])))
    mod = bb.finalize()
    assert mod["main"].attrs["num_input"] == 1
    assert mod["main"].attrs["global_symbol"] == "main"
    a = numbers(4)
    np.testing.assert_allclose(run(mod, a), a**4, rtol=1e-4)


def test_call_tir_family():
    n = tir.Var("n", "int64")
    A = te.placeholder((n,), "float32", name="A")
    B = te.compute((n,), lambda i: A[i] + tir.const(1, "float32"), name="B")
    add_one = te.create_prim_func([A, B]).with_attr("global_symbol", "add_one")
    x = relax.Var("x", R.Tensor((n,), "float32"))

    @relax.register_func("compat.double", override=True)
    def double(a, out):
        out.copyfrom(a.numpy() * 2)

    @T.prim_func
    def add_one_inplace(a: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        for i in range(n):
            with T.block("A"):
                vi = T.axis.spatial(n, i)
                A[vi] = A[vi] + T.float32(1)

    bb = relax.BlockBuilder()
    gv = bb.add_func(add_one, "add_one")
    gv_inplace = bb.add_func(add_one_inplace, "add_one_inplace")
    with bb.function("main", [x]):
        a = bb.emit(relax.op.call_tir(gv, [x], out_sinfo=R.Tensor((n,), "float32")))
        b = bb.emit(relax.call_tir(gv, relax.Tuple([a]), relax.TensorStructInfo((n,), "float32")))
        c = bb.emit(relax.op.call_dps_packed("compat.double", (b,), out_sinfo=relax.TensorStructInfo((n,), "float32")))
        d = bb.emit(relax.op.call_tir_inplace(gv_inplace, c, inplace_indices=0, out_sinfo=R.Tensor((n,), "float32")))
        bb.emit_func_output(d)
    a = numbers(6)
    np.testing.assert_allclose(run(bb.get(), a), (a + 2) * 2 + 1, rtol=1e-5)


def test_packed_calls_by_extern_func():
    @relax.register_func("compat.mul", override=True)
    def mul(a, b):
        return relax.nd.array(a.numpy() * b.numpy())

    x = relax.Var("x", R.Tensor((3,), "float32"))
    sinfo = relax.TensorStructInfo((3,), "float32")
    bb = relax.BlockBuilder()
    with bb.function("main", [x], pure=False):
        a = bb.emit(relax.Call(relax.ExternFunc("compat.mul"), [x, x], None, [sinfo]))
        b = bb.emit(relax.op.call_pure_packed("compat.mul", a, x, sinfo_args=[sinfo]))
        c = bb.emit(relax.Call(relax.extern("compat.mul"), [b, x], sinfo_args=[sinfo]))
        bb.emit_func_output(c)
    a = numbers(3)
    np.testing.assert_allclose(run(bb.get(), a), a**4, rtol=1e-4)


def test_if_and_tuples_by_hand():
    c = relax.Var("c", R.Tensor((), "bool"))
    x = relax.Var("x", R.Tensor((3,), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [c, x]):
        pair = bb.emit(relax.Tuple((x, relax.const([1, 2, 3], "float32"))))
        fst = bb.emit(relax.TupleGetItem(pair, 0))
        snd = bb.emit(pair[1])
        bb.emit_func_output(bb.emit(relax.If(c, relax.op.add(fst, snd), relax.op.subtract(fst, snd))))
    mod, a = bb.get(), numbers(3)
    one = np.array([1, 2, 3], "float32")
    np.testing.assert_allclose(run(mod, np.array(True), a), a + one)
    np.testing.assert_allclose(run(mod, np.array(False), a), a - one)


def test_functions_put_together_from_nodes():
    x = relax.Var("x", R.Tensor([2], "float32"))
    y, z = relax.Var("y"), relax.Var("z")
    block = relax.BindingBlock(
        [relax.VarBinding(y, relax.op.add(x, x)), relax.VarBinding(var=z, value=relax.op.exp(y))]
    )
    func = relax.Function(
        params=[x], body=relax.SeqExpr(blocks=[block], body=z), ret_struct_info=R.Tensor([2], "float32"), is_pure=True
    ).with_attr("global_symbol", "main")
    mod = relax.transform.Normalize()(relax.IRModule.from_expr(func))
    assert relax.analysis.well_formed(mod)
    assert mod["main"].body.blocks[0].bindings[1].value.op.name == "relax.exp"
    a = numbers(2)
    np.testing.assert_allclose(run(mod, a), np.exp(a + a), rtol=1e-5)


def test_dataflow_block_by_hand():
    x = relax.Var("x", R.Tensor([2], "float32"))
    lv, gv = relax.DataflowVar("lv"), relax.Var("gv")
    block = relax.DataflowBlock(
        bindings=[relax.VarBinding(lv, relax.op.negative(x)), relax.VarBinding(gv, relax.op.abs(lv))]
    )
    func = relax.Function([x], relax.SeqExpr([block], gv), R.Tensor([2], "float32"))
    mod = relax.transform.Normalize()(relax.IRModule({"main": func.with_attr("global_symbol", "main")}))
    np.testing.assert_array_equal(run(mod, np.array([-1, 2], "float32")), [1, 2])


def test_builder_scopes_and_names():
    bb = relax.BlockBuilder()
    n = tir.Var("n", "int64")
    x = relax.Var("x", R.Tensor((n, 2), "float32"))
    assert bb.get_unique_name("fused") != bb.get_unique_name("fused")
    with bb.testing_scope(def_vars=[n]):
        y = bb.emit(relax.op.add(x, x))
        relax.ir.assert_structural_equal(y.struct_info, relax.TensorStructInfo((n, 2), "float32"))
        assert bb.lookup_binding(y).op == relax.ir.Op.get("relax.add")
        normalized = bb.normalize(relax.op.exp(relax.op.add(x, y)))
        assert isinstance(normalized.args[0], relax.Var)


def test_update_func():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2,), "float32"))
    with bb.function("main", [x]):
        gv = bb.emit_func_output(bb.emit(relax.op.add(x, x)))
    other = relax.BlockBuilder()
    with other.function("main", [x]):
        other.emit_func_output(other.emit(relax.op.multiply(x, x)))
    bb.update_func(gv, other.get()["main"])
    np.testing.assert_allclose(run(bb.get(), np.array([3, 4], "float32")), [9, 16])


def test_mistakes_are_told():
    bb = relax.BlockBuilder()
    with pytest.raises(RuntimeError, match="outside"):
        bb.emit(relax.const(1))
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    with pytest.raises(relax.DiagnosticError, match="matmul"), bb.function("main", [x]):
        bb.emit(relax.op.matmul(x, x))
