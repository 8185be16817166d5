"""The interpreter: exact dtypes, strictness, and what it refuses."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from relax.codegen import build_module
from relax.ir import IRModule
from relax.tir import interpret, lower

COPY = """
@T.prim_func
def f(A: T.Buffer(("n", 4), "float32"), B: T.Buffer(("n * 4",), "float32"), k: T.int32):
    n = T.int64()
    for i, j in T.grid(n, 4):
        B[i * 4 + j] = A[i, j] + T.Cast("float32", k)
"""


def test_arguments_are_checked(parse):
    func = parse(COPY)
    a, b = np.zeros((2, 4), "float32"), np.zeros(8, "float32")
    interpret(func, a, b, 3)
    assert (b == 3).all()
    for args, kind, message in [
        ((a, b), TypeError, "f: expected 3 arguments, found 2"),
        ((a, 3.0, 3), TypeError, "argument B: expected a tensor, found a float"),
        ((a, b, 1.5), TypeError, "argument k: expected an int, found a float"),
        ((a, b, 2**40), ValueError, "argument k: 1099511627776 does not fit int32"),
        ((a.astype("float64"), b, 3), TypeError, "argument A: dtype is float64, expected float32"),
        ((a[0], b, 3), ValueError, "argument A: has 1 dimensions, expected 2"),
        ((a[:, :3], b, 3), ValueError, "argument A: is not compact: the stride of dimension 0 is 4, expected 3"),
        ((a[:, :3].copy(), b, 3), ValueError, "argument A: dimension 1 is 3, expected 4"),
        (
            (a, b[:4], 3),
            ValueError,
            r"argument B: dimension 0 is 4, expected n \* 4 = 8 \(n was bound by A, dimension 0\)",
        ),
    ]:
        with pytest.raises(kind, match=message):
            interpret(func, *args)


def test_messages_are_those_of_compiled_functions(parse):
    func = parse(COPY)
    compiled = build_module({"f": func})["f"]
    a, b = np.zeros((2, 4), "float32"), np.zeros(8, "float32")
    for args in [
        *((a, b), (a, 3.0, 3), (a, None, 3), (a, "b", 3), (a, b, 1.5), (a, b, 2**40), (a[0], b, 3)),
        *((a.astype("float64"), b, 3), (a[:, :3].copy(), b, 3), (a, b[:4], 3)),
    ]:
        with pytest.raises((TypeError, ValueError)) as ours:
            interpret(func, *args)
        with pytest.raises(type(ours.value)) as theirs:
            compiled(*args)
        assert str(ours.value) == str(theirs.value).splitlines()[0]


@pytest.mark.parametrize(
    "body, kind, message",
    [
        ("A[k] = T.float32(0)", IndexError, r"A\[4\] is outside of shape \[4\]"),
        ("A[k - 5] = T.float32(0)", IndexError, r"A\[-1\] is outside"),
        ("A[0] = A[k]", IndexError, "outside"),
        ("A[12 // (k - 4)] = T.float32(0)", ZeroDivisionError, "division by zero"),
        ("A[12 % (k - 4)] = T.float32(0)", ZeroDivisionError, "division by zero"),
        ("assert k > 4, 'k is small'", AssertionError, "k is small"),
        ("T.evaluate(T.call_extern('int32', 'unknown', k))", ValueError, "no function was given for unknown"),
        (
            "with T.block('b'):\n        v = T.axis.spatial(4, k)\n        A[v] = T.float32(0)",
            IndexError, r"block b: v is 4, outside of \[0, 4\)",
        ),
    ],
)  # fmt: skip
def test_errors(parse, body, kind, message):
    func = parse(f'@T.prim_func\ndef f(A: T.Buffer((4,), "float32"), k: T.int32):\n    {body}\n')
    with pytest.raises(kind, match=message):
        interpret(func, np.zeros(4, "float32"), 4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float32", "float64"])
def test_floats_are_rounded_after_every_operation(parse, dtype):
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer(("n",), "{dtype}"), B: T.Buffer(("n",), "{dtype}")):
    n = T.int64()
    for i in range(n):
        B[i] = A[i] * A[i] + A[i] / T.{dtype}(3) - T.{dtype}(0.1)
""")
    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    a = np.array([0.0, -0.0, 1.0, 2.5, 17.0, 300.0, np.nan], "float64").astype(kind)
    out = np.zeros_like(a)
    interpret(func, a, out)
    with np.errstate(all="ignore"):
        wide = a.astype("float64")

        def rounded(x):
            return x.astype(kind).astype("float64")

        expected = rounded(rounded(rounded(wide * wide) + rounded(wide / 3)) - rounded(np.array(0.1)))
    np.testing.assert_array_equal(out.astype("float64"), expected)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_wrap(parse, dtype):
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((3,), "{dtype}"), B: T.Buffer((3,), "{dtype}")):
    for i in range(3):
        B[i] = A[i] * A[i] + A[i] - T.{dtype}(7)
