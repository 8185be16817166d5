"""Whole programs, from script to results: control flow, functions, shapes, scalars, packed functions.

Each is built once and run for several sizes, 0 and 1 included.
"""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest

import relax
from relax.codegen import compile_count
from relax.ir import RelaxWarning
from relax.runtime import NDArray, ShapeTuple, VirtualMachine, nd, register_func
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.vm import build
from support import PLAIN_LOOPS, machine, numbers

SIZES = (0, 1, 2, 7)


@functools.cache
def machine_of(mod):
    """The machine of a module that several tests run."""
    return machine(mod, PLAIN_LOOPS)


def same(actual, expected):
    np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-5, atol=1e-6)


# ------------------------------------------------------------------------------- symbolic shapes


@I.ir_module
class Affine:
    @R.function
    def main(
        x: R.Tensor(("n", "k"), "float32"), w: R.Tensor(("k", "m"), "float32"), b: R.Tensor(("m",), "float32")
    ) -> R.Tensor(("n", "m"), "float32"):
        with R.dataflow():
            lv = R.matmul(x, w)
            gv = R.nn.relu(R.add(lv, b))
            R.output(gv)
        return gv


def test_one_build_serves_every_size():
    vm = machine_of(Affine)
    before = compile_count()
    for n in SIZES:
        for k in SIZES:
            for m in (0, 1, 5):
                x, w, b = numbers(n, k), numbers(k, m), numbers(m)
                same(vm["main"](x, w, b), np.maximum(x @ w + b, 0))
    assert compile_count() == before


def test_params_become_constants():
    w, b = numbers(4, 3), numbers(3)
    ex = build(Affine, PLAIN_LOOPS, params={"w": w, "b": nd.array(b)})
    vm = VirtualMachine(ex)
    for n in SIZES:
        x = numbers(n, 4)
        same(vm["main"](x), np.maximum(x @ w + b, 0))
    with pytest.raises(ValueError, match="main: parameter x: dimension 1 is 5, expected 4"):
        vm["main"](numbers(2, 5))
    with pytest.raises(ValueError, match="no function has a parameter 'c'"):
        build(Affine, PLAIN_LOOPS, params={"c": b})


@I.ir_module
class Sizes:
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("n * m",), "float32")) -> R.Tensor(("n * m",), "float32"):
        n, m = T.int64(), T.int64()
        with R.dataflow():
            flat = R.reshape(x, (n * m,))
            gv = R.add(flat, y)
            R.output(gv)
        return gv

    @R.function
    def later(y: R.Tensor(("a * b",), "float32"), x: R.Tensor(("a", "b"), "float32")) -> R.Shape(["a + b", "a"]):
        a, b = T.int64(), T.int64()
        return R.shape([a + b, a])


