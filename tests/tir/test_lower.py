"""Lowering keeps what a function computes: the lowered form and the blocks give the same arrays."""

from __future__ import annotations

import numpy as np
import pytest

from relax import te, tir
from relax.codegen import CompiledKernels, build_module
from relax.ir import DiagnosticError, assert_structural_equal
from relax.ir.transform import PassContext, TimingInstrument
from relax.script import from_source
from relax.tir import Block, BlockRealize, ForKind, interpret, transform
from relax.tir.transform import lower
from support import compiled, interpreted, nodes, numbers, prim_func, same


def check(func, *args, expected=None):
    """Return the lowered function: without blocks, a fixed point, of the same results with loops in any order.

    Not `agree`: blocks of these functions may stand outside of a root block, which the parser adds.
    """
    lowered, results = lower(func), interpreted(func, *args)
    assert not nodes(lowered, Block)
    assert lower(lowered) is lowered
    for reverse in (False, True):
        same(interpreted(lowered, *args, reverse_parallel=reverse), results)
    if expected is not None:
        same(results[-1], np.asarray(expected, results[-1].dtype), rtol=1e-6, atol=1e-6)
    return lowered


def matmul(n, m, k, dtype="float32"):
    a = te.placeholder((n, k), dtype, "A")
    b = te.placeholder((k, m), dtype, "B")
    r = te.reduce_axis((0, k), "k")
    return te.create_prim_func([a, b, te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), "C")])


@pytest.mark.parametrize("n, m, k", [(3, 4, 5), (1, 1, 1), (0, 4, 5), (3, 4, 0), (0, 0, 0)])
@pytest.mark.parametrize("symbolic", [False, True])
def test_matmul(n, m, k, symbolic):
    a, b = numbers(n, k), numbers(k, m, seed=1)
    sizes = [te.var(name, "int64") for name in "nmk"] if symbolic else (n, m, k)
    check(matmul(*sizes), a, b, np.full((n, m), np.nan, "float32"), expected=a @ b)


def test_reduction_over_nothing_gives_the_identity():
    n = te.var("n", "int64")
    a = te.placeholder((n,), name="A")
    k = te.reduce_axis((0, n), "k")
    for reducer, expected in ((te.sum, 0), (te.prod, 1), (te.max, -np.inf), (te.min, np.inf)):
        func = te.create_prim_func([a, te.compute((), lambda r=reducer: r(a[k], axis=k), "B")])
        check(func, np.zeros(0, "float32"), np.array(np.nan, "float32"), expected=expected)


def test_init_is_in_front_of_the_loop_that_reduces():
    lowered = lower(matmul(3, 4, 5))
    loops = nodes(lowered, tir.For)
    reducing = next(loop for loop in loops if loop.loop_var.name == "k")
    starts = [store for store in nodes(lowered, tir.BufferStore) if isinstance(store.value, tir.FloatImm)]
    assert len(starts) == 1
    assert not any(store is starts[0] for store in nodes(reducing, tir.BufferStore))
    assert not nodes(lowered, tir.IfThenElse)


def test_where_and_init():
    a = te.placeholder((8,), name="A")
    k = te.reduce_axis((0, 8), "k")
    func = te.create_prim_func([a, te.compute((), lambda: te.sum(a[k], axis=k, where=k % 2 < 1, init=10.0), "B")])
    data = np.arange(8, dtype="float32")
    check(func, data, np.array(0, "float32"), expected=10 + data[::2].sum())


def test_argmax():
    a = te.placeholder((3, 7), name="A")

    def combine(x, y):
        keep = te.any(x[1] > y[1], te.all(x[1].equal(y[1]), x[0] < y[0]))
        return te.Select(keep, x[0], y[0]), te.Select(keep, x[1], y[1])

    argmax = te.comm_reducer(combine, lambda i, v: (te.const(-1, i), te.min_value(v)), "argmax")
    k = te.reduce_axis((0, 7), "k")
    index, value = te.compute((3,), lambda i: argmax((k.asobject(), a[i, k]), axis=k), "argmax")
    data = numbers(3, 7)
    func = te.create_prim_func([a, value, index])
    check(func, data, np.zeros(3, "float32"), np.zeros(3, "int64"), expected=data.argmax(1))


