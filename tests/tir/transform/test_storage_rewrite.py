"""StorageRewrite: allocations share memory only if no value is lost."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import tir
from relax.ir import IRModule
from relax.tir.transform import StorageRewrite
from support import nodes

HEAD = """
@T.prim_func
def f(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), m: T.int32):
"""
RUNS = [{"m": m} for m in (0, 1, 5)]


def test_a_chain_of_elementwise_steps(check):
    before = """
    with T.allocate((16,)) as a:
        with T.allocate((16,)) as b:
            with T.allocate((8,)) as c:
                for i in range(16):
                    a[i] = A[i] + T.float32(1)
                for i in range(16):
                    b[i] = a[i] * T.float32(2)
                for i in range(8):
                    c[i] = b[i * 2]
                for i in range(8):
                    B[i] = c[i]
"""
    after = """
    with T.allocate((16,)) as a:
        with T.allocate((8,)) as c:
            for i in range(16):
                a[i] = A[i] + T.float32(1)
            for i in range(16):
                a[i] = a[i] * T.float32(2)
            for i in range(8):
                c[i] = a[i * 2]
            for i in range(8):
                B[i] = c[i]
"""
    check(StorageRewrite, HEAD + before, HEAD + after, *RUNS)


def test_storage_in_loops_and_branches_of_other_sizes(check):
    before = """
    for k in range(m):
        with T.allocate((4, 2)) as a:
            for i in range(4):
                a[i, 1] = A[i + k]
            for i in range(4):
                B[i] = a[i, 1]
        with T.allocate((4,)) as b:
            if m > 3:
                for i in range(4):
                    b[i] = A[i] * T.float32(3)
                for i in range(4):
                    B[i + 4] = b[3 - i]
"""
    result = check_shared(check, before, 1)
    assert "a = T.allocate((8,))" in result
    assert "T.decl_buffer((4, 2), data=a.data)" in result
    assert "T.decl_buffer((4,), data=a.data)" in result


def check_shared(check, body, storages, runs=RUNS, compiled=True):
    """The pass leaves so many allocations, and everything computes the same, compiled as well."""
    from relax.script import from_source

    func = from_source("from relax.script import tir as T\n" + HEAD + body, {}, allow_extern=True)
    module = IRModule({"f": func})
    result = StorageRewrite()(module)["f"]
    check(StorageRewrite, func, None if result is func else result, *runs)
    assert len(nodes(result.body, tir.AllocBuffer)) == storages, result.script()
    if compiled and result is not func:
        built = [relax.codegen.build_module(IRModule({"f": g})) for g in (func, result)]
        for values in runs:
            outputs = []
            for kernel in built:
                a, b = np.arange(16, dtype="float32"), np.zeros(16, "float32")
                kernel["f"](a, b, values["m"])
                outputs.append(b)
            np.testing.assert_array_equal(*outputs)
    return result.script()


@pytest.mark.parametrize(
    "steps, storages",
    [
        # the element that is read is another one, or is written before it is read
        ("for i in range(15): b[i] = a[i + 1]", 2),
        ("for i in range(16): b[15 - i] = a[i]", 2),
        ("for i in range(16): b[i % 4] = a[i % 4]", 2),
        ("for k in range(2):\n                for i in range(16): b[i] = a[i] + T.float32(1)", 2),
        ("for i in range(16): b[i] = a[i] + a[0]", 2),
        ("for i in range(16): b[i] = a[i] + T.float32(1)", 1),
        ("for i in range(4):\n                for j in range(4): b[i * 4 + j] = a[i * 4 + j]", 1),
        ("for i in range(4):\n                for j in range(5): b[i * 3 + j] = a[i * 3 + j]", 2),
        ("for i in T.parallel(16): b[i] = a[i] * a[i]", 1),
        ("if m < 9:\n                for i in range(16): b[i] = a[i]", 1),
        # both are used after the store
        ("for i in range(16): b[i] = a[i]\n            for i in range(16): b[i] = b[i] + a[i]", 2),
    ],
)
def test_in_place(check, steps, storages):
    body = f"""
    with T.allocate((16,)) as a:
        with T.allocate((16,)) as b:
            for i in range(16):
                a[i] = A[i]
            {steps}
            for i in range(16):
                B[i] = b[0]
