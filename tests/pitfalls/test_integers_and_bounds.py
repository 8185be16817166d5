"""Integer division, overflow, indices out of range, zero extents: defined, or a clear error; never a crash."""

from __future__ import annotations

import numpy as np
import pytest
from pitfall_helpers import arrays, machine

import relax
from relax.script import from_source
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def test_integer_arithmetic_on_big_shape_values_is_exact(run):
    @I.ir_module
    class Module:
        @R.function
        def main(s: R.Shape(["a", "b"])) -> R.Shape(ndim=8):
            a = T.int64()
            b = T.int64()
            return R.shape(
                [
                    a * 65536 // 2 % 1048573,
                    (a * 65536 + 1) % 2,
                    a // b,
                    a % b,
                    (a * 65536 + 1) // (65536 * 3),
                    T.max(a, b),
                    T.min(a, b),
                    a - b * (a // b),
                ]
            )

    vm = run(Module)
    # Products beyond 2^53, where float64 arithmetic would be wrong.
    for a, b in ((2**46 + 1, 1), (2**46 + 1, 3), (2**46 + 3, 2**31 + 7), (0, 5), (7, 2**47)):
        c = a * 65536
        wanted = (c // 2 % 1048573, (c + 1) % 2, a // b, a % b, (c + 1) // 196608)
        assert tuple(vm["main"]((a, b))) == (*wanted, max(a, b), min(a, b), a - b * (a // b))


@pytest.mark.parametrize("operation", ["//", "%"])
def test_shape_values_divided_by_zero(run, operation):
    text = f"""
@I.ir_module
class Module:
    @R.function
    def main(s: R.Shape(["a", "b"])) -> R.Shape(ndim=1):
        a = T.int64()
        b = T.int64()
        return R.shape([a {operation} b])
"""
    vm = run(text)
    with pytest.raises((ZeroDivisionError, ValueError), match="zero"):
        vm["main"]((1, 0))
    assert len(vm["main"]((1, 1))) == 1


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op", ["floor_divide", "floor_mod", "mod"])
def test_integer_division(run, dtype, op):
    function = getattr(R, op)

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), dtype), y: R.Tensor(("n",), dtype)) -> R.Tensor(("n",), dtype):
            return function(x, y)

    vm = run(Module)
    info = np.iinfo(dtype)
    values = {info.min, info.min + 1, info.max, 1, 2, 3, 7, *((-1, -2, -7) if info.min else ())} - {0}
    x, y = (v.reshape(-1) for v in np.meshgrid(*2 * (np.array(sorted(values), dtype),)))
    with np.errstate(over="ignore"):
        floor = x // y
    wanted = floor if op == "floor_divide" else (x - floor * y)
    if op == "mod" and info.min:
        wanted = np.fmod(x, y)
    found = vm["main"](x, y).numpy()
    if op == "mod":
        assert np.array_equal(found, wanted) or np.array_equal(found, x - floor * y)
    else:
        np.testing.assert_array_equal(found, wanted)
    assert vm["main"](x[:0], y[:0]).shape == (0,)
    with pytest.raises((ZeroDivisionError, ValueError, AssertionError), match="zero"):
        vm["main"](np.ones(3, dtype), np.array([1, 0, 1], dtype))


def test_division_by_a_constant_zero_compiles_and_fails_when_run(run):
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "int32")) -> R.Tensor(("n",), "int32"):
            with R.dataflow():
                c = R.floor_divide(R.const([4], "int32"), R.const([0], "int32"))
                y = R.add(x, c)
                R.output(y)
            return y

    vm = run(Module)
    with pytest.raises((ZeroDivisionError, ValueError, AssertionError), match="zero"):
        vm["main"](np.ones(3, "int32"))


