"""Local functions through lambda lifting, in-place calls, effects: programs of existing compilers' reports."""

from __future__ import annotations

import numpy as np
import pytest
from pitfall_helpers import arrays, f32, machine

import relax
from relax.ir import DiagnosticError
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T


def i64(value):
    return np.array(value, "int64")


def test_local_function_captures_shape_variables_only(run):
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")) -> R.Tensor(("n + m",), "float32"):
            n = T.int64()
            m = T.int64()

            @R.function
            def make(k: R.Tensor((), "float32")) -> R.Tensor((n + m,), "float32"):
                return R.full((n + m,), k)

            return make(R.const(2, "float32"))

    vm = run(Module)
    for n, m in ((0, 0), (0, 1), (2, 3)):
        assert vm["main"](np.zeros((n, m), "float32")).numpy().tolist() == [2.0] * (n + m)


def test_local_recursion_that_captures_everything(run):
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), k: R.Tensor((), "int64")) -> R.Tensor(("n",), "float32"):
            n = T.int64()
            one = R.const(1, "int64")

            @R.function
            def go(i: R.Tensor((), "int64"), y: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
                if R.equal(i, k):
                    r = y
                else:
                    again = go
                    s = R.add(R.add(y, x), R.ones((n,), "float32"))
                    r = again(R.add(i, one), s)
                return r

            return go(R.const(0, "int64"), x)

    vm = run(Module)
    for n in (0, 1, 3):
        for k in (0, 1, 4):
            x = np.arange(n, dtype="float32")
            assert vm["main"](x, i64(k)).numpy().tolist() == (x + k * (x + 1)).tolist()


def test_closures_in_tuples_and_as_arguments_of_closures(run):
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((), "int64"), b: R.Tensor((), "bool")) -> R.Tuple(R.Tensor, R.Tensor, R.Tensor):
            @R.function
            def add(y: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
                return R.add(x, y)

            @R.function
            def times(y: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
                return R.multiply(x, y)

            @R.function
            def twice(
                f: R.Callable((R.Tensor((), "int64"),), R.Tensor((), "int64"), True), y: R.Tensor((), "int64")
            ) -> R.Tensor((), "int64"):
                return f(f(y))

            t = (add, (times, twice))
            if b:
                picked = (t[0], t)
            else:
                picked = (t[1][0], (times, (add, twice)))
            chosen = picked[0]
            other = picked[1]
            inner = other[1]
            second = inner[0]
            third = inner[1]
            a = third(chosen, x)
            c = third(second, x)
            d = twice(other[0], R.const(3, "int64"))
            return (a, c, d)

    vm = run(Module)
    for x in (2, 5):
        for b in (True, False):
            add, times = (lambda y, x=x: x + y), (lambda y, x=x: x * y)
            chosen, second, first = (add, times, add) if b else (times, add, times)
            found = [int(v) for v in arrays(vm["main"](i64(x), np.array(b)))]
            assert found == [chosen(chosen(x)), second(second(x)), first(first(3))]


def test_mutually_recursive_functions_are_deep(run):
    @I.ir_module
    class Module:
        @R.function
        def even(n: R.Tensor((), "int64")) -> R.Tensor((), "bool"):
            cls = Module
            if R.equal(n, R.const(0, "int64")):
                r = R.const(True, "bool")
            else:
                r = cls.odd(R.subtract(n, R.const(1, "int64")))
            return r

        @R.function
        def odd(n: R.Tensor((), "int64")) -> R.Tensor((), "bool"):
            cls = Module
            if R.equal(n, R.const(0, "int64")):
                r = R.const(False, "bool")
            else:
                r = R.logical_not(R.logical_not(cls.even(R.subtract(n, R.const(1, "int64")))))
            return r

    vm = run(Module)
    for depth in (0, 1, 50):
        assert vm["even"](i64(depth)).item() is (depth % 2 == 0)
    if run is machine:  # the interpreter takes its time
        assert vm["even"](i64(5000)).item() is True
        assert vm["even"](i64(5001)).item() is False


def test_endless_recursion_is_an_error():
    @I.ir_module
    class Module:
        @R.function
        def main(n: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
            cls = Module
            r = cls.main(n)
            return R.add(r, n)

    vm = machine(Module)
    with pytest.raises(RecursionError, match="main"):
        vm["main"](i64(1))
    with pytest.raises(RecursionError, match="main"):
        vm["main"](i64(1))


def test_in_place_call_given_a_tuple_variable(run):
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def f(A: T.Buffer((3,), "float32"), B: T.Buffer((3,), "float32")):
            for i in range(3):
                A[i] = A[i] + B[i]

        @R.function
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            cls = Module
            a = R.add(x, x)
            t = (a, x)
            r = R.call_tir_inplace(cls.f, t, [0], R.Tensor((3,), "float32"))
            return r

        @R.function
        def given(t: R.Tuple(R.Tensor((3,), "float32"), R.Tensor((3,), "float32"))) -> R.Tensor((3,), "float32"):
            cls = Module
            r = R.call_tir_inplace(cls.f, t, [0], R.Tensor((3,), "float32"))
            return r

    vm = run(Module)
    x = f32(1, 2, 3)
    assert vm["main"](x).numpy().tolist() == [3, 6, 9]
    assert x.tolist() == [1, 2, 3]
    y = f32(1, 1, 1)
    assert vm["given"]((y, x)).numpy().tolist() == [2, 3, 4]


def test_in_place_argument_used_later_is_refused():
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def f(A: T.Buffer((3,), "float32")):
            for i in range(3):
                A[i] = A[i] + T.float32(1)

        @R.function
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            cls = Module
            with R.dataflow():
                a = R.add(x, x)
                alias = R.match_cast(a, R.Tensor((3,), "float32"))
                r = R.call_tir_inplace(cls.f, (a,), [0], R.Tensor((3,), "float32"))
                s = R.add(r, alias)
                R.output(s)
            return s

    with pytest.raises(DiagnosticError, match="used after it was reused in place"):
        machine(Module)


def test_in_place_of_a_kernel_that_does_not_expect_it(run):
    """`te.create_prim_func` promises that inputs and outputs do not overlap; calling it with one array twice."""
    x = relax.te.placeholder((8,), "float32", "x")
    out = relax.te.compute((8,), lambda i: x[i] + x[7 - i], "y")
    func = relax.te.create_prim_func([x, out]).with_attr("global_symbol", "mirror")
    bb = relax.BlockBuilder()
    g = bb.add_func(func, "mirror")
    v = relax.Var("v", relax.TensorStructInfo((8,), "float32"))
    with bb.function("main", [v]):
        with bb.dataflow():
            y = bb.emit(relax.op.call_tir(g, (v,), relax.TensorStructInfo((8,), "float32")))
            z = bb.emit_output(relax.op.add(y, v))
        bb.emit_func_output(z)
    value = np.arange(8, dtype="float32")
    assert run(bb.get())["main"](value).numpy().tolist() == (value + value[::-1] + value).tolist()


def test_dead_code_elimination_keeps_what_impure_calls_use(run):
    seen = []
    relax.register_func("pitfall.see", lambda *values: seen.append([v.numpy().tolist() for v in values]), override=True)

    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            with R.dataflow():
                a = R.exp(x)
                b = R.add(a, a)
                unused = R.negative(b)
                R.output(b)
            t = (b, x)
            _ = R.call_packed("pitfall.see", t[0], sinfo_args=R.Tuple())
            if R.const(True, "bool"):
                _1 = R.call_packed("pitfall.see", b, x, sinfo_args=R.Tuple())
                c = x
            else:
                c = b
            unused2 = c
            return x

    run(Module)["main"](f32(0))
    assert seen == [[[2.0]], [[2.0], [0.0]]]


def test_effects_keep_their_order_and_number(run):
    seen = []
    relax.register_func("pitfall.note", lambda i: seen.append(i) or relax.nd.array(i64(len(seen))), override=True)

    @I.ir_module
    class Module:
        @R.function(pure=False, private=True)
        def note(i: R.Prim("int64")) -> R.Tensor((), "int64"):
            a = R.call_packed("pitfall.note", i, sinfo_args=R.Tensor((), "int64"))
            return a

        @R.function(pure=False)
        def main(c: R.Tensor((), "bool")) -> R.Tensor((), "int64"):
            cls = Module
            a = cls.note(R.prim_value(1))
            b = cls.note(R.prim_value(1))
            if c:
                second = cls.note(R.prim_value(2))
                unused = cls.note(R.prim_value(3))
                d = second
            else:
                d = cls.note(R.prim_value(4))
            e = R.add(R.add(a, b), d)
            _ = cls.note(R.prim_value(5))
            return e

    vm = run(Module)
    assert vm["main"](np.array(True)).item() == 1 + 2 + 3
    assert seen == [1, 1, 2, 3, 5]
    seen.clear()
    assert vm["main"](np.array(False)).item() == 6
    assert seen == [1, 1, 4, 5]


def test_tuple_parameter_with_a_field_of_unknown_shape(run):
    @I.ir_module
    class Module:
        @R.function
        def main(
            t: R.Tuple(R.Tensor(ndim=2, dtype="float32"), R.Tuple(R.Tensor(("n",), "float32"), R.Tensor), R.Object),
        ) -> R.Tuple(R.Tensor, R.Tensor, R.Tensor):
            n = T.int64()
            m = T.int64()
            a = t[0]
            b = t[1][0]
            c = t[1][1]
            d = R.match_cast(c, R.Tensor((n, m), "float32"))
            return (R.add(a, a), R.add(b, b), R.add(d, d))

    vm = run(Module)
    for n, m in ((0, 1), (1, 0), (2, 3)):
        a, b, c = np.ones((2, 2), "float32"), np.arange(n, dtype="float32"), np.ones((n, m), "float32")
        found = arrays(vm["main"]((a, (b, c), None)))
        for got, wanted in zip(found, (a, b, c), strict=True):
            np.testing.assert_array_equal(got, 2 * wanted)
    with pytest.raises(ValueError, match="dimension 0 is 3, expected n = 2"):
        vm["main"]((a, (np.ones(2, "float32"), np.ones((3, 1), "float32")), None))
    with pytest.raises((TypeError, ValueError), match="parameter t"):
        vm["main"]((a, (b,), None))


def test_two_convolutions_with_symbolic_height_and_width(run):
    @I.ir_module
    class Module:
        @R.function
        def main(
            x: R.Tensor((1, 2, "h", "w"), "float32"),
            w1: R.Tensor((3, 2, 3, 3), "float32"),
            w2: R.Tensor((1, 3, 2, 2), "float32"),
        ) -> R.Tensor(ndim=4, dtype="float32"):
            with R.dataflow():
                a = R.nn.relu(R.nn.conv2d(x, w1, padding=(1, 1)))
                b = R.nn.conv2d(a, w2, strides=(2, 2))
                p = R.nn.max_pool2d(b, pool_size=(2, 2), strides=(1, 1), padding=(1, 1))
                R.output(p)
            return p

    def conv(x, w, pad, stride):
        x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        k = w.shape[2]
        h, v = (x.shape[2] - k) // stride + 1, (x.shape[3] - k) // stride + 1
        out = np.zeros((1, w.shape[0], h, v), "float32")
        for i in range(h):
            for j in range(v):
                patch = x[:, :, i * stride : i * stride + k, j * stride : j * stride + k]
                out[:, :, i, j] = np.tensordot(patch, w, ((1, 2, 3), (1, 2, 3)))
        return out

    def pool(x):
        x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
        return np.maximum.reduce(
            [x[:, :, i : x.shape[2] - 1 + i, j : x.shape[3] - 1 + j] for i in (0, 1) for j in (0, 1)]
        )

    vm = run(Module)
    rng = np.random.default_rng(0)
    w1, w2 = (rng.standard_normal(s, dtype="float32") for s in ((3, 2, 3, 3), (1, 3, 2, 2)))
    for h, w in ((2, 2), (3, 5), (8, 7)):
        x = rng.standard_normal((1, 2, h, w), dtype="float32")
        wanted = pool(conv(np.maximum(conv(x, w1, 1, 1), 0), w2, 0, 2))
        np.testing.assert_allclose(vm["main"](x, w1, w2).numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_shape_of_to_tensor_to_reshape(run):
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor(
            ndim=2, dtype="float32"
        ):
            s = R.shape_of(x)
            t = R.shape_to_tensor(s)
            f = R.flip(t, axis=0)
            g = R.take(t, R.const([1], "int64"), axis=0)
            h = R.take(t, R.const([0], "int64"), axis=0)
            c = R.concat([g, h], axis=0)
            r1 = R.reshape(x, R.tensor_to_shape(f))
            r2 = R.reshape(y, R.tensor_to_shape(c))
            return R.add(r1, r2)

    vm = run(Module)
    for n, m in ((0, 3), (1, 1), (2, 3)):
        x = np.arange(n * m, dtype="float32").reshape(n, m)
        np.testing.assert_array_equal(vm["main"](x, x.reshape(-1)).numpy(), 2 * x.reshape(m, n))


def test_dimensions_with_only_a_lower_bound(run):
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n + 1",), "float32"):
            n = T.int64()
            R.func_attr({"tir_var_lower_bound": {"n": 1}})
            return R.concat([x, R.ones((1,), "float32")], axis=0)

    vm = run(Module)
    for n in (1, 2, 5):
        assert vm["main"](np.zeros(n, "float32")).shape == (n + 1,)


def test_bind_symbolic_variables_of_match_casts(run):
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor(
            ("n * 2",), "float32"
        ):
            n = T.int64()
            z = R.match_cast(y, R.Tensor((n * 2,), "float32"))
            w = R.match_cast(z, R.Tensor((n + n,), "float32"))
            return R.add(z, R.concat([x, x], axis=0))

    bound = relax.transform.BindSymbolicVars({"n": 3})(Module)
    assert "n" not in [str(v) for v in relax.analysis.free_symbolic_vars(bound["main"])]
    vm = run(bound)
    assert vm["main"](np.ones(3, "float32"), np.ones(6, "float32")).numpy().tolist() == [2] * 6
    with pytest.raises(ValueError, match="dimension 0 is 4, expected 6"):
        vm["main"](np.ones(3, "float32"), np.ones(4, "float32"))
    with pytest.raises(ValueError, match="dimension 0 is 2, expected 3"):
        vm["main"](np.ones(2, "float32"), np.ones(4, "float32"))


def test_a_match_cast_stays_before_what_its_variable_sizes(run):
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def ones(O: T.handle):
            m = T.int64()
            out = T.match_buffer(O, (m,), "float32")
            for i in range(m):
                out[i] = T.float32(1)

        @R.function
        def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor(
            ndim=1, dtype="float32"
        ):
            cls = Module
            with R.dataflow():
                m = T.int64()
                a = R.exp(x)
                _c = R.match_cast(y, R.Tensor((m,), "float32"))
                o = R.call_tir(cls.ones, (), R.Tensor((m,), "float32"))
                R.output(o)
            return o

    vm = run(Module)
    for m in (0, 1, 3):
        assert vm["main"](f32(1), np.zeros(m, "float32")).numpy().tolist() == [1] * m


def test_kernels_of_te_are_added_under_any_name(run):
    a = relax.te.placeholder((2,), "float32", "a")
    kernel = relax.te.create_prim_func([a, relax.te.compute((2,), lambda i: a[i] * 2.0, "y")])
    bb = relax.BlockBuilder()
    g = bb.add_func(kernel, "twice")
    v = relax.Var("v", relax.TensorStructInfo((2,), "float32"))
    with bb.function("main", [v]):
        y = bb.emit(relax.op.call_tir(g, (v,), relax.TensorStructInfo((2,), "float32")))
        bb.emit_func_output(y)
    assert run(bb.get())["main"](f32(1, 2)).numpy().tolist() == [2, 4]
