"""Passes over weights: LiftTransformParams, LazyTransformParams and kin, BundleModelParams, layout-free buffers."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.ir import DiagnosticError
from relax.script import ir as I
from relax.script import relax as R
from relax.transform import (
    AttachAttrLayoutFreeBuffers,
    BundleModelParams,
    LazyGetInput,
    LazySetOutput,
    LazyTransformParams,
    LegalizeOps,
    LiftTransformParams,
)
from support import PLAIN_LOOPS


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), w1: R.Tensor((4, 3), "float32"), w2: R.Tensor(("k",), "float32")):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            zero = R.zeros((3, 4), "float32")
            lv = R.permute_dims(w1)
            lv1 = R.add(lv, zero)
            lv2 = R.matmul(x, lv1)
            gv = R.add(lv2, R.sum(w2))
            R.output(gv)
        return (gv, w2)


def arrays(*shapes):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype("float32") for shape in shapes]


def equal(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)


@pytest.mark.parametrize("n, k", [(2, 3), (0, 1), (1, 0)])
def test_what_depends_on_weights_is_lifted(check, n, k):
    @I.ir_module
    class Expected:
        @R.function
        def main(
            x: R.Tensor(("n", 3), "float32"),
            w2: R.Tensor(("k",), "float32"),
            lv1: R.Tensor((3, 4), "float32"),
            s: R.Tensor((), "float32"),
        ):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                lv2 = R.matmul(x, lv1)
                gv = R.add(lv2, s)
                R.output(gv)
            return (gv, w2)

        @R.function
        def main_transform_params(params: R.Tuple(R.Tensor((4, 3), "float32"), R.Tensor(("k",), "float32"))):
            R.func_attr({"num_input": 0})
            with R.dataflow():
                w1 = params[0]
                w2 = params[1]
                zero = R.zeros((3, 4), "float32")
                lv = R.permute_dims(w1)
                lv1 = R.add(lv, zero)
                s = R.sum(w2)
                gv = (w2, lv1, s)
                R.output(gv)
            return gv

    after = check(LiftTransformParams(), Model, Expected)
    x, *weights = arrays((n, 3), (4, 3), (k,))
    lifted = relax.interpret(after, "main_transform_params", tuple(weights))
    equal(relax.interpret(after, "main", x, *lifted), relax.interpret(Model, "main", x, *weights))


@I.ir_module
class Shared:
    @R.function
    def prefill(x: R.Tensor(("n", 3), "float32"), w: R.Tensor((4, "m"), "float32")):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            lv = R.permute_dims(w)
            lv1 = R.exp(lv)
            gv = (x, lv1)
            R.output(gv)
        return gv

    @R.function
    def decode(x: R.Tensor((1, 3), "float32"), v: R.Tensor((4, "k"), "float32")):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            a = R.permute_dims(v)
            b = R.sin(a)
            gv = (x, b)
            R.output(gv)
        return gv


@pytest.mark.parametrize("shared", [True, ["prefill", "decode"], []])
def test_functions_share_what_all_of_them_compute(check, shared):
    @I.ir_module
    class Expected:
        @R.function
        def prefill(x: R.Tensor(("n", 3), "float32"), lv: R.Tensor(("m", 4), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                lv1 = R.exp(lv)
                gv = (x, lv1)
                R.output(gv)
            return gv

        @R.function
        def decode(x: R.Tensor((1, 3), "float32"), a: R.Tensor(("k", 4), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                b = R.sin(a)
                gv = (x, b)
                R.output(gv)
            return gv

        @R.function
        def transform_params(params: R.Tuple(R.Tensor((4, "m"), "float32"))):
            R.func_attr({"num_input": 0})
            with R.dataflow():
                w = params[0]
                lv = R.permute_dims(w)
                gv = (lv,)
                R.output(gv)
            return gv

    check(LiftTransformParams(shared_transform=shared), Shared, Expected)


def test_a_weight_that_tells_a_size_stays():
    """Of w only the sum is left; the size n that it tells is needed by x, which says 2 * n."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("2 * n",), "float32"), w: R.Tensor(("n",), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                s = R.sum(w)
                gv = R.multiply(x, s)
                R.output(gv)
            return gv

    after = LiftTransformParams()(Before)
    relax.analysis.assert_well_formed(after)
    assert [param.name_hint for param in after["main"].params] == ["x", "w", "s"]


