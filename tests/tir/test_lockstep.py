"""Lockstep execution in the interpreter: it computes, and fails, as one step after the other does."""

from __future__ import annotations

import copy
import random

import ml_dtypes
import numpy as np
import pytest

from relax.tir import interpret, lockstep
from relax.tir.lockstep.trial import _Trial

DTYPES = (
    "int8", "uint8", "int16", "int32", "int64", "uint64", "bool",
    "float16", "bfloat16", "float8_e4m3fn", "float32", "float64",
)  # fmt: skip

FEW_BITS = ("int2", "int4", "uint2", "uint4")


def array(shape, dtype, seed=0):
    """Numbers of a dtype at its limits and between; floats with NaN and infinity among them."""
    generator = np.random.default_rng(seed)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype in FEW_BITS:
        info = ml_dtypes.iinfo(dtype)
        return generator.integers(info.min, info.max, shape, endpoint=True).astype(getattr(ml_dtypes, dtype))
    if "float" not in dtype:
        info = np.iinfo(dtype)
        limits = np.array([info.max, info.min, 0, 1, 7], dtype)
        return np.where(
            generator.integers(0, 2, shape) == 0,
            limits[generator.integers(0, 5, shape)],
            generator.integers(info.min, info.max, shape, dtype, endpoint=True),
        )
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 65504.0])
    values = np.where(
        generator.integers(0, 3, shape) == 0, special[generator.integers(0, 7, shape)], generator.normal(size=shape) * 8
    )
    return values.astype(getattr(ml_dtypes, dtype, None) or dtype)


def bits(values):
    """The bits of an array; all NaN as one."""
    if values.dtype in FEW_BITS:
        return [values.astype("int8")]
    if values.dtype.kind in "fV":
        values = np.where(np.isnan(values), np.zeros_like(values), values), np.isnan(values)
        return [np.ascontiguousarray(part).view(np.uint8) for part in values]
    return [np.ascontiguousarray(values).view(np.uint8)]


@pytest.fixture
def both_ways(monkeypatch):
    """``both_ways(func, *args, …)``: run in lockstep and by steps; the attempts in lockstep, True for those that succeeded.

    Arrays and errors are equal.
    """
    attempts = []
    attempt = _Trial.attempt
    monkeypatch.setattr(_Trial, "attempt", lambda self, env: attempts.append(attempt(self, env)) or attempts[-1])

    def outcome(func, args, options, least):
        monkeypatch.setattr(lockstep, "LEAST", least)
        try:
            interpret(func, *args, **options)
        except (ArithmeticError, AssertionError, IndexError, ValueError) as error:
            return type(error), str(error)
        return None

    def run(func, *args, **options):
        attempts.clear()
        ours = copy.deepcopy(list(args))  # which keeps two arguments one array
        theirs = copy.deepcopy(list(args))
        expected = outcome(func, theirs, options, 1 << 62)
        assert not attempts
        assert outcome(func, ours, options, -(1 << 62)) == expected
        for a, b in zip(ours, theirs, strict=True):
            if isinstance(a, np.ndarray):
                for x, y in zip(bits(a), bits(b), strict=True):
                    np.testing.assert_array_equal(x, y)
        return list(attempts)

    return run


