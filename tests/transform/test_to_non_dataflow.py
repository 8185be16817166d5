"""ToNonDataflow: dataflow blocks become ordinary ones, everywhere."""

from __future__ import annotations

from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import ToNonDataflow


def test_blocks_are_dissolved_and_merged(check):
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor(ndim=1, dtype="float32")):
            m = T.int64()
            with R.dataflow():
                lv = R.match_cast(x, R.Tensor((m,), "float32"))
                gv = R.exp(lv)
                R.output(gv)
            R.print(gv)
            with R.dataflow():
                lv1 = R.add(gv, gv)
                gv1 = R.exp(lv1)
                R.output(gv1)
            return gv1

    @I.ir_module
    class Expected:
        @R.function(pure=False)
        def main(x: R.Tensor(ndim=1, dtype="float32")):
            m = T.int64()
            lv = R.match_cast(x, R.Tensor((m,), "float32"))
            gv = R.exp(lv)
            R.print(gv)
            lv1 = R.add(gv, gv)
            gv1 = R.exp(lv1)
            return gv1

    after = check(ToNonDataflow(), Before, Expected)
    assert len(after["main"].body.blocks) == 1


def test_shapes_held_by_dataflow_variables_follow(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2,), "int64")) -> R.Object:
            with R.dataflow():
                s = R.tensor_to_shape(x)
                y = R.call_pure_packed("test.f", s, sinfo_args=R.Tensor(s, "float32"))
                gv = R.exp(y)
                gv1: R.Object = gv
                R.output(gv1)
            return gv1

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2,), "int64")) -> R.Object:
            s = R.tensor_to_shape(x)
            y = R.call_pure_packed("test.f", s, sinfo_args=R.Tensor(s, "float32"))
            gv = R.exp(y)
            gv1: R.Object = gv
            return gv1

    check(ToNonDataflow(), Before, Expected)


def test_branches_and_local_functions(check):
    @I.ir_module
    class Before:
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
                    gv1 = inner(lv1)
                    R.output(gv1)
                r = gv1
            else:
                r = x
            return r

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
            @R.function
            def inner(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                lv = R.exp(a)
                gv = R.exp(lv)
                return gv

            if c:
                lv1 = R.exp(x)
                gv1 = inner(lv1)
                r = gv1
            else:
                r = x
            return r

    check(ToNonDataflow(), Before, Expected)


def test_nothing_to_do(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            return x

    check(ToNonDataflow(), Before)
