"""NarrowDataType and ForceNarrowIndexToInt32."""

from __future__ import annotations

import numpy as np
import pytest

from relax import tir
from relax.ir import DiagnosticError, IRModule
from relax.tir.transform import ForceNarrowIndexToInt32, NarrowDataType

HEAD = """
@T.prim_func
def f(A: T.Buffer((128,), "int64"), B: T.Buffer(("n",), "float32"), m: T.int64):
    n = T.int64()
"""
RUNS = [{"n": n, "m": m} for n in (0, 1, 5) for m in (0, 3, 130)]


def narrow(bits=32):
    return lambda: NarrowDataType(bits)


def test_loops_lets_and_comparisons(check):
    before = """
    for i in range(T.int64(16)):
        with T.LetStmt(i * T.int64(8), var=T.int64()) as row:
            for j in range(T.int64(8)):
                if row + j < T.int64(100):
                    A[row + j] = i + A[T.int64(127) - (row + j) // T.int64(2)]
"""
    after = """
    for i in range(16):
        with T.LetStmt(i * 8) as row:
            for j in range(8):
                if row + j < 100:
                    A[row + j] = T.Cast("int64", i) + A[127 - (row + j) // 2]
"""
    before = before.replace(", var=T.int64()", "")
    check(narrow(), HEAD + before, HEAD + after, *RUNS)


def test_what_may_not_fit_stays(check):
    body = """
    for i in range(n):
        B[i] = T.float32(1)
    for i in range(m):
        if i < T.int64(5):
            A[i] = i
    for i in range(T.int64(3000000000), T.int64(3000000004)):
        A[i - T.int64(3000000000)] = i
"""
    check(narrow(), HEAD + body, None, *RUNS)


def test_intermediate_values_count(check):
    """The index is below 128, the product is not."""
    before = """
    for i in range(T.int64(100)):
        A[i * T.int64(50000000) // T.int64(50000000)] = i
"""
    after = """
    for i in range(100):
        A[T.Cast("int64", i) * T.int64(50000000) // T.int64(50000000)] = T.Cast("int64", i)
"""
    check(narrow(), HEAD + before, HEAD + after, *RUNS)


def test_other_widths(check):
    before = "    for i in range(T.int64(100)):\n        A[i + 27] = m"
    after = "    for i in range(T.int8(100)):\n        A[i + T.int8(27)] = m"
    wider = "    for i in range(T.int16(100)):\n        A[i + T.int16(27)] = m"
    check(narrow(8), HEAD + before, HEAD + after, *RUNS)
    check(narrow(16), HEAD + before, HEAD + wider, *RUNS)
    check(narrow(64), HEAD + before, None, *RUNS)
    with pytest.raises(ValueError, match="target_bits is 8, 16, 32 or 64, found 7"):
        NarrowDataType(7)(IRModule({}).with_function("f", tir.PrimFunc((), tir.Evaluate(0))))


def test_vectors(check):
    before = """
    for i in range(T.int64(16)):
        A[T.Ramp(i * T.int64(8), T.int64(1), 8)] = T.Broadcast(m, 8)
"""
    after = """
    for i in range(16):
        A[T.Ramp(i * 8, 1, 8)] = T.Broadcast(m, 8)
"""
    check(narrow(), HEAD + before, HEAD + after, *RUNS)


def test_forced(check):
    before = """
    for i in range(n):
        B[i] = T.Cast("float32", i * T.int64(2))
"""
    after = """
    for i in range(n):
        B[i] = T.Cast("float32", T.Cast("int64", i) * T.int64(2))
"""
    head = """
@T.prim_func
def f(A: T.Buffer((128,), "int64"), b: T.handle, m: T.int32):
    n = T.int32()
    B = T.match_buffer(b, (n,), "float32")
"""
    check(ForceNarrowIndexToInt32, HEAD + before, head + after, *RUNS)


def test_forced_where_it_does_not_fit(parse):
    func = parse(HEAD + "    B[T.int64(3000000000)] = T.float32(1)")
    with pytest.raises(DiagnosticError, match="E5022.*an index does not fit 32 bits: IntImm: 3000000000"):
        ForceNarrowIndexToInt32()(IRModule({"f": func}))


def test_a_dimension_that_does_not_fit_is_an_error(parse):
    func = parse("@T.prim_func\ndef f(A: T.Buffer(('n', 0), 'float32')):\n    n = T.int64()\n    T.evaluate(n)")
    forced = ForceNarrowIndexToInt32()(IRModule({"f": func}))["f"]
    large = np.zeros((2**31, 0), "float32")
    tir.interpret(func, large)
    with pytest.raises(ValueError, match="dimension 0 is 2147483648, which does not fit n's dtype int32"):
        tir.interpret(forced, large)


def test_variables_in_predicates(check):
    before = """
    for i in range(T.int64(16)):
        A.vstore(
            [T.Ramp(i * T.int64(8), T.int64(1), 8)],
            A.vload([T.Ramp(T.int64(0), T.int64(1), 8)], predicate=T.Ramp(i, T.int64(1), 8) < T.Broadcast(m, 8)),
            predicate=T.Ramp(T.int64(0), T.int64(1), 8) < T.Broadcast(i, 8),
        )
"""
    after = """
    for i in range(16):
        A.vstore(
            [T.Ramp(i * 8, 1, 8)],
            A.vload([T.Ramp(0, 1, 8)], predicate=T.Ramp(T.Cast("int64", i), T.int64(1), 8) < T.Broadcast(m, 8)),
            predicate=T.Ramp(T.int64(0), T.int64(1), 8) < T.Broadcast(T.Cast("int64", i), 8),
        )
"""
    check(narrow(), HEAD + before, HEAD + after, *RUNS)
