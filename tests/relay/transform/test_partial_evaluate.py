"""PartialEvaluate: what is known is evaluated."""

from __future__ import annotations

import pytest
from pass_checks import PROGRAMS, assert_same_values, check, module, run

from relax.relay.transform import PartialEvaluate

POWER = "let %f = fn(%n: int32) -> int32 { if (%n == 0) { 1 } else { %x * %f(%n - 1) } }; "


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (POWER + "%f(2)", "let %a = %x * 1; let %b = %x * %a; %b"),
        ("let %g = fn(%h: fn(int32) -> int32) { %h(%h(1)) }; %g(fn(%y: int32) { %y + %x })", "let %a = 1 + %x; let %b = %a + %x; %b"),
        ("let %t = (%x, 2 * 3); (%t.1 + 1, %t.0).0", "7"),
        ("match ((%x, 1)) { (%a, %b) => %a }", "%x"),
    ],
)  # fmt: skip
def test_what_is_known(before, expected):
    check(PartialEvaluate(), f"fn(%x: int32) {{ {before} }}", f"fn(%x: int32) {{ {expected} }}", 3)


def test_lists_of_known_length():
    result = run(PartialEvaluate(), module(
        'import "prelude.rly"\ndef @main(%x: int32) -> int32 '
        "{ @foldl(fn(%a: int32, %b: int32) -> int32 { %a + %b }, 0, Cons(%x, Cons(2, Cons(%x, Nil)))) }"
    ))  # fmt: skip
    main = str(result["main"])
    assert "@foldl" not in main
    assert "match" not in main
    assert main.count("add(") == 3


def test_a_recursion_that_depends_on_what_is_not_known_stays():
    mod = module("fn(%x: int32) { " + POWER + "%f(%x) }")
    result = run(PartialEvaluate(), mod)
    assert_same_values(mod, result, [4])
    assert "if" in str(result["main"])
    assert run(PartialEvaluate(), result) is result


def test_effects_keep_their_order():
    mod = module(
        """fn(%x: int32) {
  let %r = ref(1);
  let %bump = fn(%k: int32) -> int32 { let %o = ref_read(%r); let %u = ref_write(%r, %o * %k); %o };
  let %a = %bump(%x);
  let %b = if (True) { %bump(3) } else { 0 };
  let %c = if (%x > 0) { %bump(5) } else { ref_read(%r) };
  (%a, %b, %c, ref_read(%r))
}"""
    )
    result = run(PartialEvaluate(), mod)
    for x in (2, -2):
        assert_same_values(mod, result, [x])


@pytest.mark.parametrize("name", PROGRAMS)
def test_whole_programs(name):
    text, argument = PROGRAMS[name]
    mod = module(text)
    assert_same_values(mod, run(PartialEvaluate(), mod), [argument])


def test_what_never_ends_is_unrolled_for_a_while_only():
    mod = module(
        "def @main(%x: int32) -> int32 { if (%x > 0) { 1 } else { @loop(1) } }\ndef @loop(%n: int32) -> int32 { @loop(%n + 1) }"
    )
    result = run(PartialEvaluate(), mod)
    assert "@loop" in str(result["main"])
    assert_same_values(mod, result, [1])


def test_type_parameters_are_forgotten():
    result = run(PartialEvaluate(), module(
        "def @pair[A](%x: A) -> (A, fn(A) -> A) { let %f = fn(%y: A) -> A { %y }; (%x, %f) }\n"
        "def @main(%x: int32) -> int32 { let %p = @pair(%x); let %g = %p.1; if (%x > 1) { %g(%p.0) } else { 0 } }"
    ))  # fmt: skip
    assert "@pair" not in str(result["main"])
