"""CommonSubexprElimTIR: what occurs twice is computed once, if it may be computed at all."""

from __future__ import annotations

import numpy as np
import pytest

from relax import tir
from relax.ir import IRModule
from relax.tir.transform import CommonSubexprElimTIR

HEAD = """
@T.prim_func
def f(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), n: T.int32, m: T.int32):
"""
RUNS = [{"n": n, "m": m} for n in (0, 3) for m in (0, 1, 4)]


def test_at_the_outermost_statement_that_can_compute_it(check):
    before = """
    for i in range(n * m + 1):
        if i < n * m:
            for j in range(4):
                A[i * 4 + j] = B[i * 4 + j] + (i * 4 + 1)
                B[j] = i * 4
        else:
            A[i] = n * m + 1
"""
    after = """
    with T.LetStmt(n * m) as x:
        with T.LetStmt(x + 1) as y:
            for i in range(y):
                with T.LetStmt(i * 4) as z:
                    if i < x:
                        for j in range(4):
                            with T.LetStmt(z + j) as w:
                                A[w] = B[w] + (z + 1)
                                B[j] = z
                    else:
                        A[i] = y
"""
    check(CommonSubexprElimTIR, HEAD + before, HEAD + after, *RUNS)


@pytest.mark.parametrize(
    "body",
    [
        "A[0] = B[n] + B[n]",  # memory
        "if m > 0: A[0] = n // m + n // m",  # may fail
        "A[0] = T.Cast('int32', n < m) + T.Cast('int32', n < m)",  # conditions help to prove
        "A[0] = T.call_extern('int32', 'g', n) + T.call_extern('int32', 'g', n)",
        "A[0] = n + 1; B[0] = 1 + n",  # written differently
    ],
)
def test_what_stays(check, body):
    calls = []
    check(CommonSubexprElimTIR, HEAD + "    " + body, None, *RUNS, externs={"g": lambda n: calls.append(n) or n})


def test_terms_of_the_same_value(check):
    before = "    A[0] = n * 2 + n\n    B[0] = n * 3"
    after = "    with T.LetStmt(n * 2 + n) as x:\n        A[0] = x\n        B[0] = x"
    check(lambda: CommonSubexprElimTIR(True, identify_equiv_terms=True), HEAD + before, HEAD + after, *RUNS)
    check(lambda: CommonSubexprElimTIR(enable_cse_tir=False, identify_equiv_terms=True), HEAD + before, None, *RUNS)


def test_messages_stay(check):
    body = """
    with T.Assert(n * m + 1 < 4, "too large"):
        T.evaluate(T.assume(n * m + 1 < 4))
        A[0] = 1
"""
    outcomes = check(CommonSubexprElimTIR, HEAD + body, None, *RUNS)
    assert outcomes[-1][1] == "too large (n = 3, m = 4)"


def test_buffers_of_a_common_size(check):
    """The buffer with the new shape is the one that is checked."""
    before = """
    A[0] = n * 2
    D = T.decl_buffer((n * 2 + 1,), "int32")
    D[n] = m + n * 2
    assert D[n] < 4, "too large"
    A[1] = D[n]
"""
    after = """
    with T.LetStmt(n * 2) as x:
        A[0] = x
        D = T.decl_buffer((x + 1,), "int32")
        D[n] = m + x
        assert D[n] < 4, "too large"
        A[1] = D[n]
"""
    check(CommonSubexprElimTIR, HEAD + before, HEAD + after, *RUNS)


def test_one_object_in_many_places(check):
    """e = e + e, forty times."""
    a, p, n = tir.decl_buffer((4,), "int32", name="A"), tir.Var("a", "handle"), tir.Var("n", "int32")
    e = n
    for _ in range(40):
        e = tir.Add(e, e)
    func = tir.PrimFunc((p, n), tir.BufferStore(a, e, (0,)), buffer_map={p: a})
    result = CommonSubexprElimTIR()(IRModule({"f": func}))["f"]
    array = np.zeros(4, "int32")
    tir.interpret(result, array, 3)
    assert array[0] == 0  # 3 * 2**40, in 32 bits
    assert CommonSubexprElimTIR()(IRModule({"f": result}))["f"] is result


def test_blocks_are_left_alone(check):
    body = """
    for i in range(4):
        with T.block("b"):
            v = T.axis.spatial(4, i)
            A[v + n] = v + n
"""
    check(CommonSubexprElimTIR, HEAD + body, None, *RUNS)
