"""Tiles in registers: what the inner loop of a register-blocked kernel is made of, in the machine code."""

from __future__ import annotations

import re

import numpy as np
import pytest

from relax import codegen, tir
from relax.codegen.module import kernel_texts
from relax.farm import worker
from relax.farm.objects import machine_of
from relax.ir import IRModule
from relax.runtime.threads import LAUNCH
from relax.script import tir as T

AVX512 = codegen.resolve("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v4 -num-cores=8")
AVX2 = codegen.resolve("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3")


def gemm(rows, vectors, lanes=16, scope="local", outer=T.serial, panels=3):
    """C = A B in tiles of `rows` times `vectors` vectors; B in panels."""
    m, k, width = 2 * rows, 40, vectors * lanes

    @T.prim_func
    def main(
        A: T.Buffer((m, k), "float32"),
        B: T.Buffer((panels, k, width), "float32"),
        C: T.Buffer((m, panels * width), "float32"),
    ):
        T.func_attr({"tir.noalias": True})
        for jo in outer(panels):
            for io in range(2):
                acc = T.alloc_buffer((rows, width), "float32", scope=scope)
                for i in T.unroll(rows):
                    for v in T.unroll(vectors):
                        for l in T.vectorized(lanes):
                            acc[i, v * lanes + l] = T.float32(0)
                for p in range(k):
                    for i in T.unroll(rows):
                        for v in T.unroll(vectors):
                            for l in T.vectorized(lanes):
                                acc[i, v * lanes + l] = (
                                    acc[i, v * lanes + l] + A[io * rows + i, p] * B[jo, p, v * lanes + l]
                                )
                for i in T.unroll(rows):
                    for v in T.unroll(vectors):
                        for l in T.vectorized(lanes):
                            C[io * rows + i, jo * width + v * lanes + l] = acc[i, v * lanes + l]

    return main


def text_of(func, target):
    lowered = tir.lower(IRModule({"main": func}), target)
    (kernel,) = kernel_texts({g.name_hint: f for g, f in lowered.items()}, target)
    return kernel.text


def hottest_loop(assembly):
    """The instructions of the loop with the most fused multiply-adds: from its label to the jump back to it."""
    lines = [line.strip() for line in assembly.splitlines()]
    labels = {line[:-1]: i for i, line in enumerate(lines) if re.fullmatch(r"\.L\w+:", line)}
    loops = []
    for i, line in enumerate(lines):
        jump = re.match(r"j\w+\s+(\.L\w+)", line)
        if jump and labels.get(jump[1], i) < i:
            loops.append(lines[labels[jump[1]] + 1 : i + 1])
    innermost = [loop for loop in loops if not any(re.fullmatch(r"\.L\w+:", line) for line in loop)]
    return max(innermost, key=lambda loop: sum("vfmadd" in line for line in loop))


@pytest.mark.parametrize(
    "rows, vectors, lanes, target",
    [
        (6, 4, 16, AVX512),
        (8, 3, 16, AVX512),
        (12, 2, 16, AVX512),
        (14, 2, 16, AVX512),
        (6, 2, 8, AVX2),
        (4, 3, 8, AVX2),
    ],
)
def test_a_tile_lives_in_registers(rows, vectors, lanes, target):
    """One fused multiply-add for each vector of the tile, and no memory on the stack, in a step of the inner loop."""
    loop = hottest_loop(worker.emit_assembly(text_of(gemm(rows, vectors, lanes), target), machine_of(target)))
    fused = [line for line in loop if "vfmadd" in line]
    assert len(fused) % (rows * vectors) == 0, "\n".join(loop)
    assert fused
    assert not [line for line in loop if "(%rsp" in line or "(%rbp" in line], "\n".join(loop)


def test_a_tile_in_a_parallel_loop_lives_in_registers():
    text = text_of(gemm(6, 4, outer=T.parallel, panels=100), AVX512)
    assert LAUNCH in text
    assert text.startswith(f"{worker.IN_ORDER}\n{worker.IN_VECTORS}\n")
    loop = hottest_loop(worker.emit_assembly(text, machine_of(AVX512)))
    assert sum("vfmadd" in line for line in loop) % 24 == 0
    assert not [line for line in loop if "(%rsp" in line or "(%rbp" in line], "\n".join(loop)


def test_a_loop_that_only_prefetches_needs_no_look_for_vectors():
    """One that stores numbers does."""

    @T.prim_func
    def prefetches(A: T.Buffer((64, 16), "float32"), B: T.Buffer((64, 16), "float32")):
        for i in range(64):
            for line in range(4):
                T.prefetch(A[i, line * 4])
            for l in T.vectorized(16):
                B[i, l] = A[i, l]

    @T.prim_func
    def stores(A: T.Buffer((64, 16), "float32"), B: T.Buffer((64, 16), "float32")):
        for i in range(64):
            for j in range(16):
                B[i, j] = A[i, j]

    assert worker.in_vectors(text_of(prefetches, AVX512))
    assert not worker.in_vectors(text_of(stores, AVX512))


