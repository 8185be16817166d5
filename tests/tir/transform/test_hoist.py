"""HoistIfThenElse and HoistExpression: what does not change in a loop stands outside of it."""

from __future__ import annotations

import pytest

from relax.ir.transform import PassContext
from relax.tir.transform import HoistedConditionals, HoistedLetBindings, HoistExpression, HoistIfThenElse

HEAD = """
@T.prim_func
def f(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), n: T.int32, m: T.int32):
"""
RUNS = [{"n": n, "m": m} for n in (0, 5) for m in (0, 1, 16, 17, -1)]


def test_two_loops_and_an_else(check):
    before = """
    for i in range(4):
        for j in T.parallel(4):
            if n > 3:
                if m > 2:
                    A[i * 4 + j] = 1
            else:
                B[i * 4 + j] = j
"""
    after = """
    if n > 3:
        if m > 2:
            for i in range(4):
                for j in T.parallel(4):
                    A[i * 4 + j] = 1
    else:
        for i in range(4):
            for j in T.parallel(4):
                B[i * 4 + j] = j
"""
    check(HoistIfThenElse, HEAD + before, HEAD + after, *RUNS)
    check(HoistExpression, HEAD + before, HEAD + after, *RUNS)


@pytest.mark.parametrize(
    "loop, condition",
    [
        ("range(m)", "i < n"),  # depends on the loop
        ("range(4)", "A[0] > 3"),  # the loop writes A
        ("range(m)", "10 // n > 3"),  # fails only if the loop runs
        ("range(B[m])", "n > 3"),  # the bounds may fail, and would not be computed
        ("range(2147483647, 2147483647 + m)", "n > 3"),
    ],
)
@pytest.mark.parametrize("make", [HoistIfThenElse, HoistExpression])
def test_refusals(check, make, loop, condition):
    body = f"""
    for i in {loop}:
        if {condition}:
            A[i] = 1
"""
    check(make, HEAD + body, None, *RUNS)


def test_something_beside_the_branch(check):
    body = """
    for i in range(4):
        B[i] = 1
        if n > 3:
            A[i] = 1
"""
    check(HoistIfThenElse, HEAD + body, None, *RUNS)


def test_a_division_that_is_guarded_moves(check):
    before = """
    if n != 0:
        for i in range(4):
            if 10 // n > 1:
                A[i] = 1
"""
    after = """
    if n != 0:
        if 10 // n > 1:
            for i in range(4):
                A[i] = 1
"""
    check(HoistIfThenElse, HEAD + before, HEAD + after, *RUNS)


def test_lets_and_choices(check):
    before = """
    for i in range(4):
        for j in range(4):
            with T.LetStmt(n * 4) as x:
                with T.LetStmt(i * 4) as y:
                    A[y + j] = T.if_then_else(n > x, B[j], x + 1)
"""
    after = """
    with T.LetStmt(n * 4) as x:
        for i in range(4):
            with T.LetStmt(i * 4) as y:
                if n > x:
                    for j in range(4):
                        A[y + j] = B[j]
                else:
                    for j in range(4):
                        A[y + j] = x + 1
"""
    check(HoistExpression, HEAD + before, HEAD + after, *RUNS)


def test_what_the_config_leaves_in_place(check):
    body = """
    for j in range(4):
        with T.LetStmt(n * 4) as x:
            A[j] = T.if_then_else(n > 3, B[j], x + 1)
"""
    config = {"hoisted_conditionals": HoistedConditionals.IfElseStmt, "hoisted_let_bindings": HoistedLetBindings.Never}
    with PassContext(config={"tir.HoistExpression": config}):
        check(HoistExpression, HEAD + body, None, *RUNS)


def test_variants():
    HoistIfThenElse("basic")
    with pytest.raises(ValueError, match="the variant is None or \"basic\", found 'other'"):
        HoistIfThenElse("other")