def test_what_is_not_lifted(check):
    """stop_lift_params, match_casts, and what is outside of dataflow blocks."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3,), "float32"), w: R.Tensor((3,), "float32"), u: R.Tensor("float32", ndim=1)):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                a = R.builtin.stop_lift_params(w)
                b = R.exp(a)
                c = R.match_cast(u, R.Tensor((3,), "float32"))
                gv = R.add(b, R.add(c, x))
                R.output(gv)
            d = R.exp(w)
            return (gv, d)

    after = LiftTransformParams()(Before)
    assert [param.name_hint for param in after["main"].params] == ["x", "w", "u"]
    relax.ir.assert_structural_equal(after["main"], Before["main"])


def test_wrong_functions():
    with pytest.raises(DiagnosticError) as error:
        LiftTransformParams(shared_transform=["prefill", "other"])(Shared)
    assert "LiftTransformParams: other: no function with the attribute num_input" in str(error.value)

    @I.ir_module
    class Wrong:
        @R.function
        def f(x: R.Tensor((3,), "float32")):
            R.func_attr({"num_input": 2})
            return x

        @R.function
        def g(x: R.Tensor((3,), "float32"), w: R.Tensor((3,), "float32")):
            R.func_attr({"num_input": 1})
            y = R.add(x, w)
            return y

        @R.function
        def h(x: R.Tensor((3,), "float32")):
            y = Wrong.g(x, x)
            return y

    with pytest.raises(DiagnosticError) as error:
        BundleModelParams()(Wrong)
    assert "BundleModelParams: num_input of f is 2, of 1 parameters" in str(error.value)
    right = relax.IRModule({g: f for g, f in Wrong.functions.items() if g.name_hint != "f"})
    for step in (BundleModelParams(), LazyGetInput(), LiftTransformParams()):
        with pytest.raises(DiagnosticError, match="g is called by h, which pass all its parameters"):
            step(right)
    unlike = relax.IRModule({**right.functions, relax.GlobalVar("prefill"): Shared["prefill"]})
    with pytest.raises(DiagnosticError, match="prefill does not take the weights that the others take"):
        LiftTransformParams(True)(
            unlike.with_functions({g: f for g, f in unlike.functions.items() if g.name_hint != "h"})
        )


def test_weights_in_a_tuple(check):
    @I.ir_module
    class Expected:
        @R.function
        def main(
            x: R.Tensor(("n", 3), "float32"),
            model_params: R.Tuple(R.Tensor((4, 3), "float32"), R.Tensor(("k",), "float32")),
        ):
            R.func_attr({"num_input": 1})
            w1 = model_params[0]
            w2 = model_params[1]
            with R.dataflow():
                zero = R.zeros((3, 4), "float32")
                lv = R.permute_dims(w1)
                lv1 = R.add(lv, zero)
                lv2 = R.matmul(x, lv1)
                gv = R.add(lv2, R.sum(w2))
                R.output(gv)
            return (gv, w2)

    after = check(BundleModelParams(), Model, Expected)
    x, *weights = arrays((2, 3), (4, 3), (5,))
    equal(relax.interpret(after, "main", x, tuple(weights)), relax.interpret(Model, "main", x, *weights))
    named = BundleModelParams("weights")(Model)
    assert named["main"].params[1].name_hint == "weights"


def test_lazy_parameters(check):
    """Each weight is asked for when it, or the size that it tells, is first used; one that is not used is not."""

    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((3,), "float32"),
            unused: R.Tensor((9,), "float32"),
            a: R.Tensor((3,), "float32"),
            b: R.Tensor(("n",), "float32"),
        ):
            R.func_attr({"num_input": 1})
            n = relax.tir.Var("n", "int64")
            with R.dataflow():
                y = R.add(x, a)
                z = R.zeros((n,), "float32")
                gv = R.add(z, b)
                R.output(y, gv)
            return (y, gv)

    @I.ir_module
    class Expected:
        @R.function(pure=False)
        def main(x: R.Tensor((3,), "float32"), fget_param: R.Callable(ret=R.Object, purity=False)):
            R.func_attr({"num_input": 2})
            n = relax.tir.Var("n", "int64")
            a_untyped = fget_param(R.prim_value(1), R.str("a"))
            a = R.match_cast(a_untyped, R.Tensor((3,), "float32"))
            y = R.add(x, a)
            b_untyped = fget_param(R.prim_value(2), R.str("b"))
            b = R.match_cast(b_untyped, R.Tensor((n,), "float32"))
            z = R.zeros((n,), "float32")
            gv = R.add(z, b)
            return (y, gv)

    after = check(LazyGetInput(), Before, Expected)
    asked = []
    x, *weights = arrays((3,), (9,), (3,), (2,))

    def get(index, name):
        asked.append((index, name))
        return relax.nd.array(weights[index])

    vm = relax.VirtualMachine(relax.build(after, PLAIN_LOOPS), relax.cpu())
    equal(vm["main"](x, get), relax.interpret(Before, "main", x, *weights))
    assert asked == [(1, "a"), (2, "b")]


def test_lazy_results(check):
    """Results are handed over as soon as they are there; a parameter and a value returned twice, too."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3,), "float32")):
            with R.dataflow():
                y = R.exp(x)
                z = R.sin(y)
                R.output(y, z)
            return (z, y, x, y)

    @I.ir_module
    class Expected:
        @R.function(pure=False)
        def main(x: R.Tensor((3,), "float32"), fset_output: R.Callable(ret=R.Object, purity=False)) -> R.Tuple([]):
            y = R.exp(x)
            _ = fset_output(R.prim_value(1), y)
            _1 = fset_output(R.prim_value(3), y)
            z = R.sin(y)
            _2 = fset_output(R.prim_value(0), z)
            _3 = fset_output(R.prim_value(2), x)
            return ()

    after = check(LazySetOutput(), Before, Expected)
    (x,) = arrays((3,))
    results = {}
    vm = relax.VirtualMachine(relax.build(after, PLAIN_LOOPS), relax.cpu())
    vm["main"](x, results.__setitem__)
    equal([results[i] for i in range(4)], relax.interpret(Before, "main", x))


