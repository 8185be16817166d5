"""Silent wrong numbers: constants that are folded, merged or shared."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pitfall_helpers import arrays, f32

import relax
from relax.script import ir as I
from relax.script import relax as R
from support import PLAIN_LOOPS

INF, NAN = float("inf"), float("nan")


def test_each_evaluation_of_a_constant_is_a_fresh_tensor(run):
    @I.ir_module
    class Module:
        @R.function(private=True, pure=False)
        def mutate(t: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            _ = R.call_packed("pitfall.increment", t, sinfo_args=R.Tuple())
            return t

        @R.function(pure=False)
        def direct() -> R.Tensor((2,), "float32"):
            c = R.const([1.0, 2.0], "float32")
            _ = R.call_packed("pitfall.increment", c, sinfo_args=R.Tuple())
            return c

        @R.function(pure=False)
        def through(b: R.Tensor((), "bool")) -> R.Tuple(R.Tensor, R.Tensor, R.Tensor, R.Tensor):
            cls = Module
            c = R.const([1.0, 2.0], "float32")
            t = (c, R.const([1.0, 2.0], "float32"))
            u = R.add(R.const([1.0, 1.0], "float32"), R.const([0.0, 1.0], "float32"))
            if b:
                d = R.const([1.0, 2.0], "float32")
            else:
                d = c
            _ = cls.mutate(c)
            _1 = cls.mutate(t[1])
            _2 = cls.mutate(u)
            _3 = cls.mutate(cls.mutate(d))
            return (c, t[1], u, d)

        @R.function
        def given() -> R.Tuple(R.Tensor, R.Tensor):
            return (R.const([1.0, 2.0], "float32"), R.const([1.0, 2.0], "float32"))

        @R.function(pure=False)
        def closure() -> R.Tuple(R.Tensor, R.Tensor):
            c = R.const([1.0, 2.0], "float32")

            @R.function(pure=False)
            def f() -> R.Tensor((2,), "float32"):
                d = R.const([1.0, 2.0], "float32")
                _ = R.call_packed("pitfall.increment", c, sinfo_args=R.Tuple())
                _1 = R.call_packed("pitfall.increment", d, sinfo_args=R.Tuple())
                return d

            _ = f()
            return (f(), c)

    vm = run(Module)
    for _ in range(3):
        assert vm["direct"]().numpy().tolist() == [2, 3]
        c, t, u, d = (v.tolist() for v in arrays(vm["through"](np.array(True))))
        assert (c, t, u, d) == ([2, 3], [2, 3], [2, 3], [3, 4])
        c, t, u, d = (v.tolist() for v in arrays(vm["through"](np.array(False))))
        assert (c, t, u, d) == ([4, 5], [2, 3], [2, 3], [4, 5])
        assert [v.tolist() for v in arrays(vm["closure"]())] == [[2, 3], [3, 4]]
        first, second = vm["given"]()
        assert (first.numpy().tolist(), second.numpy().tolist()) == ([1, 2], [1, 2])
        first[:] = 7  # the caller owns what it is given


def test_bound_parameters_are_not_the_callers_arrays():
    weights = f32(1, 2)

    @I.ir_module
    class Module:
        @R.function
        def main(w: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return w

    vm = relax.VirtualMachine(relax.build(Module, PLAIN_LOOPS, params={"w": weights}))
    weights[:] = 9
    result = vm["main"]()
    assert result.numpy().tolist() == [1, 2]
    result[:] = 5
    assert vm["main"]().numpy().tolist() == [1, 2]


def test_folding_keeps_floating_point_results(run):
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((6,), "float32")) -> R.Tuple(R.Tensor, R.Tensor, R.Tensor, R.Tensor, R.Tensor, R.Tensor):
            with R.dataflow():
                inf = R.const(INF, "float32")
                a = R.subtract(R.multiply(x, inf), R.multiply(x, inf))
                b = R.multiply(x, R.const(0.0, "float32"))
                c = R.add(x, R.const(0.0, "float32"))
                d = R.divide(R.const(1.0, "float32"), R.add(x, R.const(-0.0, "float32")))
                e = R.subtract(R.divide(x, x), R.maximum(x, R.const(NAN, "float32")))
                g = R.subtract(R.add(R.const(1e8, "float32"), x), R.const(1e8, "float32"))
                R.output(a, b, c, d, e, g)
            return (a, b, c, d, e, g)

    x = f32(0, -0.0, INF, -INF, NAN, 3)
    with np.errstate(all="ignore"):
        inf = np.float32(INF)
        expected = (
            x * inf - x * inf,
            x * np.float32(0),
            x + np.float32(0),
            1 / (x + np.float32(-0.0)),
            np.full(6, NAN, "float32"),
            (np.float32(1e8) + x) - np.float32(1e8),
        )
    for i, (found, wanted) in enumerate(zip(arrays(run(Module)["main"](x)), expected, strict=True)):
        np.testing.assert_array_equal(found, wanted, err_msg=str(i))
        finite = ~np.isnan(wanted)
        assert (np.signbit(found) == np.signbit(wanted))[finite].all(), i


def test_what_differs_in_constants_only_is_not_merged(run):
    """0.0 and -0.0 are equal as numbers, NaN is not: neither may decide whether computations are the same."""

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tuple(R.Tensor, R.Tensor, R.Tensor, R.Tensor, R.Tensor):
            with R.dataflow():
                a = R.divide(x, R.const(0.0, "float32"))
                b = R.divide(x, R.const(-0.0, "float32"))
                c = R.add(x, R.const([1.0, 2.0], "float32"))
                d = R.add(x, R.const([1.0, 3.0], "float32"))
                e = R.add(x, R.const([1.0, 2.0], "float32"))
                c1 = R.negative(c)
                d1 = R.negative(d)
                e1 = R.negative(e)
                R.output(a, b, c1, d1, e1)
            return (a, b, c1, d1, e1)

    a, b, c, d, e = (v.tolist() for v in arrays(run(Module)["main"](f32(1, 2))))
    assert (a, b, c, d, e) == ([INF, INF], [-INF, -INF], [-2, -4], [-2, -5], [-2, -4])


def test_functions_that_differ_in_constants_only(run):
    @I.ir_module
    class Module:
        @R.function(private=True)
        def f(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            return R.multiply(x, R.const(0.0, "float32"))

        @R.function(private=True)
        def g(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            return R.multiply(x, R.const(-0.0, "float32"))

        @R.function(private=True)
        def h(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            return R.multiply(x, R.const(NAN, "float32"))

        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tuple(R.Tensor, R.Tensor, R.Tensor):
            cls = Module
            with R.dataflow():
                a = cls.f(x)
                b = cls.g(x)
                c = cls.h(x)
                R.output(a, b, c)
            return (a, b, c)

    a, b, c = arrays(run(Module)["main"](f32(1, 2)))
    assert not np.signbit(a).any()
    assert np.signbit(b).all()
    assert np.isnan(c).all()


@pytest.mark.parametrize("fill", [0.0, -0.0, NAN, INF, -INF])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_full_of_special_values(run, fill, dtype):
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), dtype)) -> R.Tuple(R.Tensor, R.Tensor):
            return (R.full_like(x, R.const(fill, dtype)), R.add(x, R.const(fill, dtype)))

    for n in (0, 1, 3):
        full, total = arrays(run(Module)["main"](relax.nd.array(np.zeros(n), dtype=dtype)))
        wanted = np.full(n, fill)
        np.testing.assert_array_equal(full.astype("float64"), wanted)
        assert (np.signbit(full.astype("float64")) == np.signbit(wanted)).all()
        np.testing.assert_array_equal(total.astype("float64"), 0.0 + wanted)


def test_kernels_that_differ_in_immediates_only(run):
    """`te.compute` closures and attributes with different scalars make different kernels."""

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32")) -> R.Tuple(R.Tensor, R.Tensor, R.Tensor, R.Tensor):
            with R.dataflow():
                a = R.clip(x, 0, 1)
                b = R.clip(x, 0, 2)
                c = R.clip(x, -0.0, 2)
                d = R.clip(x, -1, 2)
                R.output(a, b, c, d)
            return (a, b, c, d)

    x = f32(-3, 0.5, 1.5, 5)
    for found, (low, high) in zip(arrays(run(Module)["main"](x)), ((0, 1), (0, 2), (0, 2), (-1, 2)), strict=True):
        np.testing.assert_array_equal(found, np.clip(x, np.float32(low), np.float32(high)))


@pytest.mark.parametrize("data", [[0, 2**64 - 1], [[2**53 + 1], [2**63 + 1]], [2**64 - 2, 1], [2**63, 2**63 - 1]])
def test_lists_of_large_integers_are_exact(data):
    """NumPy makes float64 of integers on both sides of 2**63."""
    assert relax.const(data, "uint64").data.tolist() == data
    assert relax.nd.array(data, dtype="uint64").numpy().tolist() == data
    module = relax.script.from_source(f"""
        @I.ir_module
        class Module:
            @R.function
            def main():
                return R.const({data}, "uint64")
    """)
    assert relax.interpret(module, "main").numpy().tolist() == data
    for make in (lambda: relax.const(data, "int64"), lambda: relax.nd.array(data, dtype="int64")):
        with pytest.raises(ValueError, match="out of the range of int64"):
            make()


@given(st.sampled_from(["uint64", "int64"]), st.lists(st.integers(-(2**65), 2**65), min_size=1, max_size=4))
def test_a_list_of_integers_is_exact_or_refused(dtype, data):
    kind = relax.DataType(dtype)
    if all(kind.min_value <= number <= kind.max_value for number in data):
        assert relax.const(data, dtype).data.tolist() == data
        assert relax.nd.array(data, dtype=dtype).numpy().tolist() == data
    else:
        with pytest.raises(ValueError, match="out of the range"):
            relax.const(data, dtype)