def test_a_loop_over_what_is_left_behind_vectors_needs_no_look_for_vectors():
    """One that may have more elements than a vector does, and so does one of a known number of elements."""

    def copy(size):
        @T.prim_func
        def main(a: T.handle, b: T.handle):
            n = T.int64()
            A = T.match_buffer(a, (n,), "float32")
            B = T.match_buffer(b, (n,), "float32")
            for i in range(n // size):
                for l in T.vectorized(16):
                    B[i * size + l] = A[i * size + l]
            for j in range(n % size):
                B[n // size * size + j] = A[n // size * size + j]

        return main

    @T.prim_func
    def few(A: T.Buffer((64, 15), "float32"), B: T.Buffer((64, 15), "float32")):
        for i in range(64):
            for j in range(15):
                B[i, j] = A[i, j]

    assert worker.in_vectors(text_of(copy(16), AVX512))
    assert not worker.in_vectors(text_of(copy(17), AVX512))
    assert not worker.in_vectors(text_of(few, AVX512))


def test_the_values():
    rows, vectors = 6, 4
    a, w = (np.random.default_rng(i).normal(size=s).astype("float32") for i, s in enumerate([(12, 40), (40, 192)]))
    b = np.ascontiguousarray(w.reshape(40, 3, 64).transpose(1, 0, 2))
    c = np.zeros((12, 192), "float32")
    codegen.build_module({"main": gemm(rows, vectors)})["main"](a, b, c)
    np.testing.assert_allclose(c, a @ w, rtol=1e-4, atol=1e-4)


def test_the_scheduler_is_off_for_tiles_only():
    """The text says so, and is the key of the cache; the assembly of other kernels does not depend on it."""
    tile, other = text_of(gemm(4, 2), AVX512), text_of(gemm(4, 2, scope="global"), AVX512)
    assert tile.startswith(worker.IN_ORDER)
    assert not other.startswith(worker.IN_ORDER)
    machine = machine_of(AVX512)
    before = worker.emit_object(other, machine)
    ordered = worker.emit_object(tile, machine)
    assert worker.emit_object(other, machine) == before
    assert worker.emit_object(tile, machine) == ordered
    assert worker.emit_object(tile.removeprefix(worker.IN_ORDER), machine) != ordered


def test_a_masked_tile_has_masks_and_no_branches():
    """A tile whose last column of vectors is cut off by the edge of the matrix."""

    @T.prim_func
    def main(A: T.Buffer((6, 40), "float32"), B: T.Buffer((40, 27), "float32"), C: T.Buffer((6, 27), "float32")):
        T.func_attr({"tir.noalias": True})
        acc = T.alloc_buffer((6, 32), "float32", scope="local")
        for i in T.unroll(6):
            for l in T.vectorized(32):
                acc[i, l] = T.float32(0)
        for p in range(40):
            for i in T.unroll(6):
                for v in T.unroll(2):
                    for l in T.vectorized(16):
                        acc[i, v * 16 + l] = T.fma(
                            A[i, p], T.if_then_else(v * 16 + l < 27, B[p, v * 16 + l], T.float32(0)), acc[i, v * 16 + l]
                        )
        for i in T.unroll(6):
            for v in T.unroll(2):
                for l in T.vectorized(16):
                    if v * 16 + l < 27:
                        C[i, v * 16 + l] = acc[i, v * 16 + l]

    a, b = (np.random.default_rng(i).normal(size=s).astype("float32") for i, s in enumerate([(6, 40), (40, 27)]))
    c = np.zeros((6, 27), "float32")
    codegen.build_module({"main": main})["main"](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    text = text_of(main, AVX512)
    assert not worker.in_vectors(text)  # LLVM has to split the vectors of the first loop
    loop = hottest_loop(worker.emit_assembly(text, machine_of(AVX512)))
    assert sum("vfmadd" in line for line in loop) % 12 == 0
    assert not [line for line in loop if "(%rsp" in line or "(%rbp" in line], "\n".join(loop)


def test_a_mask_that_compares_the_index_with_the_size_is_the_check():
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range((n + 15) // 16):
            value = A.vload([T.Ramp(i * 16, 1, 16)], predicate=T.Ramp(i * 16, 1, 16) < T.Broadcast(n, 16))
            B.vstore([T.Ramp(i * 16, 1, 16)], value, predicate=T.Ramp(i * 16, 1, 16) < T.Broadcast(n, 16))

    module = codegen.build_module(main)
    assert "out of bounds" not in module.get_source("ll")
    for n in (0, 1, 15, 16, 17, 33):
        a, b = np.arange(n, dtype="float32"), np.full(n + 1, 7, "float32")
        module["main"](a, b[:n])
        np.testing.assert_array_equal(b, [*a, 7])


def test_a_mask_with_a_name_is_the_check_of_what_it_masks():
    @T.prim_func
    def main(a: T.handle, b: T.handle, start: T.int64):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (16,), "float32")
        mask: T.boolx16 = (T.Ramp(start, 1, 16) >= T.Broadcast(T.int64(0), 16)) & (
            T.Ramp(start, 1, 16) < T.Broadcast(n, 16)
        )
        B[0:16] = A.vload([T.Ramp(start, 1, 16)], predicate=mask)

    module = codegen.build_module(main)
    assert "out of bounds" not in module.get_source("ll")
    for start, expected in ((-3, [0, 0, 0, *range(5), *[0] * 8]), (4, [4, *[0] * 15]), (99, [0] * 16)):
        b = np.full(16, 7, "float32")
        module["main"](np.arange(5, dtype="float32"), b, start)
        np.testing.assert_array_equal(b, expected)
