"""FuseOpsByPattern and MergeCompositeFunctions: what patterns match becomes functions, for external generators too."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.analysis import assert_well_formed
from relax.dpl import is_const, is_op, is_tuple_get_item, wildcard
from relax.ir import DiagnosticError, assert_structural_equal
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import (
    FuseOpsByPattern,
    FusionPattern,
    MergeCompositeFunctions,
    PassContext,
    Sequential,
    VerifyInstrument,
)
from support import PLAIN_LOOPS

x, w = wildcard(), wildcard()
PRODUCT = is_op("relax.matmul")(x, w)
RELU = is_op("relax.nn.relu")(PRODUCT)
ADD = is_op("relax.add")(wildcard(), is_const())


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 8), "float32"), v: R.Tensor((8, 8), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.relu(a)
            c = R.matmul(b, v)
            d = R.exp(b)
            e = R.add(c, R.const(1, "float32"))
            y = R.add(d, e)
            R.output(y)
        return y


def applied(step, mod=Model):
    """The module after a pass that keeps its promises, changes nothing the second time, and keeps results."""
    with PassContext(instruments=[VerifyInstrument(assert_well_formed)]):
        after = step(mod)
        assert step(after) is after
    for n in (0, 1, 3):
        args = [np.random.default_rng(n).random(shape, "float32") for shape in ((n, 4), (4, 8), (8, 8))]
        expected = relax.interpret(mod, "main", *args).numpy()
        np.testing.assert_allclose(relax.interpret(after, "main", *args).numpy(), expected, rtol=1e-6)
    return after


def names(mod):
    return [g.name_hint for g in mod.functions]


def called(mod):
    """What main calls, by variable."""
    bindings = mod["main"].body.blocks[0].bindings
    calls = {b.var.name_hint: b.value.op for b in bindings if isinstance(b.value, relax.Call)}
    return {var: getattr(op, "name_hint", getattr(op, "name", "")) for var, op in calls.items()}


def test_matches_become_functions():
    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 8), "float32"), v: R.Tensor((8, 8), "float32")):
            cls = Expected
            with R.dataflow():
                b = cls.fused_relax_matmul_relax_nn_relu(x, w)
                c = R.matmul(b, v)
                d = R.exp(b)
                e = cls.fused_relax_add(c)
                y = R.add(d, e)
                R.output(y)
            return y

        @R.function(private=True)
        def fused_relax_matmul_relax_nn_relu(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 8), "float32")):
            R.func_attr({"Composite": "lib.dense", "Primitive": 1})
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.nn.relu(a)
                R.output(b)
            return b

        @R.function(private=True)
        def fused_relax_add(c: R.Tensor(("n", 8), "float32")):
            R.func_attr({"Composite": "lib.add", "Primitive": 1})
            with R.dataflow():
                e = R.add(c, R.const(1, "float32"))
                R.output(e)
            return e

    after = applied(FuseOpsByPattern([("lib.dense", RELU), ("lib.add", ADD)]))
    assert_structural_equal(after, Expected)


def test_constants_become_parameters():
    after = applied(FuseOpsByPattern([("lib.add", ADD)], bind_constants=False))
    assert len(after["fused_relax_add"].params) == 2
    call = after["main"].body.blocks[0].bindings[4].value
    assert isinstance(call.args[1], relax.Constant)


def test_earlier_patterns_come_first_and_later_bindings():
    longest_first = FuseOpsByPattern([("lib.relu", RELU), ("lib.matmul", PRODUCT)])
    assert called(applied(longest_first)) == {
        "b": "fused_relax_matmul_relax_nn_relu", "c": "fused_relax_matmul",
        "d": "relax.exp", "e": "relax.add", "y": "relax.add",
    }  # fmt: skip
    shortest_first = FuseOpsByPattern([("lib.matmul", PRODUCT), ("lib.relu", RELU)])
    assert called(applied(shortest_first))["b"] == "relax.nn.relu"
    optional = PRODUCT.optional(lambda out: is_op("relax.nn.relu")(out))
    assert called(applied(FuseOpsByPattern([("lib.dense", optional)])))["b"].endswith("relu")


def test_a_check_sees_the_match():
    contexts = []

    def check(context):
        contexts.append(context)
        return context.annotated_expr["w"].name_hint == "v"

    pattern = FusionPattern(
        "lib.matmul", PRODUCT, {"x": x, "w": w, "root": PRODUCT}, check, lambda parts: {"inputs": sorted(parts)}
    )
    after = FuseOpsByPattern([pattern])(Model)
    assert called(after)["c"] == "fused_relax_matmul"
    assert called(after)["a"] == "relax.matmul"
    assert list(after["fused_relax_matmul"].attrs["inputs"]) == ["root", "w", "x"]
    context = next(c for c in contexts if c.annotated_expr["w"].name_hint == "v")
    root = context.annotated_expr["root"]
    assert context.matched_expr is root
    assert context.value_to_bound_var[root].name_hint == "c"
    assert [var.name_hint for var in context.matched_bindings] == ["c"]
    usages = {var.name_hint: [user.name_hint for user in users] for var, users in context.var_usages.items()}
    assert usages["b"] == ["c", "d"]


def test_results_that_others_read_are_not_hidden():
    exp = is_op("relax.exp")(is_op("relax.nn.relu")(wildcard()))
    assert FuseOpsByPattern([("lib.exp", exp)])(Model) is Model


def test_tuples_and_fields_are_members():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 8), "float32"), v: R.Tensor((8, 8), "float32")):
            with R.dataflow():
                parts = R.split(v, 2, axis=1)
                first = parts[0]
                y = R.exp(first)
                R.output(y)
            return y

    first = is_tuple_get_item(is_op("relax.split")(wildcard()), 0)
    after = applied(FuseOpsByPattern([("lib.first", is_op("relax.exp")(first))]), Before)
    assert called(after) == {"y": "fused_relax_split_relax_exp"}


def test_sizes_that_no_argument_tells_are_passed():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 8), "float32"), v: R.Tensor((8, 8), "float32")):
            n = T.int64()
            with R.dataflow():
                ones = R.full(R.shape([n, 2]), R.const(1, "float32"), "float32")
                y = R.exp(ones)
                R.output(y)
            return y

    full = is_op("relax.full")(wildcard(), wildcard())
    after = applied(FuseOpsByPattern([("lib.ones", is_op("relax.exp")(full))]), Before)
    call = after["main"].body.blocks[0].bindings[0].value
    assert isinstance(call.args[-1], relax.ShapeExpr)


def test_entry_functions_are_chosen():
    assert FuseOpsByPattern([("lib.dense", RELU)], entry_functions=["main"])(Model) is not Model
    with pytest.raises(DiagnosticError, match="FuseOpsByPattern: entry function 'mian' is not in the module"):
        FuseOpsByPattern([("lib.dense", RELU)], entry_functions=["mian"])(Model)


def test_a_program_of_composites_is_built():
    step = Sequential([FuseOpsByPattern([("lib.dense", RELU), ("lib.add", ADD)]), MergeCompositeFunctions()])
    args = [np.random.default_rng(0).random(shape, "float32") for shape in ((3, 4), (4, 8), (8, 8))]
    got = relax.VirtualMachine(relax.build(step(Model), PLAIN_LOOPS), relax.cpu())["main"](*args)
    np.testing.assert_allclose(got.numpy(), relax.interpret(Model, "main", *args).numpy(), rtol=1e-5)


# --------------------------------------------------------------------------------- external generators


def test_functions_are_wrapped_for_a_generator():
    after = applied(FuseOpsByPattern([("lib.dense", RELU)], annotate_codegen=True))
    assert names(after) == ["main", "fused_relax_matmul_relax_nn_relu_lib"]
    wrapper = after["fused_relax_matmul_relax_nn_relu_lib"]
    assert wrapper.attrs["Codegen"] == "lib"
    assert wrapper.attrs["global_symbol"] == "fused_relax_matmul_relax_nn_relu_lib"
    local = wrapper.body.blocks[0].bindings[0].value
    assert local.attrs == {"Composite": "lib.dense", "Primitive": 1}


def merged(*patterns, mod=Model):
    return applied(Sequential([FuseOpsByPattern(patterns), MergeCompositeFunctions()]), mod)


def test_neighbours_of_one_generator_are_merged():
    after = merged(("lib.dense", RELU), ("lib.matmul", PRODUCT), ("lib.add", ADD))
    assert len(names(after)) == 2
    function = after[names(after)[1]]
    assert function.attrs["Codegen"] == "lib"
    local = [b.value for b in function.body.blocks[0].bindings]
    assert [f.attrs["Composite"] for f in local] == ["lib.dense", "lib.matmul", "lib.add"]
    # b is read outside as well
    assert [getattr(i, "name_hint", "") for i in function.body.body.fields] == ["b", "e"]


def test_neighbours_of_different_generators_stay_apart():
    after = merged(("lib.dense", RELU), ("other.matmul", PRODUCT), ("lib.add", ADD))
    codegens = [f.attrs.get("Codegen") for f in after.functions.values()]
    assert sorted(map(str, codegens)) == ["None", "lib", "lib", "other"]


def test_a_group_never_depends_on_itself_over_others():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 8), "float32"), v: R.Tensor((8, 8), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.exp(a)
                c = R.matmul(b, v)
                d = R.subtract(a, c)
                R.output(d)
            return d

    difference = is_op("relax.subtract")(wildcard(), wildcard())
    after = merged(("lib.matmul", PRODUCT), ("lib.subtract", difference), mod=Before)
    # a and d would be joined directly, but for c, which needs b, which needs a.
    assert list(called(after).values()) == [
        "fused_relax_matmul_lib", "relax.exp", "fused_relax_matmul1_fused_relax_subtract_lib"
    ]  # fmt: skip


def test_a_module_without_composites_stays():
    assert MergeCompositeFunctions()(Model) is Model
