"""Passes about elements that are moved and not computed with: reshapes, transpositions, layouts, the order of bindings."""

from __future__ import annotations

import pytest

import relax
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import (
    OptimizeLayoutTransform,
    RemoveRedundantReshape,
    ReorderPermuteDimsAfterConcat,
    TopologicalSort,
)


def test_reshapes_that_undo_each_other_go(check, keeps):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 64), "float32")):
            n = T.int64()
            with R.dataflow():
                a = R.reshape(x, (n, 8, 8))
                b = R.reshape(a, (n, 64))
                c = R.exp(b)
                d = R.reshape(c, (n, 16, 4))
                gv = R.reshape(d, (n, 4, 16))
                R.output(gv)
            return gv

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 64), "float32")):
            n = T.int64()
            with R.dataflow():
                c = R.exp(x)
                gv = R.reshape(c, R.shape([n, 4, 16]))
                R.output(gv)
            return gv

    after = check(RemoveRedundantReshape(), Before, Expected)
    for n in (0, 1, 3):
        keeps(Before, after, (n, 64))


def test_a_reshape_whose_copy_somebody_could_tell_stays(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 64), "float32")):
            n = T.int64()
            with R.dataflow():
                gv = R.reshape(x, (n, 64))
                R.output(gv)
            return gv

    check(RemoveRedundantReshape(), Before)

    @I.ir_module
    class Changed:
        @R.function(pure=False)
        def main(x: R.Tensor((64,), "float32")):
            y = R.reshape(x, (64,))
            _ = R.call_packed("lib.change", x, sinfo_args=R.Object)
            return R.exp(y)

    check(RemoveRedundantReshape(), Changed)


def test_reshapes_to_sizes_that_are_not_proved_stay(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32"), s: R.Shape(["k", "l"])):
            with R.dataflow():
                a = R.reshape(x, s)
                b = R.exp(a)
                R.output(b)
            return b

    check(RemoveRedundantReshape(), Before)


def test_parts_are_transposed_after_they_are_joined(check, keeps):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 6, 2), "float32"), y: R.Tensor((3, 6, 2), "float32")):
            with R.dataflow():
                a = R.permute_dims(x, (1, 0, 2))
                b = R.permute_dims(y, (1, 0, -1))
                z = R.concat((a, b), axis=-2)
                R.output(z)
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 6, 2), "float32"), y: R.Tensor((3, 6, 2), "float32")):
            with R.dataflow():
                joined = R.concat((x, y), axis=0)
                z = R.permute_dims(joined, (1, 0, 2))
                R.output(z)
            return z

    after = check(ReorderPermuteDimsAfterConcat(), Before, Expected)
    for n in (0, 1, 4):
        keeps(Before, after, (n, 6, 2), (3, 6, 2))


@pytest.mark.parametrize("second", ["R.permute_dims(y, (0, 2, 1))", "R.exp(y)"])
def test_parts_that_differ_stay(check, second):
    before = relax.script.from_source(f"""
@I.ir_module
class Before:
    @R.function
    def main(x: R.Tensor((2, 2, 2), "float32"), y: R.Tensor((2, 2, 2), "float32")):
        with R.dataflow():
            a = R.permute_dims(x, (1, 0, 2))
            b = {second}
            z = R.concat((a, b), axis=0)
            R.output(z)
        return z
""")
    check(ReorderPermuteDimsAfterConcat(), before)


def test_a_transposition_that_others_read_stays(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 2), "float32")):
            with R.dataflow():
                a = R.permute_dims(x)
                b = R.permute_dims(x)
                z = R.concat((a, b), axis=0)
                y = R.exp(a)
                R.output(z, y)
            return (z, y)

    check(ReorderPermuteDimsAfterConcat(), Before)


def test_layouts_that_undo_each_other_go(check, keeps):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 64), "float32")):
            with R.dataflow():
                a = R.layout_transform(x, index_map=lambda n, c: (n, c // 4, c % 4))
                b = R.layout_transform(a, index_map=lambda n, c, i: (n, c * 4 + i))
                c = R.exp(b)
                d = R.layout_transform(c, index_map=lambda n, c: (n, c))
                y = R.negative(d)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 64), "float32")):
            with R.dataflow():
                c = R.exp(x)
                y = R.negative(c)
                R.output(y)
            return y

    after = check(OptimizeLayoutTransform(), Before, Expected)
    keeps(Before, after, (3, 64))


@pytest.mark.parametrize(
    "size, there, back",
    [
        (64, "lambda c: (c // 4, c % 4)", "lambda c, i: (i * 16 + c,)"),
        (63, "lambda c: (c // 4, c % 4)", "lambda c, i: (c * 4 + i,)"),  # padding stays
    ],
)
def test_layouts_that_differ_stay(check, size, there, back):
    before = relax.script.from_source(f"""
@I.ir_module
class Before:
    @R.function
    def main(x: R.Tensor(({size},), "float32")):
        with R.dataflow():
            a = R.layout_transform(x, index_map={there}, pad_value=0)
            b = R.layout_transform(a, index_map={back})
            y = R.exp(b)
            R.output(y)
        return y
""")
    check(OptimizeLayoutTransform(), before)


# ------------------------------------------------------------------------------------ TopologicalSort


@I.ir_module
class Unsorted:
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.negative(x)
            c = R.log(a)
            d = R.abs(b)
            e = R.add(c, b)
            y = R.add(d, e)
            R.output(y)
        return y


def order(mod):
    return "".join(binding.var.name_hint for binding in mod["main"].body.blocks[0].bindings)


@pytest.mark.parametrize(
    "options, expected",
    [
        (("depth-first", "from-inputs"), "acbdey"),
        (("breadth-first", "from-inputs"), "abcdey"),
        (("depth-first", "from-outputs"), "bdacey"),
        (("breadth-first", "from-outputs"), "abcdey"),
    ],
)
def test_bindings_are_sorted(keeps, options, expected):
    step = TopologicalSort(*options)
    after = step(Unsorted)
    assert order(after) == expected
    assert step(after) is after
    keeps(Unsorted, after, (3,))


def test_sizes_that_a_cast_compares_are_not_bound_by_it(check):
    """`n` is the function's: what uses it does not wait for the cast, which waits for that."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")):
            n = T.int64()
            with R.dataflow():
                a = R.add(x, x)
                b = R.call_pure_packed("fuzz.same", a, sinfo_args=R.Tensor(ndim=2, dtype="float32"))
                k = T.int64()
                c = R.match_cast(b, R.Tensor((n, k), "float32"))
                d = R.exp(c)
                R.output(d)
            return d

    assert order(TopologicalSort()(Before)) == "abcd"
    assert order(TopologicalSort("breadth-first", "from-outputs")(Before)) == "abcd"


def test_sizes_are_bound_before_they_are_used(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(dtype="float32", ndim=1), y: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.match_cast(x, R.Tensor(("m",), "float32"))
                b = R.exp(y)
                m = T.int64()
                c = R.full(R.shape([m]), R.const(1, "float32"), "float32")
                z = (a, b, c)
                R.output(z)
            return z

    after = TopologicalSort()(Before)
    assert order(after) == "acbz"
    check(TopologicalSort("breadth-first"), Before)


def test_unknown_orders_are_refused():
    with pytest.raises(ValueError, match="expected 'depth-first' or 'breadth-first', found 'sideways'"):
        TopologicalSort("sideways")(Unsorted)
