"""The intrinsics: what they give, and what is refused (language.md §7.3)."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import op
from relax.ir import DiagnosticError, GlobalVar, VDevice, assert_structural_equal
from relax.prim import SizeVar
from relax.script import from_source
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax.transform import Normalize

n = SizeVar("n", "int64")
m = SizeVar("m", "int64")
f32 = "float32"


def var(shape=None, dtype=f32, ndim=-1, name="x"):
    return relax.Var(name, TensorStructInfo(shape, dtype, None, ndim))


def matmul_func():
    @T.prim_func(private=True)
    def matmul(x: T.handle, y: T.handle, z: T.handle):
        m = T.int64()
        n = T.int64()
        k = T.int64()
        A = T.match_buffer(x, (m, n), "float32")
        B = T.match_buffer(y, (n, k), "float32")
        C = T.match_buffer(z, (m, k), "float32")
        for i0, j0, k0 in T.grid(m, k, n):
            with T.block("matmul"):
                i, j, r = T.axis.remap("SSR", [i0, j0, k0])
                with T.init():
                    C[i, j] = T.float32(0)
                C[i, j] += A[i, r] * B[r, j]

    return matmul


def emitted(params, make, impure=False):
    """The struct info of a call in a module that has `matmul`."""
    bb = relax.BlockBuilder()
    gvar = bb.add_func(matmul_func(), "matmul")
    with bb.function("main", params, pure=not impure):
        out = bb.emit(make(gvar))
        bb.emit_func_output(out)
    relax.analysis.assert_well_formed(bb.get())
    return out.struct_info


def complaint(params, make, code):
    with pytest.raises(DiagnosticError) as caught:
        emitted(params, make)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code, diagnostic.render()
    return diagnostic.message


# ------------------------------------------------------------------------------------------- call_tir


def test_call_tir_gives_what_it_says():
    x, y = var((n, 4)), var((4, m), name="y")
    out = TensorStructInfo((n, m), f32)
    assert_structural_equal(emitted([x, y], lambda f: op.call_tir(f, (x, y), out)), out)
    assert_structural_equal(emitted([x, y], lambda f: op.call_tir(f, [x, y], [out])), out)


def test_call_tir_of_several_outputs_is_a_tuple():
    x = var((n,))
    outs = [TensorStructInfo((n,), f32), TensorStructInfo((n,), "int32")]
    assert_structural_equal(emitted([x], lambda f: op.call_tir("some.function", x, outs)), TupleStructInfo(outs))


def test_older_spellings_give_shapes_and_a_dtype():
    x, s = var((n,)), relax.Var("s", ShapeStructInfo([n, 2]))
    both = TupleStructInfo([TensorStructInfo((n,), f32), TensorStructInfo((2, n), "int8")])
    for call, expected in (
        (op.call_tir("f", x, (n, 2), dtype=f32), TensorStructInfo((n, 2), f32)),
        (op.call_tir("f", x, n, dtype=f32), TensorStructInfo((n,), f32)),
        (op.call_tir("f", x, relax.ShapeExpr([n]), dtype=f32), TensorStructInfo((n,), f32)),
        (op.call_tir("f", x, [(n,), (2, n)], dtype=[f32, "int8"]), both),
        (op.call_tir("f", x, (), dtype=f32), TensorStructInfo((), f32)),
        (op.call_tir("f", x, s, dtype=f32), TensorStructInfo(s, f32)),
        (op.call_dps_packed("f", x, output_shape=(n,), dtype=f32), TensorStructInfo((n,), f32)),
    ):
        assert_structural_equal(emitted([x, s], lambda _: call), expected)  # noqa: B023


def test_a_missing_dtype_or_output_is_refused():
    x = var((4,))
    for make, message in (
        (lambda: op.call_tir("f", (x,), (4,)), "the dtype of the output is missing"),
        (lambda: op.call_tir("f", (x,)), "the struct info of the output is missing"),
        (lambda: op.call_dps_packed("f", (x,), (4,)), "the dtype of the output is missing"),
        (lambda: op.call_tir("f", (x,), [(4,), (4,)], dtype=[f32] * 3), "2 output shapes but 3 dtypes"),
        (lambda: op.call_tir("f", (x,), ("a", 4), dtype=f32), "the output cannot be"),
    ):
        with pytest.raises(DiagnosticError, match="E3110") as caught:
            make()
        assert message in str(caught.value)


def test_callees_and_arguments_that_cannot_be():
    x, out = var((4,)), TensorStructInfo((4,), f32)
    with pytest.raises(DiagnosticError, match="the callee is a PrimFunc, expected a GlobalVar"):
        op.call_tir(matmul_func(), (x,), out)
    with pytest.raises(DiagnosticError, match="the callee is a int"):
        op.call_tir(3, (x,), out)
    with pytest.raises(DiagnosticError, match="an argument cannot be used"):
        op.call_tir("f", (x, object()), out)


def test_outputs_must_be_concrete():
    x = var((4,))
    make = op.call_tir
    assert complaint([x], lambda _: make("f", x, TensorStructInfo((4,), "")), "E3110") == (
        "call_tir: the output has no dtype, so it cannot be allocated"
    )
    assert "the shape of output 1 is not known" in complaint(
        [x], lambda _: make("f", x, [TensorStructInfo((4,), f32), TensorStructInfo(None, f32, None, 1)]), "E3110"
    )
    assert "expected a tensor" in complaint([x], lambda _: make("f", x, ObjectStructInfo()), "E3110")


def test_what_is_proved_not_to_fit_the_function_is_an_error():
    x, y = var((n, 4)), var((5, m), name="y")
    message = complaint([x, y], lambda f: op.call_tir(f, (x, y), TensorStructInfo((n, m), f32)), "E3111")
    assert "argument 1" in message
    assert "dimension 0: expected 4, found 5" in message
    z = var((4, m), name="y")
    assert "the output" in complaint(
        [x, z], lambda f: op.call_tir(f, (x, z), TensorStructInfo((n + 1, m), f32)), "E3111"
    )
    assert "dtype: expected float32, found float64" in complaint(
        [x, z], lambda f: op.call_tir(f, (x, z), TensorStructInfo((n, m), "float64")), "E3111"
    )
    assert "takes 3 parameters, the call gives 1 arguments, 1 outputs" in complaint(
        [x], lambda f: op.call_tir(f, (x,), TensorStructInfo((n, m), f32)), "E3111"
    )
    assert "2 integers" in complaint(
        [x, z], lambda f: op.call_tir(f, (x, z), TensorStructInfo((n, m), f32), tir_vars=[n, m]), "E3111"
    )


def test_what_may_fit_is_left_to_run_time():
    x, y = var((n, 4)), var(ndim=2, name="y")
    out = TensorStructInfo((n, m), f32)
    assert_structural_equal(emitted([x, y, var((m,), name="z")], lambda f: op.call_tir(f, (x, y), out)), out)
    t = relax.Var("t", ObjectStructInfo())
    call = lambda f: relax.Call("relax.call_tir", [f, t], op.call_tir("f", (), out).attrs, [out])  # noqa: E731
    assert_structural_equal(emitted([t, x, var((m,), name="z")], call), out)


def test_arguments_in_a_tuple_variable_are_checked():
    t = relax.Var("t", TupleStructInfo([TensorStructInfo((n, 4), f32), TensorStructInfo((5, m), f32)]))
    assert "argument 1" in complaint([t], lambda f: op.call_tir(f, t, TensorStructInfo((n, m), f32)), "E3111")
    x = var((4,))
    assert "args must be a tuple" in complaint(
        [x], lambda f: relax.Call("relax.call_tir", [f, x], None, [TensorStructInfo((n, m), f32)]), "E3101"
    )


def test_integers_before_or_after_the_outputs():
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def before(k: T.int32, b: T.handle):
            B = T.match_buffer(b, (T.int64(k),), "float32")
            B[0] = T.float32(0)

        @T.prim_func(private=True)
        def after(b: T.handle, k: T.int64):
            B = T.match_buffer(b, (k,), "float32")
            B[0] = T.float32(0)

        @R.function
        def main(s: R.Shape(["k"])):
            k = T.int64()
            x = R.call_tir(Module.before, R.tuple(), R.Tensor((k,), "float32"), tir_vars=R.shape([k]))
            y = R.call_tir(Module.after, R.tuple(), R.Tensor((k,), "float32"), tir_vars=R.shape([k]))
            return (x, y)

    relax.analysis.assert_well_formed(Module)
    k = SizeVar("k", "int64")
    bb = relax.BlockBuilder()
    gvar = bb.add_func(Module["after"], "after")
    with bb.function("main", [relax.Var("s", ShapeStructInfo([k]))]):
        with pytest.raises(DiagnosticError, match=r"E3111.*expected k \+ 1|E3111.*expected k, found k \+ 1"):
            bb.emit(op.call_tir(gvar, (), TensorStructInfo((k + 1,), f32), tir_vars=[k]))
        bb.emit_func_output(relax.Tuple([]))


def test_a_relax_function_is_called_directly():
    @I.ir_module
    class Module:
        @R.function
        def f(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return x

    bb = relax.BlockBuilder(Module)
    x = var((4,))
    with bb.function("main", [x]):
        with pytest.raises(DiagnosticError, match="the callee is a Relax function, expected a PrimFunc"):
            bb.emit(op.call_tir(bb.get().get_global_var("f"), (x,), TensorStructInfo((4,), f32)))
        bb.emit_func_output(x)


# ------------------------------------------------------------------------------------------- in place


def test_in_place_results():
    x, y = var((n,)), var((2,), name="y")
    outs = [TensorStructInfo((n,), f32), TensorStructInfo((3,), "int8")]
    call = op.call_tir_inplace("f", (y, x), [1, -1], outs)
    assert call.attrs.inplace_indices == (1, -1)
    assert_structural_equal(emitted([x, y], lambda _: call), TupleStructInfo(outs))
    assert_structural_equal(emitted([x, y], lambda _: op.call_tir_inplace("f", x, 0, outs[0])), outs[0])
    packed = op.call_inplace_packed("f", x, y, inplace_indices=0, sinfo_args=outs[0])
    assert_structural_equal(emitted([x, y], lambda _: packed), outs[0])


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([0, 0], "2 inplace_indices for 1 output"),
        ([2], "there is no argument 2; there are 2, counted from 0"),
        ([-2], "there is no argument -2"),
        ([-1], "inplace_indices names no argument"),
        ([1], "output 0 cannot reuse argument 1: dimension 0: expected 4, found 2"),
    ],
)
def test_indices_that_are_refused(indices, message):
    x, y = var((4,)), var((2,), name="y")
    out = TensorStructInfo((4,), f32)
    assert message in complaint([x, y], lambda _: op.call_tir_inplace("f", (x, y), indices, out), "E3112")


def test_an_argument_named_twice_and_indices_that_are_no_integers():
    x = var((4,))
    out = TensorStructInfo((4,), f32)
    assert "argument 0 is named twice" in complaint(
        [x], lambda _: op.call_tir_inplace("f", (x,), [0, 0], [out, out]), "E3112"
    )
    with pytest.raises(DiagnosticError, match="inplace_indices holds a str"):
        op.call_tir_inplace("f", (x,), ["0"], out)


# ------------------------------------------------------------------------------------- packed, closures


def test_packed_calls():
    x, out = var((4,)), TensorStructInfo((4,), f32)
    for infos, expected in ((None, ObjectStructInfo()), (out, out), ([out, out], TupleStructInfo([out, out]))):
        assert_structural_equal(
            emitted([x], lambda _, i=infos: op.call_pure_packed("f", x, 1, "s", sinfo_args=i)), expected
        )
        assert_structural_equal(
            emitted([x], lambda _, i=infos: op.call_packed("f", x, sinfo_args=i), impure=True), expected
        )
    with pytest.raises(DiagnosticError, match="sinfo_args holds a str"):
        op.call_pure_packed("f", x, sinfo_args="float32")
    with pytest.raises(DiagnosticError, match="impure"):
        emitted([x], lambda _: op.call_packed("f", x))


@pytest.mark.parametrize(
    "call",
    [
        "R.call_tir(x, (x,), R.Tensor((2,), 'float32'))",
        "R.call_tir_inplace(x, (x,), [0], R.Tensor((2,), 'float32'))",
        "R.call_tir_with_grad(x, (x,), R.Tensor((2,), 'float32'), te_grad_name='f')",
        "R.call_dps_packed(x, (x,), R.Tensor((2,), 'float32'))",
        "R.call_pure_packed(x, x, sinfo_args=R.Object)",
        "R.call_inplace_packed(x, x, inplace_indices=[0], sinfo_args=R.Tensor((2,), 'float32'))",
        "R.call_builtin_with_ctx(x, (x,), sinfo_args=R.Object)",
        "R.vm.call_tir_dyn(x, (x,))",
        "R.make_closure(x, (x,))",
        "R.invoke_closure(x, (x,), sinfo_args=R.Object)",
    ],
)
def test_a_callee_that_is_no_function_is_rejected(call):
    with pytest.raises(DiagnosticError) as error:
        from_source(f"""
            @R.function(pure=False)
            def main(x: R.Tensor((2,), "float32")):
                return {call}
        """)
    assert 'the callee must be a function, found R.Tensor((2,), dtype="float32")' in str(error.value)
    assert "help: give a function of the module, or the name of a packed function" in str(error.value)


def test_closures():
    @I.ir_module
    class Module:
        @R.function
        def add(x: R.Tensor(("k",), "float32"), y: R.Tensor(("k",), "float32")) -> R.Tensor(("k",), "float32"):
            return R.add(x, y)

    bb = relax.BlockBuilder(Module)
    x = var((n,))
    with bb.function("main", [x]):
        closure = bb.emit(op.make_closure(bb.get().get_global_var("add"), (x,)))
        result = bb.emit(op.invoke_pure_closure(closure, (x,), TensorStructInfo((n,), f32)))
        with pytest.raises(DiagnosticError, match="3 values for a function of 2 parameters"):
            bb.emit(op.make_closure(bb.get().get_global_var("add"), (x, x, x)))
        with pytest.raises(DiagnosticError, match="the callee must be a function"):
            bb.emit(op.invoke_pure_closure(x, (x,), TensorStructInfo((n,), f32)))
        with pytest.raises(DiagnosticError, match="impure"):
            bb.emit(op.invoke_closure(closure, (x,), TensorStructInfo((n,), f32)))
        bb.emit_func_output(result)
    taken = TensorStructInfo((n,), f32)
    assert_structural_equal(closure.struct_info, FuncStructInfo([taken], taken))
    assert_structural_equal(result.struct_info, taken)


# --------------------------------------------------------------------------------- shapes, checks, devices


def test_shapes():
    x, unknown = var((n, 4)), relax.Var("u", ObjectStructInfo())
    assert_structural_equal(emitted([x], lambda _: op.shape_of(x)), ShapeStructInfo([n, 4]))
    assert_structural_equal(emitted([x, unknown], lambda _: op.shape_of(unknown)), ShapeStructInfo())
    assert_structural_equal(
        emitted([], lambda _: op.shape_to_tensor(relax.ShapeExpr([2, 3]))), TensorStructInfo((2,), "int64")
    )
    t = var((3,), "int64")
    assert_structural_equal(emitted([t], lambda _: op.tensor_to_shape(t)), ShapeStructInfo(ndim=3))
    sized = var((n,), "int64")
    assert_structural_equal(emitted([sized], lambda _: op.tensor_to_shape(sized)), ShapeStructInfo())
    assert "an int64 tensor" in complaint([x], lambda _: op.tensor_to_shape(var((3,))), "E3103")
    assert "one dimension" in complaint([x], lambda _: op.tensor_to_shape(var((3, 3), "int64")), "E3101")
    assert op.shape_of(x).attrs.evaluate(np.zeros((2, 4))) == (2, 4)
    assert op.shape_to_tensor(relax.ShapeExpr([2, 3])).attrs.evaluate((2, 3)).tolist() == [2, 3]
    assert op.tensor_to_shape(t).attrs.evaluate(np.array([1, 2])) == (1, 2)


def test_print_and_assert():
    x, flag = var((4,)), var((), "bool", name="flag")
    unit = TupleStructInfo([])
    assert_structural_equal(emitted([x], lambda _: op.print(x, 1, "s", format="{} {} {}"), impure=True), unit)
    assert_structural_equal(emitted([x, flag], lambda _: op.assert_op(flag, x, format="bad {}"), impure=True), unit)
    assert_structural_equal(emitted([x, flag], lambda _: op.assert_op(flag, [x, x], format="{} {}"), impure=True), unit)
    condition = relax.PrimValue(n > 3)
    assert_structural_equal(emitted([var((n,))], lambda _: op.assert_op(condition), impure=True), unit)
    assert "condition must be a bool scalar" in complaint([x], lambda _: op.assert_op(x), "E3103")
    with pytest.raises(DiagnosticError, match="impure"):
        emitted([x], lambda _: op.print(x))


def test_devices():
    x = var((4,))
    info = emitted([x], lambda _: op.to_vdevice(x, VDevice("llvm", 1)))
    assert_structural_equal(info.vdevice, VDevice("llvm", 1))
    assert_structural_equal(emitted([x], lambda _: op.hint_on_device(x, "llvm:1")).vdevice, VDevice("llvm", 1))
    with pytest.raises((DiagnosticError, ValueError), match="expected a VDevice"):
        op.to_vdevice(x, 3)


def test_the_null_object_and_builtins_with_context():
    assert_structural_equal(emitted([], lambda _: op.null_value()), ObjectStructInfo())
    info = PrimStructInfo("int64")
    assert_structural_equal(
        emitted([], lambda _: op.call_builtin_with_ctx("b", (), sinfo_args=info), impure=True), info
    )


def test_allocations():
    assert_structural_equal(
        emitted([var((n,))], lambda _: op.builtin.alloc_tensor((n, 4), "int8")), TensorStructInfo((n, 4), "int8")
    )
    storage = op.memory.alloc_storage((64,), 0, "global", "uint8")
    assert_structural_equal(emitted([], lambda _: storage), ObjectStructInfo())
    assert_structural_equal(
        emitted([], lambda _: op.memory.alloc_tensor(storage, 0, (4,), f32)), TensorStructInfo((4,), f32)
    )
    assert_structural_equal(
        emitted([], lambda _: op.vm.alloc_tensor(storage, 0, (4,), f32)), TensorStructInfo((4,), f32)
    )
    killed = op.memory.kill_storage(storage)
    assert_structural_equal(emitted([], lambda _: killed, impure=True), TupleStructInfo([]))
    shape = relax.Var("s", ShapeStructInfo(ndim=2))
    info = emitted([shape], lambda _: op.builtin.alloc_tensor(shape, f32))
    assert info.ndim == 2


def test_every_intrinsic_prints_and_parses():
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
            a = R.call_dps_packed("f", (x,), R.Tensor((4,), "float32"))
            b = R.call_tir_inplace("f", (a,), [0], R.Tensor((4,), "float32"))
            d = R.call_pure_packed("f", b, sinfo_args=R.Tensor((4,), "float32"))
            e = R.call_inplace_packed("f", d, inplace_indices=[0], sinfo_args=R.Tensor((4,), "float32"))
            s = R.shape_of(e)
            t = R.shape_to_tensor(s)
            u = R.tensor_to_shape(t)
            R.print(e, format="{}")
            R.assert_op(c, e, format="wrong: {}")
            v = R.null_value()
            return (u, v, e)

    again = relax.script.from_source(Module.script(show_meta=True))
    assert_structural_equal(again, Module)
    assert Normalize()(Module) is Module
    assert isinstance(Module.get_global_var("main"), GlobalVar)
