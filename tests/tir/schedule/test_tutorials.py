"""The steps of TVM's tutorials on TensorIR, with its names: creating programs, schedules of matmul and of elementwise
functions, programs of any size, tensor intrinsics, layouts.
"""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import te, tir
from relax.script import ir as I
from relax.script import tir as T


def compiled(mod):
    return relax.codegen.build_module(mod)


# ------------------------------------------------------------------------------------------ the first program


@I.ir_module
class AddOne:
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        A = T.match_buffer(a, (8,), dtype="float32")
        B = T.match_buffer(b, (8,), dtype="float32")
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] + 1.0


def add_one(mod):
    a = relax.nd.array(np.arange(8).astype("float32"))
    b = relax.nd.array(np.zeros(8, "float32"))
    compiled(mod)["main"](a, b)
    return b.numpy().tolist()


def test_a_module_is_written_built_and_run():
    assert isinstance(AddOne, relax.IRModule)
    assert 'with T.block("B"):' in AddOne.script()
    assert add_one(AddOne) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_module_is_made_of_tensor_expressions():
    A = te.placeholder((8,), dtype="float32", name="A")
    B = te.compute((8,), lambda *i: A(*i) + 1.0, name="B")
    func = te.create_prim_func([A, B])
    made = relax.IRModule({"main": func})
    assert add_one(made) == add_one(AddOne)


def test_a_loop_is_split():
    sch = tir.Schedule(AddOne)
    assert type(sch) is tir.Schedule
    block_b = sch.get_block("B")
    (i,) = sch.get_loops(block_b)
    _, i_1, _ = sch.split(i, factors=[2, 2, 2])
    assert "for i_0, i_1, i_2 in T.grid(2, 2, 2):" in sch.mod.script()
    sch.vectorize(sch.get_loops(block_b)[2])
    sch.unroll(i_1)
    assert add_one(sch.mod) == add_one(AddOne)


def test_loops_change_places_and_are_bound_to_threads():
    sch = tir.Schedule(AddOne)
    block_b = sch.get_block("B")
    (i,) = sch.get_loops(block_b)
    i_0, i_1, i_2 = sch.split(i, factors=[2, 2, 2])
    sch.reorder(i_0, i_2, i_1)
    assert "for i_0, i_2, i_1 in T.grid(2, 2, 2):" in sch.mod.script()
    assert add_one(sch.mod) == add_one(AddOne)
    sch.bind(i_0, "blockIdx.x")
    sch.bind(i_2, "threadIdx.x")
    assert 'T.thread_binding(2, thread="blockIdx.x")' in sch.mod.script()


# ------------------------------------------------------------------------------------------ matmul and relu


@I.ir_module
class MatmulRelu:
    @T.prim_func
    def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        Y = T.alloc_buffer((16, 16), dtype="float32")
        for i, j, k in T.grid(16, 16, 16):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(16, 16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


def run_matmul(mod):
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-4, 5, (16, 16)).astype("float32") for _ in range(2))
    c = relax.nd.array(np.zeros((16, 16), "float32"))
    compiled(mod)["main"](relax.nd.array(a), relax.nd.array(b), c)
    return c.numpy(), a @ b


def test_a_reduction_is_decomposed():
    sch = tir.Schedule(MatmulRelu)
    block_Y = sch.get_block("Y", func_name="main")
    _, j, k = sch.get_loops(block_Y)
    sch.split(j, factors=[None, 4])
    sch.decompose_reduction(block_Y, k)
    names = [line.strip() for line in sch.mod.script().splitlines() if "T.block(" in line]
    assert names == ['with T.block("Y_init"):', 'with T.block("Y_update"):', 'with T.block("C"):']
    found, expected = run_matmul(sch.mod)
    np.testing.assert_array_equal(found, np.maximum(expected, 0))