"""
    check_shared(check, body, storages)


@pytest.mark.parametrize(
    "body, storages",
    [
        # what lasts from one iteration to the next is in use in all of the loop
        (
            """
    with T.allocate((16,)) as a:
        with T.allocate((16,)) as b:
            for i in range(16):
                a[i] = T.float32(0)
            for k in range(3):
                for i in range(16):
                    B[i] = a[i]
                for i in range(16):
                    b[15 - i] = A[i]
                for i in range(16):
                    a[i] = a[i] + b[i]
""",
            2,
        ),
        (
            """
    with T.allocate((16,)) as a:
        for i in range(16):
            a[i] = A[i]
        for k in range(3):
            for i in range(16):
                B[i] = B[i] + a[i]
            with T.allocate((16,)) as b:
                for i in range(16):
                    b[i] = a[i] + T.float32(1)
                for i in range(16):
                    B[i] = B[i] + b[i]
""",
            2,
        ),
        # views count as uses
        (
            """
    with T.allocate((16,)) as a:
        with T.allocate((16,)) as b:
            v = T.decl_buffer((4, 4), data=a.data)
            for i in range(16):
                a[i] = A[i]
            for i in range(16):
                b[i] = A[15 - i]
            for i in range(16):
                B[i] = b[i] + v[i // 4, i % 4]
""",
            2,
        ),
        # either branch
        (
            """
    if m > 1:
        with T.allocate((16,)) as a:
            for i in range(16):
                a[15 - i] = A[i]
            for i in range(16):
                B[i] = a[i]
    else:
        with T.allocate((16,)) as b:
            for i in range(16):
                b[i] = A[i]
            for i in range(16):
                B[i] = b[15 - i] * T.float32(2)
""",
            1,
        ),
        # every iteration of a parallel loop has its own
        (
            """
    with T.allocate((16,)) as a:
        for i in range(16):
            a[i] = A[i]
        for i in range(16):
            B[i] = a[i]
    for k in T.parallel(4):
        with T.allocate((16,)) as b:
            for i in range(4):
                b[i] = A[i + k * 4]
            for i in range(4):
                B[i + k * 4] = b[3 - i]
        with T.allocate((16,)) as c:
            for i in range(4):
                c[i] = A[i + k * 4]
            for i in range(4):
                B[i + k * 4] = B[i + k * 4] + c[3 - i]
""",
            2,
        ),
        # a while
        (
            """
    with T.allocate((16,)) as a:
        with T.allocate((16,)) as b:
            for i in range(16):
                a[i] = A[i]
                B[i] = T.float32(0)
            while B[0] < T.float32(4):
                for i in range(16):
                    B[i] = B[i] + a[i] + T.float32(1)
                for i in range(16):
                    b[i] = A[i]
                for i in range(16):
                    B[i] = B[i] + b[i]
""",
            2,
        ),
        # other dtypes and scopes
        (
            """
    with T.allocate((16,)) as a:
        for i in range(16):
            a[i] = A[i]
        for i in range(16):
            B[i] = a[i]
    with T.allocate((16,), "int32") as b:
        for i in range(16):
            b[i] = i
        for i in range(16):
            B[i] = B[i] + T.Cast("float32", b[15 - i])
    with T.allocate((16,), scope="local") as c:
        for i in range(16):
            c[i] = A[i]
        for i in range(16):
            B[i] = B[i] + c[15 - i]
""",
            3,
        ),
    ],
)
def test_lifetimes(check, body, storages):
    check_shared(check, body, storages)


def test_what_is_handed_on_or_may_be_outside_is_not_shared(check):
    body = """
    with T.allocate((16,)) as a:
        T.evaluate(T.call_extern("int32", "g", a.data))
    with T.allocate((16,)) as b:
        v = T.decl_buffer((m,), data=b.data)
        for i in range(16):
            b[i] = A[i]
    with T.allocate((16,)) as c:
        for i in range(16):
            c[i] = A[i]
"""
    check(StorageRewrite, HEAD + body, None, *RUNS, externs={"g": lambda a: 0})


def test_large_storage_does_not_leave_its_branch(check):
    """Storage for which there may be no memory is asked for only where the program does."""
    body = """
    if m > 100:
        with T.allocate((1099511627776,)) as a:
            for i in range(16):
                a[15 - i] = A[i]
            for i in range(16):
                B[i] = a[i]
    with T.allocate((16,)) as b:
        for i in range(16):
            b[15 - i] = A[i]
        for i in range(16):
            B[i] = b[i]
"""
    check(StorageRewrite, HEAD + body, None, *RUNS)
