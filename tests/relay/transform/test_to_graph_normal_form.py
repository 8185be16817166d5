"""ToGraphNormalForm: values in the places of variables, where that changes neither effects nor the amount of work."""

from __future__ import annotations

import pytest
from pass_checks import assert_same_values, check, module, run
from relay_programs import EXPRESSIONS

from relax import relay
from relax.relay.transform import ToGraphNormalForm, to_a_normal_form, to_graph_normal_form


def test_variables_become_shared_nodes():
    check(
        ToGraphNormalForm(),
        "fn(%x: int32) { let %y = %x + 1; let %z = %y * %y; %z - %y }",
        "fn(%x: int32) { %1 = %x + 1; %2 = %1 * %1; %2 - %1 }",
        3,
    )


def test_it_undoes_a_normal_form():
    graph = relay.parse_expr("fn(%c: bool, %x: int32) { %1 = %x + 1; if (%c) { %1 * %1 } else { %1 } }")
    relay.assert_alpha_equal(to_graph_normal_form(to_a_normal_form(graph)), graph)


def test_a_value_that_only_functions_use_stays_bound():
    check(ToGraphNormalForm(), "fn(%x: int32) { let %y = %x * %x; fn(%z: int32) { %y + %z } }", None, 3)


def test_recursive_and_polymorphic_functions_stay_bound():
    text = "fn(%x: int32) { let %f = fn(%n: int32) -> int32 { if (%n == 0) { 1 } else { %f(%n - 1) } }; %f(%x) }"
    check(ToGraphNormalForm(), text, None, 3)
    check(ToGraphNormalForm(), "fn(%x: int32) { let %id = fn(%y) { %y }; (%id(%x), %id(True)) }", None, 3)


def test_unused_values_go_unless_they_write():
    check(
        ToGraphNormalForm(),
        "fn(%x: int32) { let %r = ref(%x); let %a = %x + 1; let %u = ref_write(%r, 2); %x }",
        "fn(%x: int32) { let %r = ref(%x); let %u = ref_write(%r, 2); %x }",
        3,
    )


def test_what_only_unused_values_mention_goes_with_them():
    check(ToGraphNormalForm(), "fn(%x: int32) { let %a = %x + 1; let %f = fn() { %a }; %x }", "fn(%x: int32) { %x }", 3)
    check(
        ToGraphNormalForm(),
        "fn(%x: int32) { let %f = fn(%y) { %y }; let %unused = %f(1f); %f(%x) }",
        "fn(%x: int32) { %0 = fn(%y) { %y }; %0<int32>(%x) }",
        3,
    )
    check(
        ToGraphNormalForm(),
        """fn(%x: int32) {
  let %r = ref(%x);
  let %f = fn(%y: int32) { let %u = ref_write(%r, %y); %y };
  let %g = fn() { %f(1) };
  %x
}""",
        "fn(%x: int32) { let %r = ref(%x); %x }",
        3,
    )


def test_a_closure_with_effects_that_goes_is_no_reason_to_keep_others():
    text = """
def @apply(%f: fn(int32) -> int32, %x: int32) -> int32 { %f(%x) }
def @main(%x: int32) -> int32 {
  let %unused = fn(%y: int32) -> int32 { let %r = ref(%y); let %u = ref_write(%r, 1); ref_read(%r) };
  let %v = @apply(fn(%y: int32) -> int32 { %y + 1 }, %x);
  %v + %v
}"""
    before = module(text)
    after = run(ToGraphNormalForm(), before)
    assert "let" not in after["main"].astext()
    assert_same_values(before, after, [3])
    assert run(ToGraphNormalForm(), after) is after


def test_effects_keep_their_order():
    before = module(
        """fn(%x: int32) {
  let %r = ref(%x);
  let %a = ref_read(%r);
  let %b = (ref_write(%r, 7), %a * 2);
  let %c = ref_read(%r);
  (%c, %b.1, if (%x > 0) { %c } else { ref_read(%r) }, %a)
}"""
    )
    after = run(ToGraphNormalForm(), before)
    for x in (1, -1):
        assert_same_values(before, after, [x])
    assert run(ToGraphNormalForm(), after) is after


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_expression_is_well_formed_and_settles(name):
    graph = to_graph_normal_form(relay.parse_expr(EXPRESSIONS[name]))
    assert relay.analysis.well_formed(graph)
    assert to_graph_normal_form(graph) is graph


def test_a_long_chain_takes_no_recursion():
    variables = [relay.var(f"x{i}", "int32") for i in range(4_000)]
    body: relay.Expr = variables[-1]
    for before, after in zip(variables[-2::-1], variables[:0:-1], strict=True):
        body = relay.Let(after, relay.add(before, before), body)
    graph = to_graph_normal_form(relay.Function([variables[0]], body))
    assert relay.analysis.call_count(graph) == 3_999
    assert not any(isinstance(node, relay.Let) for node in relay.scopes.nodes_with_parts(graph))
