"""PyStmtExprVisitor and PyStmtExprMutator: methods under TVM's names."""

from __future__ import annotations

import pytest

from relax import tir
from relax.tir.py_functor import VISITS
from relax.tir.stmt_functor import mutator, visitor

TEXT = """
@T.prim_func
def f(A: T.Buffer((16,), "float32"), m: T.int32):
    with T.allocate((4,)) as t:
        for i in range(m):
            with T.LetStmt(i + 1) as x:
                if x > 3:
                    t[0] = A[i] * T.float32(2)
                else:
                    A[x] = T.exp(t[0])
"""


def test_a_visitor_sees_uses_by_class(parse):
    seen = []

    @visitor
    class Names(tir.PyStmtExprVisitor):
        def visit_var_(self, op):
            seen.append(op.name)

        def visit_buffer_load_(self, op):
            seen.append(f"load {op.buffer.name}")
            super().visit_buffer_load_(op)

        def visit_for_(self, op):
            seen.append(f"for {op.loop_var.name}")
            super().visit_for_(op)

        def visit_allocate_(self, op):
            seen.append(f"allocate {op.buffer.name}")
            super().visit_allocate_(op)

    Names().visit_stmt(parse(TEXT).body)
    assert seen == ["allocate t", "for i", "m", "i", "x", "load A", "i", "load t", "x"]


def test_the_general_methods_see_everything(parse):
    kinds = []

    class Kinds(tir.PyStmtExprVisitor):
        def visit_stmt(self, stmt):
            kinds.append(type(stmt).__name__)
            super().visit_stmt(stmt)

        def visit_expr(self, expr):
            kinds.append(type(expr).__name__)
            super().visit_expr(expr)

    Kinds().visit_stmt(parse(TEXT).body)
    assert {"AllocBuffer", "For", "LetStmt", "IfThenElse", "BufferStore", "GT", "IntImm", "Call"} <= set(kinds)


def test_a_mutator_replaces(parse):
    func = parse(TEXT)

    @mutator
    class Doubled(tir.PyStmtExprMutator):
        def visit_float_imm_(self, op):
            return tir.FloatImm(op.dtype, op.value + 1)

        def visit_if_then_else_(self, op):
            made = super().visit_if_then_else_(op)
            return made.then_case

    body = Doubled().visit_stmt(func.body)
    assert "t[0] = A[i] * T.float32(3.0)" in func.replace(body=body).script()
    assert "if" not in func.replace(body=body).script()


@pytest.mark.parametrize("kind", [tir.PyStmtExprMutator, tir.PyStmtExprVisitor])
def test_every_class_has_a_method(kind):
    for name in VISITS.values():
        assert callable(getattr(kind, f"visit_{name}_"))
    assert {"For", "Block", "FloorDiv", "Reduce"} <= set(VISITS)


def test_a_mutator_that_changes_nothing_returns_the_object(parse):
    body = parse(TEXT).body
    assert tir.PyStmtExprMutator().visit_stmt(body) is body