class Expression:
    """Random expressions of a dtype over ``A[i, j]``, ``B[j]`` and constants."""

    def __init__(self, seed, dtype):
        self.random, self.dtype = random.Random(seed), dtype

    def make(self, depth):
        choose = self.random.choice
        if depth == 0:
            return choose(["A[i, j]", "B[j]", f"T.{self.dtype}({choose([0, 1])})", f"T.Cast('{self.dtype}', i + j)"])
        a, b = self.make(depth - 1), self.make(depth - 1)
        forms = [
            f"T.min({a}, {b})",
            f"T.max({a}, {b})",
            f"T.Select({a} < {b}, {a}, {b})",
            f"T.if_then_else(i < j, {a}, {b})",
            f"T.if_then_else({a} <= {b} and B[j] == B[j], {b}, {a})",
            f"T.Cast('{self.dtype}', T.Cast('{choose((*DTYPES, *FEW_BITS))}', {a}))",
        ]
        if self.dtype != "bool":
            forms += [f"({a} + {b})", f"({a} - {b})", f"({a} * {b})"]
        if "float" in self.dtype:
            forms += [f"({a} / {b})", f"T.sqrt({a})", f"T.floor({a})"]
        elif self.dtype != "bool" and self.dtype not in FEW_BITS:
            odd = f"T.bitwise_or({b}, T.{self.dtype}(1))"
            forms += [f"({a} // {odd})", f"({a} % {odd})", f"T.truncdiv({a}, {odd})", f"T.truncmod({a}, {odd})"]
            forms += [f"T.bitwise_xor({a}, {b})", f"T.shift_right({a}, {b})"]
        return choose(forms)


@pytest.mark.parametrize("dtype", (*DTYPES, *FEW_BITS))
@pytest.mark.parametrize("seed", range(4))
def test_elementwise(parse, both_ways, dtype, seed):
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer(("m", "n"), "{dtype}"), B: T.Buffer(("n",), "{dtype}"), C: T.Buffer(("m", "n"), "{dtype}")):
    m = T.int64()
    n = T.int64()
    for i, j in T.grid(m, n):
        C[i, j] = {Expression(seed, dtype).make(3)}
""")
    for m, n in [(0, 3), (1, 1), (9, 13), (2, 17)]:
        args = array((m, n), dtype, seed), array((n,), dtype, seed + 1), array((m, n), dtype, seed + 2)
        assert both_ways(func, *args) == [True]


@pytest.mark.parametrize("form", ["{a} // {b}", "{a} % {b}", "T.bitwise_and({a}, {b})", "T.shift_right({a}, {b})"])
def test_other_operations_on_part_of_a_byte_run_by_steps(parse, both_ways, form):
    value = form.format(a="A[i]", b="T.uint4(3)")
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((20,), "uint4"), C: T.Buffer((20,), "uint4")):
    for i in range(20):
        C[i] = {value}
""")
    assert both_ways(func, array((20,), "uint4"), array((20,), "uint4", 1)) == []