def test_a_tiled_matmul_with_its_relu_inside():
    sch = tir.Schedule(MatmulRelu)
    block_Y = sch.get_block("Y", func_name="main")
    i, j, k = sch.get_loops(block_Y)
    j0, j1 = sch.split(j, factors=[None, 4])
    sch.reorder(j0, k, j1)
    block_C = sch.get_block("C", "main")
    sch.reverse_compute_at(block_C, j0)
    sch.decompose_reduction(block_Y, k)
    assert [loop.var.name for loop in sch.get_loops(block_C)][:2] == [i.var.name, j0.var.name]
    found, expected = run_matmul(sch.mod)
    np.testing.assert_array_equal(found, np.maximum(expected, 0))


def test_a_blocked_matmul_with_a_cache():
    sch = tir.Schedule(MatmulRelu)
    block = sch.get_block("Y")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, factors=[None, 4])
    j0, j1 = sch.split(j, factors=[None, 8])
    k0, k1 = sch.split(k, factors=[None, 4])
    sch.reorder(i0, j0, k0, k1, i1, j1)
    cache = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(cache, j0)
    sch.vectorize(j1)
    sch.parallel(sch.fuse(i0, j0))
    sch.decompose_reduction(block, k0)
    found, expected = run_matmul(sch.mod)
    np.testing.assert_array_equal(found, np.maximum(expected, 0))


def test_a_sum_in_parts():
    A = te.placeholder((4, 32), name="A")
    k = te.reduce_axis((0, 32), name="k")
    B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
    sch = tir.Schedule(te.create_prim_func([A, B]))
    block_b = sch.get_block("B")
    _, k = sch.get_loops(block_b)
    ko, _ = sch.split(k, factors=[None, 8])
    block_rf = sch.rfactor(ko, factor_axis=0)
    sch.parallel(sch.get_loops(block_rf)[1])
    a = np.arange(128, dtype="float32").reshape(4, 32)
    b = relax.nd.array(np.zeros(4, "float32"))
    compiled(sch.mod)["main"](relax.nd.array(a), b)
    assert b.numpy().tolist() == a.sum(1).tolist()


def test_the_time_of_each_step_is_measured():
    sch = tir.Schedule(MatmulRelu)
    arguments = [relax.nd.array(np.ones((16, 16), "float32")) for _ in range(3)]
    _, j, _ = sch.get_loops(sch.get_block("Y"))
    for factor in (2, 4):
        copy = sch.copy()
        copy.split(j, factors=[None, factor])
        evaluator = compiled(copy.mod).time_evaluator("main", relax.cpu(), number=1, repeat=2)
        assert len(evaluator(*arguments).results) == 2
    assert sch.get(j).extent.value == 16


# ------------------------------------------------------------------------------------------ any size


@I.ir_module
class AnySize:
    @T.prim_func
    def main(a: T.handle, b: T.handle, c: T.handle):
        T.func_attr({"global_symbol": "main"})
        M, N, K = T.int32(), T.int32(), T.int32()
        A = T.match_buffer(a, [M, K], dtype="float32")
        B = T.match_buffer(b, [K, N], dtype="float32")
        C = T.match_buffer(c, [M, N], dtype="float32")
        Y = T.alloc_buffer((M, N), "float32")
        for i, j, k in T.grid(M, N, K):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(M, N):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


def run_sizes(mod, m, n, k):
    generator = np.random.default_rng(0)
    a = generator.integers(-4, 5, (m, k)).astype("float32")
    b = generator.integers(-4, 5, (k, n)).astype("float32")
    c = relax.nd.array(np.zeros((m, n), "float32"))
    compiled(mod)["main"](relax.nd.array(a), relax.nd.array(b), c)
    np.testing.assert_array_equal(c.numpy(), np.maximum(a @ b, 0))


def test_a_program_of_any_size_is_scheduled():
    sch = tir.Schedule(AnySize)
    block = sch.get_block("Y")
    _, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, factors=[None, 4])
    sch.reorder(j0, k, j1)
    sch.vectorize(j1)
    for sizes in ((4, 4, 4), (16, 13, 7), (1, 3, 0), (0, 2, 2)):
        run_sizes(AnySize, *sizes)
        run_sizes(sch.mod, *sizes)


