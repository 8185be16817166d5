"""The rest of the language on the machine: effects, in-place calls, first-class functions of every kind, dtypes."""

from __future__ import annotations

import numpy as np
import pytest

from relax.runtime import PackedFunc, nd, register_func
from relax.runtime.dtypes import NUMPY_DTYPES
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from support import PLAIN_LOOPS, machine, module

register_func("test.lang.increment", lambda a: a.copyfrom(a.numpy() + 1), override=True)
register_func("test.lang.add_to", lambda a, b: a.copyfrom(a.numpy() + b.numpy()), override=True)
register_func("test.lang.make_object", lambda: {"a": 1}, override=True)
register_func("test.lang.use_object", lambda o: nd.array(np.array(o["a"])), override=True)
register_func("test.lang.apply", lambda f, x: f(x), override=True)


def i64(value):
    return np.array(value, "int64")


def iota(n):
    return np.arange(n, dtype="float32")


def test_in_place_calls():
    @I.ir_module
    class Module:
        @T.prim_func
        def increment(A: T.Buffer((3,), "float32")):
            for i in range(3):
                A[i] = A[i] + T.float32(1)

        @R.function
        def tir(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            cls = Module
            with R.dataflow():
                y = R.add(x, x)
                z = R.call_tir_inplace(cls.increment, (y,), [0], R.Tensor((3,), "float32"))
                R.output(z)
            return z

        @R.function
        def packed(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            y = R.add(x, x)
            z = R.call_inplace_packed(
                "test.lang.add_to", y, x, inplace_indices=[0], sinfo_args=R.Tensor((3,), "float32")
            )
            return z

    vm = machine(Module, PLAIN_LOOPS)
    x = iota(3)
    assert vm["tir"](x).numpy().tolist() == [1, 3, 5]
    assert vm["packed"](x).numpy().tolist() == [0, 3, 6]
    assert x.tolist() == [0, 1, 2]


def test_mutation_is_seen_by_the_caller():
    """Arguments are passed by reference; a packed function may change them."""

    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            _ = R.call_packed("test.lang.increment", x)
            return x

    x = iota(3)
    result = machine(Module, PLAIN_LOOPS)["main"](x)
    assert x.tolist() == [1, 2, 3]
    assert result.data_ptr() == x.ctypes.data


def test_effects_and_opaque_values(capsys):
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor(("n",), "float32"), ok: R.Tensor((), "bool")) -> R.Tuple(R.Object, R.Tensor((), "int64")):
            n = T.int64()
            _ = R.print(x, R.prim_value(n), format="x = {}, n = {}")
            _1 = R.assert_op(ok, x, format="x was {}")
            o = R.call_packed("test.lang.make_object")
            u = R.call_packed("test.lang.use_object", o, sinfo_args=R.Tensor((), "int64"))
            nothing = R.null_value()
            return (nothing, u)

    vm = machine(Module, PLAIN_LOOPS)
    nothing, used = vm["main"](iota(2), np.array(True))
    assert (nothing, used.item()) == (None, 1)
    assert capsys.readouterr().out == "x = [0. 1.], n = 2\n"
    with pytest.raises(AssertionError) as caught:
        vm["main"](iota(1), np.array(False))
    assert str(caught.value).splitlines()[0] == "Assertion Failed: x was [0.]"


def test_integers_for_kernels():
    @I.ir_module
    class Module:
        @T.prim_func
        def scale(A: T.Buffer((4,), "float32"), n: T.int64, B: T.Buffer((4,), "float32")):
            for i in range(4):
                B[i] = A[i] * T.cast(n, "float32")

        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor(("n",), "float32")) -> R.Tensor((4,), "float32"):
            n = T.int64()
            cls = Module
            z = R.call_tir(cls.scale, (x,), R.Tensor((4,), "float32"), tir_vars=R.shape([n + 1]))
            return z

    vm = machine(Module, PLAIN_LOOPS)
    for n in (0, 1, 5):
        assert vm["main"](iota(4), iota(n)).numpy().tolist() == [i * (n + 1) for i in range(4)]


