"""Defunctionalization: functions as values become data."""

from __future__ import annotations

import pytest
from pass_checks import assert_same_values, module, run

from relax import DiagnosticError, relay
from relax.relay.transform import Defunctionalization

TWICE = "def @twice(%f: fn(int32) -> int32, %x: int32) -> int32 { %f(%f(%x)) }\n"

PROGRAMS = {
    "closure": "def @main(%x: int32) -> int32 { let %f = fn(%y: int32) { %x + %y }; (%f, 2).0(1) }",
    "higher order": TWICE + "def @inc(%x: int32) -> int32 { %x + 1 }\ndef @main(%x: int32) -> int32 "
    "{ @twice(@inc, @twice(fn(%y: int32) -> int32 { %y * %x }, 2)) }",
    "choice": """def @main(%x: int32) -> int32 {
  let %f = if (%x > 2) { fn(%y: int32) -> int32 { %y + %x } } else { fn(%y: int32) -> int32 { %y - %x } };
  %f(%f(1))
}""",
    "functions of functions": """def @main(%x: int32) -> int32 {
  let %g = fn(%f: fn(int32) -> int32) -> fn(int32) -> int32 { fn(%y: int32) -> int32 { %f(%f(%y)) } };
  let %h = %g(%g(fn(%y: int32) -> int32 { %y * %x }));
  %h(1)
}""",
    "functions of nothing": """def @main(%x: int32) -> int32 {
  let %g = fn() -> fn(int32) -> int32 { fn(%y: int32) -> int32 { %y + 1 } };
  %g()(%x)
}""",
    "references": """def @main(%x: int32) -> int32 {
  let %r = ref(fn(%y: int32) -> int32 { %y });
  let %u = ref_write(%r, fn(%y: int32) -> int32 { %y + %x });
  ref_read(%r)(1)
}""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_function_is_a_value(name):
    mod = module(PROGRAMS[name])
    result = run(Defunctionalization(), mod)
    for x in (1, 3):
        assert_same_values(mod, result, [x])
    for function in result.functions.values():
        for node in relay.scopes.nodes_with_parts(function):
            if isinstance(node, relay.Call):
                assert isinstance(node.op, (relay.Op, relay.GlobalVar, relay.adt.Constructor))
            assert not isinstance(getattr(node, "checked_type_", None), relay.FuncType) or node is function
    assert run(Defunctionalization(), result) is result


def test_the_text():
    result = run(Defunctionalization(), module(
        "def @main(%x: int32) -> int32 { let %f = fn(%y: int32) -> int32 { %x + %y }; (%f(1), %f).0 }"
    ))  # fmt: skip
    relay.assert_alpha_equal(
        result,
        module(
            """
type Func0 { Main_f(int32) }
def @main(%x: int32) -> int32 { let %f: Func0[] = Main_f(%x); (@apply0(%f, 1), %f).0 }
def @main_f(%x: int32, %y: int32) -> int32 { %x + %y }
def @apply0(%f: Func0[], %a: int32) -> int32 { match (%f) { Main_f(%c) => @main_f(%c, %a) } }"""
        ),
    )


def test_a_function_and_its_module():
    mod = module(TWICE)
    main = relay.Function([], relay.Call(relay.GlobalVar("twice"), [relay.parse_expr("fn(%x: int32) -> int32 { %x * 3 }"), relay.const(2)]))  # fmt: skip
    changed = Defunctionalization(main, mod)
    mod["main"] = changed
    assert relay.create_executor("debug", mod).evaluate()().numpy() == 18


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def @main(%f: fn(int32) -> int32) -> int32 { %f(1) }", "@main takes or returns functions"),
        ("def @id[A](%x: A) -> A { %x }\ndef @main(%x: int32) -> int32 { @id(%x) }", "@id is polymorphic"),
        ("def @main(%x: int32) -> int32 { let %f = negative; %f(%x) }", "negative is used as a value"),
        ("type Box { Box(fn(int32) -> int32) }\ndef @main(%x: int32) -> int32 { %x }", "values of Box hold functions"),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(DiagnosticError, match=f"E9071.*Defunctionalization: {message}"):
        run(Defunctionalization(), module(text))
