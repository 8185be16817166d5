"""Vector and fused forms written in TIR: they print, parse, are interpreted and reach the instructions one to one."""

from __future__ import annotations

import math
import textwrap
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from relax import codegen, tir
from relax.codegen.module import kernel_texts
from relax.farm import worker
from relax.farm.objects import machine_of
from relax.ir import DiagnosticError, IRModule, assert_structural_equal
from relax.prim.instructions import dot_u8s8, fma, fused, prefetch, vector_reduce_add, vector_reduce_or
from relax.script import from_source
from relax.script import tir as T
from relax.tir import interpret
from support import compiled, interpreted, same

AVX512 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v4"


def check(func, *args):
    """The printed text is the function; the interpreter and compiled code compute the same bits."""
    assert_structural_equal(from_source(func.script(), {"T": T}), func)
    exact = interpreted(func, *args)
    same(compiled(func, *args), exact)
    return exact


def assembly(func, target=AVX512):
    chosen = codegen.resolve(target)
    lowered = tir.lower(IRModule({"main": func}), chosen)
    kernels = kernel_texts({g.name_hint: f for g, f in lowered.items()}, chosen)
    return "\n".join(worker.emit_assembly(kernel.text, machine_of(chosen)) for kernel in kernels)


def values(n, seed=0, dtype="float32"):
    return np.random.default_rng(seed).normal(size=n).astype(dtype)


# ------------------------------------------------------------------------------------------- fma