""")
    info = np.iinfo(dtype)
    a = np.array([info.max, info.min, 11], dtype)
    out = np.zeros_like(a)
    interpret(func, a, out)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, a * a + a - np.array(7, dtype))


def test_fresh_storage_holds_garbage(parse):
    func = parse("""
@T.prim_func
def f(A: T.Buffer((2,), "float32")):
    t = T.alloc_buffer((2,))
    for i in range(2):
        with T.block("b"):
            v = T.axis.spatial(2, i)
            A[v] = t[v]
""")
    a = np.zeros(2, "float32")
    interpret(func, a)
    assert np.isnan(a).all()


def test_order_of_parallel_loops_can_be_reversed(parse):
    func = parse("""
@T.prim_func
def f(A: T.Buffer((4,), "int32")):
    for i in T.parallel(3):
        A[i + 1] = A[i]
""")
    forward, backward = np.arange(4, dtype="int32"), np.arange(4, dtype="int32")
    interpret(func, forward)
    interpret(func, backward, reverse_parallel=True)
    assert forward.tolist() == [0, 0, 0, 0]
    assert backward.tolist() == [0, 0, 1, 2]


def test_vector_buffers_and_casts(parse):
    func = parse("""
@T.prim_func
def f(A: T.Buffer((2,), "float32x4"), B: T.Buffer((4,), "int32")):
    A[1] = A[0] + T.Broadcast(T.float32(1), 4)
    B[0] = T.Cast("int32", T.float32("nan"))
    B[1] = T.Cast("int32", T.float32(1e20))
    B[2] = T.Cast("int32", T.float32(-2.7))
    B[3] = T.reinterpret("int32", T.float32(1))
""")
    a, b = np.zeros((2, 4), "float32"), np.zeros(4, "int32")
    interpret(func, a, b)
    np.testing.assert_array_equal(a[1], np.ones(4))
    assert b.tolist() == [0, 2**31 - 1, -2, 0x3F800000]


def test_recursion(parse):
    from relax.script import from_source

    module = from_source("""
from relax.script import ir as I, tir as T
@I.ir_module
class Module:
    @T.prim_func
    def f(a: T.handle, n: T.int32):
        A = T.match_buffer(a, (1,), "int32")
        if n > 0:
            A[0] = A[0] + n
            Module.f(A.data, n - 1)
""")
    a = np.zeros(1, "int32")
    interpret(module["f"], a, 10, module=module)
    assert a[0] == 55


def test_vectors_as_arguments(parse):
    func = parse("""
@T.prim_func
def f(x: T.int8x4, mask: T.boolx4, A: T.Buffer((4,), "int8")):
    A.vstore([T.Ramp(0, 1, 4)], x, predicate=mask)
""")
    a = np.zeros(4, "int8")
    interpret(func, [1, 2, 3, 4], (True, False, True, True), a)
    assert a.tolist() == [1, 0, 3, 4]
    with pytest.raises(TypeError, match="f: argument x: expected 4 numbers, found 3"):
        interpret(func, [1, 2, 3], [True] * 4, a)
    with pytest.raises(ValueError, match="f: argument x: 300 does not fit int8"):
        interpret(func, [1, 2, 3, 300], [True] * 4, a)


def test_a_parallel_loop_in_lanes(parse):
    """The function of a parallel loop is given the mask of the lanes around it."""
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8, 3), "int32")):
    for i in T.vectorized(8):
        if A[i] > 0:
            for j in T.parallel(3):
                B[i, j] = A[i]
""")
    a, b = np.arange(-4, 4, dtype="int32"), np.zeros((8, 3), "int32")
    interpret(lower(IRModule({"f": func}))["f"], a, b, module=lower(IRModule({"f": func})))
    np.testing.assert_array_equal(b, np.repeat(np.maximum(a, 0)[:, None], 3, axis=1))
