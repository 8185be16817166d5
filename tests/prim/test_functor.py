"""Walking scalar expressions; the walkers know nothing of the classes they walk."""

from __future__ import annotations

import pytest

from relax.ir import Node, node, set_slot, structural_equal
from relax.prim import (
    IntImm,
    Let,
    PrimExpr,
    SizeVar,
    Var,
    const,
    evaluate,
    free_vars,
    intrin,
    post_order,
    rewrite,
    simplify,
    substitute,
    uses,
)


@node
class Table(Node):
    """Something of another room that is no expression."""

    size: PrimExpr


@node
class Load(PrimExpr):
    """An expression of another room."""

    table: Table
    indices: tuple[PrimExpr, ...]

    def __post_init__(self) -> None:
        set_slot(self, "dtype", self.indices[0].dtype)


n, m, k = (SizeVar(name, "int64") for name in "nmk")


def test_free_vars_come_in_order_of_first_occurrence():
    assert free_vars(m * n + k - m) == [m, n, k]
    assert free_vars(const(1)) == []


def test_free_vars_leaves_out_what_is_bound_inside():
    t = Var("t", "int64")
    assert free_vars(Let(t, n + 1, t * m)) == [n, m]
    assert free_vars(Let(t, t, t)) == [t]  # the value is outside of the binding
    shared = t + 1
    assert free_vars(Let(t, const(1, "int64"), shared) + shared) == [t]


def test_uses():
    t = Var("t", "int64")
    assert uses(n + m, m)
    assert not uses(Let(t, n, t), t)
    assert uses(Let(t, t, n), t)


def test_substitute_replaces_and_shares_what_it_did_not_touch():
    left = n * 4
    expr = left + m
    assert structural_equal(substitute(expr, {m: k}), left + k)
    assert substitute(expr, {m: k}).a is left
    assert substitute(expr, {k: n}) is expr
    assert evaluate(substitute(expr, {n: 2, m: 1})) == 9
    assert [structural_equal(a, b) for a, b in zip(substitute((n, m), {n: m, m: n}), (m, n))] == [True, True]


def test_substitute_checks_dtypes():
    with pytest.raises(TypeError, match="substitute: n has dtype int64, its replacement int32"):
        substitute(n, {n: Var("i", "int32")})


def test_substitute_does_not_capture():
    t = Var("t", "int64")
    expr = Let(t, n + 1, t * m)
    replaced = substitute(expr, {m: t})
    assert replaced.var is not t
    assert replaced.body.b is t
    assert evaluate(replaced, {n: 4, t: 7}) == 35


def test_substitute_leaves_bound_variables():
    t = Var("t", "int64")
    replaced = substitute(Let(t, t + 1, t * 2), {t: 5})
    assert evaluate(replaced) == 12


def test_walkers_enter_expressions_of_other_rooms():
    table = Table(n)
    load = Load(table, (m + 0 * k, k))
    assert free_vars(load) == [m, k]  # but not what is no expression
    replaced = substitute(load, {k: n})
    assert isinstance(replaced, Load)
    assert replaced.table is table
    assert replaced.indices[1] is n
    assert simplify(load).indices[0] is m
    assert simplify(load - load).dtype == "int64"  # a load may fail: it is not dropped
    assert uses(simplify(load * 0), m)


def test_rewrite_is_bottom_up_and_shares():
    left = n + 1
    expr = left * m
    doubled = rewrite(expr, lambda e: IntImm("int64", e.value * 2) if isinstance(e, IntImm) else None)
    assert evaluate(doubled, {n: 1, m: 1}) == 3
    assert rewrite(expr, lambda e: None) is expr
    assert rewrite(expr, lambda e: k if e is m else None).a is left


def test_post_order_visits_operands_first_and_each_object_once():
    shared = n + 1
    seen: list[PrimExpr] = []
    post_order(shared * shared, seen.append)
    assert [type(e).__name__ for e in seen] == ["Var", "IntImm", "Add", "Mul"]


def test_intrinsics_are_walked():
    call = intrin.if_then_else(n < m, n, m)
    assert free_vars(call) == [n, m]
    assert evaluate(substitute(call, {n: 3, m: 2})) == 2


def test_lets_and_shared_parts_are_rebuilt_once():
    t = Var("t", "int64")
    shared = n + 1
    expr = Let(t, shared, t * shared)
    seen = []

    def step(part):
        seen.append(part)
        return m if part is n else None

    result = rewrite(expr, step)
    assert evaluate(result, {m: 4}) == 25
    assert seen.count(n) == 1
    assert rewrite(expr, lambda part: None) is expr
    doubled = substitute(shared * shared, {n: k})
    assert doubled.a is doubled.b
    assert substitute(expr, {}) is expr


def test_a_load_of_a_constant_place_is_no_constant():
    load = Load(Table(n), (const(3, "int64"),))
    assert simplify(load) is load


def test_a_let_that_stands_in_two_places_is_rebuilt_once():
    t, outer = Var("t", "int64"), Var("outer", "int64")
    inner = Let(t, n + 1, t * k)
    result = substitute(Let(outer, inner + 1, inner * outer), {n: m})
    assert result.value.a is result.body.a
    assert free_vars(result) == [m, k]