@pytest.mark.parametrize("dtype", "float16 bfloat16 float32 float64 int8 uint8 int16 int32 int64 uint64 bool".split())
def test_every_dtype(dtype):
    kind = te.placeholder((1,), dtype).dtype.numpy()
    data = np.array([0, 1, 2, 100, 127], np.float64).astype(kind)
    a = te.placeholder((5,), dtype, "A")
    if dtype == "bool":
        func = te.create_prim_func([a, te.compute((5,), lambda i: te.any(a[i], i < 2), "B")])
        expected = data | np.array([True, True, False, False, False])
    else:
        func = te.create_prim_func([a, te.compute((5,), lambda i: a[i] * a[i] + a[i], "B")])
        with np.errstate(all="ignore"):
            expected = data * data + data
    check(func, data, np.zeros(5, kind), expected=expected)


def loop_over(kind, extent, body, dtype="int64"):
    i = tir.Var("i", dtype)
    return tir.For(i, 0, extent, kind, body(i))


def copy_func(kind, extent, size=64, index=lambda i: i, make=None):
    a, b = tir.decl_buffer((size,), name="A"), tir.decl_buffer((size,), name="B")
    pa, pb = tir.Var("a", "handle"), tir.Var("b", "handle")
    make = make or (lambda i: tir.BufferStore(b, a[index(i)] * 2.0 + i.astype("float32"), (index(i),)))
    return tir.PrimFunc((pa, pb), loop_over(kind, extent, make), buffer_map={pa: a, pb: b})


@pytest.mark.parametrize("extent", [0, 1, 2, 4, 16, 64])
def test_vectorized(extent):
    func = copy_func(ForKind.VECTORIZED, extent)
    data = numbers(64)
    lowered = check(func, data, np.zeros(64, "float32"))
    assert not nodes(lowered, tir.For)
    assert bool(nodes(lowered, tir.Ramp)) == (extent > 1)


def test_vectorized_strided_and_gathered():
    for index in (lambda i: i * 3 + 1, lambda i: 20 - i, lambda i: (i * 7) % 64):
        lowered = check(copy_func(ForKind.VECTORIZED, 8, index=index), numbers(64), np.zeros(64, "float32"))
        assert not nodes(lowered, tir.For)


def test_vectorized_branches_are_masks_and_one_place_is_a_serial_loop():
    a, b = tir.decl_buffer((64,), name="A"), tir.decl_buffer((64,), name="B")
    pa, pb = tir.Var("a", "handle"), tir.Var("b", "handle")
    bodies = [
        lambda i: tir.IfThenElse(i < 3, tir.BufferStore(b, a[i], (i,))),
        lambda i: tir.BufferStore(b, b[0] + a[i], (0,)),
        lambda i: tir.BufferStore(b, tir.if_then_else(i < 6, a[i + 4], 0.0), (i,)),
        lambda i: tir.LetStmt(x := tir.Var("x", "float32"), a[i], tir.IfThenElse(x > 0.5, tir.BufferStore(b, x, (i,)))),
    ]
    for body in bodies:
        func = tir.PrimFunc((pa, pb), loop_over(ForKind.VECTORIZED, 8, body), buffer_map={pa: a, pb: b})
        lowered = check(func, numbers(64), np.zeros(64, "float32"))
        one_place = body is bodies[1]
        assert [loop.kind for loop in nodes(lowered, tir.For)] == [ForKind.SERIAL] * one_place
        assert bool(nodes(lowered, tir.Ramp)) != one_place


