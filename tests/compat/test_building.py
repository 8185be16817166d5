"""What users of TVM expect of BlockBuilder: shape variables in formulas, functions begun inside others, known shapes."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import te, tir
from relax.script import relax as R
from relax.script import tir as T
from support import run


def test_a_formula_uses_the_callers_shape_variables():
    n, m = tir.Var("n", "int64"), tir.Var("m", "int64")
    x = relax.Var("x", R.Tensor((n, 4), "float32"))
    s = relax.Var("s", R.Shape([m]))
    bb = relax.BlockBuilder()
    with bb.function("main", [x, s]):
        y = bb.emit_te(lambda a: te.compute((n, 4 * m), lambda i, j: a[i, j % 4] * tir.Cast("float32", m + n), "y"), x)
        bb.emit_func_output(y)
    mod = bb.get()
    relax.analysis.assert_well_formed(mod)
    assert mod["main"].ret_struct_info == R.Tensor((n, 4 * m), "float32")
    [kernel] = [f for f in mod.functions.values() if isinstance(f, tir.PrimFunc)]
    assert [param.name for param in kernel.params] == ["var_A", "m", "var_y"]  # n is a size of A
    a = np.arange(12, dtype="float32").reshape(3, 4)
    np.testing.assert_array_equal(run(mod, a, relax.ShapeTuple([2])), np.tile(a, (1, 2)) * 5)


def test_a_formula_uses_the_callers_scalar():
    k = tir.Var("k", "int64")
    x = relax.Var("x", R.Tensor((4,), "int64"))
    p = relax.Var("p", R.Prim(value=k))
    bb = relax.BlockBuilder()
    with bb.function("main", [x, p]):
        y = bb.emit_te(lambda a: te.compute((4,), lambda i: a[i] + k, "y"), x)
        bb.emit_func_output(bb.emit_te(lambda a: te.compute((4,), lambda i: a[i] * k + k, "z"), y))
    np.testing.assert_array_equal(run(bb.get(), np.arange(4), -3), (np.arange(4) - 3) * -3 - 3)


def test_a_variable_of_nobody_is_refused():
    other = tir.Var("other", "int64")
    x = relax.Var("x", R.Tensor((4,), "int64"))
    bb = relax.BlockBuilder()
    with (
        pytest.raises(relax.TVMError, match="the formula uses other, which no argument gives"),
        bb.function("main", [x]),
    ):
        bb.emit_te(lambda a: te.compute((4,), lambda i: a[i] + other, "y"), x)


def test_a_function_begun_inside_another():
    x, y = relax.Var("x", R.Tensor(("n",), "float32")), relax.Var("y", R.Tensor(("n",), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            a = bb.emit_output(relax.op.exp(x))
        with bb.function("inner", [y], private=True):
            with bb.dataflow():
                b = bb.emit_output(relax.op.negative(y))
            inner = bb.emit_func_output(b)
        c = bb.emit(inner(a))
        bb.emit_func_output(c)
    mod = bb.finalize()
    relax.analysis.assert_well_formed(mod)
    assert [g.name_hint for g in mod] == ["inner", "main"]
    value = np.array([0, 1], "float32")
    np.testing.assert_allclose(run(mod, value), -np.exp(value), rtol=1e-6)


def test_a_function_inside_another_sees_none_of_its_variables():
    x, y = relax.Var("x", R.Tensor((4,), "float32")), relax.Var("y", R.Tensor((4,), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.function("inner", [y]):
            bb.emit_func_output(bb.emit(relax.op.add(y, x)))
        bb.emit_func_output(x)
    with pytest.raises(relax.TVMError, match="rule 2: the variable x"):
        relax.analysis.assert_well_formed(bb.get())


def test_the_shape_that_is_known():
    n = tir.Var("n", "int64")
    x = relax.Var("x", R.Tensor((n, 3), "float32"))
    s = relax.Var("s", R.Shape(ndim=2))
    held = relax.Var("u", relax.TensorStructInfo(s, "float32"))
    unknown = relax.Var("k", R.Tensor(ndim=2))
    assert list(relax.get_shape_of(x)) == [n, 3]
    assert list(relax.get_shape_of(relax.op.exp(x))) == [n, 3]
    assert list(relax.get_shape_of(relax.const([[1.0]]))) == [1, 1]
    assert relax.get_shape_of(held) is s
    call = relax.get_shape_of(unknown)
    assert call.op.name == "relax.shape_of"
    bb = relax.BlockBuilder()
    with bb.function("main", [unknown]):
        bb.emit_func_output(bb.emit(call))
    assert run(bb.get(), np.zeros((2, 5), "float32")) == [2, 5]
    with pytest.raises(TypeError, match=r"expected a tensor, found R.Shape\(ndim=2\)"):
        relax.get_shape_of(s)


@T.prim_func
def increment(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = A[i] + T.float32(1)


@pytest.mark.parametrize("program", [increment, relax.IRModule({"increment": increment})])
def test_compile_takes_a_module_without_relax_functions(program):
    compiled = relax.compile(program, target="llvm")
    result = relax.nd.empty((4,), "float32")
    compiled["increment"](relax.nd.array(np.zeros(4, "float32")), result)
    assert result.numpy().tolist() == [1.0] * 4


def test_compile_takes_a_module_with_relax_functions():
    x = relax.Var("x", R.Tensor((4,), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.op.add(x, x)))
    compiled = relax.compile(bb.get(), relax_pipeline="default")
    assert isinstance(compiled, relax.Executable)
    with pytest.raises(ValueError, match="tir_pipeline 'mine' is not known: kernels are lowered by relax.tir.lower"):
        relax.compile(bb.get(), tir_pipeline="mine")
    with pytest.raises(relax.DiagnosticError, match="E2012"):
        relax.compile(relax.IRModule({}))
