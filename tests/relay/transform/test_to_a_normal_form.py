"""ToANormalForm: a `let` per node, in the scope and the order of evaluation."""

from __future__ import annotations

import pytest
from pass_checks import assert_same_values, check, module, run
from relay_programs import EXPRESSIONS

from relax import relay
from relax.relay.transform import ToANormalForm, to_a_normal_form


def test_a_value_of_both_branches_is_bound_above_the_if_and_one_of_a_single_branch_inside():
    check(
        ToANormalForm(),
        "fn(%c: bool, %x: int32) { %1 = %x + 1; %2 = %1 * 3; if (%c) { %2 - %2 } else { %1 } }",
        """fn(%c: bool, %x: int32) {
  let %a = %x + 1;
  let %r = if (%c) {
    let %b = %a * 3;
    let %d = %b - %b;
    %d
  } else {
    %a
  };
  %r
}""",
        True,
        4,
    )


def test_lets_inside_of_values_come_before():
    check(
        ToANormalForm(),
        "fn(%x: int32) { let %a = { let %b = %x + 1; %b * 2 }; (%a, fn() { %a + %x }).0 }",
        """fn(%x: int32) {
  let %b = %x + 1;
  let %a = %b * 2;
  let %f = fn() { let %s = %a + %x; %s };
  let %t = (%a, %f);
  let %r = %t.0;
  %r
}""",
        3,
    )


def test_a_second_name_stays():
    check(ToANormalForm(), "fn(%x: int32) { let %a = %x; let %b = 1; %a }", None, 3)


def test_clauses():
    check(
        ToANormalForm(),
        "fn(%x: int32) { %1 = %x * %x; match ((%1, %x)) { (%a, _) => %a + %1 } }",
        """fn(%x: int32) {
  let %p = %x * %x;
  let %t = (%p, %x);
  let %m = match (%t) { (%a, _) => { let %s = %a + %p; %s } };
  %m
}""",
        3,
    )


def test_recursion_keeps_its_name():
    check(
        ToANormalForm(),
        "fn(%x: int32) { let %f = fn(%n: int32) -> int32 { if (%n == 0) { 1 } else { %n * %f(%n - 1) } }; %f(%x) }",
        """fn(%x: int32) {
  let %f = fn(%n: int32) -> int32 {
    let %c = %n == 0;
    let %i = if (%c) { 1 } else { let %a = %n - 1; let %b = %f(%a); let %d = %n * %b; %d };
    %i
  };
  let %r = %f(%x);
  %r
}""",
        5,
    )


def test_primitive_functions_are_left_alone():
    check(
        ToANormalForm(),
        "fn(%x: float32) { fn(%p: float32, Primitive=1) { exp(%p + 1f) }(%x) }",
        "fn(%x: float32) { let %f = fn(%p: float32, Primitive=1) { exp(%p + 1f) }; let %r = %f(%x); %r }",
        2.0,
    )


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_expression_is_well_formed_and_settles(name):
    normal = to_a_normal_form(relay.parse_expr(EXPRESSIONS[name]))
    assert relay.analysis.well_formed(normal)
    assert to_a_normal_form(normal) is normal


def test_effects_keep_their_order():
    before = module(
        """fn(%c: bool) {
  let %r = ref(1);
  %1 = (ref_write(%r, 5), ref_read(%r));
  (ref_read(%r), %1, if (%c) { %2 = (ref_write(%r, 7), %1.1); %2.1 } else { 0 }, ref_read(%r))
}"""
    )
    after = run(ToANormalForm(), before)
    for condition in (True, False):
        assert_same_values(before, after, [condition])


def test_deep_and_shared_graphs():
    expr: relay.Expr = relay.var("x", "int32")
    for _ in range(4_000):
        expr = relay.add(expr, expr)
    normal = to_a_normal_form(expr)
    assert relay.analysis.call_count(normal) == 4_000
    assert to_a_normal_form(normal) is normal
    nested: relay.Expr = relay.const(1)
    for _ in range(1_200):
        nested = relay.Function([], relay.If(relay.const(True), nested, relay.const(0)))
    assert relay.analysis.well_formed(to_a_normal_form(nested))
