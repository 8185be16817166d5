"""Loops that are functions of their own: the annotation tir.own_function keeps results, errors and allocations."""

from __future__ import annotations

import numpy as np
import pytest

from relax import codegen, tir
from relax.explanation import explain
from relax.script import from_source
from relax.script import tir as T

SCALED = """
@T.prim_func
def scaled(a: T.handle, B: T.Buffer((4,), "float32"), c: T.handle, last: T.int64):
    n = T.int64()
    A, C = T.match_buffer(a, (n, 4)), T.match_buffer(c, (n, 4))
    for i in range(n):
        D = T.alloc_buffer((4,))
        for j in range(4):
            D[j] = A[i, j] + B[j]
        for j in T.serial(last, annotations={"tir.own_function": True}):
            C[i, j] = D[j] * T.Cast("float32", n)
"""


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("kind", ["T.serial(last, ", "T.serial(4, ", "T.unroll(4, "])
def test_it_reads_the_memory_and_sizes_around_it(kind, rows):
    kernel = codegen.build_module({"f": from_source(SCALED.replace("T.serial(last, ", kind))})["f"]
    a, b = np.arange(4 * rows, dtype="float32").reshape(rows, 4), np.ones(4, "float32")
    result = np.zeros_like(a)
    kernel(a, b, result, 4)
    np.testing.assert_array_equal(result, (a + 1) * rows)


def test_an_error_in_it_is_the_kernels():
    kernel = codegen.build_module({"f": from_source(SCALED)})["f"]
    a = np.ones((2, 4), "float32")
    with pytest.raises(IndexError, match="index 4 is out of bounds"):
        kernel(a, a[0], np.zeros_like(a), 5)


def test_it_leaves_registers_to_the_loop_around_it():
    """Products in registers, and a formula of many constants: alone, neither writes registers to the stack."""

    @T.prim_func
    def sums(A: T.Buffer((64, 64)), B: T.Buffer((64, 512)), C: T.Buffer((64, 512))):
        for io in range(8):
            total = T.alloc_buffer((8, 48), scope="local")
            out = T.alloc_buffer((8, 48))
            for p in T.unroll(8):
                for v in T.unroll(3):
                    total[p, v * 16 : v * 16 + 16] = T.Broadcast(T.float32(0), 16)
            for k in range(64):
                for p in T.unroll(8):
                    for v in T.unroll(3):
                        total[p, v * 16 : v * 16 + 16] = (
                            total[p, v * 16 : v * 16 + 16]
                            + T.Broadcast(A[io * 8 + p, k], 16) * B[k, v * 16 : v * 16 + 16]
                        )
            for p in T.unroll(8):
                for v in T.unroll(3):
                    out[p, v * 16 : v * 16 + 16] = total[p, v * 16 : v * 16 + 16]
            for p in T.serial(8, annotations={"tir.own_function": True}):
                for v in range(3):
                    for x in T.vectorized(16):
                        C[io * 8 + p, v * 16 + x] = T.erf(out[p, v * 16 + x]) * T.exp(out[p, v * 16 + x])

    inner = next(
        loop for loop in explain(sums, "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512").loops
        if loop.path[-1] == "k"
    )  # fmt: skip
    assert inner.main.spills == 0


def test_the_annotation_is_printed():
    func = from_source(SCALED)
    assert 'for j in T.serial(last, annotations={"tir.own_function": True}):' in func.script()
    assert tir.analysis.verify_well_formed(func)