def test_prim_funcs_by_name_and_as_values():
    @I.ir_module
    class Module:
        @T.prim_func
        def triple(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
            for i in range(4):
                B[i] = A[i] * T.float32(3)

        @R.function
        def by_name(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            z = R.call_dps_packed("triple", (x,), R.Tensor((4,), "float32"))
            return z

        @R.function(pure=False)
        def as_value(x: R.Tensor((4,), "float32")) -> R.Tuple(R.Tensor((4,), "float32"), R.Object):
            cls = Module
            f = cls.triple
            y = R.add(x, x)
            _ = f(x, y)
            return (y, f)

    vm = machine(Module, PLAIN_LOOPS)
    assert vm["by_name"](iota(4)).numpy().tolist() == [0, 3, 6, 9]
    y, f = vm["as_value"](iota(4))
    assert y.numpy().tolist() == [0, 3, 6, 9]
    z = nd.empty((4,))
    assert f(y, z) is None
    assert z.numpy().tolist() == [0, 9, 18, 27]


def test_packed_functions_as_values():
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def pass_on(x: R.Tensor((4,), "float32")) -> R.Object:
            f = R.ExternFunc("test.lang.increment")
            r = R.call_packed("test.lang.apply", f, x)
            return r

        @R.function(pure=False)
        def invoke(f: R.Object, x: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
            r = R.invoke_closure(f, (x,), sinfo_args=R.Tensor((), "int64"))
            return r

        @R.function(pure=False)
        def call(f: R.Callable(), x: R.Tensor((), "int64")) -> R.Object:
            r = f(x)
            return r

        @R.function
        def give() -> R.Object:
            f = R.ExternFunc("test.lang.apply")
            return f

    vm = machine(Module, PLAIN_LOOPS)
    assert vm["pass_on"](iota(4)).numpy().tolist() == [1, 2, 3, 4]
    assert vm["invoke"](lambda v: np.asarray(v.numpy() + 1), i64(3)).item() == 4
    assert vm["call"](lambda v: "result", i64(3)) == "result"
    assert isinstance(vm["give"](), PackedFunc)
    assert vm["give"]()(lambda v: v + 1, 3) == 4
    with pytest.raises(TypeError, match="call: parameter f: expected a packed function, found the function give"):
        vm["call"](vm["give"], i64(3))
    with pytest.raises(TypeError, match="invoke: the result of f: expected dtype int64, found float32"):
        vm["invoke"](lambda v: v.numpy().astype("float32"), i64(3))


@I.ir_module
class Closures:
    @R.function
    def loop(n: R.Tensor((), "int64"), k: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        @R.function
        def go(i: R.Tensor((), "int64"), total: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
            if R.equal(i, R.const(0, "int64")):
                r = total
            else:
                r = go(R.subtract(i, R.const(1, "int64")), R.add(total, k))
            return r

        return go(n, R.const(0, "int64"))

    @R.function
    def choose(b: R.Tensor((), "bool"), x: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        @R.function
        def f(y: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
            return R.add(x, y)

        @R.function
        def g(y: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
            return R.multiply(x, y)

        if b:
            h = f
        else:
            h = g
        return h(x)

    @R.function
    def compose(
        f: R.Callable((R.Tensor((), "int64"),), R.Tensor((), "int64"), True),
        g: R.Callable((R.Tensor((), "int64"),), R.Tensor((), "int64"), True),
    ) -> R.Callable((R.Tensor((), "int64"),), R.Tensor((), "int64"), True):
        @R.function
        def h(y: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
            return f(g(y))

        return h

    @R.function
    def inc(y: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        return R.add(y, R.const(1, "int64"))

    @R.function
    def curried(x: R.Tensor((), "int64")) -> R.Object:
        @R.function
        def a(y: R.Tensor((), "int64")) -> R.Object:
            @R.function
            def b(z: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
                return R.add(R.multiply(x, y), z)

            return b

        return a

    @R.function
    def in_tuple(x: R.Tensor((), "int64")) -> R.Tuple(R.Object, R.Tensor((), "int64")):
        @R.function
        def a(y: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
            return R.add(x, y)

        t = (a, x)
        return t


def test_local_functions():
    vm = machine(Closures, PLAIN_LOOPS)
    assert vm["loop"](i64(10), i64(3)).item() == 30
    assert vm["loop"](i64(3000), i64(1)).item() == 3000
    assert [vm["choose"](np.array(b), i64(5)).item() for b in (True, False)] == [10, 25]
    assert vm["compose"](vm["inc"], vm["compose"](vm["inc"], vm["inc"]))(i64(1)).item() == 4
    assert vm["curried"](i64(2))(i64(3))(i64(4)).item() == 10
    f, x = vm["in_tuple"](i64(4))
    assert f(x).item() == 8


CHOICE = """
@R.function
def {0}(x: R.Tensor(("n",), "{0}"), y: R.Tensor(("n",), "{0}")) -> R.Tensor(("n",), "{0}"):
    return R.where(R.equal(x, y), x, y)
"""


@pytest.fixture(scope="module")
def choices():
    """A machine with a function for each dtype."""
    return machine(module(*map(CHOICE.format, NUMPY_DTYPES)), PLAIN_LOOPS)


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_every_dtype_runs(choices, dtype):
    for values in ([], [1], [0, 1, 1]):
        x = np.array(values).astype(NUMPY_DTYPES[dtype])
        y = np.array([1] * len(values)).astype(NUMPY_DTYPES[dtype])
        result = choices[dtype](x, y)
        assert result.dtype == dtype
        assert result.numpy().tolist() == y.tolist()


def test_virtual_devices():
    @I.ir_module
    class Module:
        I.module_global_infos({"vdevice": [I.vdevice("llvm")]})

        @R.function
        def main(x: R.Tensor((3,), "float32", "llvm")) -> R.Tensor((3,), "float32", "llvm"):
            y = R.to_vdevice(x, "llvm")
            return R.add(y, y)

    assert machine(Module, PLAIN_LOOPS)["main"](iota(3)).numpy().tolist() == [0, 2, 4]


def test_expressions_are_computed_only_where_they_are_needed():
    """n // m would fail; it is not touched when its branch is not taken."""

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32"), b: R.Tensor((), "bool")) -> R.Shape(ndim=1):
            n, m = T.int64(), T.int64()
            if b:
                s = R.shape([n // m])
            else:
                s = R.shape([n])
            return s

    vm = machine(Module, PLAIN_LOOPS)
    x = np.zeros((6, 0), "float32")
    assert vm["main"](x, np.array(False)) == (6,)
    assert vm["main"](np.zeros((6, 4), "float32"), np.array(True)) == (1,)
    with pytest.raises(ZeroDivisionError, match="^main: division by zero in n // m"):
        vm["main"](x, np.array(True))


def test_negative_sizes_are_an_error():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n - 2",), "float32"):
            n = T.int64()
            return R.zeros((n - 2,), "float32")

    vm = machine(Module, PLAIN_LOOPS)
    assert vm["main"](iota(5)).shape == (3,)
    assert vm["main"](iota(2)).shape == (0,)
    with pytest.raises(ValueError, match=r"^main: a shape cannot have a negative dimension, as in \(-1,\)"):
        vm["main"](iota(1))


def test_float_scalars_over_shape_variables():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tuple(R.Prim("float64"), R.Prim("int32"), R.Prim("bool")):
            n = T.int64()
            return (
                R.prim_value(T.Cast("float64", n) * T.float64(0.5)),
                R.prim_value(T.Cast("int32", n)),
                R.prim_value(n > T.int64(2)),
            )

    vm = machine(Module, PLAIN_LOOPS)
    for n in (0, 1, 5):
        assert vm["main"](iota(n)) == (n * 0.5, n, n > 2)
