"""Walking and rewriting: sharing, substitution, renaming; what is used and what is bound."""

from __future__ import annotations

import pytest

from relax import tir
from relax.ir import assert_structural_equal, structural_equal
from relax.tir import (
    AllocBuffer,
    BufferStore,
    For,
    SeqStmt,
    StmtExprMutator,
    StmtExprVisitor,
    Var,
    ir_transform,
    post_order_visit,
    renew_bound_vars,
    substitute,
    undefined_buffers,
    undefined_vars,
)
from relax.tir.functor import StmtMutator
from relax.tir.statements import has_blocks
from relax.tir.usage import Usage

I, N = Var("i", "int64"), Var("n", "int64")
A, B = tir.decl_buffer((N,), name="A"), tir.decl_buffer((N * 2,), name="B")
LOOP = For(I, 0, N, "serial", BufferStore(B, A[I] + 1.0, (I * 2,)))


def test_post_order_visits_parts_first_and_once():
    seen = []
    shared = A[I] + 1.0
    post_order_visit(BufferStore(B, shared * shared, (I,)), seen.append)
    assert seen.count(shared) == 1
    assert isinstance(seen[-1], BufferStore)
    assert seen.index(I) < seen.index(shared)


def test_substitute_variables_in_buffers_too():
    changed = substitute(LOOP, {N: 8})
    store = changed.body
    assert changed.extent.value == 8
    assert store.buffer is not B
    loads = []
    post_order_visit(changed, lambda n: loads.append(n.buffer) if isinstance(n, tir.BufferLoad) else None)
    assert loads[0].shape[0].value == 8


def test_a_changed_buffer_is_the_same_one_at_every_use():
    both = SeqStmt((BufferStore(A, A[0] + 1.0, (0,)), BufferStore(A, A[1], (1,))))
    changed = substitute(both, {N: 4})
    buffers = set(_nodes(changed, tir.Buffer))
    assert len(buffers) == 1


def test_substitute_buffers_and_keep_the_rest():
    c = tir.decl_buffer((N,), name="C")
    changed = substitute(LOOP, {A: c})
    assert {b.name for b in _nodes(changed, tir.Buffer)} == {"C", "B"}
    assert substitute(LOOP, {Var("x", "int64"): 3}) is LOOP
    assert substitute(LOOP, {}) is LOOP
    assert substitute((I, I + 1), {I: 3})[0].value == 3


def test_substitute_checks_dtypes():
    with pytest.raises(TypeError, match="n has dtype int64, its replacement int32"):
        substitute(LOOP, {N: Var("m", "int32")})


def test_mutator_shares_what_it_does_not_touch():
    class Doubling(StmtExprMutator):
        def visit_FloatImm(self, node):
            return tir.FloatImm(node.dtype, node.value * 2)

    other = BufferStore(B, A[I], (I,))
    pair = SeqStmt((other, LOOP))
    changed = Doubling().visit(pair)
    assert changed.seq[0] is other
    assert changed.seq[1].body.value.b.value == 2.0
    assert StmtExprMutator().visit(pair) is pair


def test_visitor_dispatches_by_class():
    class Stores(StmtExprVisitor):
        count = 0

        def visit_BufferStore(self, node):
            self.count += 1
            self.visit_children(node)

    visitor = Stores()
    visitor.visit(SeqStmt((LOOP, LOOP)))
    assert visitor.count == 2


def test_ir_transform():
    zero = ir_transform(LOOP, None, lambda n: tir.const(0.0, n.dtype) if n.value == 1.0 else None, [tir.FloatImm])
    assert zero.body.value.b.value == 0.0
    kept = ir_transform(LOOP, lambda n: n if isinstance(n, BufferStore) else None, lambda n: None)
    assert kept is LOOP


def test_renew_bound_variables():
    local = tir.decl_buffer((4,), name="t")
    stmt = AllocBuffer(local, SeqStmt((LOOP, BufferStore(local, 1.0, (0,)))))
    copy = renew_bound_vars(stmt)
    assert_structural_equal(copy, stmt)
    assert copy.buffer is not local
    assert copy.buffer.data is not local.data
    assert copy.body.seq[0].loop_var is not I
    assert copy.body.seq[1].buffer is copy.buffer
    assert structural_equal(renew_bound_vars(LOOP).body.buffer, LOOP.body.buffer)


def test_what_is_used_and_not_bound():
    assert set(undefined_vars(LOOP)) == {N, A.data, B.data}
    assert set(undefined_buffers(LOOP)) == {A, B}
    handles = Var("a", "handle"), Var("b", "handle")
    func = tir.PrimFunc(handles, LOOP, buffer_map=dict(zip(handles, (A, B))))
    assert undefined_vars(func) == []
    assert undefined_buffers(func) == []
    assert N.nonnegative


def _nodes(root, kind):
    found = []
    post_order_visit(root, lambda node: found.append(node) if isinstance(node, kind) else None)
    return found


def test_a_rewrite_of_statements_leaves_expressions_alone():
    class Unrolled(StmtMutator):
        def visit_For(self, node):
            made = self.visit_children(node)
            return made.replace(kind=tir.ForKind.UNROLLED) if made.kind == tir.ForKind.SERIAL else made

        def visit_Var(self, node):
            raise AssertionError("expressions are not visited")

    inner = For(Var("j", "int64"), 0, 2, "parallel", LOOP)
    made = Unrolled().visit(AllocBuffer(A, inner))
    assert made.buffer is A
    assert made.body.extent is inner.extent
    assert (made.body.kind, made.body.body.kind) == (tir.ForKind.PARALLEL, tir.ForKind.UNROLLED)
    assert made.body.body.body is LOOP.body
    assert Unrolled().visit(LOOP.body) is LOOP.body


def test_blocks_are_seen_within_statements():
    block = tir.BlockRealize((), True, tir.Block((), (), (), "b", LOOP))
    assert not has_blocks(LOOP)
    assert has_blocks(block)
    assert has_blocks(block.block)
    assert has_blocks(AllocBuffer(A, SeqStmt((LOOP, block))))


def test_usage_tells_variables_and_buffers_at_once():
    usage = Usage(LOOP)
    assert usage.undefined_vars() == undefined_vars(LOOP)
    assert usage.undefined_buffers() == undefined_buffers(LOOP) == [B, A]
    assert Usage(AllocBuffer(A, LOOP)).undefined_buffers() == [B]