def test_tensor_expressions_of_any_size():
    m, n, k = te.var("m"), te.var("n"), te.var("k")
    A, B = te.placeholder((m, k), "float32", name="A"), te.placeholder((k, n), "float32", name="B")
    r = te.reduce_axis((0, k), "r")
    Y = te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="Y")
    C = te.compute((m, n), lambda i, j: te.max(Y[i, j], T.float32(0)), name="C")
    func = te.create_prim_func([A, B, C]).with_attr({"global_symbol": "main"})
    sch = tir.Schedule(relax.IRModule({"main": func}))
    i, _ = sch.get_loops(sch.get_block("C"))
    sch.compute_at(sch.get_block("Y"), i)
    sch.parallel(i)
    for sizes in ((4, 4, 4), (5, 3, 7), (2, 3, 0)):
        run_sizes(sch.mod, *sizes)


# ------------------------------------------------------------------------------------------ tensor intrinsics

N, M, L = 8, 32, 16
"""Rows, columns, and terms of each sum."""
WIDTH = 16


def gemv(name, call):
    """A product of a row with 16 rows of a matrix: described by loops, or done by a function of the machine."""

    @T.prim_func
    def desc(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (L,), "float32", offset_factor=1)
        B = T.match_buffer(b, (WIDTH, L), "float32", offset_factor=1)
        C = T.match_buffer(c, (WIDTH,), "float32", offset_factor=1)
        with T.block("root"):
            T.reads(C[0:WIDTH], A[0:L], B[0:WIDTH, 0:L])
            T.writes(C[0:WIDTH])
            for i, k in T.grid(WIDTH, L):
                with T.block("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + A[vk] * B[vi, vk]

    @T.prim_func
    def extern(a: T.handle, b: T.handle, c: T.handle):
        stride = T.int64()
        A = T.match_buffer(a, (L,), "float32", offset_factor=1)
        B = T.match_buffer(b, (WIDTH, L), "float32", strides=[stride, 1], offset_factor=1)
        C = T.match_buffer(c, (WIDTH,), "float32", offset_factor=1)
        with T.block("root"):
            T.reads(C[0:WIDTH], A[0:L], B[0:WIDTH, 0:L])
            T.writes(C[0:WIDTH])
            T.evaluate(
                T.call_extern(
                    "int32", "gemv_update", C.access_ptr("w"), A.access_ptr("r"), B.access_ptr("r"), WIDTH, L, stride
                )
            )

    @T.prim_func
    def vectors(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (L,), "float32", offset_factor=1)
        B = T.match_buffer(b, (WIDTH, L), "float32", offset_factor=1)
        C = T.match_buffer(c, (WIDTH,), "float32", offset_factor=1)
        with T.block("root"):
            T.reads(C[0:WIDTH], A[0:L], B[0:WIDTH, 0:L])
            T.writes(C[0:WIDTH])
            for k in range(L):
                for i in T.vectorized(WIDTH):
                    C[i] = C[i] + A[k] * B[i, k]

    tir.TensorIntrin.register(name, desc, extern if call else vectors, override=True)
    return name


def matmul_of_rows():
    A = te.placeholder((N, L), name="A")
    B = te.placeholder((M, L), name="B")
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")
    return te.create_prim_func([A, B, C])


def gemv_update(c, a, b, width, length, stride):
    rows = np.lib.stride_tricks.as_strided(b, (width, length), (stride * 4, 4))
    c[:width] += rows @ a[:length]
    return 0


@pytest.mark.parametrize("call", [True, False])
def test_rows_are_multiplied_by_an_intrinsic(call):
    func = matmul_of_rows()
    sch = tir.Schedule(func)
    block = sch.get_block("C")
    _, j, k = sch.get_loops(block)
    _, ji = sch.split(j, factors=[None, WIDTH])
    init = sch.decompose_reduction(block, ji)
    sch.tensorize(ji, gemv("tutorial.gemv", call))
    assert sch.get(init).name_hint == "C_init"
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-4, 5, shape).astype("float32") for shape in ((N, L), (M, L)))
    c = np.zeros((N, M), "float32")
    tir.interpret(sch.mod["main"], a, b, c, externs={"gemv_update": gemv_update})
    np.testing.assert_array_equal(c, a @ b.T)
    if not call:
        out = relax.nd.array(np.zeros((N, M), "float32"))
        compiled(sch.mod)["main"](relax.nd.array(a), relax.nd.array(b), out)
        np.testing.assert_array_equal(out.numpy(), c)


