"""Each stage reports all that is wrong, of all functions, at once."""

from __future__ import annotations

import pytest

import relax
from relax.ir import DiagnosticError
from relax.script import from_source


def found(action):
    with pytest.raises(DiagnosticError) as caught:
        action()
    return [(d.code, d.span.line if d.span is not None else None) for d in caught.value.diagnostics]


def test_derivation():
    text = """
@I.ir_module
class M:
    @R.function
    def a(x: R.Tensor((4,), "float32")) -> R.Tensor((5,), "float32"):
        y = R.matmul(x, R.zeros((5, 6), "float32"))
        z = R.sum(x, axis=3)
        R.print(x, format="{}")
        return x

    @R.function
    def b(x: R.Tensor((4,), "float32")):
        y = R.add(x, R.zeros((3,), "float32"))
        w = M.a(y, y)
        u = M.a(x, x)
        return y
"""
    # Line 14 uses y, whose own error has been reported.
    expected = [("E3102", 6), ("E3104", 7), ("E3005", 8), ("E3007", 9), ("E3102", 13), ("E3002", 15)]
    assert found(lambda: from_source(text)) == expected


def test_loops():
    text = """
@I.ir_module
class M:
    @T.prim_func
    def a(A: T.Buffer((4,), "float32")):
        n = T.int64()
        for i in range(n):
            A[i] = 1.0

    @T.prim_func
    def b(A: T.Buffer((4,), "float32")):
        k = T.int64()
        A[k] = 1.0
"""
    assert found(lambda: from_source(text)) == [("E5101", 7), ("E5101", 13)]


def test_operators_that_cannot_be_legalized():
    relax.ir.register_op("test.together.a")
    relax.ir.register_op("test.together.b")
    mod = from_source("""
@I.ir_module
class M:
    @R.function
    def f(x: R.Tensor((4,), "float32")):
        y = R.Call(R.Op("test.together.a"), [x], sinfo_args=[R.Tensor((4,), "float32")])
        return y

    @R.function
    def g(x: R.Tensor((4,), "float32")):
        y = R.Call(R.Op("test.together.b"), [x], sinfo_args=[R.Tensor((4,), "float32")])
        z = R.Call(R.Op("test.together.b"), [y], sinfo_args=[R.Tensor((4,), "float32")])
        return z
""")
    with pytest.raises(DiagnosticError, match="cannot legalize test.together.a, test.together.b") as caught:
        relax.build(mod)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "E4001"
    places = [note.rpartition("in ")[2] for note in diagnostic.notes]
    assert places == ["f, at <string>:6:13)", "g, at <string>:11:13)", "g, at <string>:12:13)"]


def test_calls_that_cannot_be_rewritten():
    mod = from_source("""
@I.ir_module
class M:
    @R.function
    def f(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            y = R.call_dps_packed("a", (x,), R.Tensor((4,), "float32"))
            z = R.call_dps_packed("a", (y,), R.Tensor((4,), "float32"))
            R.output(z)
        return z
""")
    assert found(lambda: relax.transform.CallTIRRewrite()(mod)) == [("E4002", 7), ("E4002", 8)]
