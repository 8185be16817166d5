"""LambdaLift: functions inside of functions become global."""

from __future__ import annotations

import pytest
from pass_checks import assert_same_values, module, run

from relax import relay
from relax.relay.transform import LambdaLift


def lifted(text, *args):
    mod = module(text)
    result = run(LambdaLift(), mod)
    assert_same_values(mod, result, args)
    assert run(LambdaLift(), result) is result
    return result


def expect(result, text):
    expected = module(text)
    assert [g.name_hint for g in result.functions] == [g.name_hint for g in expected.functions]
    for name, function in expected.functions.items():
        relay.assert_alpha_equal(result[name.name_hint], function)


def test_a_function_of_its_parameters_becomes_global():
    expect(
        lifted("def @main(%x: int32) -> int32 { let %f = fn(%y: int32) { %y + 1 }; %f(%f(%x)) }", 3),
        "def @main(%x: int32) -> int32 { @main_f(@main_f(%x)) }\ndef @main_f(%y: int32) { %y + 1 }",
    )


def test_a_closure_is_handed_its_variables():
    expect(
        lifted("def @main(%x: int32) -> int32 { %1 = %x * 2; let %f = fn(%y: int32) { %1 + %y }; %f(%1) }", 3),
        """
def @main(%x: int32) -> int32 { let %b = %x * 2; let %f = @main_f(%b); %f(%b) }
def @main_f(%a: int32, Closure=1) { fn(%y: int32) { %a + %y } }""",
    )


@pytest.mark.parametrize(
    "text",
    [
        "def @main(%x: int32) -> int32 "
        "{ let %f = fn(%n: int32) -> int32 { if (%n == 0) { %x } else { %n * %f(%n - 1) } }; %f(%x) }",
        "def @main(%x: int32) -> int32 "
        "{ let %f = fn(%n: int32) -> int32 { if (%n == 0) { 1 } else { %n * %f(%n - 1) } }; %f(%x) }",
        "def @main(%x: int32) -> int32 { let %g = fn(%y: int32) { fn(%z: int32) { %x + %y * %z } }; %g(2)(%x) }",
        "def @main(%x: int32) -> (int32, bool) { let %id = fn(%y) { %y }; (%id(%x), %id(True)) }",
        """def @main(%x: int32) -> int32 {
  let %r = ref(%x);
  let %set = fn(%y: int32) { ref_write(%r, %y) };
  let %u = %set(7);
  ref_read(%r)
}""",
        'import "prelude.rly"\ndef @main(%x: int32) -> List[int32] '
        "{ @map(fn(%y: int32) -> int32 { %y + %x }, Cons(1, Nil)) }",
    ],
)
def test_no_function_is_left_inside(text):
    result = lifted(text, 3)
    inner = [n for n in relay.scopes.nodes_with_parts(result["main"]) if isinstance(n, relay.Function)]
    assert inner == [result["main"]]


def test_what_stays():
    for text in (
        "def @main(%x: int32) -> (int32, bool) { let %f = fn(%y) { (%x, %y) }; (%f(1).0, %f(True).1) }",
        "def @id[A](%x: A) -> fn() -> A { fn() { %x } }\ndef @main(%x: int32) -> int32 { @id(%x)() }",
        "def @main(%x: float32) -> float32 { fn(%y: float32, Primitive=1) { exp(%y) }(%x) }",
    ):
        mod = module(text)
        assert run(LambdaLift(), mod) is mod
