"""TVMScript as found in programs for TVM: the forms of R, T and I."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from support import numbers, run


def test_a_function_alone():
    @R.function
    def main(x: R.Tensor((2, "m"), dtype="float32")) -> R.Tensor(dtype="float32", ndim=2):
        m = T.int64()
        R.func_attr({"num_input": 1, "flags": ["a", "b"]})
        y: R.Tensor((2, m), "float32") = R.add(x, R.const(1.0, "float32"))
        return y

    assert main.attrs["num_input"] == 1
    mod = relax.IRModule.from_expr(main)
    np.testing.assert_allclose(run(mod, numbers(2, 3)), numbers(2, 3) + 1)


def test_match_cast_and_shapes():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor, s: R.Shape(["a", "b"])) -> R.Object:
            a, b = T.int64(), T.int64()
            n, m = T.int64(), T.int64()
            y = R.match_cast(x, R.Tensor((n, m), "float32"))
            z = R.reshape(y, R.shape([m * n]))
            s2: R.Shape([a + n, b]) = R.shape([a + n, b])
            return (z, s2, R.prim_value(n), R.str("done"), R.shape_of(y))

    z, s, p, text, shape = run(Module, numbers(2, 3), relax.ShapeTuple([1, 2]))
    np.testing.assert_array_equal(z, numbers(2, 3).reshape(-1))
    assert (list(s), p, str(text), list(shape)) == ([3, 2], 2, "done", [2, 3])


def test_every_struct_info():
    @R.function(private=True)
    def f(
        a: R.Object,
        b: R.Tensor((), "int32"),
        c: R.Tensor(ndim=3),
        d: R.Tensor("float16"),
        e: R.Tuple(R.Tensor((1,), "float32"), R.Tuple()),
        g: R.Callable((R.Tensor((1,), "float32"),), R.Object),
        h: R.Prim("int64"),
        i: R.Prim(value="n"),
        j: R.Shape(ndim=2),
        k: R.Tuple([R.Object, R.Shape]),
        opt: R.Callable(ret=R.Tensor, purity=False),
    ) -> R.Tuple:
        return R.tuple()

    assert "global_symbol" not in f.attrs
    assert f.params[1].struct_info.ndim == 0
    assert f.params[2].struct_info.dtype == ""
    assert f.params[9].struct_info.fields[1].ndim == -1
    relax.ir.assert_structural_equal(relax.script.from_source(f.script(show_meta=True)), f)


def test_global_calls_by_class_and_recursion():
    @I.ir_module
    class Module:
        @R.function
        def main(n: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            cls = Module
            out: R.Tensor((), "int32") = cls.factorial(n)
            return out

        @R.function(private=True)
        def factorial(n: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            cls = Module
            done: R.Tensor((), "bool") = R.less_equal(n, R.const(1, "int32"))
            if done:
                result = R.const(1, "int32")
            else:
                rest: R.Tensor((), "int32") = cls.factorial(R.subtract(n, R.const(1, "int32")))
                result = R.multiply(n, rest)
            return result

    assert run(Module, np.array(5, "int32")) == 120


def test_prim_func_forms():
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def softplus(var_x: T.handle, out: T.Buffer((T.int64(8),), "float32")):
            T.func_attr({"tir.noalias": T.bool(True)})
            n = T.int64()
            x = T.match_buffer(var_x, (n,), "float32", offset_factor=1)
            tmp = T.alloc_buffer((T.int64(8),), "float32")
            for i in T.serial(T.int64(0), T.int64(8)):
                with T.block("tmp"):
                    vi = T.axis.spatial(T.int64(8), i)
                    T.reads(x[vi])
                    T.writes(tmp[vi])
                    tmp[vi] = T.log(T.exp(x[vi]) + T.float32(1))
            for i0 in T.parallel(2):
                for i1 in T.vectorized(4):
                    with T.block("out"):
                        vi = T.axis.spatial(8, i0 * 4 + i1)
                        T.where(i0 * 4 + i1 < 8)
                        out[vi] = T.if_then_else(vi < 6, tmp[vi], T.float32(0))

        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = Module
            gv = R.call_tir(cls.softplus, (x,), out_sinfo=R.Tensor((8,), "float32"))
            return gv

    x = numbers(8)
    expected = np.where(np.arange(8) < 6, np.log1p(np.exp(x)), 0)
    np.testing.assert_allclose(run(Module, x), expected, rtol=1e-5)
    assert "global_symbol" not in Module["softplus"].attrs


def test_scalars_of_call_tir():
    @I.ir_module
    class Module:
        @T.prim_func
        def fill(x: T.Buffer((4,), "float32"), k: T.int64, y: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("y"):
                    vi = T.axis.remap("S", [i])
                    y[vi] = x[vi] * T.Cast("float32", k)

        @R.function
        def main(x: R.Tensor((4,), "float32"), s: R.Shape(["k"])) -> R.Tensor((4,), "float32"):
            k = T.int64()
            gv = R.call_tir(Module.fill, (x,), out_sinfo=R.Tensor((4,), "float32"), tir_vars=R.shape([k]))
            return gv

    np.testing.assert_allclose(run(Module, numbers(4), relax.ShapeTuple([3])), numbers(4) * 3)


@pytest.mark.parametrize("hidden, act", [(4, R.nn.relu), (8, R.nn.silu)])
def test_generated_from_python(hidden, act):
    dtype = "float32"

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", hidden), dtype)) -> R.Tensor(("n", hidden), dtype):
            with R.dataflow():
                y = act(x)
                R.output(y)
            return y

    x = numbers(2, hidden)
    expected = np.maximum(x, 0) if hidden == 4 else x / (1 + np.exp(-x))
    np.testing.assert_allclose(run(Module, x), expected, rtol=1e-5, atol=1e-6)


def test_virtual_devices():
    @I.ir_module
    class Module:
        I.module_attrs({"attr": 10})
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("llvm", 0, "global")]})

        @R.function
        def main(x: R.Tensor((2,), "float32", "llvm")) -> R.Tensor((2,), "float32", "llvm:0"):
            y: R.Tensor((2,), "float32", "llvm:0") = R.add(x, x)
            return y

    assert len(Module.global_infos["vdevice"]) == 2
    np.testing.assert_allclose(run(Module, numbers(2)), numbers(2) * 2)


def test_from_source_with_names():
    program = """
# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((SIZE,), dtype="float32")) -> R.Tensor((SIZE,), dtype="float32"):
        with R.dataflow():
            lv: R.Tensor((SIZE,), dtype="float32") = R.exp(x)
            gv: R.Tensor((SIZE,), dtype="float32") = R.negative(lv)
            R.output(gv)
        return gv
"""
    mod = relax.script.from_source(program, extra_vars={"SIZE": 3})
    np.testing.assert_allclose(run(mod, numbers(3)), -np.exp(numbers(3)), rtol=1e-6)


def test_inplace_and_packed_calls():
    @relax.register_func("compat.script.fill", override=True)
    def fill(a, out):
        out.copyfrom(a.numpy() + 1)

    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            y = R.call_dps_packed("compat.script.fill", (x,), out_sinfo=R.Tensor((3,), "float32"))
            z = R.call_dps_packed("compat.script.fill", y, R.Tensor((3,), "float32"))
            storage = R.memory.alloc_storage(R.shape([12]), R.prim_value(0), R.str("global"), R.dtype("float32"))
            t = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([3]), R.dtype("float32"))
            _ = R.call_packed("compat.script.fill", z, t, sinfo_args=R.Tuple)
            w: R.Tensor((3,), "float32") = t
            return w

    np.testing.assert_allclose(run(Module, numbers(3)), numbers(3) + 3)


def test_python_operators_and_tuples():
    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
        t = (x + y, x - y, x * y, x / y, -x)
        a = t[0]
        b, c = (t[1], t[2])
        return a + b * c

    a, b = numbers(2), numbers(2) + 3
    mod = relax.IRModule.from_expr(main)
    np.testing.assert_allclose(run(mod, a, b), a + b + (a - b) * (a * b), rtol=1e-5, atol=1e-6)
