"""Inline: functions with the attribute Inline, in the places of their calls."""

from __future__ import annotations

from pass_checks import check, module, run, values

from relax.relay.transform import Inline

TWICE = "def @twice(%x: int32, Inline=1) -> int32 { %x + %x }\n"


def test_a_call_becomes_the_body_and_its_argument_is_evaluated_once():
    check(
        Inline(),
        TWICE + "def @main(%y: int32) -> int32 { @twice(%y * 3) }",
        TWICE + "def @main(%y: int32) -> int32 { %1 = %y * 3; %1 + %1 }",
        3,
    )


def test_functions_inlined_into_each_other():
    text = TWICE + "def @four(%x: int32, Inline=1) -> int32 { @twice(@twice(%x)) }\n"
    check(
        Inline(),
        text + "def @main(%y: int32) -> int32 { @four(%y) }",
        text + "def @main(%y: int32) -> int32 { %1 = %y + %y; %1 + %1 }",
        3,
    )


def test_recursive_functions_and_others_stay():
    check(
        Inline(),
        """
def @f(%x: int32, Inline=1) -> int32 { if (%x == 0) { 0 } else { @g(%x - 1) } }
def @g(%x: int32, Inline=1) -> int32 { if (%x == 0) { 1 } else { @f(%x - 1) } }
def @h(%x: int32) -> int32 { %x }
def @main(%y: int32) -> int32 { @f(%y) + @h(%y) }""",
        None,
        3,
    )


def test_an_argument_for_a_function_inside_is_bound():
    text = "def @adder(%x: int32, Inline=1) { fn(%y: int32) { %x + %y } }\n"
    check(
        Inline(),
        text + "def @main(%y: int32) { @adder(%y * %y)(1) }",
        text + "def @main(%y: int32) { (let %x = %y * %y; fn(%z: int32) { %x + %z })(1) }",
        3,
    )


def test_each_call_has_references_of_its_own():
    mod = module(
        """
def @cell(Inline=1) -> ref(int32) { ref(1 + 2) }
def @main(%x: int32) -> (int32, int32) {
  let %a = @cell();
  let %b = @cell();
  let %u = ref_write(%a, %x);
  (ref_read(%a), ref_read(%b))
}"""
    )
    assert [v.item() for v in values(run(Inline(), mod), [7])] == [7, 3]


def test_type_parameters_are_forgotten():
    text = "def @id[A](%x: A, Inline=1) -> A { let %y: A = %x; %y }\n"
    result = run(Inline(), module(text + "def @main(%y: int32) -> (int32, bool) { (@id(%y), @id(True)) }"))
    assert str(result["main"].checked_type) == "fn(int32) -> (int32, bool)"
    assert [v.item() for v in values(result, [7])] == [7, True]