@T.prim_func
def fma32(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    for i in T.vectorized(64):
        C[i] = T.fma(A[i], B[i], C[i])


@T.prim_func
def fma64(A: T.Buffer((64,), "float64"), B: T.Buffer((64,), "float64"), C: T.Buffer((64,), "float64")):
    for i in range(64):
        C[i] = T.fma(A[i], B[i], C[i])


def test_bytes_that_dot_u7s8_does_not_take():
    @T.prim_func
    def f(A: T.Buffer((2,), "int32"), C: T.Buffer((1,), "int32")):
        C[0] = T.dot_u7s8(C[0], A[0], A[1])

    sums = np.array([1], "int32")
    interpret(f, np.array([0x7F010203, 0x01FF0102], "int32"), sums)
    assert sums[0] == 1 + 127 * 1 + 1 * -1 + 2 * 1 + 3 * 2
    with pytest.raises(ValueError, match="dot_u7s8: a number on the left is not below 128"):
        interpret(f, np.array([0x80, 1], "int32"), sums)


@pytest.mark.parametrize("func, dtype", [(fma32, "float32"), (fma64, "float64")])
def test_fma_rounds_once(func, dtype):
    a, b = values(64, 1, dtype), values(64, 2, dtype)
    _, _, c = check(func, a, b, -(a * b))  # what is left is the error of the rounded product
    assert np.count_nonzero(c) > 32


# a * b + c lies next to the middle between two float32, so near that float64 rounds it to the middle
HARD = [
    (1 + 2**-12, 1 + 2**-12, 2**-60),
    (1 + 2**-12, 1 + 2**-12, -(2**-60)),
    (2**-75, 2**-75, 0.0),
    (2**-75, 2**-75, 2**-149),
    (2**-75, -(2**-75), 2**-126),
    (3e38, 2.0, -3e38),
    (3e38, 2.0, 3e38),
    (-3e38, 2.0, 0.0),
    (0.0, -1.0, 0.0),
    (0.0, -1.0, -0.0),
    (-1.0, 1.0, 1.0),
    (math.inf, 0.0, 1.0),
    (math.inf, 1.0, -math.inf),
    (math.inf, -1.0, 5.0),
    (1.0, math.nan, 5.0),
]


def test_fma_of_float32_is_not_that_of_float64():
    a, b, c = (np.array(column, "float32") for column in zip(*HARD))

    @T.prim_func
    def f(A: T.Buffer((15,), "float32"), B: T.Buffer((15,), "float32"), C: T.Buffer((15,), "float32")):
        for i in range(15):
            C[i] = T.fma(A[i], B[i], C[i])

    *_, found = check(f, a, b, c.copy())
    twice = (a[:2].astype("float64") * b[:2] + c[:2]).astype("float32")
    assert twice.tolist() == [1 + 2**-11, 1 + 2**-11]
    assert found[:2].tolist() == [1 + 2**-11 + 2**-23, 1 + 2**-11]
    assert np.signbit(found).tolist()[8:11] == [False, True, False]


def test_fma_on_random_bits():
    rng = np.random.default_rng(3)
    for dtype in ("float32", "float64"):
        a, b, c = (rng.integers(0, 2**32, 3000, "uint64").astype("uint32") for _ in range(3))
        if dtype == "float64":
            a, b, c = (x.astype("uint64") << 32 | y for x, y in ((a, b), (b, c), (c, a)))
        a, b, c = (x.view(dtype) for x in (a, b, c))

        @T.prim_func
        def f(A: T.Buffer((3000,), dtype), B: T.Buffer((3000,), dtype), C: T.Buffer((3000,), dtype)):
            for i in range(3000):
                C[i] = T.fma(A[i], B[i], C[i])

        *_, found = check(f, a, b, c.copy())
        for x, y, z, r in zip(a[:200], b[:200], c[:200], found[:200]):
            if all(map(np.isfinite, (x, y, z, r))):
                exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
                below, above = np.nextafter(r, -np.inf), np.nextafter(r, np.inf)
                error = abs(Fraction(float(r)) - exact)
                assert all(error <= abs(Fraction(float(o)) - exact) for o in (below, above) if np.isfinite(o))


def test_fma_of_other_dtypes_is_refused():
    h = tir.Var("h", "float16")
    with pytest.raises(TypeError, match="fma: expected three float32 or float64 of as many lanes, found float16"):
        fma(h, h, h)
    assert fused("float32", 2.0, 3.0, 4.0) == 10.0


def test_fma_is_one_instruction():
    text = assembly(fma32)
    assert text.count("vfmadd") == 4
    assert "vmulps" not in text
    assert "vaddps" not in text


# ------------------------------------------------------------------------------------------- masks


@T.prim_func
def masked(A: T.Buffer((20,), "float32"), B: T.Buffer((20,), "float32"), n: T.int32):
    B.vstore(
        [T.Ramp(2, 1, 16)],
        A.vload([T.Ramp(2, 1, 16)], predicate=T.Ramp(0, 1, 16) < T.Broadcast(n, 16)) + T.Broadcast(T.float32(1), 16),
        predicate=T.Ramp(1, 1, 16) <= T.Broadcast(n + 2, 16),
    )


@pytest.mark.parametrize("n", [-1, 0, 5, 14, 100])
def test_masked_loads_and_stores(n):
    """A lane that is not read is 0; one that is not written keeps its value."""
    a = values(20)
    _, b, _ = check(masked, a, np.full(20, 9, "float32"), n)
    lanes = np.arange(16)
    expected = np.where(lanes + 1 <= n + 2, np.where(lanes < n, a[2:18], 0) + 1, 9).astype("float32")
    np.testing.assert_array_equal(b[2:18], expected)


def test_masks_are_mask_registers():
    text = assembly(masked)
    assert "{%k" in text
    assert "{z}" in text


def test_masked_gather_and_scatter():
    @T.prim_func
    def f(A: T.Buffer((20, 3), "float32"), B: T.Buffer((20,), "float32"), n: T.int32):
        B.vstore(
            [T.Ramp(19, -2, 8)],
            A.vload([T.Ramp(0, 3, 8), T.Broadcast(1, 8)], predicate=T.Ramp(0, 1, 8) < T.Broadcast(n, 8)),
            predicate=T.Ramp(0, 3, 8) < T.Broadcast(12, 8),
        )

    for n in (0, 3, 7):
        check(f, values(60).reshape(20, 3), np.ones(20, "float32"), n)
    with pytest.raises(IndexError, match=r"index 21|21 is out"):
        codegen.build_module(f)["f"](values(60).reshape(20, 3), np.ones(20, "float32"), 8)


def test_predicates_that_fit_no_access_are_refused():
    a = tir.decl_buffer((8,), "float32", "A")
    true = tir.const(True, "bool")
    with pytest.raises(TypeError, match="expected no predicate without a vector of indices"):
        tir.BufferLoad(a, [0], true)
    with pytest.raises(TypeError, match="the predicate has dtype boolx2, expected boolx4"):
        tir.BufferLoad(a, [tir.Ramp(0, 1, 4)], tir.Broadcast(true, 2))
    b = tir.decl_buffer((8, 8), "float32", "B")
    with pytest.raises(TypeError, match="an index of buffer B has 2 lanes, the last one has 4"):
        tir.BufferLoad(b, [tir.Ramp(0, 1, 2), tir.Ramp(0, 1, 4)])


# ------------------------------------------------------------------------------------------- lanes


@pytest.mark.parametrize("kind", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "float64"])
def test_reductions_over_lanes(kind, dtype):
    reduce = getattr(T, f"vector_reduce_{kind}")

    @T.prim_func
    def f(A: T.Buffer((16,), dtype), B: T.Buffer((1,), dtype)):
        B[0] = reduce(A[T.Ramp(0, 1, 16)])

    a = (values(16) * 20).astype(dtype) if dtype != "uint8" else np.arange(100, 116, dtype="uint8")
    check(f, a, np.zeros(1, dtype))