def test_a_result_that_the_function_reads_itself():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3,), "float32")):
            y = R.exp(x)
            pair = (y, x)
            z = pair[0]
            return pair

    after = LazySetOutput()(Before)
    relax.analysis.assert_well_formed(after)
    (x,) = arrays((3,))
    results = {}
    relax.VirtualMachine(relax.build(after, PLAIN_LOOPS), relax.cpu())["main"](x, results.__setitem__)
    equal([results[0], results[1]], [relax.nd.array(np.exp(x)), relax.nd.array(x)])


def test_weights_transformed_one_by_one():
    lifted = LiftTransformParams()(Model)
    after = LazyTransformParams("test_lazy.get", "test_lazy.set")(lifted)
    relax.analysis.assert_well_formed(after)
    assert LazyTransformParams("test_lazy.get", "test_lazy.set")(after) is after
    text = after["main_transform_params"].script()
    calls = [line for line in text.splitlines() if "test_lazy" in line]
    assert ["get" if ".get" in line else "set" for line in calls] == ["get", "set", "get", "set", "set"]
    assert text.count("R.vm.kill_object") == 8  # two weights, as objects and as tensors, and four values
    weights = arrays((4, 3), (5,))
    results = {}
    relax.register_func("test_lazy.get", lambda i: relax.nd.array(weights[i]), override=True)
    relax.register_func("test_lazy.set", lambda i, value: results.__setitem__(i, value), override=True)
    vm = relax.VirtualMachine(relax.build(after, PLAIN_LOOPS), relax.cpu())
    vm["main_transform_params"]()
    equal([results[i] for i in range(3)], relax.interpret(lifted, "main_transform_params", tuple(weights)))


def test_loading_only_and_extra_parameters():
    rank = relax.Var("rank", relax.PrimStructInfo("int64"))
    lifted = LiftTransformParams()(Model)
    after = LazyTransformParams("test_lazy.get2", None, extra_get_item_params=[rank])(lifted)
    relax.analysis.assert_well_formed(after)
    assert [param.name_hint for param in after["main_transform_params"].params] == ["rank"]
    weights = arrays((4, 3), (5,))
    relax.register_func("test_lazy.get2", lambda r, i: relax.nd.array(weights[i] * r), override=True)
    wanted = relax.interpret(lifted, "main_transform_params", (weights[0] * 2, weights[1] * 2))
    vm = relax.VirtualMachine(relax.build(after, PLAIN_LOOPS), relax.cpu())
    equal(vm["main_transform_params"](2), wanted)


def test_layout_free_buffers(check):
    """A kernel that gets weights in different places becomes two; one that gets none stays."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 2), "float32"), w: R.Tensor((2, 2), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.matmul(w, a)
                c = R.matmul(a, b)
                gv = R.matmul(c, R.const(np.eye(2, dtype="float32")))
                R.output(gv)
            return gv

    legal = LegalizeOps()(Before)
    after = AttachAttrLayoutFreeBuffers()(legal)
    relax.analysis.assert_well_formed(after)
    assert AttachAttrLayoutFreeBuffers()(after) is after
    free = {
        g.name_hint: f.attrs.get("layout_free_buffers") for g, f in after.functions.items() if g.name_hint != "main"
    }
    assert sorted(map(str, free.values())) == ["(0,)", "(1,)", "None"]
    vm = relax.VirtualMachine(relax.build(after, PLAIN_LOOPS), relax.cpu())
    x, w = arrays((2, 2), (2, 2))
    np.testing.assert_allclose(
        vm["main"](x, w).numpy(), relax.interpret(Before, "main", x, w).numpy(), rtol=1e-4, atol=1e-5
    )