def test_computed_dimensions():
    vm = machine_of(Sizes)
    for n in SIZES:
        for m in SIZES:
            x, y = numbers(n, m), numbers(n * m)
            same(vm["main"](x, y), x.reshape(-1) + y)
            assert vm["later"](y, x) == (n + m, n)
    message = (
        "main: parameter y: dimension 0 is 7, expected n * m = 6 (n = 2 was bound by x, dimension 0; "
        "m = 3 was bound by x, dimension 1)"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        vm["main"](numbers(2, 3), numbers(7))


# ---------------------------------------------------------------------------------- control flow


@I.ir_module
class Recursive:
    @R.function
    def factorial(n: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        if R.less_equal(n, R.const(1, "int64")):
            result = R.const(1, "int64")
        else:
            result = R.multiply(n, Recursive.factorial(R.subtract(n, R.const(1, "int64"))))
        return result

    @R.function
    def even(n: R.Tensor((), "int64")) -> R.Tensor((), "bool"):
        if R.equal(n, R.const(0, "int64")):
            result = R.const(True, "bool")
        else:
            result = Recursive.odd(R.subtract(n, R.const(1, "int64")))
        return result

    @R.function
    def odd(n: R.Tensor((), "int64")) -> R.Tensor((), "bool"):
        if R.equal(n, R.const(0, "int64")):
            result = R.const(False, "bool")
        else:
            result = Recursive.even(R.subtract(n, R.const(1, "int64")))
        return result

    @R.function
    def ackermann(m: R.Tensor((), "int64"), n: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        one = R.const(1, "int64")
        if R.equal(m, R.const(0, "int64")):
            result = R.add(n, one)
        else:
            if R.equal(n, R.const(0, "int64")):
                result = Recursive.ackermann(R.subtract(m, one), one)
            else:
                inner = Recursive.ackermann(m, R.subtract(n, one))
                result = Recursive.ackermann(R.subtract(m, one), inner)
        return result


def test_recursion():
    vm = machine_of(Recursive)
    assert [vm["factorial"](np.array(n)).item() for n in (0, 1, 5, 20)] == [1, 1, 120, 2432902008176640000]
    assert [bool(vm["even"](np.array(n))) for n in (0, 1, 10, 11)] == [True, False, True, False]
    assert vm["ackermann"](np.array(2), np.array(3)).item() == 9
    assert bool(vm["even"](np.array(4000)))


@I.ir_module
class Nested:
    @R.function
    def main(a: R.Tensor((), "bool"), b: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32")) -> R.Tensor(
        ("n",), "float32"
    ):
        y = R.add(x, x)
        if a:
            if b:
                z = R.multiply(y, x)
            else:
                w = R.negative(y)
                z = R.exp(w)
            r = R.add(z, x)
        else:
            r = y
        return R.subtract(r, x)


def test_nested_if():
    vm = machine_of(Nested)
    for n in SIZES:
        x = numbers(n)
        for a in (True, False):
            for b in (True, False):
                y = x + x
                expected = ((y * x if b else np.exp(-y)) + x if a else y) - x
                same(vm["main"](np.array(a), np.array(b), x), expected)
    with pytest.raises(TypeError, match="main: parameter a: expected dtype bool, found int64"):
        vm["main"](np.array(1), np.array(True), numbers(1))


# ------------------------------------------------------------------------------------- functions


@I.ir_module
class Functions:
    @R.function
    def captures_tensor(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()

        @R.function
        def inner(z: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
            return R.add(z, x)

        return inner(inner(y))

    @R.function
    def captures_shape(x: R.Tensor(("n", "m"), "float32")) -> R.Callable(
        (R.Tensor(ndim=1, dtype="float32"),), R.Tensor(("n",), "float32"), True
    ):
        n, m = T.int64(), T.int64()

        @R.function
        def inner(z: R.Tensor(("k",), "float32")) -> R.Tensor((n,), "float32"):
            k = T.int64()
            return R.broadcast_to(R.sum(z), (n,))

        return inner

    @R.function
    def twice(
        f: R.Callable((R.Tensor(("n",), "float32"),), R.Tensor(("n",), "float32"), True), x: R.Tensor(("n",), "float32")
    ) -> R.Tensor(("n",), "float32"):
        return f(f(x))

    @R.function
    def double(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        return R.add(x, x)

    @R.function
    def passes_global(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        return Functions.twice(Functions.double, x)


def test_closures_over_tensors():
    vm = machine_of(Functions)
    for n in SIZES:
        x, y = numbers(n), numbers(n)[::-1]
        same(vm["captures_tensor"](x, y), y + x + x)


def test_closures_over_shape_variables():
    vm = machine_of(Functions)
    for n in SIZES:
        f = vm["captures_shape"](numbers(n, 3))
        for k in SIZES:
            z = numbers(k)
            same(f(z), np.full(n, z.sum(), "float32"))
        with pytest.raises(TypeError, match="expected dtype float32, found float64"):
            f(np.zeros(2))
    assert str(vm["captures_shape"](numbers(5, 3)).info.ret) == 'R.Tensor((5,), dtype="float32")'


def test_functions_as_arguments_and_results():
    vm = machine_of(Functions)
    x = numbers(4)
    same(vm["passes_global"](x), 4 * x)
    same(vm["twice"](vm["double"], x), 4 * x)
    with pytest.raises(TypeError, match="twice: parameter f: expected a Relax function, found a packed function"):
        vm["twice"](lambda v: v, x)
    with pytest.raises(
        TypeError,
        match="twice: parameter f: the function captures_tensor does not fit: it takes 2 arguments, expected 1 argument",
    ):
        vm["twice"](vm["captures_tensor"], x)
    with pytest.raises(TypeError, match="twice: parameter f: expected a Relax function, found a tensor"):
        vm["twice"](x, x)


# ---------------------------------------------------------------------------------------- tuples


@I.ir_module
class Tuples:
    @R.function
    def main(
        t: R.Tuple(R.Tensor(("n",), "float32"), R.Tuple(R.Tensor(("n", "m"), "float32"), R.Shape(["m"]))),
    ) -> R.Tuple(R.Tuple(R.Tensor(("n",), "float32")), R.Tensor(("n", "m"), "float32"), R.Tuple()):
        a = t[0]
        b = t[1][0]
        c = R.add(a, a)
        return ((c,), R.exp(b), ())


def test_tuples_of_tuples():
    vm = machine_of(Tuples)
    for n in SIZES:
        for m in SIZES:
            a, b = numbers(n), numbers(n, m)
            (c,), d, unit = vm["main"]((a, [b, (m,)]))
            same(c, a + a)
            same(d, np.exp(b))
            assert unit == ()
    wrong = [
        ((numbers(2), (numbers(2, 3), (4,))), ValueError, "parameter t[1][1]: dimension 0 is 4, expected m = 3"),
        ((numbers(2), (numbers(3, 3), (3,))), ValueError, "parameter t[1][0]: dimension 0 is 3, expected n = 2"),
        ((numbers(2),), ValueError, "parameter t: expected a tuple of 2, found a tuple of 1"),
        ((numbers(2), numbers(2, 3)), TypeError, "parameter t[1]: expected a tuple of 2, found a tensor"),
        ((numbers(2), (numbers(2, 3), 3)), TypeError, "parameter t[1][1]: expected a shape, found the int 3"),
        (numbers(2), TypeError, "parameter t: expected a tuple of 2, found a tensor"),
    ]
    for value, error, message in wrong:
        with pytest.raises(error) as caught:
            vm["main"](value)
        assert message in str(caught.value)


# -------------------------------------------------------------------------------- shapes, scalars


@I.ir_module
class ShapesAndScalars:
    @R.function
    def shapes(s: R.Shape(["n", "m"]), x: R.Tensor(("n",), "float32")) -> R.Shape(["m", "n + 1", 3]):
        n, m = T.int64(), T.int64()
        return R.shape([m, n + 1, 3])

    @R.function
    def of_tensor(x: R.Tensor("float32", ndim=2)) -> R.Shape(ndim=2):
        return R.shape_of(x)

    @R.function
    def scalars(
        k: R.Prim(value="k"), f: R.Prim("float32"), b: R.Prim("bool"), x: R.Tensor(("k",), "float32")
    ) -> R.Tuple(R.Prim("int64"), R.Prim("float32"), R.Prim("bool")):
        k1 = T.int64()
        return (k, f, b)

    @R.function
    def computed(x: R.Tensor(("n",), "float32")) -> R.Tuple(R.Prim("int64"), R.Prim("int64")):
        n = T.int64()
        return (R.prim_value(n * n - 1), R.prim_value(5))

    @R.function
    def branch(b: R.Prim("bool")) -> R.Tensor((), "int32"):
        if b:
            r = R.const(1, "int32")
        else:
            r = R.const(2, "int32")
        return r

    @R.function
    def strings() -> R.Tuple(R.Object, R.Object):
        return (R.str("text"), R.dtype("float16"))


def test_shape_values():
    vm = machine_of(ShapesAndScalars)
    for n in SIZES:
        result = vm["shapes"]((n, 4), numbers(n))
        assert result == (4, n + 1, 3)
        assert isinstance(result, ShapeTuple)
        assert vm["of_tensor"](numbers(n, 3)) == (n, 3)
    with pytest.raises(
        ValueError, match="shapes: parameter x: dimension 0 is 3, expected n = 2 .n was bound by s, dim"
    ):
        vm["shapes"]((2, 4), numbers(3))
    with pytest.raises(ValueError, match="shapes: parameter s: expected a shape of 2 dimensions, found 3"):
        vm["shapes"]((2, 4, 1), numbers(2))


def test_prim_values():
    vm = machine_of(ShapesAndScalars)
    for k in SIZES:
        assert vm["scalars"](k, 1.5, True, numbers(k)) == (k, 1.5, True)
        assert vm["computed"](numbers(k)) == (k * k - 1, 5)
    assert (vm["branch"](True).item(), vm["branch"](False).item()) == (1, 2)
    for args, message in [
        ((2.0, 1.5, True), "parameter k: expected an int64 value, found the float 2.0"),
        ((2, 1, True), "parameter f: expected a float32 value, found the int 1"),
        ((2, 1.5, 1), "parameter b: expected a bool value, found the int 1"),
        ((numbers(), 1.5, True), "parameter k: expected an int64 value, found a tensor"),
    ]:
        with pytest.raises(TypeError) as caught:
            vm["scalars"](*args, numbers(2))
        assert message in str(caught.value)
    with pytest.raises(ValueError, match="parameter x: dimension 0 is 3, expected k = 2 .k was bound by k."):
        vm["scalars"](2, 1.5, True, numbers(3))


def test_opaque_values():
    assert machine_of(ShapesAndScalars)["strings"]() == ("text", "float16")


# ------------------------------------------------------------------------------ packed functions


@register_func("test.vm.custom_add", override=True)
def custom_add(a, b):
    return nd.array(a.numpy() + b.numpy())


@register_func("test.vm.custom_tile", override=True)
def custom_tile(a, b):
    b[:] = nd.array(np.tile(a.numpy(), (1, 2)))


@register_func("test.vm.increment", override=True)
def increment(a):
    a[:] = a.numpy() + 1


@register_func("test.vm.identity", override=True)
def identity(a):
    return a


@I.ir_module
class Packed:
    @T.prim_func
    def tir_matmul(x: T.handle, y: T.handle, z: T.handle):
        m, n, k = T.int64(), T.int64(), T.int64()
        A = T.match_buffer(x, (m, n))
        B = T.match_buffer(y, (n, k))
        C = T.match_buffer(z, (m, k))
        for i0, j0, k0 in T.grid(m, k, n):
            with T.block():
                i, j, l = T.axis.remap("SSR", [i0, j0, k0])
                with T.init():
                    C[i, j] = T.float32(0)
                C[i, j] += A[i, l] * B[l, j]

    @R.function(pure=False)
    def main(x: R.Tensor(("m", "n"), "float32"), y: R.Tensor(("n", "k"), "float32")) -> R.Tensor(
        ("m", "2 * k"), "float32"
    ):
        cls = Packed
        m, n, k = T.int64(), T.int64(), T.int64()
        with R.dataflow():
            gv0 = R.call_tir(cls.tir_matmul, (x, y), R.Tensor((m, k), "float32"))
            R.output(gv0)
        gv1 = R.call_packed("test.vm.custom_add", gv0, gv0, sinfo_args=R.Tensor((m, k), "float32"))
        gv2 = R.call_dps_packed("test.vm.custom_tile", (gv1,), R.Tensor((m, k * 2), "float32"))
        return gv2

    @R.function(pure=False)
    def wrong_claim(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n + 1",), "float32"):
        n = T.int64()
        y = R.call_packed("test.vm.identity", x, sinfo_args=R.Tensor((n + 1,), "float32"))
        return y

    @R.function(pure=False)
    def fresh_constants() -> R.Tuple(R.Tensor((2,), "int32"), R.Tensor((2,), "int32")):
        c = R.const([1, 2], "int32")
        _ = R.call_packed("test.vm.increment", c)
        d = R.const([1, 2], "int32")
        return (c, d)


def test_mixed_levels():
    vm = machine_of(Packed)
    for m in SIZES:
        for n in SIZES:
            x, y = numbers(m, n), numbers(n, 3)
            same(vm["main"](x, y), np.tile(x @ y * 2, (1, 2)))


def test_what_packed_functions_return_is_checked():
    vm = machine_of(Packed)
    with pytest.raises(
        ValueError, match="wrong_claim: the result of test.vm.identity: dimension 0 is 2, expected n \\+ 1 = 3"
    ):
        vm["wrong_claim"](numbers(2))


def test_results_that_may_not_fit_are_checked():
    with pytest.warns(RelaxWarning, match="what main returns may not fit its declaration"):

        @I.ir_module
        class Module:
            @R.function(pure=False)
            def main(x: R.Tensor(("n",), "float32")) -> R.Tensor((3,), "float32"):
                y = R.call_packed("test.vm.identity", x, sinfo_args=R.Tensor("float32", ndim=1))
                return y

    main = machine(Module, PLAIN_LOOPS)["main"]
    same(main(numbers(3)), numbers(3))
    with pytest.raises(ValueError, match="main: result: dimension 0 is 2, expected 3"):
        main(numbers(2))


def test_constants_are_fresh():
    main = machine_of(Packed)["fresh_constants"]
    for _ in range(2):
        c, d = main()
        assert (c.numpy().tolist(), d.numpy().tolist()) == ([2, 3], [1, 2])
        c[:] = 0


@I.ir_module
class DataDependent:
    @R.function
    def main(x: R.Tensor(("n",), "int64")) -> R.Tensor(ndim=1, dtype="int64"):
        m = T.int64()
        u = R.unique(x)
        v = R.match_cast(u, R.Tensor((m,), "int64"))
        w = R.add(v, v)
        return w

    @R.function
    def cast_shape(s: R.Shape(ndim=2)) -> R.Shape(ndim=2):
        m, k = T.int64(), T.int64()
        t = R.match_cast(s, R.Shape([m, k]))
        return R.shape([k, m])

    @R.function
    def cast_fails(x: R.Tensor("float32", ndim=2)) -> R.Tensor((2, 2), "float32"):
        y = R.match_cast(x, R.Tensor((2, 2), "float32"))
        return y

    @R.function
    def through_tensor(x: R.Tensor(("n", "m"), "float32")) -> R.Tensor("float32", ndim=2):
        n, m = T.int64(), T.int64()
        a, b = T.int64(), T.int64()
        t = R.shape_to_tensor(R.shape([m, n]))
        s = R.match_cast(R.tensor_to_shape(t), R.Shape([a, b]))
        return R.reshape(x, s)


def test_data_dependent_shapes():
    vm = machine_of(DataDependent)
    for n in SIZES:
        x = np.arange(n) % 3
        np.testing.assert_array_equal(vm["main"](x).numpy(), np.unique(x) * 2)
        y = numbers(n, 4)
        same(vm["through_tensor"](y), y.reshape(4, n))
    assert vm["cast_shape"]((3, 0)) == (0, 3)


def test_match_cast_fails():
    vm = machine_of(DataDependent)
    same(vm["cast_fails"](numbers(2, 2)), numbers(2, 2))
    with pytest.raises(ValueError, match="cast_fails: match_cast of x: dimension 1 is 3, expected 2"):
        vm["cast_fails"](numbers(2, 3))


# -------------------------------------------------------------------------------- wrong arguments


@pytest.mark.parametrize(
    "args, error, message",
    [
        ((numbers(2, 3), numbers(3, 4)), TypeError, "main: expected 3 arguments (x, w, b), found 2"),
        ((1, numbers(3, 4), numbers(4)), TypeError, "main: parameter x: expected a tensor, found the int 1"),
        (("x", numbers(3, 4), numbers(4)), TypeError, "main: parameter x: expected a tensor, found the string 'x'"),
        (
            (numbers(2, 3), numbers(3), numbers(4)),
            ValueError,
            "main: parameter w: expected rank 2, found rank 1 (shape (3,))",
        ),
        (
            (numbers(2, 3), numbers(3, 4).astype("float64"), numbers(4)),
            TypeError,
            "main: parameter w: expected dtype float32, found float64",
        ),
        (
            (numbers(2, 3), numbers(2, 4), numbers(4)),
            ValueError,
            "main: parameter w: dimension 0 is 2, expected k = 3 (k was bound by x, dimension 1)",
        ),
        (
            (numbers(2, 3), numbers(3, 4), numbers(5)),
            ValueError,
            "main: parameter b: dimension 0 is 5, expected m = 4 (m was bound by w, dimension 1)",
        ),
    ],
)
def test_wrong_arguments(args, error, message):
    with pytest.raises(error) as caught:
        machine_of(Affine)["main"](*args)
    assert str(caught.value) == message


# ------------------------------------------------------------------------------------- deployment


def test_saved_programs_run_without_the_compiler(tmp_path):
    import subprocess
    import sys
    import textwrap

    path = tmp_path / "affine.rlx"
    build(Affine, PLAIN_LOOPS).save(path)
    x, w, b = numbers(2, 3), numbers(3, 4), numbers(4)
    np.savez(tmp_path / "data.npz", x=x, w=w, b=b, y=np.maximum(x @ w + b, 0))
    program = textwrap.dedent(
        """
        import sys
        class Blocker:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in ("llvmlite", "rich"):
                    raise ImportError(name)
        sys.meta_path.insert(0, Blocker())
        import numpy as np
        from relax.runtime import VirtualMachine, load_executable
        data = np.load(sys.argv[2])
        y = VirtualMachine(load_executable(sys.argv[1]))["main"](data["x"], data["w"], data["b"])
        np.testing.assert_allclose(y.numpy(), data["y"], rtol=1e-5)
        assert not any(m in sys.modules for m in ("relax.expr", "relax.tir", "relax.codegen"))
        """
    )
    subprocess.run([sys.executable, "-c", program, str(path), str(tmp_path / "data.npz")], check=True)


def test_build_arguments():
    with pytest.raises(ValueError, match="exec_mode 'magic' is not known; there is: bytecode, compiled"):
        build(Affine, PLAIN_LOOPS, exec_mode="magic")
    with pytest.raises(TypeError, match="build: expected an IRModule, found str"):
        build("main")
    with relax.target.Target("llvm"):
        assert isinstance(
            VirtualMachine(build(Affine, PLAIN_LOOPS))["main"](numbers(1, 1), numbers(1, 1), numbers(1)), NDArray
        )