def test_vectorized_let_and_inner_loop():
    a, b = tir.decl_buffer((64,), name="A"), tir.decl_buffer((8, 64), name="B")
    pa, pb = tir.Var("a", "handle"), tir.Var("b", "handle")
    x, j = tir.Var("x", "float32"), tir.Var("j", "int64")

    def body(i):
        store = tir.BufferStore(b, tir.exp(x) + j.astype("float32"), (j, i))
        return tir.LetStmt(x, a[i] + 1.0, tir.For(j, 0, 8, "serial", store))

    func = tir.PrimFunc((pa, pb), loop_over(ForKind.VECTORIZED, 8, body), buffer_map={pa: a, pb: b})
    lowered = check(func, numbers(64), np.zeros((8, 64), "float32"))
    assert [loop.loop_var.name for loop in nodes(lowered, tir.For)] == ["j"]
    assert nodes(lowered, tir.LetStmt)[0].var.dtype == "float32x8"


def test_unrolled():
    lowered = check(copy_func(ForKind.UNROLLED, 5), numbers(64), np.zeros(64, "float32"))
    assert [loop.kind for loop in nodes(lowered, tir.For)] == [ForKind.UNROLLED]
    code = build_module(lowered).get_source()
    assert "phi" not in code
    assert code.count("store float") == 5
    long = build_module(copy_func(ForKind.UNROLLED, 1000, size=1000)).get_source()
    assert "phi" in long
    assert long.count("store float") == 1


def test_branches_on_the_variable_of_an_unrolled_loop_are_decided():
    a, b = (tir.decl_buffer((64,), name=name) for name in "AB")
    pa, pb = tir.Var("a", "handle"), tir.Var("b", "handle")

    def body(i):
        return tir.IfThenElse(i < 2, tir.BufferStore(b, a[i * 3], (i,)), tir.BufferStore(b, a[i - 2], (i,)))

    func = tir.PrimFunc((pa, pb), loop_over(ForKind.UNROLLED, 4, body), buffer_map={pa: a, pb: b})
    data = numbers(64)
    code = build_module(check(func, data, np.zeros(64, "float32"))).get_source()
    assert "IndexError" not in code
    assert code.count("store float") == 4


def test_allocation_moves_to_the_smallest_scope():
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] * 2.0, "B")
    c = te.compute((4,), lambda i: b[i] + 1.0, "C")
    d = te.compute((4,), lambda i: c[i] + a[i], "D")
    data = numbers(4)
    func = te.create_prim_func([a, c, d])
    lowered = check(func, data, np.zeros(4, "float32"), np.zeros(4, "float32"), expected=data * 3 + 1)
    assert isinstance(lowered.body, tir.SeqStmt)
    assert isinstance(lowered.body.seq[0], tir.AllocBuffer)
    assert len(lowered.body.seq[0].body.seq) == 2


def test_match_buffer():
    a = tir.decl_buffer((8, 8), name="A")
    pa = tir.Var("a", "handle")
    i, vi, j = (tir.Var(n, "int64") for n in ("i", "vi", "j"))
    s = tir.Var("s", "int64")
    view = tir.decl_buffer((4,), name="view", strides=(s,), elem_offset=tir.Var("o", "int64"))
    region = tir.BufferRegion(a, (tir.Range.from_min_extent(vi, 1), tir.Range(2, 6)))
    body = tir.For(j, 0, 4, "serial", tir.BufferStore(view, (vi * 10 + j).astype("float32"), (j,)))
    block = tir.Block(
        (tir.IterVar(tir.Range(0, 8), vi),),
        (),
        (region,),
        "B",
        body,
        match_buffers=(tir.MatchBufferRegion(view, region),),
    )
    func = tir.PrimFunc((pa,), tir.For(i, 0, 8, "serial", BlockRealize((i,), True, block)), buffer_map={pa: a})
    expected = np.zeros((8, 8), "float32")
    expected[:, 2:6] = np.arange(8)[:, None] * 10 + np.arange(4)
    check(func, np.zeros((8, 8), "float32"), expected=expected)