@pytest.mark.parametrize("index", ["int8", "int32", "int64", "uint64"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take_out_of_range(run, index, axis):
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32"), i: R.Tensor(("k",), index)) -> R.Tensor(ndim=2, dtype="float32"):
            return R.take(x, i, axis=axis)

    vm = run(Module)
    x = np.arange(12, dtype="float32").reshape(3, 4)
    size = x.shape[axis]
    np.testing.assert_array_equal(
        vm["main"](x, np.array([size - 1, 0], index)).numpy(), np.take(x, [size - 1, 0], axis=axis)
    )
    bad = [size, size + 1, np.iinfo(index).max]
    if np.iinfo(index).min:
        np.testing.assert_array_equal(
            vm["main"](x, np.array([-1, -size], index)).numpy(), np.take(x, [-1, -size], axis=axis)
        )
        bad += [-size - 1, np.iinfo(index).min]
    for position in bad:
        with pytest.raises((IndexError, ValueError, AssertionError)):
            vm["main"](x, np.array([0, position], index))
    assert vm["main"](x[:0, :0], np.zeros(0, index)).numpy().size == 0
    with pytest.raises((IndexError, ValueError, AssertionError)):
        vm["main"](np.zeros((3, 0) if axis else (0, 3), "float32"), np.zeros(1, index))


@pytest.mark.parametrize("dtype", ["float32", "int8", "float16"])
def test_reductions_over_nothing_are_defined(run, dtype):
    """The least value for max, the greatest for min: as the operators say."""

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", "m"), dtype)) -> R.Tuple(R.Tensor, R.Tensor, R.Tensor, R.Tensor):
            with R.dataflow():
                a = R.max(x, axis=1)
                b = R.min(x, axis=1)
                c = R.sum(x, axis=1)
                d = R.prod(x, axis=1)
                R.output(a, b, c, d)
            return (a, b, c, d)

    vm = run(Module)
    low, high = (-np.inf, np.inf) if dtype != "int8" else (-128, 127)
    for n in (0, 2):
        found = [v.tolist() for v in arrays(vm["main"](np.zeros((n, 0), dtype)))]
        assert found == [[low] * n, [high] * n, [0] * n, [1] * n]


ZERO_PROGRAMS = {
    "sum": (lambda x: R.sum(x, axis=[1]), lambda x: x.sum(1)),
    "prod": (lambda x: R.prod(x, axis=[0]), lambda x: x.prod(0)),
    "cumsum": (lambda x: R.cumsum(x, axis=1), lambda x: x.cumsum(1)),
    "softmax": (lambda x: R.nn.softmax(x, axis=1), lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True)),
    "concat": (lambda x: R.concat([x, x], axis=1), lambda x: np.concatenate([x, x], 1)),
    "transpose": (lambda x: R.permute_dims(x), lambda x: x.T),
    "matmul": (lambda x: R.matmul(x, R.permute_dims(x)), lambda x: x @ x.T),
    "inner": (lambda x: R.matmul(R.permute_dims(x), x), lambda x: x.T @ x),
    "flatten": (lambda x: R.flatten(x), lambda x: x.reshape(-1)),
    "tile": (lambda x: R.tile(x, (2, 1)), lambda x: np.tile(x, (2, 1))),
    "repeat": (lambda x: R.repeat(x, 2, axis=0), lambda x: np.repeat(x, 2, 0)),
    "flip": (lambda x: R.flip(x, axis=1), lambda x: np.flip(x, 1)),
    "split": (lambda x: R.split(x, [1], axis=0)[1], lambda x: x[1:]),
    "slice": (lambda x: R.strided_slice(x, [0, 1], [5, 5], [-9, -9], [-1, -2]), lambda x: x[5::-1, 5::-2]),
    "unique": (lambda x: R.unique(x), lambda x: np.unique(x)),
    "nonzero": (lambda x: R.nonzero(x), lambda x: np.stack(np.nonzero(x))),
}


@pytest.mark.parametrize("name", ZERO_PROGRAMS)
@pytest.mark.parametrize("static", [False, True])
def test_zero_extents(run, name, static):
    build, reference = ZERO_PROGRAMS[name]
    for shape in ((0, 0), (0, 3), (3, 0), (1, 1), (2, 3)):
        if static or shape == (0, 0):
            dims = shape if static else [relax.tir.Var("n", "int64"), relax.tir.Var("m", "int64")]
            x = relax.Var("x", relax.TensorStructInfo(dims, "float32"))
            bb = relax.BlockBuilder()
            with bb.function("main", [x]):
                with bb.dataflow():
                    out = bb.emit_output(build(x))
                bb.emit_func_output(out)
            vm = run(bb.get())
        value = (np.arange(shape[0] * shape[1], dtype="float32") % 3).reshape(shape)
        with np.errstate(all="ignore"):
            wanted = reference(value)
        found = vm["main"](value).numpy()
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_sizes_that_overflow(run):
    @I.ir_module
    class Module:
        @R.function
        def broadcast(x: R.Tensor((1, 1), "float32"), s: R.Shape(["n", "m"])) -> R.Tensor(ndim=2, dtype="float32"):
            n = T.int64()
            m = T.int64()
            return R.broadcast_to(x, (n, m))

        @R.function
        def product(s: R.Shape(["n", "m"])) -> R.Tensor(ndim=1, dtype="float32"):
            n = T.int64()
            m = T.int64()
            return R.zeros((n * m,), "float32")

        @R.function
        def total(s: R.Shape(["n", "m"])) -> R.Tensor(ndim=1, dtype="float32"):
            n = T.int64()
            m = T.int64()
            return R.zeros((n + m,), "float32")

    vm = run(Module)
    one = np.ones((1, 1), "float32")
    for n, m in ((2**32, 2**32), (2**62, 4), (2**40, 2**20), (2**62, 2**62), (2**33, 2**31)):
        for name, args in (("broadcast", (one,)), ("product", ()), ("total", ())):
            if name == "total" and n + m < 2**45:
                continue
            with pytest.raises((MemoryError, ValueError, OverflowError)):
                vm[name](*args, (n, m))
    assert arrays(vm["broadcast"](one, (2, 0))).shape == (2, 0)
    with pytest.raises((ValueError, MemoryError)):
        vm["product"]((-1, 4))
    with pytest.raises((ValueError, MemoryError)):
        vm["total"]((-5, 4))


def test_nothing_has_no_index_whenever_its_size_is_known():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")) -> R.Tensor(("n",), "int64"):
            return R.argmax(x, axis=1)

    vm = machine(Module)
    assert vm["main"](np.zeros((0, 3), "float32")).numpy().tolist() == []
    for n in (0, 2):  # NumPy raises too
        with pytest.raises(AssertionError, match="argmax: dimension 1 is empty: nothing in it has an index"):
            vm["main"](np.zeros((n, 0), "float32"))
    with pytest.raises(relax.ir.DiagnosticError, match="argmax: dimension 1 is empty"):
        machine(relax.transform.BindSymbolicVars({"m": 0})(Module))


@pytest.mark.parametrize(
    "value",
    [
        "n * n",
        "n * n * n",
        "T.min(n * n, 7)",
        "n * n - n * n",
        "n * n % 7",
        "T.Select(n > 5, n * n, 1)",
        "n * 4611686018427387904",
    ],
)
def test_scalars_of_kernels_that_overflow(run, value):
    """Kernels wrap around: a scalar that may leave 64 bits is computed by who calls them, fused or not."""
    module = from_source(
        f"""
        @I.ir_module
        class Module:
            @R.function
            def index(s: R.Tensor(("n", 0), "int8"), x: R.Tensor((8,), "float32")):
                n = T.int64()
                return R.take(x, R.prim_value({value}), axis=0)

            @R.function
            def filled(s: R.Tensor(("n", 0), "int8"), x: R.Tensor((8,), "float32")):
                n = T.int64()
                return R.full((2,), R.prim_value({value}), "int64")

            @R.function
            def fused(s: R.Tensor(("n", 0), "int8"), x: R.Tensor((8,), "float32")):
                n = T.int64()
                with R.dataflow():
                    y = R.add(R.exp(x), R.astype(R.full((8,), R.prim_value({value}), "int64"), "float32"))
                    R.output(y)
                return y

            @T.prim_func(private=True)
            def shifted(A: T.Buffer((8,), "float32"), k: T.int64, B: T.Buffer((8,), "float32")):
                for i in range(8):
                    with T.block("B"):
                        vi = T.axis.spatial(8, i)
                        B[vi] = A[vi] + T.Cast("float32", k)

            @R.function
            def kernel(s: R.Tensor(("n", 0), "int8"), x: R.Tensor((8,), "float32")):
                n = T.int64()
                cls = Module
                with R.dataflow():
                    k = R.prim_value({value})
                    y = R.call_tir(cls.shifted, (R.exp(x), k), R.Tensor((8,), "float32"))
                    z = R.exp(y)
                    R.output(z)
                return z
        """
    )
    vm = run(module)
    for name in ("index", "filled", "fused", "kernel"):
        with pytest.raises(OverflowError, match="a size does not fit into 64 bits: n"):
            vm[name](np.zeros((2**47, 0), "int8"), np.zeros(8, "float32"))
        vm[name](np.zeros((0, 0), "int8"), np.zeros(8, "float32"))


def test_an_arm_that_is_not_chosen_does_not_overflow(run):
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((8,), "float32"), v: R.Prim("int64")):
            k = T.int64()
            _ = R.match_cast(v, R.Prim("int64", value=k))
            return (R.strided_slice(x, [0], [k], [8]), R.strided_slice(x, [0], [0], [k]))

    vm, x = run(Module), np.arange(8, dtype="float32")
    for k in (-(2**63), -9, -8, -3, 0, 2, 8, 9, 2**63 - 8, 2**63 - 1):  # T.Select(k < 0, k + 8, k)
        first, second = arrays(vm["main"](x, k))
        assert (first.tolist(), second.tolist()) == (x[k:8].tolist(), x[0:k].tolist())
