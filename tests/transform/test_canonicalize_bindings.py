"""CanonicalizeBindings: one name per value; checks and fresh tensors stay."""

from __future__ import annotations

import pytest

import relax
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import CanonicalizeBindings, FoldConstant
from support import PLAIN_LOOPS


def test_second_names_go(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            y = x
            z = y
            w = R.add(z, y)
            v = w
            return v

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            w = R.add(x, x)
            return w

    check(CanonicalizeBindings(), Before, Expected)


def test_what_a_name_hides_is_known_when_it_goes(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor(ndim=1, dtype="float32"):
            y: R.Tensor(ndim=1, dtype="float32") = x
            z = R.exp(y)
            t = (z, y)
            w = t[0]
            return w

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            z = R.exp(x)
            t = (z, x)
            return z

    check(CanonicalizeBindings(), Before, Expected)


def test_a_name_known_to_be_more_stays(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32"), s: R.Shape(("n",))):
            n = T.int64()
            y = R.match_cast(x, R.Tensor((n,), "float32"))
            return R.exp(y)

    check(CanonicalizeBindings(), Before)


def test_an_output_takes_the_place_of_what_it_names(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                lv = R.exp(x)
                lv1 = R.add(lv, lv)
                gv = lv
                gv1 = lv
                gv2 = lv1
                R.output(gv, gv1, gv2)
            return (gv, gv1, gv2)

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                gv = R.exp(x)
                gv2 = R.add(gv, gv)
                R.output(gv, gv2)
            return (gv, gv, gv2)

    check(CanonicalizeBindings(), Before, Expected)


def test_outputs_used_in_their_block_only_become_local(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                gv = R.exp(x)
                gv1 = R.add(gv, gv)
                R.output(gv, gv1)
            return gv1

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                gv = R.exp(x)
                gv1 = R.add(gv, gv)
                R.output(gv1)
            return gv1

    check(CanonicalizeBindings(), Before, Expected)


def test_an_output_of_one_block_read_in_another_stays_an_output(check):
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                gv = R.exp(x)
                R.output(gv)
            R.print(x)
            with R.dataflow():
                gv1 = R.add(gv, gv)
                R.output(gv1)
            return gv1

    check(CanonicalizeBindings(), Before)


def test_an_output_that_a_closure_captures_stays_an_output(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                gv = R.exp(x)

                @R.function
                def inner(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                    return R.add(gv, y)

                gv1 = inner(gv)
                R.output(gv, gv1)
            return gv1

    check(CanonicalizeBindings(), Before)


def test_fields_of_known_tuples(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32"), p: R.Tuple(R.Tensor((4,)), R.Tensor((2,)))):
            t = (x, p)
            a = t[0]
            q = t[1]
            b = q[0]
            c = q[1]
            rebuilt = (b, c)
            swapped = (c, b)
            return (a, rebuilt, swapped)

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4,), "float32"), p: R.Tuple(R.Tensor((4,)), R.Tensor((2,)))):
            t = (x, p)
            b = p[0]
            c = p[1]
            swapped = (c, b)
            return (x, p, swapped)

    check(CanonicalizeBindings(), Before, Expected)


def test_a_field_local_to_a_block_is_not_named_outside(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                lv = R.exp(x)
                gv = (lv, x)
                R.output(gv)
            a = gv[0]
            return a

    check(CanonicalizeBindings(), Before)


def test_constants_keep_their_identity(check):
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((), "float32")):
            c = R.const(1.0, "float32")
            R.call_packed("test.change", c)
            return c

    check(CanonicalizeBindings(), Before)


def test_casts_that_must_succeed_go_and_their_dimensions_with_them(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            n = T.int64()
            m = T.int64()
            same = R.match_cast(x, R.Tensor((n, 4), "float32"))
            named = R.match_cast(same, R.Tensor((m, 4), "float32"))
            y = R.zeros((m * 2,), "float32")
            shape = R.shape([m, n])
            return (named, y, shape)

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            n = T.int64()
            y = R.zeros((n * 2,), "float32")
            shape = R.shape([n, n])
            return (x, y, shape)

    check(CanonicalizeBindings(), Before, Expected)


def test_casts_that_check_or_bind_something_stay(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", "k"), "float32"), y: R.Tensor(ndim=1, dtype="float32"), z: R.Object):
            n = T.int64()
            k = T.int64()
            m = T.int64()
            j = T.int64()
            square = R.match_cast(x, R.Tensor((n, n), "float32"))
            sized = R.match_cast(y, R.Tensor((m,), "float32"))
            typed = R.match_cast(z, R.Tensor((m, j), "float32"))
            return (square, sized, typed)

    check(CanonicalizeBindings(), Before)


def test_what_a_packed_function_promises_is_still_checked(check):
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            y = R.call_packed("test.f", x, sinfo_args=R.Tensor((4,), "float32"))
            z = R.match_cast(y, R.Tensor((4,), "float32"))
            return z

    check(CanonicalizeBindings(), Before)


def test_branches_and_local_functions(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
            y = x

            @R.function
            def inner(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                b = a
                d = R.add(b, y)
                return d

            again = inner
            if c:
                t = y
                r = again(t)
            else:
                r = y
            return r

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
            @R.function
            def inner(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                d = R.add(a, x)
                return d

            if c:
                r = inner(x)
            else:
                r = x
            return r

    check(CanonicalizeBindings(), Before, Expected)


@pytest.mark.parametrize("step", [CanonicalizeBindings, FoldConstant])
def test_a_branch_may_ask_for_a_field_that_a_known_tuple_does_not_have(step):
    """The tuple's type is not known, so the program is well-formed; the branch is not taken, as programs of data do."""

    @I.ir_module
    class Mod:
        @R.function
        def main(c: R.Prim("bool")) -> R.Object:
            t: R.Object = (R.const(3, "int32"),)
            if c:
                r: R.Object = t[1]
            else:
                r: R.Object = t[0]
            return r

    after = step()(Mod)
    assert relax.interpret(after, "main", False).numpy() == 3
    vm = relax.VirtualMachine(relax.build(Mod, PLAIN_LOOPS))
    assert vm["main"](False).numpy() == 3
