"""InlinePrivateFunctions: a call becomes the body where the arguments fit."""

from __future__ import annotations

import numpy as np
import pytest

from relax import tir
from relax.ir import assert_structural_equal
from relax.script import from_source
from relax.tir.transform import InlinePrivateFunctions

HEAD = "from relax.script import ir as I, tir as T\n"
CALLEE = """
    @T.prim_func(private=True)
    def scaled(b: T.handle, C: T.Buffer((16,), "int32"), k: T.int32):
        n = T.int64()
        B = T.match_buffer(b, (n,), "int32")
        for i in range(n):
            B[i] = C[i] * k
"""
MODULE = """
@I.ir_module
class M:
    @T.prim_func
    def main(A: T.Buffer((16,), "int32"), D: T.Buffer((8,), "int32"), m: T.int32):
        {body}
"""


def module(body, callee=CALLEE):
    return from_source(HEAD + MODULE.format(body=body) + callee, {})


def run(mod):
    a, d = np.arange(16, dtype="int32"), np.zeros(8, "int32")
    tir.interpret(mod["main"], a, d, 3, module=mod)
    return a.tolist(), d.tolist()


def test_calls_become_bodies():
    before = module("cls.scaled(D.data, A.data, m + 1)\n        cls.scaled(D.data, A.data, m)")
    after = module(
        """with T.LetStmt(m + 1) as k:
            for i in range(T.int64(8)):
                D[i] = A[i] * k
        for i in range(T.int64(8)):
            D[i] = A[i] * m""",
        "",
    )
    result = InlinePrivateFunctions()(before)
    assert_structural_equal(result, after)
    tir.verify_well_formed(result)
    assert run(result) == run(before)
    assert InlinePrivateFunctions()(result) is result


def test_calls_in_calls_and_loops():
    outer = """
    @T.prim_func(private=True)
    def outer(B: T.Buffer((8,), "int32"), C: T.Buffer((16,), "int32")):
        for j in range(2):
            cls.scaled(B.data, C.data, j)
"""
    before = module("cls.outer(D.data, A.data)", outer + CALLEE)
    result = InlinePrivateFunctions()(before)
    assert [var.name_hint for var in result.functions] == ["main"]
    assert run(result) == run(before)


@pytest.mark.parametrize(
    "body, callee",
    [
        ("cls.scaled(A.data, D.data, m)", CALLEE),  # D is not of shape (16,)
        ("cls.scaled(D.data, A.data, m)", CALLEE.replace("(private=True)", "")),
        ("cls.scaled(D.data, A.data, m)", CALLEE.replace("n = T.int64()", "n = T.int64(); T.func_attr({'x': 1})")),
        ("cls.scaled(A.data, A.data, m)", CALLEE.replace("n = ", "T.func_attr({'tir.noalias': True}); n = ")),
        (
            "cls.scaled(D.data, A.data, m)",
            CALLEE.replace("for i in", "T.precondition(n > 3, 'too small')\n        for i in"),
        ),
        (
            "cls.scaled(D.data, A.data, m)",
            CALLEE.replace("for i in", "if k > 0: cls.scaled(B.data, C.data, k - 1)\n        for i in"),
        ),
    ],
)
def test_refusals(body, callee):
    before = module(body, callee)
    assert InlinePrivateFunctions()(before) is before


def test_one_memory_for_two_parameters_is_seen_through_both():
    before = module("cls.scaled(A.data, A.data, m)")
    result = InlinePrivateFunctions()(before)
    assert result is not before
    assert run(result) == run(before)
