"""Each rule of well-formed TIR: a program that breaks just it, and the message."""

from __future__ import annotations

import pytest

from relax import tir
from relax.ir import DiagnosticError, IRModule
from relax.tir import BufferStore, For, PrimFunc, Var, verify_well_formed


def buffer(name="A", size=4, dtype="float32"):
    return tir.decl_buffer((size,), dtype, name)


def func(body, *buffers, params=()):
    handles = [Var(f"p_{b.name}", "handle") for b in buffers]
    return PrimFunc((*handles, *params), body, buffer_map=dict(zip(handles, buffers)))


def block(a, i, *, dom=4, kind="spatial", **fields):
    v = Var("v", "int64")
    made = tir.Block((tir.IterVar(tir.Range(0, dom), v, kind),), (), (), "B", BufferStore(a, 1.0, (v,)), **fields)
    return tir.BlockRealize((i,), True, made)


A, N, I, J = buffer(), Var("n", "int64"), Var("i", "int64"), Var("j", "int64")
STORE = BufferStore(A, 1.0, (I,))
INNER = tir.Block((tir.IterVar(tir.Range(0, 4), J),), (), (), "B", STORE)

BROKEN = {
    "unbound variable": (func(STORE, A), "E5101", "the variable i is not bound here"),
    "scope has ended": (
        func(tir.SeqStmt((For(I, 0, 4, "serial", STORE), STORE)), A), "E5101", "its scope has ended",
    ),
    "unbound size": (
        func(For(I, 0, N * 2, "serial", STORE), A), "E5101", "the variable n is not bound here",
    ),
    "buffer of nobody": (func(For(I, 0, 4, "serial", STORE)), "E5102", "the buffer A is not in scope here"),
    "buffer after its storage": (
        func(tir.SeqStmt((tir.AllocBuffer(A, BufferStore(A, 1.0, (0,))), BufferStore(A, 1.0, (0,))))),
        "E5102", "the buffer A is not in scope here",
    ),
    "loop variable again": (
        func(For(I, 0, 4, "serial", For(I, 0, 4, "serial", STORE)), A),
        "E5103", "the variable i is bound again inside its own scope",
    ),
    "loop bound of another dtype": (
        func(For(I, 0, Var("m", "int32"), "serial", STORE), A), "E5104", "loop i is int64, its bound is int32",
    ),
    "condition is no bool": (
        func(tir.IfThenElse(I, STORE), A, params=(I,)), "E5104", "a condition has dtype int64, expected bool",
    ),
    "value of a let": (
        func(tir.LetStmt(J, tir.const(1, "int32"), STORE), A, params=(I,)), "E5104", "j is int64, its value is int32",
    ),
    "number of block values": (
        func(tir.BlockRealize((), True, INNER), A, params=(I,)), "E5105", "has 1 variables, but is given 0 values",
    ),
    "init uses a reduction variable": (
        func(
            For(J, 0, 4, "serial", tir.BlockRealize((J,), True, tir.Block(
                (tir.IterVar(tir.Range(0, 4), I, "reduce"),), (), (), "B", STORE, STORE))),
            A,
        ),
        "E5106", "the init of block B uses the reduction variable i",
    ),
    "buffer of a scalar": (
        PrimFunc((N,), tir.Evaluate(0), buffer_map={N: A}), "E5107", "parameter n has a buffer, but is a int64",
    ),
    "buffer of no parameter": (
        PrimFunc((), tir.Evaluate(0), buffer_map={Var("x", "handle"): A}), "E5107", "x has a buffer, but is no parameter",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name):
    broken, code, message = BROKEN[name]
    with pytest.raises(DiagnosticError) as caught:
        verify_well_formed(broken)
    assert code in {d.code for d in caught.value.diagnostics}
    assert message in str(caught.value)
    assert not verify_well_formed(broken, assert_mode=False)


def test_valid_neighbours():
    symbolic = tir.decl_buffer((N, N * 2), name="S")
    assert verify_well_formed(func(For(I, 0, 4, "serial", STORE), A))
    assert verify_well_formed(func(tir.SeqStmt((For(I, 0, 4, "serial", STORE), For(I, 0, 4, "serial", STORE))), A))
    assert verify_well_formed(func(For(I, 0, N * 2, "serial", BufferStore(symbolic, 1.0, (0, I))), symbolic))
    assert verify_well_formed(func(For(I, 0, 4, "serial", block(A, I)), A))
    view = tir.decl_buffer((2, 2), name="V", data=A.data)
    assert verify_well_formed(func(tir.DeclBuffer(view, BufferStore(view, 1.0, (0, 0))), A))


def test_every_problem_is_reported_with_its_place(parse):
    with pytest.raises(DiagnosticError) as caught:
        parse("""
@T.prim_func
def f(A: T.Buffer((4,), "float32")):
    m = T.int64()
    for i in range(m):
        A[i] = T.float32(0)
    k = T.int64()
    A[k] = T.float32(1)
""")
    assert [(d.code, d.span.line) for d in caught.value.diagnostics] == [("E5101", 6), ("E5101", 9)]


def test_modules_are_checked():
    broken, good = BROKEN["unbound variable"][0], func(For(I, 0, 4, "serial", STORE), A)
    assert verify_well_formed(IRModule({"g": good}))
    assert not verify_well_formed(IRModule({"f": broken, "g": good}), assert_mode=False)
