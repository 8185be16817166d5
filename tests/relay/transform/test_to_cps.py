"""ToCPS and un_cps: results go to continuations."""

from __future__ import annotations

import pytest
from pass_checks import PROGRAMS, module, values

from relax import DiagnosticError, relay
from relax.relay.transform import ToCPS, to_cps, un_cps


@pytest.mark.parametrize("name", PROGRAMS)
def test_un_cps_of_to_cps_has_the_value_of_the_function(name):
    text, argument = PROGRAMS[name]
    mod = module(text)
    expected = values(mod, [argument])
    converted = to_cps(mod["main"], mod)
    assert len(converted.params) == len(mod["main"].params) + 1
    again = relay.IRModule(
        {**{g: f for g, f in mod.functions.items() if g.name_hint != "main"}, "main": un_cps(converted)},
        type_definitions=mod.type_definitions,
    )
    relay.analysis.check_well_formed(again)
    relay.transform.InferType()(again)
    assert [str(v) for v in values(again, [argument])] == [str(v) for v in expected]


def test_the_text():
    mod = module("def @main(%n: int32) -> int32 { if (%n == 0) { 1 } else { %n * @main(%n - 1) } }")
    converted = relay.transform.InferType()(ToCPS()(mod))
    relay.assert_alpha_equal(
        converted["main"],
        module(
            """
def @main[A](%n: int32, %k: fn(int32) -> A) -> A {
  let %c = %n == 0;
  let %j = fn(%x) { %k(%x) };
  if (%c) {
    %j(1)
  } else {
    let %m = %n - 1;
    @main(%m, fn(%r) { let %p = %n * %r; %j(%p) })
  }
}"""
        )["main"],
    )


def test_calls_never_return_before_the_end():
    """Every call of a converted function is the last thing that its function does."""
    mod = ToCPS()(module(PROGRAMS["ackermann"][0]))
    for function in mod.functions.values():
        for node in relay.scopes.nodes_with_parts(function):
            if isinstance(node, relay.Let):
                assert not isinstance(node.value, relay.Call) or isinstance(node.value.op, relay.Op)


def test_what_is_refused():
    with pytest.raises(DiagnosticError, match=r"E9071.*functions in values of Box cannot be converted"):
        ToCPS()(module("type Box { Box(fn(int32) -> int32) }\ndef @main(%n: int32) -> int32 { %n }"))
    with pytest.raises(DiagnosticError, match=r"E9003.*no Relay function @f"):
        to_cps(relay.parse_expr("fn(%x: int32) { @f(%x) }"))
    with pytest.raises(ValueError, match="un_cps: the function is not in continuation-passing style"):
        un_cps(relay.parse_expr("fn(%x: int32) { %x }"))


def test_nothing_recurses():
    body: relay.Expr = relay.var("x", "int32")
    x = body
    f = relay.var("f")
    for _ in range(1_200):
        body = relay.If(relay.const(True), relay.Call(f, [body]), x)
    function = relay.Function([f, x], body)
    assert relay.analysis.well_formed(to_cps(function))