def test_a_tile_of_a_matmul_becomes_a_block():
    sch = tir.Schedule(MatmulRelu)
    block = sch.get_block("C")
    i, j = sch.get_loops(block)
    i0, i1 = sch.split(i, factors=[None, 4])
    j0, j1 = sch.split(j, factors=[None, 4])
    sch.reorder(i0, j0, i1, j1)
    tile = sch.blockize(i1)
    assert [loop.var for loop in sch.get_loops(tile)] == [i0.var, j0.var]
    found, expected = run_matmul(sch.mod)
    np.testing.assert_array_equal(found, np.maximum(expected, 0))


# ------------------------------------------------------------------------------------------ layouts


def test_an_intermediate_gets_another_layout():
    sch = tir.Schedule(MatmulRelu)
    block = sch.get_block("Y")
    sch.transform_layout(block, buffer=("write", 0), index_map=lambda i, j: (i // 4, j // 4, i % 4, j % 4))
    assert "Y = T.alloc_buffer((4, 4, 4, 4))" in sch.mod.script()
    found, expected = run_matmul(sch.mod)
    np.testing.assert_array_equal(found, np.maximum(expected, 0))


def test_a_packed_operand():
    sch = tir.Schedule(MatmulRelu)
    block = sch.get_block("Y")
    packed = sch.cache_read(block, 1, "global")
    sch.transform_layout(packed, ("write", 0), lambda k, j: (j // 8, k, j % 8))
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, factors=[None, 8])
    sch.reorder(i, j0, k, j1)
    sch.decompose_reduction(block, k)
    found, expected = run_matmul(sch.mod)
    np.testing.assert_array_equal(found, np.maximum(expected, 0))


def test_a_convolution_by_blocks_of_channels():
    """The channels of its input, weights and output are divided into blocks of four: NCHW4c."""
    x = te.placeholder((1, 8, 6, 6), name="X")
    w = te.placeholder((8, 8, 3, 3), name="W")
    rc, ry, rx = (te.reduce_axis((0, n), name) for n, name in ((8, "rc"), (3, "ry"), (3, "rx")))
    y = te.compute(
        (1, 8, 4, 4), lambda n, f, h, v: te.sum(x[n, rc, h + ry, v + rx] * w[f, rc, ry, rx], axis=[rc, ry, rx]), "Y"
    )
    func = te.create_prim_func([x, w, y])
    sch = tir.Schedule(func)
    block = sch.get_block("Y")
    for which, layout in (
        (("read", 0), lambda n, c, h, v: (n, c // 4, h, v, c % 4)),
        (("read", 1), lambda f, c, h, v: (f // 4, c // 4, h, v, c % 4, f % 4)),
    ):
        sch.cache_read(block, which[1], "global")
        sch.transform_layout(block, which, layout)
    sch.cache_write(block, 0, "global")
    sch.transform_layout(block, ("write", 0), lambda n, f, h, v: (n, f // 4, h, v, f % 4))
    sch.transform_block_layout(block, lambda n, f, h, v, c, r, s: (n, f // 4, h, v, f % 4, c // 4, r, s, c % 4))
    loops = sch.get_loops(block)
    assert [sch.get(loop).extent.value for loop in loops] == [1, 2, 4, 4, 4, 2, 3, 3, 4]
    sch.reorder(*loops[:4], *loops[5:], loops[4])
    sch.vectorize(sch.get_loops(block)[-1])
    generator = np.random.default_rng(0)
    image, weights = (generator.integers(-4, 5, p.shape).astype("float32") for p in (x, w))
    results = [np.zeros((1, 8, 4, 4), "float32") for _ in range(2)]
    compiled(func)["main"](image, weights, results[0])
    compiled(sch.mod)["main"](image, weights, results[1])
    np.testing.assert_array_equal(*results)
