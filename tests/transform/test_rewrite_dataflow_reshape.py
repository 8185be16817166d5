"""RewriteDataflowReshape: copying kernels become views, where nobody can tell."""

from __future__ import annotations

import pytest

import relax
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.transform import LegalizeOps, RewriteDataflowReshape
from relax.transform.rewrite_dataflow_reshape import is_flat_copy


def views(mod):
    """How many reshapes there are after the pass."""
    after = RewriteDataflowReshape()(mod)
    relax.analysis.assert_well_formed(after)
    assert RewriteDataflowReshape()(after) is after
    if after is not mod:
        assert "R.reshape" in after.script()
    return after.script().count("R.reshape(")


def test_a_reshape_between_kernels(check):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            n = T.int64()
            with R.dataflow():
                lv = R.call_tir(Before.reshape, (x,), R.Tensor((n * 4,), "float32"))
                gv = R.call_tir(Before.exp, (lv,), R.Tensor((n * 4,), "float32"))
                R.output(gv)
            return gv

        @T.prim_func(private=True)
        def reshape(a: T.handle, b: T.handle):
            n = T.int64()
            A = T.match_buffer(a, (n, 4), "float32")
            B = T.match_buffer(b, (n * 4,), "float32")
            for i in range(n * 4):
                with T.block("reshape"):
                    v = T.axis.spatial(n * 4, i)
                    B[v] = A[v // 4, v % 4]

        @T.prim_func(private=True)
        def exp(a: T.handle, b: T.handle):
            n = T.int64()
            A = T.match_buffer(a, (n,), "float32")
            B = T.match_buffer(b, (n,), "float32")
            for i in range(n):
                with T.block("exp"):
                    v = T.axis.spatial(n, i)
                    B[v] = T.exp(A[v])

    after = RewriteDataflowReshape()(Before)
    lv, gv = after["main"].body.blocks[0].bindings
    assert lv.value.op.name == "relax.reshape"
    assert gv.value is Before["main"].body.blocks[0].bindings[1].value
    assert views(Before) == 1


@pytest.mark.parametrize(
    ("shape", "new"),
    [((6, 4), (3, 8)), ((2, 3, 4), (24,)), ((24,), (2, 3, 4)), ((1, 4), (4, 1)), ((0, 4), (2, 0)), ((), (1, 1))],
)
def test_every_reshaping_operator_is_recognized(shape, new):
    x = relax.Var("x", relax.TensorStructInfo(shape, "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(relax.op.reshape(x, new))
            y = bb.emit(relax.op.expand_dims(y, 0))
            y = bb.emit(relax.op.squeeze(y, [0]))
            y = bb.emit(relax.op.flatten(y))
            gv = bb.emit_output(relax.op.exp(y))
        bb.emit_func_output(gv)
    mod = LegalizeOps()(bb.get())
    assert views(mod) == 4


def not_a_view(body):
    """A PrimFunc of text, which must not be taken for a copy."""
    source = f"""
@T.prim_func(private=True)
def f(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (2, 3), "float32")
    B = T.match_buffer(b, (3, 2), "float32")
{body}
"""
    return relax.script.from_source(source)


@pytest.mark.parametrize(
    "body",
    [
        # a transposition
        """
    for i, j in T.grid(3, 2):
        with T.block("b"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = A[w, v]
""",
        # not every element
        """
    for i, j in T.grid(2, 2):
        with T.block("b"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = A[(v * 2 + w) // 3, (v * 2 + w) % 3]
""",
        # a value of its own
        """
    for i, j in T.grid(3, 2):
        with T.block("b"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = A[(v * 2 + w) // 3, (v * 2 + w) % 3] + T.float32(1)
""",
        # only sometimes
        """
    for i, j in T.grid(3, 2):
        with T.block("b"):
            v, w = T.axis.remap("SS", [i, j])
            if v < 2:
                B[v, w] = A[(v * 2 + w) // 3, (v * 2 + w) % 3]
""",
        # it reads what it writes
        """
    for i, j in T.grid(3, 2):
        with T.block("b"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = B[v, w]
""",
    ],
)
def test_kernels_that_do_more_are_no_copies(body):
    assert not is_flat_copy(not_a_view(body))


def test_a_copy_is_one():
    assert is_flat_copy(
        not_a_view("""
    for i, j in T.grid(3, 2):
        with T.block("b"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = A[(v * 2 + w) // 3, (v * 2 + w) % 3]
""")
    )


def test_a_part_that_may_be_empty_is_no_copy():
    """Where the loop runs, a is 1 and both have 4 elements; where it does not, the result has none."""
    assert not is_flat_copy(
        relax.script.from_source("""
@T.prim_func(private=True)
def f(a: T.handle, b: T.handle, n: T.int64):
    A = T.match_buffer(a, (1, 4), "float32")
    B = T.match_buffer(b, (T.Select(n == 1, T.int64(1), T.int64(0)), 4), "float32")
    for i, j in T.grid(T.Select(n == 1, T.int64(1), T.int64(0)), T.int64(4)):
        with T.block("b"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = A[v, w]
""")
    )


@T.prim_func(private=True)
def flat(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (2, 2), "float32")
    B = T.match_buffer(b, (4,), "float32")
    for i in range(4):
        with T.block("b"):
            v = T.axis.spatial(4, i)
            B[v] = A[v // 2, v % 2]


@T.prim_func(private=True)
def double(a: T.handle):
    A = T.match_buffer(a, (2, 2), "float32")
    for i, j in T.grid(2, 2):
        with T.block("b"):
            v, w = T.axis.remap("SS", [i, j])
            A[v, w] = A[v, w] * T.float32(2)


def test_results_that_leave_the_block_stay_fresh(check):
    @I.ir_module
    class Before:
        f = flat

        @R.function
        def main(x: R.Tensor((2, 2), "float32")):
            cls = Before
            with R.dataflow():
                output = R.call_tir(cls.f, (x,), R.Tensor((4,), "float32"))
                named = R.call_tir(cls.f, (x,), R.Tensor((4,), "float32"))
                gv = named
                packed = R.call_tir(cls.f, (x,), R.Tensor((4,), "float32"))
                t = (packed, x)
                field = t[0]
                gv1 = R.match_cast(field, R.Tensor((4,), "float32"))
                passed = R.call_tir(cls.f, (x,), R.Tensor((4,), "float32"))
                gv2 = cls.identity(passed)
                given = R.call_tir(cls.f, (x,), R.Tensor((4,), "float32"))
                gv3 = R.call_pure_packed("test.f", given, sinfo_args=R.Tensor((4,), "float32"))
                R.output(output, gv, gv1, gv2, gv3)
            outside = R.call_tir(cls.f, (x,), R.Tensor((4,), "float32"))
            return (output, gv, gv1, gv2, gv3, outside)

        @R.function(private=True)
        def identity(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return x

    check(RewriteDataflowReshape(), Before)


def test_a_view_of_a_view_that_leaves_stays_a_copy():
    @I.ir_module
    class Before:
        f = flat

        @R.function
        def main(x: R.Tensor((2, 2), "float32")):
            cls = Before
            with R.dataflow():
                a = R.call_tir(cls.f, (x,), R.Tensor((4,), "float32"))
                gv = R.reshape(a, R.shape([2, 2]))
                b = R.call_tir(cls.f, (x,), R.Tensor((4,), "float32"))
                c = R.reshape(b, R.shape([2, 2]))
                gv1 = R.exp(c)
                R.output(gv, gv1)
            return (gv, gv1)

    after = RewriteDataflowReshape()(Before)
    operators = [b.value.op.name for b in after["main"].body.blocks[0].bindings]
    assert operators == ["relax.call_tir", "relax.reshape", "relax.reshape", "relax.reshape", "relax.exp"]


def test_blocks_that_work_in_place_are_left_alone(check):
    @I.ir_module
    class Before:
        f = flat
        g = double

        @R.function
        def main(x: R.Tensor((2, 2), "float32")):
            cls = Before
            with R.dataflow():
                a = R.exp(x)
                lv = R.call_tir(cls.f, (a,), R.Tensor((4,), "float32"))
                b = R.call_tir_inplace(cls.g, (a,), [0], R.Tensor((2, 2), "float32"))
                gv = R.exp(lv)
                R.output(b, gv)
            return (b, gv)

    check(RewriteDataflowReshape(), Before)
