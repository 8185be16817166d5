"""Silent wrong numbers: storage shared by two names, one of which is written to.

Packed functions write to what they are given; whoever holds another name for that memory must see it, and nobody else.
"""

from __future__ import annotations

import numpy as np
import pytest
from pitfall_helpers import arrays, f32, machine

from relax.ir import DiagnosticError
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T


def test_match_cast_is_an_alias_of_what_is_mutated(run):
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor(("n",), "float32")) -> R.Tuple(R.Tensor, R.Tensor):
            m = T.int64()
            a = R.exp(x)
            b = R.match_cast(a, R.Tensor((m,), "float32"))
            before = R.add(b, b)
            _ = R.call_packed("pitfall.increment", a, sinfo_args=R.Tuple())
            after = R.add(b, b)
            return (before, after)

    vm = run(Module)
    for n in (0, 1, 5):
        x = np.linspace(0, 1, n, dtype="float32")
        before, after = arrays(vm["main"](x))
        np.testing.assert_allclose(before, 2 * np.exp(x), rtol=1e-6)
        np.testing.assert_allclose(after, 2 * np.exp(x) + 2, rtol=1e-6)


@pytest.mark.parametrize("dataflow", [False, True])
def test_reshape_is_no_alias_of_what_is_mutated(run, dataflow):
    if dataflow:

        @I.ir_module
        class Module:
            @R.function(pure=False)
            def main(x: R.Tensor(("n",), "float32")) -> R.Tuple(R.Tensor, R.Tensor):
                n = T.int64()
                with R.dataflow():
                    a = R.exp(x)
                    b = R.reshape(a, (n, 1))
                    c = R.expand_dims(R.flatten(b), 0)
                    R.output(a, b, c)
                _ = R.call_packed("pitfall.increment", a, sinfo_args=R.Tuple())
                return (b, c)

    else:

        @I.ir_module
        class Module:
            @R.function(pure=False)
            def main(x: R.Tensor(("n",), "float32")) -> R.Tuple(R.Tensor, R.Tensor):
                n = T.int64()
                a = R.exp(x)
                b = R.reshape(a, (n, 1))
                c = R.expand_dims(R.flatten(b), 0)
                _ = R.call_packed("pitfall.increment", a, sinfo_args=R.Tuple())
                return (b, c)

    vm = run(Module)
    for n in (0, 1, 4):
        x = np.linspace(0, 1, n, dtype="float32")
        b, c = arrays(vm["main"](x))
        np.testing.assert_allclose(b, np.exp(x)[:, None], rtol=1e-6)
        np.testing.assert_allclose(c, np.exp(x)[None], rtol=1e-6)


def test_identity_operators_do_not_return_their_operand(run):
    """An operator that changes nothing (a reshape to the same shape, a cast to the same dtype) still gives a fresh tensor."""

    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor((2, "n"), "float32")) -> R.Tuple(
            R.Tensor, R.Tensor, R.Tensor, R.Tensor, R.Tensor, R.Tensor, R.Tensor, R.Tensor
        ):
            n = T.int64()
            a = R.reshape(x, (2, n))
            b = R.astype(x, "float32")
            c = R.permute_dims(x, [0, 1])
            d = R.broadcast_to(x, (2, n))
            e = R.concat([x], axis=0)
            f = R.strided_slice(x, [0], [0], [2])
            g = R.squeeze(x, [])
            h = R.nn.dropout(x)
            _ = R.call_packed("pitfall.increment", x, sinfo_args=R.Tuple())
            return (a, b, c, d, e, f, g, h[0])

    vm = run(Module)
    for n in (0, 1, 3):
        x = np.ones((2, n), "float32")
        for name, result in zip("abcdefgh", arrays(vm["main"](x)), strict=True):
            assert (result == 1).all(), name
        assert (x == 2).all()


def test_split_of_one_part_and_tuples(run):
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32")) -> R.Tuple(R.Tensor, R.Tensor, R.Tensor):
            s = R.split(x, 1)
            a = s[0]
            t = (a, (x, a))
            _ = R.call_packed("pitfall.increment", t[1][0], sinfo_args=R.Tuple())
            _1 = R.call_packed("pitfall.increment", t[1][1], sinfo_args=R.Tuple())
            _2 = R.call_packed("pitfall.increment", t[0], sinfo_args=R.Tuple())
            return (a, x, t[0])

    a, x, again = arrays(run(Module)["main"](f32(0, 0)))
    assert (a.tolist(), x.tolist(), again.tolist()) == ([2, 2], [1, 1], [2, 2])


