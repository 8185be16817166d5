"""ToMixedPrecision: narrow products, float32 where precision is needed."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.ir import DiagnosticError
from relax.script import ir as I
from relax.script import relax as R
from relax.transform import ToMixedPrecision


@I.ir_module
class Chain:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            lv = R.nn.relu(x)
            lv1 = R.matmul(lv, w)
            lv2 = R.add(lv1, R.const(1.5, "float32"))
            lv3 = R.matmul(lv2, w)
            gv = R.nn.relu(lv3)
            R.output(gv)
        return gv


def test_products_are_narrow_and_what_follows_if_it_goes_to_products(check):
    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                lv = R.nn.relu(x)
                x1 = R.astype(lv, dtype="float16")
                w1 = R.astype(w, dtype="float16")
                lv1 = R.matmul(x1, w1, out_dtype="float32")
                lv2 = R.add(lv1, R.const(1.5, "float32"))
                y2 = R.astype(lv2, dtype="float16")
                lv3 = R.matmul(y2, w1, out_dtype="float32")
                gv = R.nn.relu(lv3)
                R.output(gv)
            return gv

    check(ToMixedPrecision(), Chain, Expected)


def test_sums_are_rounded_behind_what_follows_them_alone(check):
    """A residual, which products read too, is narrow, and widened where it is added."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                residual = R.matmul(x, w)
                one = R.matmul(residual, w)
                other = R.matmul(residual, w)
                shifted = R.add(other, R.const([0.1], "float32"))
                both = R.add(shifted, one)
                added = R.add(residual, both)
                y = R.nn.relu(added)
                square = R.multiply(y, y)
                gv = R.matmul(square, w)
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                x1 = R.astype(x, dtype="bfloat16")
                w1 = R.astype(w, dtype="bfloat16")
                residual = R.matmul(x1, w1, out_dtype="float32")
                residual1 = R.astype(residual, dtype="bfloat16")
                one = R.matmul(residual1, w1, out_dtype="float32")
                other = R.matmul(residual1, w1, out_dtype="float32")
                shifted = R.add(other, R.const([0.1], "float32"))
                both = R.add(shifted, one)
                residual2 = R.astype(residual1, dtype="float32")
                added = R.add(residual2, both)
                y = R.nn.relu(added)
                square = R.multiply(y, y)
                square1 = R.astype(square, dtype="bfloat16")
                gv = R.matmul(square1, w1, out_dtype="float32")
                R.output(gv)
            return gv

    check(ToMixedPrecision(mixed_precision_type="bfloat16"), Before, Expected)


def test_narrow_results(check):
    """With out_dtype="bfloat16" a result that is needed in float32 is converted."""

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                lv = R.nn.relu(x)
                x1 = R.astype(lv, dtype="bfloat16")
                w1 = R.astype(w, dtype="bfloat16")
                lv1 = R.matmul(x1, w1)
                lv2 = R.add(lv1, R.const(1.5, "bfloat16"))
                lv3 = R.matmul(lv2, w1)
                y1 = R.astype(lv3, dtype="float32")
                gv = R.nn.relu(y1)
                R.output(gv)
            return gv

    check(ToMixedPrecision("bfloat16", mixed_precision_type="bfloat16"), Chain, Expected)


@pytest.mark.parametrize("narrow, tolerance", [("float16", 4e-3), ("bfloat16", 3e-2)])
@pytest.mark.parametrize("n", [0, 1, 3])
def test_results_differ_by_the_rounding_of_the_narrow_dtype(narrow, tolerance, n):
    rng = np.random.default_rng(n)
    args = [rng.uniform(-1, 1, shape).astype("float32") for shape in ((n, 4), (4, 4))]
    after = ToMixedPrecision(mixed_precision_type=narrow)(Chain)
    wanted, got = (relax.interpret(mod, "main", *args).numpy() for mod in (Chain, after))
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, wanted, atol=8 * tolerance)


def test_what_stays_in_float32(check):
    """Softmax is computed in float32, of the float32 result of the product; a mean, too, and what it goes to."""

    @I.ir_module
    class Before:
        @R.function
        def main(q: R.Tensor((2, 4), "float32"), k: R.Tensor((4, 3), "float32"), v: R.Tensor((3, 4), "float32")):
            with R.dataflow():
                s = R.matmul(q, k)
                scaled = R.multiply(s, R.const(0.5, "float32"))
                p = R.nn.softmax(scaled)
                o = R.matmul(p, v)
                m = R.mean(o, axis=[1], keepdims=True)
                gv = R.subtract(o, m)
                best = R.argmax(o, axis=1)
                R.output(gv, best)
            return (gv, best)

    @I.ir_module
    class Expected:
        @R.function
        def main(q: R.Tensor((2, 4), "float32"), k: R.Tensor((4, 3), "float32"), v: R.Tensor((3, 4), "float32")):
            with R.dataflow():
                q1 = R.astype(q, dtype="float16")
                k1 = R.astype(k, dtype="float16")
                s = R.matmul(q1, k1, out_dtype="float32")
                scaled = R.multiply(s, R.const(0.5, "float32"))
                p = R.nn.softmax(scaled)
                p1 = R.astype(p, dtype="float16")
                v1 = R.astype(v, dtype="float16")
                o = R.matmul(p1, v1, out_dtype="float32")
                m = R.mean(o, axis=[1], keepdims=True)
                gv = R.subtract(o, m)
                best = R.argmax(o, axis=1)
                R.output(gv, best)
            return (gv, best)

    check(ToMixedPrecision(), Before, Expected)


