"""Adjoints: gradients of uses are summed, those of tuples field by field."""

from __future__ import annotations

import relax
from relax.expr import Tuple, TupleGetItem, Var
from relax.op.adjoints import Adjoints
from relax.struct_info import ShapeStructInfo, TensorStructInfo, TupleStructInfo

TENSOR = TensorStructInfo((2,), "float32")
X, G, H = (Var(name, TENSOR) for name in "xgh")
PAIR = Var("pair", TupleStructInfo((TENSOR, TupleStructInfo((TENSOR, ShapeStructInfo((2,)))))))


def same(got, expected):
    assert relax.ir.structural_equal(got, expected, map_free_vars=False), f"{got}"


def test_uses_are_summed():
    adjoints = Adjoints()
    assert X not in adjoints
    same(adjoints.total(X), relax.op.zeros_like(X))
    adjoints.add(X, None)
    assert X not in adjoints
    adjoints.add(X, G)
    assert adjoints.total(X) is G
    adjoints.add(X, H)
    same(adjoints.total(X), relax.op.add(G, H))


def test_fields_of_tuples():
    adjoints = Adjoints()
    inner = TupleGetItem(PAIR, 1)
    field = TupleGetItem(inner, 0)
    adjoints.add(field, G)
    assert PAIR in adjoints
    assert adjoints.total(field) is G
    empty = Tuple(())  # a shape has no gradient
    zeros = relax.op.zeros_like(TupleGetItem(PAIR, 0))
    same(adjoints.total(PAIR), Tuple((zeros, Tuple((G, empty)))))
    adjoints.add(PAIR, Tuple((H, Tuple((H, empty)))))
    same(adjoints.total(field), relax.op.add(H, G))
    same(adjoints.total(TupleGetItem(PAIR, 0)), H)


def test_tuples_are_taken_apart():
    adjoints = Adjoints()
    both = Tuple((X, X))
    adjoints.add(both, Tuple((G, H)))
    adjoints.add(TupleGetItem(both, 1), G)
    total = relax.op.add(relax.op.add(G, H), G)
    same(adjoints.total(X), total)
    same(adjoints.total(TupleGetItem(both, 0)), total)
    same(adjoints.total(both), Tuple((total, total)))