def test_reductions_of_conditions():
    @T.prim_func
    def f(A: T.Buffer((12,), "float32"), B: T.Buffer((2,), "int32")):
        if T.vector_reduce_or(A[T.Ramp(0, 1, 12)] > T.Broadcast(T.float32(3), 12)):
            B[0] = 1
        if T.vector_reduce_and(A[T.Ramp(0, 1, 12)] > T.Broadcast(T.float32(3), 12)):
            B[1] = 1

    for array, expected in ((np.zeros(12), [0, 0]), (np.arange(12), [1, 0]), (np.full(12, 4), [1, 1])):
        _, b = check(f, array.astype("float32"), np.zeros(2, "int32"))
        assert b.tolist() == expected


def test_reductions_that_are_refused():
    a = tir.decl_buffer((16,), "float32", "A")
    with pytest.raises(TypeError, match="vector_reduce_add: expected a power of two lanes, found 12"):
        vector_reduce_add(a[0:12:1])
    with pytest.raises(TypeError, match="vector_reduce_or: expected a vector of bool, found float32x4"):
        vector_reduce_or(a[0:4:1])
    with pytest.raises(TypeError, match="expected a vector of integers, float32 or float64, found float16"):
        vector_reduce_add(tir.Var("h", "float16"))


# ------------------------------------------------------------------------------------------- prefetch


def test_prefetch_is_one_instruction_and_reaches_beyond_the_end():
    @T.prim_func
    def f(A: T.Buffer((64, 16), "float32"), B: T.Buffer((64, 16), "float32")):
        for i in range(64):
            T.prefetch(A[i + 8, 0], 0, 3)
            T.prefetch(B[i + 8, 0], 1, 2)
            for j in T.vectorized(16):
                B[i, j] = A[i, j] + T.float32(1)

    a = values(1024).reshape(64, 16)
    check(f, a, np.zeros_like(a))
    text = assembly(f)
    assert "prefetcht0" in text
    assert "prefetchw" in text or "prefetcht1" in text
    assert "out of bounds" not in codegen.build_module(f).get_source()


def test_prefetch_takes_an_element():
    a = tir.decl_buffer((8,), "float32", "A")
    with pytest.raises(TypeError, match="prefetch: expected an element of a buffer"):
        prefetch(a[0] + 1)
    with pytest.raises(ValueError, match="expected rw 0 or 1 and locality 0 to 3, found 2 and 3"):
        prefetch(a[0], 2)


# ------------------------------------------------------------------------------------------- shuffles


@pytest.mark.parametrize("dtype", ["float32", "int8", "float16"])
def test_shuffles(dtype):
    @T.prim_func
    def f(A: T.Buffer((16,), dtype), B: T.Buffer((40,), dtype)):
        B[T.Ramp(0, 1, 8)] = T.Shuffle([A[T.Ramp(0, 1, 8)]], [7, 6, 5, 4, 3, 2, 1, 0])
        B[T.Ramp(8, 1, 16)] = T.Shuffle(
            [A[T.Ramp(0, 1, 8)], A[T.Ramp(8, 1, 8)]], [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15]
        )
        B[T.Ramp(24, 1, 4)] = T.Shuffle([A[3], A[T.Ramp(4, 1, 2)], A[9]], [3, 0, 0, 2])
        B[28] = T.Shuffle([A[T.Ramp(8, 1, 8)]], [5])

    a = np.arange(16).astype(dtype)
    _, b = check(f, a, np.zeros(40, dtype))
    assert b[:8].tolist() == list(range(7, -1, -1))
    assert b[8:12].tolist() == [0, 8, 1, 9]
    assert b[24:29].tolist() == [9, 3, 3, 5, 13]


