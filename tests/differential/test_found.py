"""Programs that once failed, made small by the reducer: each with the property that did not hold."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

import relax
from differential import properties


def holds(name, text, *cases, exact=True, **options):
    properties.PROPERTIES[name](textwrap.dedent(text), list(cases), exact=exact, **options)


def test_a_scalar_of_shape_variables_is_known_to_be_what_it_is():
    """VMShapeLower bound it to a value of which less was known, which printed as a claim to be checked."""
    text = """
    @I.ir_module
    class Module:
        @R.function
        def main(a0: R.Tensor(("m",), "float32")):
            m = T.int64()
            v2 = R.prim_value(m)
            v11 = v2
            return v11
    """
    holds("prints_and_parses", text)
    holds("agrees", text, [np.zeros(2, "float32")])


def test_running_sums_begin_with_zero():
    text = """
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")):
            v1 = R.floor_divide(x, R.const(-4.0, "float32"))
            v2 = R.cumsum(v1)
            return v2
    """
    holds("agrees", text, [np.zeros((1, 1), "float32")])


@pytest.mark.parametrize("mode", ["fast", "wrap", "clip"])
@pytest.mark.parametrize("shape", [(0, 0), (0, 2)])
def test_nothing_is_taken_of_nothing(mode, shape):
    """Where the result is empty no index is read; else every index is out of range."""
    text = f"""
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")):
            v1 = R.take(x, R.const([0], "int64"), axis=0, mode="{mode}")
            return v1
    """
    holds("agrees", text, [np.zeros(shape, "float32")])
    holds("passes_keep", text, [np.zeros(shape, "float32")])


def test_an_error_of_a_kernel_names_the_kernel():
    text = """
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float64")):
            v3 = R.argmin(x)
            return v3
    """
    holds("passes_keep", text, [np.zeros((0, 0))])


def test_a_kernel_that_does_not_fit_is_named():
    text = """
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")):
            m = T.int64()
            v2 = R.flatten(x)
            v8 = R.call_tir(Module.g7, v2, out_sinfo=R.Tensor((m,), "float32"))
            return v8

        @T.prim_func(private=True)
        def g7(a_p: T.handle, c_p: T.handle):
            k = T.int64()
            a = T.match_buffer(a_p, (k,))
            c = T.match_buffer(c_p, (k,))
            for i in range(k):
                c[i] = a[i]
    """
    holds("agrees", text, [np.zeros((0, 1), "float32")], [np.zeros((1, 1), "float32")])


def test_the_message_of_an_assertion_is_the_programs_own():
    text = """
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(b: R.Tensor((), "bool")):
            R.assert_op(b, format="said {}")
            R.assert_op(b)
            return b
    """
    holds("agrees", text.replace("format=", "b, format="), [np.array(False)])
    holds("agrees", text, [np.array(True)])


def test_a_shape_divided_by_zero():
    text = """
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float64")):
            n, m = T.int64(), T.int64()
            v9 = R.zeros((n // m,), "int64")
            return v9
    """
    holds("agrees", text, [np.zeros((2, 0))], [np.zeros((2, 1))])


def test_a_folded_constant_is_a_fresh_tensor_to_an_in_place_call():
    """FoldConstant made a constant of what is then reused in place, which was refused."""
    text = """
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            a = R.const([1.0, 2.0], "float32")
            b = R.add(a, R.const(1.0, "float32"))
            c = R.call_tir_inplace(Module.twice, (b,), inplace_indices=[0], out_sinfo=R.Tensor((2,), "float32"))
            d = R.call_inplace_packed("fuzz.increment", a, inplace_indices=[0], sinfo_args=R.Tensor((2,), "float32"))
            return (c, d)

        @T.prim_func(private=True)
        def twice(a: T.Buffer((2,), "float32")):
            for i in range(2):
                a[i] = a[i] * T.float32(2)
    """
    cases = [[np.zeros(2, "float32")]] * 2  # the second run must not see what the first one wrote
    holds("agrees", text, *cases)
    holds("passes_keep", text, *cases)


@pytest.mark.parametrize("result", ["f", "(f, p)"])
def test_a_closure_over_a_size_that_goes_out_of_scope_is_returned(result):
    """Erasure forgets which size its parameter asks for; that was taken for a claim that any will do."""
    text = f"""
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")):
            v = Module.make(x)
            return v

        @R.function(private=True)
        def make(p: R.Tensor(("n", "m"), "float32")):
            u = R.unique(p)
            k = T.int64()
            w = R.match_cast(u, R.Tensor((k,), "float32"))

            @R.function
            def f(q: R.Tensor((k,), "float32")) -> R.Tensor((k,), "float32"):
                return R.add(q, w)

            return {result}
    """
    holds("agrees", text, [np.zeros((0, 2), "float32")], [np.zeros((1, 2), "float32")])
    holds("derives_truly", text, [np.zeros((0, 2), "float32")])


@pytest.mark.parametrize("first", [0, 1])
def test_devices_of_lowered_programs_are_numbers(first):
    """The interpreter took the number of a device for the device."""
    text = f"""
    @I.ir_module
    class Module:
        I.module_global_infos({{"vdevice": [I.vdevice("llvm", {first}), I.vdevice("llvm", {1 - first})]}})

        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            u = R.to_vdevice(x, "llvm:1")
            v = R.to_vdevice(R.add(u, u), "llvm:0")
            w = R.negative(v)
            return w
    """
    holds("passes_keep", text, [np.ones(2, "float32")])


def test_the_shape_of_what_an_if_gives_is_known_to_the_parser():
    text = """
    @I.ir_module
    class Module:
        @R.function
        def main(b: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32")):
            if b:
                y = R.add(x, x)
                r = y
            else:
                r = x
            v = R.reshape(r, (-1, 1))
            return v
    """
    holds("agrees", text, [np.array(True), np.ones(2, "float32")], [np.array(False), np.zeros(0, "float32")])


def test_a_scalar_that_is_a_float_is_compared_with_it():
    """The number was looked for in a slot of the shape heap, where nobody had put it."""
    text = """
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), o: R.Prim(value=1.5)):
            n = T.int64()
            v = R.prim_value(2.5)
            w = R.prim_value(T.Cast("float64", n))

            @R.function
            def f(p: R.Tensor((n,), "float32")) -> R.Object:
                return (v, w)

            return f
    """
    holds("agrees", text, [np.ones(2, "float32"), 1.5], [np.ones(2, "float32"), 2.5])


@pytest.mark.parametrize("claimed", [2.5, 3.5, -2.5])
def test_the_information_of_functions_tells_floats(claimed):
    """A float in it was taken for a slot, and shown as one of its operands."""
    text = f"""
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            v = R.prim_value(2.5)

            @R.function
            def g() -> R.Prim(value=2.5):
                return v

            u = Module.forget(g)
            h = R.match_cast(u, R.Callable((), R.Prim(value={claimed}), True))
            return h

        @R.function(private=True)
        def forget(v: R.Object) -> R.Object:
            return v
    """
    holds("agrees", text, [np.ones(2, "float32")])
    holds("saves_and_loads", text, [np.ones(2, "float32")])


def test_a_function_may_declare_what_has_no_value():
    """The interpreter computed the size when the function was made, not when it was called."""
    text = """
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32"), b: R.Tensor((), "bool")):
            n = T.int64()
            m = T.int64()

            @R.function
            def f(y: R.Tensor((n, m), "float32")) -> R.Tensor((m % n,), "int64"):
                z = R.zeros((m % n,), "int64")
                return z

            if b:
                r = f(x)
            else:
                r = R.zeros((0,), "int64")
            return r
    """
    for flag in (True, False):
        for n in (0, 2):
            holds("agrees", text, [np.zeros((n, 3), "float32"), np.array(flag)])


def test_a_captured_tensor_whose_shape_a_variable_holds():
    """After LambdaLift both are parameters, and the one's annotation names the other."""
    text = """
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), s: R.Shape(ndim=1)):
            v = R.zeros(s, "float32")

            @R.function
            def f(y: R.Tensor(("n",), "float32")) -> R.Tensor(ndim=1, dtype="float32"):
                return R.add(v, R.sum(y))

            return f(x)
    """
    for n in (0, 1, 3):
        case = [np.ones(n, "float32"), relax.ShapeTuple([2])]
        holds("agrees", text, case)
        holds("passes_keep", text, case)


def test_what_is_folded_may_be_named_by_other_variables():
    """FoldConstant took the other name of a constant, or a tuple of names, for the constant."""
    text = """
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            a = R.zeros((2,), "float32")
            b = R.add(a, R.const(1, "float32"))
            c = b
            t = (c, b)
            d = R.negative(c)
            e = R.concat(t, axis=0)
            f = t[1]
            g = R.add(f, f)
            return (d, e, g, x)
    """
    holds("passes_keep", text, [np.ones(1, "float32")])
    holds("agrees", text, [np.ones(1, "float32")])


__all__ = ["relax"]


def test_what_is_derived_of_a_returned_closure_is_not_compared():
    """Erasure forgets what its parameter asks for; the closure itself asks for it when it is called."""
    text = """
    @I.ir_module
    class Module:
        @R.function
        def main(b: R.Tensor((), "bool")):
            u1 = R.nonzero(b)
            k2 = T.int64()
            w3 = R.match_cast(u1, R.Tensor((0, k2), "int64"))
            @R.function
            def f4(p5: R.Tensor((0, k2), "int64"), p6: R.Prim("int64")) -> R.Prim("int64"):
                return p6
            return (f4, w3)
    """
    holds("agrees", text, [np.array(True)])
    holds("passes_keep", text, [np.array(True)])


def test_a_size_of_an_empty_tensor_is_kept_by_reshape():
    """The 0 is meant as 0: k sizes of 0 are not k sizes of k. It must not depend on what is known of k."""
    text = """
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((0, "k"), "int64")):
            k = T.int64()
            if R.prim_value(k > 1):
                y = R.sum(R.reshape(x, (k, 0)), axis=1)
            else:
                y = R.zeros((k,), "int64")
            return y
    """
    for k in (0, 1, 3):
        holds("agrees", text, [np.zeros((0, k), "int64")])
        holds("passes_keep", text, [np.zeros((0, k), "int64")])


def test_a_shape_value_means_what_it_says_when_it_is_read_again():
    """A size that became 0 is not the size of the tensor in that place."""
    text = """
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, "m * 2 * n // 2"), "int16"), s: R.Shape(["n", "m"])):
            n = T.int64()
            m = T.int64()
            return R.reshape(x, R.shape([n, 2 * m]))
    """
    bound = relax.transform.BindSymbolicVars({"n": 0}, "main")(relax.script.from_source(textwrap.dedent(text)))
    assert "R.reshape(x, R.shape([0, 2 * m]))" in bound.script()
    relax.ir.assert_structural_equal(relax.script.from_source(bound.script(show_meta=True)), bound)


def test_a_branch_that_is_not_taken_may_be_refused_when_sizes_are_bound():
    """What can be proved of sizes is an error then, as it is in a program that says so."""
    text = """
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float64"), b: R.Tensor((), "bool")):
            n = T.int64()
            m = T.int64()
            y = R.strided_slice(x, [1], [0], [1])
            if b:
                r = y
            else:
                k = T.int64()
                w = R.match_cast(y, R.Tensor((k, n), "float64"))
                r = w
            return r
    """
    holds("binds", text, [np.zeros((2, 2)), np.array(True)])


def test_an_output_is_not_described_by_a_variable_of_its_dataflow_block():
    """What was printed named a variable that is not there after the block."""
    text = """
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), y: R.Object):
            with R.dataflow():
                s = R.shape_of(x)
                w = R.match_cast(y, R.Tensor(s, "float32"))
                R.output(w)
            return w
    """
    holds("prints_and_parses", text)
    holds("agrees", text, [np.ones(2, "float32"), np.ones(2, "float32")])
    holds("agrees", text, [np.ones(2, "float32"), np.ones(3, "float32")])


@pytest.mark.parametrize(
    "params", ['s: R.Shape(ndim=1), t: R.Tensor(s, "int8")', 't: R.Tensor(s, "int8"), s: R.Shape(ndim=1)']
)
def test_the_shape_of_a_parameter_is_held_by_one_before_or_after_it(params):
    """The second s was read as a size."""
    text = f"""
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", "m"), "int8"), y: R.Tensor(("k",), "int8")):
            s = R.shape_of(R.flatten(x))
            r = Module.f({"s, y" if params.startswith("s") else "y, s"})
            return r

        @R.function(private=True)
        def f({params}) -> R.Tensor(dtype="int8", ndim=1):
            return R.add(t, t)
    """
    holds("prints_and_parses", text)
    for k in (5, 6):
        holds("agrees", text, [np.ones((2, 3), "int8"), np.ones(k, "int8")])
        holds("passes_keep", text, [np.ones((2, 3), "int8"), np.ones(k, "int8")])


def test_a_scalar_that_is_no_size_does_not_take_the_place_of_one():
    """CanonicalizeBindings put -1 into an annotation."""
    text = """
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n",), "float32"), o: R.Object):
            n, k = T.int64(), T.int64()
            R.match_cast(R.prim_value(n - 5), R.Prim("int64", value=k))
            y = R.match_cast(o, R.Tensor((k,), "float32"))
            return x
    """
    cases = [[np.zeros(size, "float32"), np.zeros(3, "float32")] for size in (3, 8)]
    holds("agrees", text, *cases)
    holds("agrees", text.replace("n - 5", "-1"), *cases)


def test_a_constant_shape_that_is_none_fails_though_nobody_uses_it():
    text = """
    @I.ir_module
    class Module:
        @R.function
        def main(b: R.Tensor((), "bool")):
            u = R.shape([T.int64(4611686018427387904)])
            return b
    """
    holds("agrees", text, [np.array(True)])
    holds("agrees", text.replace("R.shape([T.int64(4611686018427387904)])", "R.tensor_to_shape(R.const([-3], 'int64'))"),
          [np.array(True)])  # fmt: skip


def test_a_size_that_is_a_difference_stays_a_size():
    """CanonicalizeBindings put n - m in the place of a variable that is known to be at least 0, and less was derived."""
    text = """
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")):
            n, m, k = T.int64(), T.int64(), T.int64()
            s = R.match_cast(R.shape([n - m]), R.Shape([k]))
            y = R.strided_slice(x, axes=[0], begin=[k], end=[8])
            return y
    """
    for name in ("agrees", "passes_keep", "prints_and_parses"):
        holds(name, text, [np.zeros((3, 1), "float32")], [np.zeros((1, 3), "float32")])
