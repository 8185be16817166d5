"""rewrite_call and rewrite_bindings: what matched is replaced; what a callback builds may refer to what matched."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import op
from relax.analysis import well_formed
from relax.dpl import (
    PatternContext,
    is_const,
    is_op,
    is_tuple_get_item,
    is_var,
    rewrite_bindings,
    rewrite_call,
    wildcard,
)
from relax.ir import assert_structural_equal
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T

a, b = wildcard(), wildcard()
total = is_op("relax.add")(a, b)


def product(_, matched):
    return op.multiply(matched[a], matched[b])


def as_module(func):
    return relax.IRModule({"main": func.with_attr("global_symbol", "main")})


def results(func, *args):
    """What a function gives, as a list of arrays."""
    value = relax.interpret(as_module(func), "main", *args)
    return [part.numpy() for part in (value if hasattr(value, "__len__") and not hasattr(value, "numpy") else [value])]


def same(found, expected):
    """The function is the expected one, but for its name, and well-formed."""
    assert well_formed(as_module(found))
    assert_structural_equal(found, expected.with_attr("global_symbol", found.attrs["global_symbol"]))


def test_calls_are_replaced_in_the_order_of_evaluation():
    @R.function
    def before(x: R.Tensor(("n", 4), "float32")):
        with R.dataflow():
            u = R.add(x, x)
            v = R.add(u, x)
            R.output(v)
        return R.exp(R.add(v, v))

    @R.function
    def expected(x: R.Tensor(("n", 4), "float32")):
        with R.dataflow():
            u = R.multiply(x, x)
            v = R.multiply(u, x)
            R.output(v)
        return R.exp(R.multiply(v, v))

    same(rewrite_call(total, product, before), expected)


def test_what_a_callback_keeps_changes_nothing():
    @R.function
    def before(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool")):
        with R.dataflow():
            unused = R.exp(x)
            u = R.add(x, x)
            R.output(u)
        if c:
            v = R.add(u, u)
        else:
            v = u
        return v

    assert rewrite_call(total, lambda expr, _: expr, before) is before
    assert rewrite_call(is_op("relax.sigmoid")(wildcard()), product, before) is before


def test_values_are_looked_through_and_dropped_when_unused():
    @R.function
    def before(x: R.Tensor(("n", 4), "float32")):
        with R.dataflow():
            u = R.exp(x)
            v = R.log(u)
            w = R.exp(x)
            y = R.log(w)
            gv = R.add(R.add(v, y), w)
            R.output(gv)
        return gv

    @R.function
    def expected(x: R.Tensor(("n", 4), "float32")):
        with R.dataflow():
            v = x
            w = R.exp(x)
            y = x
            gv = R.add(R.add(v, y), w)
            R.output(gv)
        return gv

    x = wildcard()
    undone = is_op("relax.log")(is_op("relax.exp")(x))
    same(rewrite_call(undone, lambda _, matched: matched[x], before), expected)


def test_struct_info_follows_what_a_callback_gives():
    @R.function
    def before(x: R.Tensor(("n", 4), "float32")):
        with R.dataflow():
            u = R.sum(x, axis=[1])
            gv = R.sum(u)
            R.output(gv)
        return gv

    @R.function
    def expected(x: R.Tensor(("n", 4), "float32")):
        with R.dataflow():
            u = R.sum(x, axis=[1], keepdims=True)
            gv = R.sum(u)
            R.output(gv)
        return gv

    x = wildcard()
    pattern = is_op("relax.sum")(x).has_attr({"axis": [1]})
    same(rewrite_call(pattern, lambda _, matched: op.sum(matched[x], axis=[1], keepdims=True), before), expected)


def test_branches_and_local_functions_are_rewritten():
    @R.function
    def before(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
        @R.function
        def inner(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return R.add(y, x)

        if c:
            u = R.add(x, x)
            v = inner(u)
        else:
            v = inner(x)
        return v

    @R.function
    def expected(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
        @R.function
        def inner(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return R.multiply(y, x)

        if c:
            u = R.multiply(x, x)
            v = inner(u)
        else:
            v = inner(x)
        return v

    same(rewrite_call(total, product, before), expected)


def test_tuples_and_their_fields_are_matched():
    @R.function
    def before(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            t = R.split(x, 2)
            u = t[0]
            gv = R.exp(u)
            R.output(gv)
        return gv

    x = wildcard()
    first = is_tuple_get_item(is_op("relax.split")(x), 0)
    half = lambda _, matched: op.strided_slice(matched[x], [0], [0], [2])  # noqa: E731

    @R.function
    def expected(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            u = R.strided_slice(x, [0], [0], [2])
            gv = R.exp(u)
            R.output(gv)
        return gv

    same(rewrite_call(first, half, before), expected)


UNDO_EXP = is_op("relax.log")(is_op("relax.exp")(a))


def test_a_value_is_not_looked_through_where_it_could_have_changed():
    @R.function(pure=False)
    def before(x: R.Tensor((4,), "float32")):
        u = R.exp(x)
        _ = R.call_packed("lib.change", x, sinfo_args=R.Object)
        v = R.log(u)
        return v

    assert rewrite_call(UNDO_EXP, lambda _, matched: matched[a], before) is before


def test_a_value_is_not_looked_through_to_variables_out_of_scope():
    @R.function
    def before(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            hidden = R.negative(x)
            u = R.exp(hidden)
            R.output(u)
        v = R.log(u)
        return v

    assert rewrite_call(UNDO_EXP, lambda _, matched: matched[a], before) is before

    @R.function
    def seen(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            u = R.exp(x)
            R.output(u)
        v = R.log(u)
        return v

    after = rewrite_call(UNDO_EXP, lambda _, matched: matched[a], seen)
    assert after is not seen
    assert well_formed(as_module(after))


def test_constants_are_matched_through_variables():
    @R.function
    def before(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            c = R.const([1, 2], "float32")
            gv = R.add(x, c)
            R.output(gv)
        return gv

    c = is_const()
    doubled = lambda _, m: op.multiply(m[a], relax.const([2, 4], "float32"))  # noqa: E731
    after = rewrite_call(is_op("relax.add")(c, a), doubled, before)
    got = results(after, np.float32([3, 5]))[0]
    np.testing.assert_array_equal(got, [6, 20])


# ------------------------------------------------------------------------------------------ bindings


@R.function
def projections(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 2), "float32"), v: R.Tensor((4, 2), "float32")):
    with R.dataflow():
        q = R.matmul(x, w)
        doubled = R.add(v, v)
        k = R.matmul(x, doubled)
        gv = (q, k)
        R.output(gv)
    return gv


def combining():
    """A context of two products of one operand, and the callback that combines them."""
    with PatternContext() as context:
        x, first, second = wildcard(), wildcard(), wildcard()
        q, k = is_op("relax.matmul")(x, first), is_op("relax.matmul")(x, second)

    def combine(matched, values):
        assert values[matched[q]].op.name == "relax.matmul"
        both = op.matmul(matched[x], op.concat([matched[first], matched[second]], axis=1))
        return {matched[q]: op.strided_slice(both, [1], [0], [2]), matched[k]: op.strided_slice(both, [1], [2], [4])}

    return context, combine


def test_bindings_are_combined_behind_all_that_they_need():
    @R.function
    def expected(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 2), "float32"), v: R.Tensor((4, 2), "float32")):
        with R.dataflow():
            doubled = R.add(v, v)
            lv = R.concat((w, doubled), axis=1)
            lv1 = R.matmul(x, lv)
            q = R.strided_slice(lv1, [1], [0], [2])
            k = R.strided_slice(lv1, [1], [2], [4])
            gv = (q, k)
            R.output(gv)
        return gv

    after = rewrite_bindings(*combining(), projections)
    same(after, expected)
    rng = np.random.default_rng(0)
    for n in (0, 1, 3):
        args = [rng.random(shape, "float32") for shape in ((n, 4), (4, 2), (4, 2))]
        for before, now in zip(results(projections, *args), results(after, *args), strict=True):
            np.testing.assert_allclose(now, before, rtol=1e-6)


def test_bindings_are_rewritten_until_no_more_match():
    @R.function
    def before(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            p = R.exp(x)
            q = R.exp(p)
            r = R.exp(q)
            R.output(r)
        return r

    @R.function
    def expected(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            p = R.sigmoid(x)
            q = R.sigmoid(p)
            r = R.sigmoid(q)
            R.output(r)
        return r

    with PatternContext() as context:
        exp = is_op("relax.exp")(a)
    calls = []

    def replace(matched, values):
        calls.append(matched[exp])
        return {matched[exp]: op.sigmoid(matched[a])}

    same(rewrite_bindings(context, replace, before), expected)
    assert [var.name_hint for var in calls] == ["p", "q", "r"]
    assert rewrite_bindings(context, lambda matched, values: {}, before) is before


def test_a_block_that_changes_a_tensor_is_left_alone():
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def double(x: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("x"):
                    vi = T.axis.spatial(4, i)
                    x[vi] = x[vi] * T.float32(2)

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            cls = Module
            with R.dataflow():
                p = R.exp(x)
                q = R.call_tir_inplace(cls.double, (p,), inplace_indices=[0], out_sinfo=[R.Tensor((4,), "float32")])
                r = R.exp(q)
                R.output(r)
            return r

    with PatternContext() as context:
        exp = is_op("relax.exp")(a)
    main = Module["main"]
    assert rewrite_bindings(context, lambda m, _: {m[exp]: op.sigmoid(m[a])}, main) is main


@pytest.mark.parametrize(
    "values, message",
    [
        (lambda m, x: {relax.Var("other"): x}, "the block does not bind other"),
        (lambda m, x: {m[total]: op.exp(m[total])}, "the value of gv depends on itself"),
    ],
)
def test_wrong_replacements_are_refused(values, message):
    @R.function
    def func(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            gv = R.add(x, x)
            R.output(gv)
        return gv

    with PatternContext() as context:
        x = is_op("relax.add")(a, b)
    with pytest.raises(ValueError, match=message):
        rewrite_bindings(context, lambda m, _: values({**m, total: m[x]}, func.params[0]), func)


def test_a_parameter_is_matched_again():
    @R.function
    def before(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            p = R.exp(x)
            q = R.exp(x)
            gv = (p, q)
            R.output(gv)
        return gv

    @R.function
    def expected(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            p = R.sigmoid(x)
            q = R.sigmoid(x)
            gv = (p, q)
            R.output(gv)
        return gv

    with PatternContext() as context:
        exp = is_op("relax.exp")(a)
        is_var("x").used_by(exp)
    same(rewrite_bindings(context, lambda matched, _: {matched[exp]: op.sigmoid(matched[a])}, before), expected)


def test_values_of_a_callback_are_not_matched():
    @R.function
    def before(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            p = R.exp(x)
            q = R.exp(p)
            R.output(q)
        return q

    @R.function
    def expected(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            lv = R.exp(x)
            p = R.log(lv)
            lv1 = R.exp(p)
            q = R.log(lv1)
            R.output(q)
        return q

    with PatternContext() as context:
        exp = is_op("relax.exp")(a)
    same(rewrite_bindings(context, lambda matched, _: {matched[exp]: op.log(op.exp(matched[a]))}, before), expected)