def test_branches_give_aliases(run):
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(c: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")) -> R.Tuple(
            R.Tensor, R.Tensor, R.Tensor
        ):
            if c:
                t = (x, y)
            else:
                t = (y, x)
            first = t[0]
            _ = R.call_packed("pitfall.increment", first, sinfo_args=R.Tuple())
            total = R.add(x, first)
            return (total, x, y)

    vm = run(Module)
    for c in (True, False):
        x, y = f32(1, 2), f32(10, 20)
        total, x1, y1 = arrays(vm["main"](np.array(c), x, y))
        expected_x, expected_y = (x, y)
        assert x1.tolist() == ([2, 3] if c else [1, 2])
        assert y1.tolist() == ([10, 20] if c else [11, 21])
        assert total.tolist() == (x1 + (x1 if c else y1)).tolist()
        assert (x.tolist(), y.tolist()) == (x1.tolist(), y1.tolist()), (expected_x, expected_y)


def test_same_array_given_twice(run):
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")) -> R.Tuple(R.Tensor, R.Tensor):
            before = R.add(x, y)
            _ = R.call_packed("pitfall.increment", x, sinfo_args=R.Tuple())
            after = R.add(x, y)
            return (before, after)

    x = f32(1, 2)
    before, after = arrays(run(Module)["main"](x, x))
    assert (before.tolist(), after.tolist()) == ([2, 4], [4, 6])


def test_results_of_equal_calls_are_different_tensors(run):
    """Merging what is computed twice, or allocations, would let a mutation be seen elsewhere."""

    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor(("n",), "float32")) -> R.Tuple(R.Tensor, R.Tensor, R.Tensor, R.Tensor):
            n = T.int64()
            with R.dataflow():
                a = R.add(x, x)
                b = R.add(x, x)
                c = R.zeros((n,), "float32")
                d = R.zeros((n,), "float32")
                R.output(a, b, c, d)
            _ = R.call_packed("pitfall.increment", a, sinfo_args=R.Tuple())
            _1 = R.call_packed("pitfall.increment", c, sinfo_args=R.Tuple())
            return (a, b, c, d)

    a, b, c, d = arrays(run(Module)["main"](f32(1, 2)))
    assert [v.tolist() for v in (a, b, c, d)] == [[3, 5], [2, 4], [1, 1], [0, 0]]