def test_tuples_are_looked_into(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                pair = (a, a)
                both = R.concat(pair, axis=1)
                parts = R.split(both, 2, axis=1)
                first = parts[0]
                gv = R.matmul(first, w)
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                x1 = R.astype(x, dtype="float16")
                w1 = R.astype(w, dtype="float16")
                a = R.matmul(x1, w1, out_dtype="float32")
                a1 = R.astype(a, dtype="float16")
                both = R.concat((a1, a1), axis=1)
                parts = R.split(both, 2, axis=1)
                first = parts[0]
                gv = R.matmul(first, w1, out_dtype="float32")
                R.output(gv)
            return gv

    check(ToMixedPrecision(), Before, Expected)


def test_narrow_parameters(check):
    """fp16_input_names change the signature; where a narrow parameter is needed in float32 it is converted."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32"), b: R.Tensor((), "bool")):
            with R.dataflow():
                lv = R.nn.relu(w)
                gv = R.matmul(x, lv)
                R.output(gv)
            if b:
                z = R.add(gv, w)
            else:
                z = R.exp(w)
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float16"), b: R.Tensor((), "bool")):
            with R.dataflow():
                lv = R.nn.relu(w)
                x1 = R.astype(x, dtype="float16")
                gv = R.matmul(x1, lv, out_dtype="float32")
                R.output(gv)
            if b:
                w1 = R.astype(w, dtype="float32")
                z = R.add(gv, w1)
            else:
                w2 = R.astype(w, dtype="float32")
                z = R.exp(w2)
            return z

    check(ToMixedPrecision(fp16_input_names=["w"]), Before, Expected)


def test_constants_that_the_narrow_dtype_does_not_hold(check):
    """1e6 is infinite in float16, and 1e-12 is zero: their operators stay in float32, but in bfloat16."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 2), "float32"), w: R.Tensor((2, 2), "float32")):
            with R.dataflow():
                lv = R.matmul(x, R.const([[1e6, 1], [1, np.inf]], "float32"))
                gv = R.add(lv, R.const(1e-12, "float32"))
                R.output(gv)
            return gv

    check(ToMixedPrecision(), Before)
    after = ToMixedPrecision("bfloat16", mixed_precision_type="bfloat16")(Before)
    assert [c.dtype for c in constants(after)] == ["bfloat16", "float32"]

    @I.ir_module
    class Vanishing:
        @R.function
        def main(x: R.Tensor((2, 2), "float32"), w: R.Tensor((2, 2), "float32")):
            with R.dataflow():
                lv = R.matmul(x, w)
                lv1 = R.maximum(lv, R.const(1e-12, "float32"))
                gv = R.matmul(lv1, w)
                R.output(gv)
            return gv

    narrow = str(ToMixedPrecision()(Vanishing))
    assert "float32" in next(line for line in narrow.splitlines() if "R.maximum" in line)


def constants(mod):
    calls = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    return [arg for call in calls for arg in call.args if isinstance(arg, relax.Constant)]


def test_programs_that_stay(check):
    """Other floats, integers, and calls outside of dataflow blocks; a local function has blocks of its own."""

    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((2, 2), "float64"), i: R.Tensor((2, 2), "int32"), y: R.Tensor((2, 2), "float32")):
            with R.dataflow():
                gv = R.matmul(x, x)
                gv1 = R.matmul(i, i)
                R.output(gv, gv1)
            z = R.matmul(y, y)
            return (gv, gv1, z)

    check(ToMixedPrecision(), Mod)


def test_a_local_function_in_a_dataflow_block():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 2), "float32")):
            with R.dataflow():

                @R.function
                def inner(y: R.Tensor((2, 2), "float32")) -> R.Tensor((2, 2), "float32"):
                    with R.dataflow():
                        gv = R.matmul(y, y)
                        R.output(gv)
                    return gv

                lv = R.matmul(x, x)
                gv1 = inner(lv)
                R.output(gv1)
            return gv1

    after = ToMixedPrecision()(Before)
    assert str(after).count('out_dtype="float32"') == 2
    x = np.array([[1, 2], [3, 4]], "float32")
    np.testing.assert_array_equal(relax.interpret(after, "main", x).numpy(), x @ x @ (x @ x))


def test_wrong_options():
    @I.ir_module
    class Calls:
        @R.function
        def main(x: R.Tensor((2, 2), "float32")):
            y = Calls.f(x)
            return y

        @R.function(private=True)
        def f(p: R.Tensor((2, 2), "float32")) -> R.Tensor((2, 2), "float32"):
            z = R.exp(p)
            return z

    with pytest.raises(DiagnosticError) as error:
        ToMixedPrecision("int8", ["q", "p"], "float8_e4m3fn")(Calls)
    text = str(error.value)
    assert "mixed_precision_type must be float16 or bfloat16, found 'float8_e4m3fn'" in text
    assert "out_dtype must be float32 or float8_e4m3fn, found 'int8'" in text
    assert "no function has a float32 parameter 'q'" in text
    assert "f is called by main, which pass float32 as 'p'" in text
