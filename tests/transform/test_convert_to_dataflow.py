"""ConvertToDataflow: runs of pure bindings become dataflow blocks, everywhere."""

from __future__ import annotations

from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import ConvertToDataflow, ToNonDataflow


def test_runs_between_impure_calls(check):
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            lv = R.exp(x)
            gv = R.add(lv, lv)
            R.print(gv)
            lv1 = R.add(gv, gv)
            gv1 = R.exp(lv1)
            return gv1

    @I.ir_module
    class Expected:
        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                lv = R.exp(x)
                gv = R.add(lv, lv)
                R.output(gv)
            R.print(gv)
            with R.dataflow():
                lv1 = R.add(gv, gv)
                gv1 = R.exp(lv1)
                R.output(gv1)
            return gv1

    after = check(ConvertToDataflow(), Before, Expected)
    assert len(after["main"].body.blocks) == 3


def test_a_single_binding_stays(check):
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            gv = R.exp(x)
            R.print(gv)
            return gv

    @I.ir_module
    class Alone:
        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                gv = R.exp(x)
                R.output(gv)
            R.print(gv)
            return gv

    check(ConvertToDataflow(), Before)
    check(ConvertToDataflow(min_size=1), Before, Alone)


def test_bindings_join_the_block_beside_them(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            lv = R.exp(x)
            with R.dataflow():
                lv1 = R.add(lv, x)
                gv = R.exp(lv1)
                R.output(gv)
            gv1 = R.add(gv, x)
            return gv1

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                lv = R.exp(x)
                lv1 = R.add(lv, x)
                gv = R.exp(lv1)
                gv1 = R.add(gv, x)
                R.output(gv1)
            return gv1

    check(ConvertToDataflow(), Before, Expected)


def test_match_casts_and_the_shapes_they_bind(check):
    """A variable whose shape is used after the block, or that a closure captures, is an output of it."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32")):
            m = T.int64()
            lv = R.match_cast(x, R.Tensor((m,), "float32"))
            gv = R.exp(lv)

            @R.function
            def inner(a: R.Tensor((m,), "float32")) -> R.Tensor((m,), "float32"):
                r = R.add(a, gv)
                return r

            gv1 = inner(gv)
            return gv1

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32")):
            m = T.int64()
            with R.dataflow():
                lv = R.match_cast(x, R.Tensor((m,), "float32"))
                gv = R.exp(lv)
                R.output(gv)

            @R.function
            def inner(a: R.Tensor((m,), "float32")) -> R.Tensor((m,), "float32"):
                r = R.add(a, gv)
                return r

            gv1 = inner(gv)
            return gv1

    check(ConvertToDataflow(), Before, Expected)


def test_branches_and_local_functions(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
            @R.function
            def inner(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                lv = R.exp(a)
                gv = R.exp(lv)
                return gv

            if c:
                lv1 = R.exp(x)
                gv1 = R.add(lv1, x)
                r = gv1
            else:
                r = x
            y = inner(r)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
            @R.function
            def inner(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                with R.dataflow():
                    lv = R.exp(a)
                    gv = R.exp(lv)
                    R.output(gv)
                return gv

            if c:
                with R.dataflow():
                    lv1 = R.exp(x)
                    gv1 = R.add(lv1, x)
                    R.output(gv1)
                r = gv1
            else:
                r = x
            y = inner(r)
            return y

    check(ConvertToDataflow(), Before, Expected)


def test_what_a_local_function_captures_stays(check):
    """A function in a dataflow block captures no variable of one (rule 11)."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            lv = R.exp(x)
            lv1 = R.add(lv, lv)
            with R.dataflow():

                @R.function
                def local(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                    return R.add(y, lv1)

                gv = R.add(lv1, x)
                R.output(local, gv)
            return local(gv)

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                lv = R.exp(x)
                lv1 = R.add(lv, lv)

                @R.function
                def local(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                    return R.add(y, lv1)

                gv = R.add(lv1, x)
                R.output(lv1, local, gv)
            return local(gv)

    check(ConvertToDataflow(), Before, Expected)


def test_impure_functions_are_called_outside(check):
    """Also where the callee is a function of the module, and the call looks like any other."""

    @I.ir_module
    class Before:
        @R.function(pure=False)
        def noisy(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            R.print(x)
            return x

        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            y = R.exp(x)
            z = Before.noisy(y)
            return z

    check(ConvertToDataflow(), Before)


def test_blocks_that_were_dissolved_return():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            with R.dataflow():
                lv = R.exp(x)
                gv = R.add(lv, x)
                R.output(gv)
            return gv

    assert ConvertToDataflow()(ToNonDataflow()(Before)).script() == Before.script()


def test_a_shape_that_an_outputs_annotation_names_is_an_output(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            shape = R.shape([n, 2])
            other = R.shape([n])
            y = R.zeros(shape, "int64")
            z = R.ones(other, "int64")
            w = R.sum(z)
            return (y, w)

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            with R.dataflow():
                shape = R.shape([n, 2])
                other = R.shape([n])
                y: R.Tensor(shape, "int64") = R.zeros(shape, "int64")
                z = R.ones(other, "int64")
                w = R.sum(z)
                R.output(shape, y, w)
            return (y, w)

    check(ConvertToDataflow(), Before, Expected)
