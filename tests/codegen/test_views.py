"""A view of a buffer's memory lies inside of it: no index of a view leads out of the memory it names."""

from __future__ import annotations

import numpy as np
import pytest

from relax import codegen, tir
from relax.ir import DiagnosticError
from relax.script import from_source

HEAD = """
@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int64, m: T.int64):
    A = T.match_buffer(a, (16,), "float32")
    B = T.match_buffer(b, (16,), "float32")
    C = T.decl_buffer({}, data=A.data)
    B[0] = {}
"""


def run(layout, value, n=0, m=0):
    a, b = np.arange(16, dtype="float32"), np.zeros(16, "float32")
    func = from_source(HEAD.format(layout, value))
    codegen.build_module({"main": func})["main"](a, b, n, m)
    expected = np.zeros(16, "float32")
    tir.interpret(func, a, expected, n, m)
    np.testing.assert_array_equal(b, expected)
    return b[0]


@pytest.mark.parametrize(
    "layout, value, n, m, expected",
    [
        ("(4, 4)", "C[1, 2]", 0, 0, 6),
        ("(8,), elem_offset=8", "C[7]", 0, 0, 15),
        ("(4, 3), strides=(4, 1), elem_offset=1", "C[3, 2]", 0, 0, 15),
        ('(32,), "uint16"', 'T.Cast("float32", C[3])', 0, 0, 16256),
        ("(0, 99)", "A[1]", 0, 0, 1),
        ("(n, m)", "C[n - 1, m - 1]", 4, 4, 15),
        ("(n, m)", "A[1]", 0, 99, 1),
        ("(n,), elem_offset=m", "C[0]", 8, 8, 8),
        ("(n, 2), strides=(m, 1)", "C[n - 1, 1]", 4, 4, 13),
        ("(16,)", "C[15]", 0, 0, 15),
    ],
)
def test_inside(layout, value, n, m, expected):
    assert run(layout, value, n, m) == expected


@pytest.mark.parametrize(
    "layout", ["(100000000,)", "(4, 5)", "(16,), elem_offset=1", "(4, 4), strides=(5, 1)", '(16,), "float64"']
)
def test_outside_when_compiled(layout):
    with pytest.raises(
        DiagnosticError, match=r"E5905.*buffer C, a view of A, needs \d+ bytes, but there are 64"
    ):
        run(layout, "A[0]")


@pytest.mark.parametrize(
    "layout, n, m, error, message",
    [
        ("(n, m)", 4, 5, ValueError, "buffer C, a view of A, needs 80 bytes, but there are 64"),
        ("(n, m)", 4, -1, ValueError, "has dimension 1 of size -1"),
        ("(n, m)", 2**40, 2**40, MemoryError, "buffer C is too large for any memory"),
        ("(n,), elem_offset=m", 8, 9, ValueError, "needs 68 bytes, but there are 64"),
        ("(n,), elem_offset=m", 8, -1, ValueError, "starts at byte -4, but the memory at byte 0"),
        ("(n, 2), strides=(m, 1)", 4, 8, ValueError, "needs 104 bytes, but there are 64"),
    ],
)
def test_outside_when_run(layout, n, m, error, message):
    with pytest.raises(error, match=message):
        run(layout, "A[0]", n, m)


def test_a_view_of_storage_of_the_function():
    source = """
    @T.prim_func
    def main(B: T.Buffer((4,), "float32"), n: T.int64):
        A = T.allocate((n,), "int8")
        C = T.decl_buffer((4,), data=A.data)
        for i in range(4):
            C[i] = T.float32(i)
        for i in range(4):
            B[i] = C[3 - i]
    """
    built = codegen.build_module({"main": from_source(source)})["main"]
    b = np.zeros(4, "float32")
    built(b, 16)
    assert b.tolist() == [3, 2, 1, 0]
    with pytest.raises(ValueError, match="needs 16 bytes, but there are 15"):
        built(b, 15)


@pytest.mark.parametrize(
    "statement",
    [
        "A[0:65536] = A[0:65536]",
        "A[0:65536] = A[0:65536] + 1.0",
        "A[0:2048] = 1.0",
        "A[T.Ramp(0, 1, 1000000)] = T.Broadcast(T.float32(1), 1000000)",
    ],
)
def test_a_vector_that_is_too_long_is_refused(statement):
    source = f"@T.prim_func\ndef main(A: T.Buffer((1000000,), 'float32')):\n    {statement}"
    with pytest.raises(DiagnosticError, match="E5901.*there is no code for vectors of"):
        codegen.build_module({"main": from_source(source)})


def test_a_long_vector():
    source = """
    @T.prim_func
    def main(A: T.Buffer((1024,), "float32")):
        A[0:1024] = A[0:1024] + 1.0
    """
    a = np.zeros(1024, "float32")
    codegen.build_module({"main": from_source(source)})["main"](a)
    assert (a == 1).all()