def test_pure_function_works_in_place_on_what_a_view_shows(run):
    """The caller of `consume` gives `a` away; `b`, computed from `a` before, must keep its values."""

    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def double(A: T.Buffer((4,), "float32")):
            for i in range(4):
                A[i] = A[i] * T.float32(2)

        @R.function(private=True)
        def consume(v: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Module
            r = R.call_tir_inplace(cls.double, (v,), [0], R.Tensor((4,), "float32"))
            return r

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((2, 2), "float32"):
            cls = Module
            with R.dataflow():
                a = R.exp(x)
                b = R.reshape(a, (2, 2))
                c = cls.consume(a)
                d = R.add(b, R.reshape(c, (2, 2)))
                R.output(d)
            return d

    x = f32(0, 1, 2, 3)
    np.testing.assert_allclose(run(Module)["main"](x).numpy(), 3 * np.exp(x).reshape(2, 2), rtol=1e-6)


def test_equal_values_are_not_merged_when_a_function_works_in_place_on_one(run):
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def double(A: T.Buffer((4,), "float32")):
            for i in range(4):
                A[i] = A[i] * T.float32(2)

        @R.function(private=True)
        def consume(v: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Module
            r = R.call_tir_inplace(cls.double, (v,), [0], R.Tensor((4,), "float32"))
            return r

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Module
            with R.dataflow():
                a = R.exp(x)
                b = R.exp(x)
                c = cls.consume(a)
                d = R.add(b, c)
                R.output(d)
            return d

    x = f32(0, 1, 2, 3)
    np.testing.assert_allclose(run(Module)["main"](x).numpy(), 3 * np.exp(x), rtol=1e-6)


def test_an_argument_that_a_function_reuses_is_used_no_more():
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def double(A: T.Buffer((4,), "float32")):
            for i in range(4):
                A[i] = A[i] * T.float32(2)

        @R.function(private=True)
        def consume(w: R.Tensor((4,), "float32"), v: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Module
            r = R.call_tir_inplace(cls.double, (v,), [0], R.Tensor((4,), "float32"))
            return R.add(r, w)

        @R.function(private=True)
        def through(v: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Module
            return cls.consume(R.exp(v), v)

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Module
            a = R.exp(x)
            b = cls.consume(x, a)

            @R.function
            def local(v: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                return cls.through(v)

            c = local(b)
            return R.add(R.add(a, b), c)

    with pytest.raises(DiagnosticError) as caught:
        machine(Module)
    assert [d.message for d in caught.value.diagnostics] == [
        "a is used after it was reused in place",
        "b is used after it was reused in place",
    ]


def test_what_a_function_returns_of_its_arguments_is_reused():
    """`choose(c, a, x)` may be `a`: who works in place on it changes `a`."""

    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def double(A: T.Buffer((4,), "float32")):
            for i in range(4):
                A[i] = A[i] * T.float32(2)

        @R.function(private=True)
        def choose(c: R.Tensor((), "bool"), v: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32")) -> R.Tuple(
            R.Tensor((4,), "float32"), R.Tensor((4,), "float32")
        ):
            if c:
                r = v
            else:
                r = R.exp(v)
            return (R.exp(w), r)

        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Module
            a = R.exp(x)

            @R.function
            def local(v: R.Tensor((4,), "float32")) -> R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32")):
                return cls.choose(c, v, x)

            other = local
            t = other(a)
            r = R.call_tir_inplace(cls.double, (t[1],), [0], R.Tensor((4,), "float32"))
            return R.add(R.add(a, x), r)

    with pytest.raises(DiagnosticError) as caught:
        machine(Module)
    assert [d.message for d in caught.value.diagnostics] == ["a is used after it was reused in place"]


def test_dynamic_reshape_is_no_alias(run):
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor(("n",), "float32"), s: R.Shape(ndim=2)) -> R.Tuple(R.Tensor, R.Tensor):
            a = R.exp(x)
            b = R.reshape(a, s)
            _ = R.call_packed("pitfall.increment", a, sinfo_args=R.Tuple())
            return (a, b)

    vm = run(Module)
    x = f32(0, 1, 2, 3)
    a, b = arrays(vm["main"](x, (2, 2)))
    np.testing.assert_allclose(b, np.exp(x).reshape(2, 2), rtol=1e-6)
    np.testing.assert_allclose(a, np.exp(x) + 1, rtol=1e-6)
    with pytest.raises(AssertionError, match="reshape: the numbers of elements differ"):
        vm["main"](x, (3, 2))


def test_closures_see_mutations_of_what_they_capture(run):
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor(("n",), "float32")) -> R.Tuple(R.Tensor, R.Tensor):
            a = R.exp(x)

            @R.function
            def f(y: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
                return R.add(a, y)

            before = f(x)
            _ = R.call_packed("pitfall.increment", a, sinfo_args=R.Tuple())
            after = f(x)
            return (before, after)

    x = f32(0, 1)
    before, after = arrays(run(Module)["main"](x))
    np.testing.assert_allclose(after - before, 1, rtol=1e-6)


def test_packed_function_returns_its_argument(run):
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32")) -> R.Tuple(R.Tensor, R.Tensor):
            with R.dataflow():
                a = R.exp(x)
                b = R.reshape(a, (2, 1))
                c = R.call_pure_packed("pitfall.identity", b, sinfo_args=R.Tensor((2, 1), "float32"))
                R.output(a, c)
            _ = R.call_packed("pitfall.increment", c, sinfo_args=R.Tuple())
            return (a, c)

    a, c = arrays(run(Module)["main"](f32(0, 0)))
    assert (a.tolist(), c.tolist()) == ([1, 1], [[2], [2]])


def test_results_are_kept_by_packed_functions(run):
    """A tensor that a packed function keeps must not be reused for a later result."""
    import relax

    kept = []
    relax.register_func("pitfall.keep", lambda t: kept.append(t), override=True)

    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            a = R.add(x, R.const(1, "float32"))
            _ = R.call_packed("pitfall.keep", a, sinfo_args=R.Tuple())
            b = R.add(x, R.const(2, "float32"))
            _1 = R.call_packed("pitfall.keep", b, sinfo_args=R.Tuple())
            c = R.add(a, b)
            return c

    vm = run(Module)
    results = [vm["main"](f32(i, i)) for i in range(4)]
    assert [k.numpy()[0] for k in kept] == [1, 2, 2, 3, 3, 4, 4, 5]
    assert [r.numpy()[0] for r in results] == [3, 5, 7, 9]
