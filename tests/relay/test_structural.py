"""Alpha-equality and its hash: names do not count, sharing does."""

from __future__ import annotations

import numpy as np
import pytest
from relay_programs import chain_of_lets, tower_of_calls

from relax import relay


def equal(lhs: str, rhs: str) -> bool:
    left, right = relay.parse_expr(lhs), relay.parse_expr(rhs)
    result = relay.alpha_equal(left, right)
    assert relay.alpha_equal(right, left) is result
    if result:
        assert relay.alpha_hash(left) == relay.alpha_hash(right)
    return result


@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [
        ("let %a = 1; %a", "let %b = 1; %b"),
        ("fn[a](%x: a) -> a { %x }", "fn[b](%y: b) -> b { %y }"),
        ("let %f = fn(%x) { %f(%x) }; %f", "let %g = fn(%y) { %g(%y) }; %g"),
        ("fn(%x: Tensor[(n, m), int8]) { %x }", "fn(%x: Tensor[(k, l), int8]) { %x }"),
        ("match (1) { (%a, _) => %a }", "match (1) { (%b, _) => %b }"),
        ("let %a = 1; let %a = %a; %a", "let %a = 1; let %b = %a; %b"),
        ("nanf", "-nanf"),
        ("fn(%f: fn[a](a) -> a, %g: fn[a](a) -> a) { 1 }", "fn(%f: fn[a](a) -> a, %g: fn[b](b) -> b) { 1 }"),
        ("%1 = 1 + 2; (%1, %1)", "%2 = 1 + 2; (%2, %2)"),
    ],
)
def test_equal(lhs, rhs):
    assert equal(lhs, rhs)


@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [
        ("%1 = 1 + 2; (%1, %1)", "(1 + 2, 1 + 2)"),
        ("let %a = 1; let %b = 2; %a - %b", "let %a = 1; let %b = 2; %b - %a"),
        ("fn(%x: Tensor[(n, n), int8]) { %x }", "fn(%x: Tensor[(k, l), int8]) { %x }"),
        ("fn(%x: int8) { %x }", "fn(%x) { %x }"),
        ("0f", "-0f"),
        ("1", "1i64"),
        ("1 + 2", "1 - 2"),
        ("@f(1)", "@g(1)"),
        ("@f<int8>(1)", "@f<int16>(1)"),
        ("fn(%x, Primitive=1) { %x }", "fn(%x, Primitive=2) { %x }"),
        ("match (1) { _ => 1 }", "match? (1) { _ => 1 }"),
        ("(1, 2).0", "(1, 2).1"),
        ("(1,)", "1"),
        ("let %f = fn() { 1 }; %f", "let %f = 1; %f"),
    ],
)
def test_different(lhs, rhs):
    assert not equal(lhs, rhs)


def test_a_free_variable_equals_itself_unless_free_variables_are_mapped():
    x, y = relay.var("x"), relay.var("x")
    assert relay.alpha_equal(x + x, x + x)
    assert not relay.alpha_equal(x + x, y + y)
    assert relay.alpha_equal(x + x, y + y, map_free_vars=True)
    assert not relay.alpha_equal(x + y, x + x, map_free_vars=True)
    assert relay.alpha_hash(x + x) != relay.alpha_hash(y + y)
    assert relay.alpha_hash(x + x, map_free_vars=True) == relay.alpha_hash(y + y, map_free_vars=True)


def test_the_variable_of_a_let_is_not_in_scope_in_its_value():
    x, y = relay.var("x"), relay.var("y")
    assert not relay.alpha_equal(relay.Let(x, x, x), relay.Let(y, y, y))


def test_constants_are_compared_by_their_elements():
    data = np.arange(6, dtype="float32").reshape(2, 3)
    assert relay.alpha_equal(relay.const(data), relay.const(data.copy()))
    assert not relay.alpha_equal(relay.const(data), relay.const(data.reshape(3, 2)))
    assert not relay.alpha_equal(relay.const(data), relay.const(data.astype("float64")))


def test_modules_are_equal_whatever_the_order_of_their_functions():
    one = relay.parse("def @f() { @g() } def @g() { 1 } type T { A, B }")
    two = relay.parse("type T { A, B } def @g() { 1 } def @f() { @g() }")
    assert relay.alpha_equal(one, two)
    assert relay.alpha_hash(one) == relay.alpha_hash(two)
    assert not relay.alpha_equal(one, relay.parse("def @f() { @g() } def @g() { 2 } type T { A, B }"))
    assert not relay.alpha_equal(one, relay.parse("def @f() { @g() } def @g() { 1 } type T { B, A }"))
    assert not relay.alpha_equal(one, relay.parse("def @f() { 1 } type T { A, B }"))


def test_assert_alpha_equal_shows_both():
    relay.assert_alpha_equal(relay.parse_expr("1"), relay.parse_expr("1"))
    with pytest.raises(ValueError, match=r"not alpha-equal[\s\S]*lhs ---\n1\n[\s\S]*rhs ---\n2"):
        relay.assert_alpha_equal(relay.parse_expr("1"), relay.parse_expr("2"))


def test_chains_and_towers_of_any_depth():
    for make in (chain_of_lets, tower_of_calls):
        one, two = make(12_000), make(12_000)
        assert relay.alpha_equal(one, two, map_free_vars=True)
        assert relay.alpha_hash(one, map_free_vars=True) == relay.alpha_hash(two, map_free_vars=True)