def test_fused_reduction_keeps_a_guarded_init():
    """A loop that feeds a spatial and a reduction axis: the init stays, under a condition."""
    a, b = tir.decl_buffer((4, 5), name="A"), tir.decl_buffer((4,), name="B")
    pa, pb = tir.Var("a", "handle"), tir.Var("b", "handle")
    f, vi, vk = (tir.Var(n, "int64") for n in ("f", "vi", "vk"))
    block = tir.Block(
        (tir.IterVar(tir.Range(0, 4), vi), tir.IterVar(tir.Range(0, 5), vk, "reduce")),
        (),
        (),
        "B",
        tir.BufferStore(b, b[vi] + a[vi, vk], (vi,)),
        tir.BufferStore(b, 0.0, (vi,)),
    )
    body = tir.For(f, 0, 20, "serial", BlockRealize((f // 5, f % 5), True, block))
    func = tir.PrimFunc((pa, pb), body, buffer_map={pa: a, pb: b})
    data = numbers(4, 5)
    lowered = check(func, data, np.zeros(4, "float32"), expected=data.sum(1))
    assert nodes(lowered, tir.IfThenElse)


def test_split_reduction_with_a_predicate():
    """k = ko * 4 + ki < 10: the init runs once, whatever the predicate says of the reduction."""
    a, b = tir.decl_buffer((3, 10), name="A"), tir.decl_buffer((3,), name="B")
    pa, pb = tir.Var("a", "handle"), tir.Var("b", "handle")
    i, ko, ki, vi, vk = (tir.Var(n, "int64") for n in ("i", "ko", "ki", "vi", "vk"))
    block = tir.Block(
        (tir.IterVar(tir.Range(0, 3), vi), tir.IterVar(tir.Range(0, 10), vk, "reduce")),
        (),
        (),
        "B",
        tir.BufferStore(b, b[vi] + a[vi, vk], (vi,)),
        tir.BufferStore(b, 0.0, (vi,)),
    )
    realize = BlockRealize((i, ko * 4 + ki), tir.all(ko * 4 + ki < 10, i < 3), block)
    body = tir.For(ko, 0, 3, "serial", tir.For(i, 0, 4, "parallel", tir.For(ki, 0, 4, "serial", realize)))
    func = tir.PrimFunc((pa, pb), body, buffer_map={pa: a, pb: b})
    data = numbers(3, 10)
    check(func, data, np.zeros(3, "float32"), expected=data.sum(1))


# ------------------------------------------------------------------------------------- the pipeline

EVERYTHING = """
@I.ir_module
class Module:
    @T.prim_func
    def main(a: T.handle, b: T.handle, c: T.handle):
        T.func_attr({"tir.noalias": True})
        n = T.int64()
        A = T.match_buffer(a, (n, 4))
        B = T.match_buffer(b, (4, 8))
        C = T.match_buffer(c, (n, 8))
        T.precondition(n < 100, "too many rows")
        D = T.alloc_buffer((n, 8))
        for i in T.parallel(n):
            for j in range(8):
                for k in range(4):
                    with T.block("matmul"):
                        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                        with T.init():
                            D[vi, vj] = T.float32(0)
                        D[vi, vj] = D[vi, vj] + A[vi, vk] * B[vk, vj]
        for i in range(n):
            with T.block("rows"):
                vi = T.axis.spatial(n, i)
                row = T.match_buffer(D[vi, 0:8], (8,))
                for j in T.unroll(8):
                    C[vi, j] = row[j] + T.float32(1)
        E = T.alloc_buffer((n, 8))
        for i in range(n):
            for j in range(8):
                with T.block("double"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    E[vi, vj] = C[vi, vj] * T.float32(2)
            for j in range(8):
                with T.block("half"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = E[vi, vj] * T.float32(0.5)

    @T.prim_func
    def other(A: T.Buffer((8, 4), "float32")):
        for i in T.parallel(8):
            for j in T.vectorized(4):
                A[i, j] = T.float32(1)

    @R.function
    def unlowered(x: R.Tensor) -> R.Tensor:
        return x
"""


@pytest.mark.parametrize("n", [0, 1, 3])
def test_every_step_keeps_the_results_and_is_finished_after_one_run(n):
    mod = from_source("from relax.script import ir as I, relax as R, tir as T\n" + EVERYTHING)
    relax_function = mod["unlowered"]
    a, b = numbers(n, 4), numbers(4, 8, seed=1)
    expected = np.zeros((n, 8), "float32")
    interpret(mod["main"], a, b, expected)
    np.testing.assert_allclose(expected, a @ b + 1, rtol=1e-6)
    changed = set()
    for step in transform.lowering_steps():
        run = step.make()
        after = run(mod)
        changed |= {run.info.name} if after is not mod else set()
        assert run(after) is after
        assert tir.verify_well_formed(after)
        assert_structural_equal(from_source(after.script()), after)
        found = np.full((n, 8), np.nan, "float32")
        interpret(after["main"], a, b, found, module=after)
        np.testing.assert_array_equal(found, expected)
        mod = after
    assert changed == {step.make().info.name for step in transform.lowering_steps()}
    names = [g.name_hint for g in mod.functions]
    assert names == ["main", "other", "unlowered", "main_parallel", "other_parallel"]
    assert mod["unlowered"] is relax_function
    assert transform.LowerTIR()(mod) is mod is lower(mod)


def test_every_step_has_a_reason():
    for step in transform.lowering_steps():
        assert 20 < len(step.reason) < 100


def test_errors_of_all_functions_are_raised_together():
    def func(name):
        view = f'T.evaluate(T.call_extern("int32", "consume", {name}.data))'
        return f"""
    @T.prim_func
    def {name}f(A: T.Buffer((8,), "float32")):
        with T.block("B"):
            {name} = T.match_buffer(A[0:4], (4,))
            {view}
"""

    text = "from relax.script import ir as I, tir as T\n@I.ir_module\nclass M:" + func("one") + func("two")
    with pytest.raises(DiagnosticError) as caught:
        lower(from_source(text, allow_extern=True))
    assert [d.code for d in caught.value.diagnostics] == ["E5010", "E5010"]
    assert "in PrimFunc onef" in str(caught.value)
    assert "in PrimFunc twof" in str(caught.value)


def test_lowering_a_kernel_to_fold_constants_is_no_step_of_the_pipeline():
    timing = TimingInstrument()
    with PassContext(instruments=[timing]):
        out = np.zeros((3, 4), "float32")
        assert CompiledKernels()(matmul(3, 4, 5), (np.ones((3, 5), "float32"), np.ones((5, 4), "float32"), out))
        assert not timing.times
        lower(matmul(3, 4, 5))
        assert "LowerInitBlock" in [name for name, *_ in timing.times]
    np.testing.assert_array_equal(out, 5)


@pytest.mark.parametrize(
    "loops, axes",
    [
        ("i, k in T.grid(4, 6)", ("i", "k // 2")),
        ("i, k in T.grid(4, 4)", ("i", "k * k // 2")),
        ("i, k, r in T.grid(4, 6, 2)", ("i", "k")),
        ("k, i in T.grid(6, 8)", ("i // 2", "k")),
        ("i, k, r in T.grid(4, 3, 3)", ("i", "k * 2 + r % 2")),
    ],
)
def test_a_point_that_loops_reach_twice_starts_its_reduction_twice(loops, axes):
    """The init stays where the axes are at their start, and runs as often as they are."""
    func = prim_func(f"""
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for {loops}:
        with T.block("B"):
            vi = T.axis.spatial(4, {axes[0]})
            vk = T.axis.reduce(6, {axes[1]})
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
""")
    data, out = np.arange(24, dtype="float32").reshape(4, 6), np.zeros(4, "float32")
    lowered = check(func, data, out)
    assert nodes(lowered, tir.IfThenElse)
    same(compiled(func, data, out), interpreted(func, data, out))


def test_points_that_loops_reach_once_start_in_front_of_them():
    func = prim_func("""
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for i, ko, ki in T.grid(4, 2, 4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            vk = T.axis.reduce(6, ko * 4 + ki)
            T.where(ko * 4 + ki < 6)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
""")
    lowered = check(func, numbers(4, 6), np.zeros(4, "float32"))
    assert len(nodes(lowered, tir.IfThenElse)) == 1  # the predicate


@pytest.mark.parametrize("size", [0, 1, 5])
def test_the_second_part_of_a_reduction_does_not_start_it(size):
    """The loop that reduces begins at 2, where the axis does not: the init stays, under a condition."""
    func = prim_func("""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "int32")
    B = T.match_buffer(b, (), "int32")
    for k in range(T.int64(2)):
        with T.block("first"):
            vk = T.axis.reduce(n, k)
            with T.init():
                B[()] = 0
            B[()] = B[()] + A[vk]
    for k in range(n - 2):
        with T.block("second"):
            vk = T.axis.reduce(n, k + 2)
            with T.init():
                B[()] = 0
            B[()] = B[()] + A[vk]
""")
    data = np.arange(size + 2, dtype="int32")
    check(func, data, np.array(7, "int32"), expected=data.sum())


def test_a_loop_of_both_kinds_without_iterations_starts_nothing():
    func = prim_func("""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 3), "int32")
    B = T.match_buffer(b, (n,), "int32")
    for f in range(n * 3):
        with T.block("B"):
            vi = T.axis.spatial(n, f // 3)
            vk = T.axis.reduce(3, f % 3)
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vk]
""")
    for size in (0, 1, 4):
        data = np.arange(size * 3, dtype="int32").reshape(size, 3)
        check(func, data, np.zeros(size, "int32"), expected=data.sum(axis=1))


@pytest.mark.parametrize("size", [0, 1, 3])
def test_a_loop_that_reduces_one_block_and_not_another(size):
    """Over nothing, the sum is started, and the rows, of which there are none, are not."""
    func = prim_func("""
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, n), "int32")
    B = T.match_buffer(b, (n,), "int32")
    C = T.match_buffer(c, (), "int32")
    for i, k in T.grid(n, n):
        with T.block("all"):
            vi, vk = T.axis.remap("RR", [i, k])
            with T.init():
                C[()] = 0
            C[()] = C[()] + A[vi, vk]
        with T.block("rows"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vk]
""")
    data = np.arange(size * size, dtype="int32").reshape(size, size)
    check(func, data, np.full(size, 7, "int32"), np.array(7, "int32"), expected=data.sum())


@pytest.mark.parametrize("size", [0, 1, 3])
def test_a_condition_on_rows_holds_for_their_start_too(size):
    """The condition mentions a size that the reduction axis mentions as well."""
    func = prim_func("""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, n), "int32")
    B = T.match_buffer(b, (n,), "int32")
    for ko, ki, i in T.grid(T.int64(2), (n + 1) // 2, n + 2):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            vk = T.axis.reduce(n, ko * ((n + 1) // 2) + ki)
            T.where(i < n and ko * ((n + 1) // 2) + ki < n)
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[vi, vk]
""")
    data = np.arange(size * size, dtype="int32").reshape(size, size)
    check(func, data, np.full(size, 7, "int32"), expected=data.sum(axis=1))


def test_fused_axes_over_nothing_are_at_their_start():
    """f // 0 has no value, and is the start of an axis that has none."""
    func = prim_func("""
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (2, n), "int32")
    B = T.match_buffer(b, (), "int32")
    for f in range(2 * n):
        with T.block("B"):
            vi = T.axis.reduce(T.int64(2), f // n)
            vk = T.axis.reduce(n, f % n)
            with T.init():
                B[()] = 0
            B[()] = B[()] + A[vi, vk]
""")
    for size in (0, 1, 3):
        data = np.arange(2 * size, dtype="int32").reshape(2, size)
        check(func, data, np.array(7, "int32"), expected=data.sum())