@pytest.mark.parametrize("dtype", ["int8", "float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("size", [(0, 3, 2), (3, 0, 2), (1, 1, 1), (9, 12, 7)])
def test_sums_are_added_in_order(parse, both_ways, dtype, size):
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer(("m", "k"), "{dtype}"), B: T.Buffer(("k", "n"), "{dtype}"), C: T.Buffer(("m", "n"), "{dtype}")):
    m = T.int64()
    n = T.int64()
    k = T.int64()
    for i, j, r in T.grid(m, n, k):
        with T.block("C"):
            vi, vj, vr = T.axis.remap("SSR", [i, j, r])
            with T.init():
                C[vi, vj] = T.{dtype}(0)
            C[vi, vj] = C[vi, vj] + A[vi, vr] * B[vr, vj]
""")
    m, n, k = size
    generator = np.random.default_rng(0)
    a, b = (
        (generator.normal(size=shape) * 50).astype(getattr(ml_dtypes, dtype, None) or dtype)
        for shape in ((m, k), (k, n))
    )
    both_ways(func, a, b, array((m, n), dtype))


VECTORS = """
@T.prim_func
def f(A: T.Buffer((64,), "{dtype}"), B: T.Buffer((64,), "{dtype}"), k: T.int32):
    for i in T.parallel(9):
        t = T.decl_buffer((8,), "{dtype}")
        t[T.Ramp(0, 1, 8)] = A[T.Ramp(i * {step}, 1, 8)]
        for u in range(3):
            t[T.Ramp(0, 1, 8)] = t[T.Ramp(0, 1, 8)] {op} A.vload([T.Ramp(i + u, 6, 8)], predicate=T.Ramp(i, 1, 8) < T.Broadcast(k, 8))
        if i % 3 != 1:
            B.vstore([T.Ramp(i * 8 - 4 * (k // 20), 1, 8)], T.Shuffle([t[T.Ramp(0, 1, 8)]], [7, 6, 5, 4, 3, 2, 1, 0]), predicate=T.Ramp(i * 8, 1, 8) < T.Broadcast(k, 8))
"""


@pytest.mark.parametrize("dtype", ["int8", "float32", "bfloat16"])
@pytest.mark.parametrize("k", [0, 5, 14, 20, 64])
@pytest.mark.parametrize("step", [1, 7, 9])
def test_vectors(parse, both_ways, dtype, k, step):
    """A step of 9 ends outside of the buffer; so may the loads of the last iterations."""
    func = parse(VECTORS.format(dtype=dtype, step=step, op="+"))
    both_ways(func, array((64,), dtype), array((64,), dtype, 1), k)
    both_ways(func, array((64,), dtype), array((64,), dtype, 1), k, reverse_parallel=True)


def test_vectors_run_in_lockstep(parse, both_ways):
    func = parse(VECTORS.format(dtype="float32", step=7, op="*"))
    assert both_ways(func, array((64,), "float32"), array((64,), "float32", 1), 8) == [True]


@pytest.mark.parametrize("most", [2, 8])
def test_lanes_that_write_one_element(parse, both_ways, most):
    """The last lane writes last."""
    func = parse("""
@T.prim_func
def f(A: T.Buffer((9, 8), "int32"), I: T.Buffer((9, 8), "int32"), B: T.Buffer((9, 8), "int32")):
    for i in range(9):
        B[i, I[i, T.Ramp(0, 1, 8)]] = A[i, T.Ramp(0, 1, 8)]
""")
    indices = np.random.default_rng(most).integers(0, most, (9, 8)).astype("int32")
    assert both_ways(func, array((9, 8), "int32"), indices, np.zeros((9, 8), "int32")) == [True]


def test_vectors_and_their_elements(parse, both_ways):
    """One memory, seen as vectors and as scalars."""
    func = parse("""
@T.prim_func
def f(A: T.Buffer((9,), "float32x4"), B: T.Buffer((36,), "float32")):
    for i in range(9):
        A[i] = A[i] + T.Broadcast(B[i], 4)
    for i in range(9):
        t = T.decl_buffer((4,), "float32x4")
        s = T.decl_buffer((16,), "float32", data=t.data)
        t[i % 4] = A[i]
        for j in range(16):
            s[j] = T.Cast("float32", j)
        A[i] = t[i % 4]
""")
    both_ways(func, array((9, 4), "float32"), array((36,), "float32", 1))


@pytest.mark.parametrize(
    "body",
    [
        "A[i + 1] = A[i]",
        "A[i] = A[i + 1]",
        "A[i + 1] = A[i + 1] + A[I[i]]",
        "A[I[i]] = A[i]",
        "A[I[i]] = A[I[i]] + T.int32(1)",
        "A[i // 2] = i",
        "A[I[i]] = i\n        I[i] = A[i] % 12",
        "if I[i] > 5:\n            A[i - 3] = A[i]",
        "for j in range(I[i]):\n            A[j] = A[j] + i",
        "for j in range(i, 12):\n            A[i] = A[i] * 3 + j",
        "while A[i] > 0:\n            A[i] = A[i] // 2",
        "A[11 - i] = A[i] * 2",
    ],
)
@pytest.mark.parametrize("kind", ["range", "T.parallel"])
@pytest.mark.parametrize("reverse", [False, True])
def test_iterations_that_depend_on_each_other(parse, both_ways, body, kind, reverse):
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((13,), "int32"), I: T.Buffer((12,), "int32")):
    for i in {kind}(12):
        {body}
""")
    generator = np.random.default_rng(0)
    for indices in (generator.permutation(12), generator.integers(0, 12, 12)):
        both_ways(func, np.arange(3, 16, dtype="int32"), indices.astype("int32"), reverse_parallel=reverse)


def test_arguments_that_share_memory(parse, both_ways):
    func = parse("""
@T.prim_func
def f(A: T.Buffer((12,), "int32"), B: T.Buffer((12,), "int32")):
    for i in range(12):
        B[i] = A[i] * 2
""")
    whole = np.arange(20, dtype="int32")
    same = np.arange(12, dtype="int32")
    both_ways(func, same, same)
    for start in range(5):
        memory = [copy.deepcopy(whole) for _ in range(2)]
        for least, held in zip((-(1 << 62), 1 << 62), memory, strict=True):
            lockstep.LEAST = least  # the fixture puts it back
            interpret(func, held[:12], held[start : start + 12])
        np.testing.assert_array_equal(*memory)


@pytest.mark.parametrize(
    "body, message",
    [
        ("B[i, j] = A[i + j]", r"A\[12\] is outside of shape \[12\]"),
        ("B[i, j] = A[i * 2 - j]", r"A\[-1\] is outside of shape \[12\]"),
        ("B[i, j * 2 - i] = A[i]", r"B\[0, 8\] is outside of shape \[9, 7\]"),
        ("B[i, j] = A[i] // (A[j] - 5)", "division by zero"),
        ("B[i, j] = T.if_then_else(i > 6, A[i + j], A[i])", r"A\[12\] is outside"),
        ("if i > 5:\n            B[i, j] = A[i * j]", r"A\[12\] is outside"),
        ("assert i * j < 40, 'too large'\n        B[i, j] = i", "too large"),
        ("T.evaluate(T.assume(A[i] < 8))\n        B[i, j] = i", "does not hold"),
        (
            "with T.block('b'):\n            v = T.axis.spatial(9, i + j)\n            B[v, 0] = 1",
            r"block b: v is 9, outside of \[0, 9\)",
        ),
    ],
)
def test_errors_are_those_of_the_first_iteration_that_fails(parse, both_ways, body, message):
    """What earlier iterations wrote is written, and nothing else."""
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((12,), "int32"), B: T.Buffer((9, 7), "int32")):
    for i, j in T.grid(9, 7):
        {body}
""")
    a, b = np.arange(12, dtype="int32"), np.full((9, 7), -1, "int32")
    assert False in both_ways(func, a, b)
    with pytest.raises((IndexError, ArithmeticError, AssertionError), match=message):
        interpret(func, a, b)


def test_what_does_not_run_does_not_fail(parse, both_ways):
    func = parse("""
@T.prim_func
def f(A: T.Buffer((12,), "int32"), B: T.Buffer((20,), "int32")):
    for i in range(20):
        B[i] = T.if_then_else(i < 12 and A[i] != 0, 100 // A[i], -1)
        if i >= 8:
            B[i] = B[i] + A[i - 8]
""")
    a = np.arange(12, dtype="int32")
    assert both_ways(func, a, np.zeros(20, "int32")) == [True]


def test_storage_of_each_iteration(parse, both_ways):
    """Views of it begin where each iteration's part begins; what is not written is garbage."""
    func = parse("""
@T.prim_func
def f(A: T.Buffer((9, 8), "float32"), B: T.Buffer((9, 8), "float32")):
    for i in range(9):
        with T.block("row"):
            v = T.axis.spatial(9, i)
            t = T.alloc_buffer((16,))
            source = T.match_buffer(A[v, 0:8], (8,), strides=(T.int32(),), elem_offset=T.int32())
            for j in range(8):
                t[j * 2] = source[j]
            half = T.decl_buffer((8,), data=t.data, elem_offset=v % 2)
            for j in range(8):
                B[v, j] = half[j]
""")
    assert both_ways(func, array((9, 8), "float32"), np.zeros((9, 8), "float32")) == [True]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fused_products_are_rounded_once(parse, both_ways, dtype):
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((500,), "{dtype}"), B: T.Buffer((500,), "{dtype}"), C: T.Buffer((500,), "{dtype}")):
    for i in range(500):
        C[i] = T.fma(A[i], B[i], C[i])
""")
    generator = np.random.default_rng(0)
    a, b = (generator.integers(1, 1 << 24, 500).astype(dtype) for _ in range(2))
    # Sums beside a tie, that cancel, that are subnormal, and of numbers that are none.
    c = [
        -(a * b),
        a * b * np.asarray(2.0**24 + 1, dtype),
        array((500,), dtype),
        generator.normal(size=500).astype(dtype),
    ]
    tiny = np.asarray(2.0**-80, dtype)
    assert all(both_ways(func, a, b, addend) == [True] for addend in c)
    assert both_ways(func, a * tiny, b * tiny, (c[3] * tiny * tiny).astype(dtype)) == [True]


@pytest.mark.parametrize(
    "kind, dtype", [("u8s8", "int32"), ("s8s8", "int32"), ("s16s16", "int32"), ("bf16", "float32")]
)
def test_dot_products_of_words(parse, both_ways, kind, dtype):
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((9, 8), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((9, 8), "{dtype}"), R: T.Buffer((9,), "{dtype}")):
    for i in range(9):
        C[i, T.Ramp(0, 1, 8)] = T.dot_{kind}(C[i, T.Ramp(0, 1, 8)], A[i, T.Ramp(0, 1, 8)], B[T.Ramp(0, 1, 8)])
        R[i] = T.vector_reduce_add(C[i, T.Ramp(0, 1, 8)]) + T.vector_reduce_max(C[i, T.Ramp(0, 1, 8)])
""")
    args = array((9, 8), "int32"), array((8,), "int32", 1), array((9, 8), dtype, 2), array((9,), dtype, 3)
    assert both_ways(func, *args) == [True]


def test_bits_as_lanes_of_another_width(parse, both_ways):
    func = parse("""
@T.prim_func
def f(A: T.Buffer((9, 8), "float32"), B: T.Buffer((9, 16), "uint16"), C: T.Buffer((9,), "uint64")):
    for i in range(9):
        B[i, T.Ramp(0, 1, 16)] = T.reinterpret("uint16x16", A[i, T.Ramp(0, 1, 8)])
        C[i] = T.reinterpret("uint64", A[i, T.Ramp(2, 1, 2)])
""")
    args = array((9, 8), "float32"), array((9, 16), "uint16"), array((9,), "uint64")
    assert both_ways(func, *args) == [True]


def test_memory_that_cannot_be_written(parse, monkeypatch):
    monkeypatch.setattr(lockstep, "LEAST", -(1 << 62))
    func = parse("""
@T.prim_func
def f(A: T.Buffer((12,), "int32")):
    for i in range(12):
        A[i] = i
""")
    array = np.zeros(12, "int32")
    array.flags.writeable = False
    with pytest.raises(ValueError, match="assignment destination is read-only"):
        interpret(func, array)


@pytest.mark.parametrize("n, attempts", [(0, 0), (10, 0), (10_000, 1)])
def test_few_elements_are_stored_one_by_one(parse, monkeypatch, n, attempts):
    """Sizes that are bound on the way count."""
    counted = []
    attempt = _Trial.attempt
    monkeypatch.setattr(_Trial, "attempt", lambda self, env: counted.append(n) or attempt(self, env))
    func = parse("""
@T.prim_func
def f(A: T.Buffer(("n",), "int32")):
    n = T.int64()
    m: T.int64 = n // 2
    for i in range(m):
        A[i] = A[i] + 1
""")
    a = np.zeros(n, "int32")
    interpret(func, a)
    assert len(counted) == attempts
    assert a.sum() == n // 2