def test_a_shuffle_is_one_instruction():
    @T.prim_func
    def f(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        B[T.Ramp(0, 1, 16)] = T.Shuffle([A[T.Ramp(0, 1, 16)]], [4, 5, 6, 7, 0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15])

    text = assembly(f)
    assert "vshuff64x2" in text or "vpermpd" in text or "vpermps" in text


def test_shuffles_that_are_refused():
    a, b = tir.decl_buffer((8,), "float32", "A"), tir.decl_buffer((8,), "int32", "B")
    with pytest.raises(TypeError, match="Shuffle: expected vectors of one element type, found float32, int32"):
        tir.Shuffle([a[0], b[0]], [0])
    with pytest.raises(ValueError, match="Shuffle: lane 4 of 4"):
        tir.Shuffle([a[0:4:1]], [4])
    with pytest.raises(TypeError, match="Shuffle: the indices are constant integers"):
        tir.Shuffle([a[0:4:1]], [b[0]])


# ------------------------------------------------------------------------------------------- dot products


@T.prim_func
def dot_of_bytes(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32")):
    for i in range(4):
        C[T.Ramp(i * 16, 1, 16)] = T.dot_u8s8(
            C[T.Ramp(i * 16, 1, 16)], A[T.Ramp(i * 16, 1, 16)], B[T.Ramp(i * 16, 1, 16)]
        )


def test_a_dot_product_of_bytes_is_one_instruction():
    a, b, c = np.random.default_rng(0).integers(-(2**31), 2**31, (3, 64)).astype("int32")
    products = a.view("uint8").astype("int64") * b.view("int8")
    expected = (c + products.reshape(64, 4).sum(1)).astype("int32")
    np.testing.assert_array_equal(check(dot_of_bytes, a, b, c)[2], expected)
    text = assembly(dot_of_bytes, "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=cascadelake")
    assert "vpdpbusd" in text


@pytest.mark.parametrize("kind", ["s8s8", "s16s16", "bf16"])
def test_dot_products_of_other_numbers(kind):
    dtype = {"s8s8": "int8", "s16s16": "int16", "bf16": ml_dtypes.bfloat16}[kind]
    sums = "float32" if kind == "bf16" else "int32"
    text = f"""
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "{sums}")):
        C[T.Ramp(0, 1, 8)] = T.dot_{kind}(C[T.Ramp(0, 1, 8)], A[T.Ramp(0, 1, 8)], B[T.Ramp(0, 1, 8)])
    """
    func = from_source(textwrap.dedent(text), {"T": T})
    a, b = np.random.default_rng(0).integers(-9, 9, (2, 32 // np.dtype(dtype).itemsize)).astype(dtype)
    found = check(func, a.view("int32"), b.view("int32"), np.ones(8, sums))[2]
    expected = 1 + (a.astype("int64") * b.astype("int64")).reshape(8, -1).sum(1)
    np.testing.assert_array_equal(found, expected)


def test_words_of_another_dtype_are_refused():
    x, y = tir.Var("x", "int32x4"), tir.Var("y", "float32x4")
    message = "dot_u8s8: expected int32, int32 and int32 of as many lanes, found float32x4, int32x4, int32x4"
    with pytest.raises(TypeError, match=message):
        dot_u8s8(y, x, x)


@T.prim_func
def tiles(A: T.Buffer((20, 32), "int32"), B: T.Buffer((32, 24), "int32"), C: T.Buffer((20, 24), "int32")):
    T.evaluate(
        T.tile_dot_s8u8(T.address_of(C[0, 0]), 24, T.address_of(A[0, 0]), 32, T.address_of(B[0, 0]), 24, 20, 24, 2)
    )


def test_products_of_tiles():
    generator = np.random.default_rng(0)
    a, b = generator.integers(-128, 128, (20, 128)).astype("int8"), generator.integers(0, 256, (128, 24))
    words = np.ascontiguousarray(b.reshape(32, 4, 24).transpose(0, 2, 1)).astype("uint8")
    args = a.view("int32"), words.view("int32")[..., 0], np.ones((20, 24), "int32")
    assert_structural_equal(from_source(tiles.script(), {"T": T}), tiles)
    expected = 1 + a.astype("int64") @ b
    interpreted = args[2].copy()
    interpret(tiles, args[0], args[1], interpreted)
    np.testing.assert_array_equal(interpreted, expected)
    if "int8" in codegen.resolve("llvm").machine.tiles:
        codegen.build_module({"main": tiles})["main"](*args)
        np.testing.assert_array_equal(args[2], expected)
    text = assembly(tiles, f"{AVX512} -mattr=+amx-tile,+amx-int8")
    assert "tdpbsud" in text
    with pytest.raises(DiagnosticError, match=r"E5903.*the target has no products of tiles of int8"):
        assembly(tiles)
