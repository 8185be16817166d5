"""PatternContext: several patterns found together in a block."""

from __future__ import annotations

from relax.dpl import (
    PatternContext,
    SameShapeConstraint,
    is_call_tir,
    is_const,
    is_op,
    is_tuple_get_item,
    is_var,
    wildcard,
)
from relax.script import relax as R


@R.function
def diamond(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
    with R.dataflow():
        a = R.matmul(x, w)
        b = R.nn.relu(a)
        c = R.sigmoid(a)
        d = R.add(b, c)
        R.output(d)
    return d


@R.function
def chains(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
    with R.dataflow():
        a = R.exp(x)
        b = R.nn.relu(a)
        c = R.exp(y)
        d = R.nn.relu(c)
        e = R.exp(x)
        f = R.nn.relu(e)
        h = R.negative(e)
        gv = (b, d, f, h)
        R.output(gv)
    return gv


def block(func):
    return func.body.blocks[0]


def found(context, func, **options):
    """The names of what each pattern matched, in the order in which the patterns were made."""
    matched = context.match_dfb(block(func), **options)
    return None if matched is None else [matched[p].name_hint for p in context.rules.wholes]


def variable(func, name):
    return next(b.var for b in block(func).bindings if b.var.name_hint == name)


def test_a_diamond():
    with PatternContext() as context:
        product = is_op("relax.matmul")(wildcard(), wildcard())
        relu, sigmoid = is_op("relax.nn.relu")(wildcard()), is_op("relax.sigmoid")(wildcard())
        total = is_op("relax.add")(wildcard(), wildcard())
        product.fork_to(relu, sigmoid)
        relu.used_by(total, 0)
        sigmoid.used_by(total, 1)
    assert found(context, diamond) == ["a", "b", "c", "d"]
    with context:
        sigmoid.used_by(total, 0)
    assert context.match_dfb(block(diamond)) is None


def test_chains_with_one_user():
    with PatternContext() as context:
        is_op("relax.exp")(wildcard()) >> is_op("relax.nn.relu")(wildcard())
    assert found(context, chains) == ["a", "b"]
    assert found(context, chains, start_hint=variable(chains, "d")) == ["c", "d"]
    hint = variable(chains, "f")  # e has another user
    assert found(context, chains, start_hint=hint) == ["a", "b"]
    assert found(context, chains, start_hint=hint, must_include_hint=True) is None
    with PatternContext() as context:
        is_op("relax.exp")(wildcard()) ^ is_op("relax.nn.relu")(wildcard())
    assert found(context, chains, start_hint=hint) == ["e", "f"]


def test_two_chains_from_one_parameter():
    with PatternContext() as context:
        first = is_op("relax.exp")(wildcard()) ^ is_op("relax.nn.relu")(wildcard())
        second = first.dup()
        assert first[0] is not second[0]
        is_var("x").fork_to(first, second)
    matched = context.match_dfb(block(chains))
    assert [matched[p].name_hint for p in (*first, *second)] == ["a", "b", "e", "f"]
    with PatternContext() as context:
        first = is_op("relax.exp")(wildcard()) ^ is_op("relax.nn.relu")(wildcard())
        is_var("y").fork_to(first, first.dup())
    assert context.match_dfb(block(chains)) is None


def test_a_result_that_leaves_the_block_has_other_users():
    @R.function
    def leaves(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.nn.relu(a)
            R.output(a, b)
        return (a, b)

    with PatternContext() as context:
        is_op("relax.exp")(wildcard()) >> is_op("relax.nn.relu")(wildcard())
    assert context.match_dfb(block(leaves)) is None


def test_nested_contexts_go_on():
    with PatternContext() as outer:
        exp = is_op("relax.exp")(is_var("x"))
        with PatternContext(incremental=True) as inner:
            exp.used_by(is_op("relax.negative")(wildcard()))
        with PatternContext() as other:
            is_op("relax.exp")(is_var("y"))
    assert found(outer, chains) == ["a"]
    assert found(inner, chains) == ["e", "h"]
    assert found(other, chains) == ["c"]


def test_parts_are_found_with_the_whole():
    with PatternContext() as context:
        x = wildcard()
        product = is_op("relax.matmul")(x, wildcard())
        relu = is_op("relax.nn.relu")(product)
        either = is_op("relax.add")(relu, is_op("relax.exp")(product) | is_op("relax.sigmoid")(product))
    matched = context.match_dfb(block(diamond))
    assert list(context.rules.wholes) == [either]
    assert [matched[p].name_hint for p in (x, product, relu, either)] == ["x", "a", "b", "d"]


def test_shapes_that_agree():
    @R.function
    def sizes(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("m", 4), "float32"), z: R.Tensor(("m", 4), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.exp(y)
            c = R.exp(z)
            gv = (a, b, c)
            R.output(gv)
        return gv

    with PatternContext() as context:
        first, second = is_op("relax.exp")(wildcard()), is_op("relax.exp")(wildcard())
        SameShapeConstraint(first, second)
    assert found(context, sizes) == ["b", "c"]
    with PatternContext() as context:
        first.same_shape_as(is_op("relax.exp")(is_var("x")))
        is_op("relax.exp")(is_var("y")).same_shape_as(is_op("relax.exp")(is_var("x")))
    assert context.match_dfb(block(sizes)) is None


def test_operands_of_kernels_count_by_their_place():
    @R.function
    def calls(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.call_dps_packed("f", (x,), R.Tensor((4,), "float32"))
            b = R.call_dps_packed("g", (x, a), R.Tensor((4,), "float32"))
            t = (a, b)
            c = t[1]
            R.output(c)
        return c

    f, g = is_op("relax.call_dps_packed")(wildcard(), wildcard()), is_tuple_get_item(wildcard())
    with PatternContext() as context:
        user = f.dup()
        f.used_by(user, 1)
    assert found(context, calls) == ["b", "a"]
    with PatternContext() as context:
        f.used_by(user, 0)
    assert context.match_dfb(block(calls)) is None
    with PatternContext() as context:
        from relax.dpl import is_tuple

        is_tuple([wildcard(), wildcard()]).used_by(g, 0)
    assert found(context, calls) == ["t", "c"]


def test_another_name_is_seen_through():
    @R.function
    def named(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = a
            c = R.nn.relu(b)
            R.output(c)
        return c

    with PatternContext() as context:
        is_op("relax.exp")(wildcard()) >> is_op("relax.nn.relu")(wildcard())
    assert found(context, named) == ["a", "c"]


def test_a_context_without_patterns_matches_nothing():
    with PatternContext() as context:
        wildcard()
        is_const()
        is_call_tir("f") | wildcard()
    assert context.match_dfb(block(diamond)) is None
