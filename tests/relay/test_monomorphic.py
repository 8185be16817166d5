"""Instantiation of polymorphic functions: text in, text out."""

from __future__ import annotations

import pytest

from relax import DiagnosticError, relay
from relax.relay.infer import instances_in
from relax.relay.monomorphic import monomorphic


def instantiated(text):
    mod = relay.parse(text)
    result = monomorphic(mod, instances_in(mod))
    assert relay.analysis.well_formed(result)
    relay.infer_type(result["main"], result)  # the types that were written are those that inference finds
    return result


def check(before, after):
    expected = relay.parse(after)
    result = instantiated(before)
    assert sorted(g.name_hint for g in result.functions) == sorted(g.name_hint for g in expected.functions)
    for name, function in expected.functions.items():
        relay.assert_alpha_equal(result[name.name_hint], function)


def test_a_global_function_stands_once_for_each_type():
    check(
        "def @id[A](%x: A) -> A { %x } def @main() -> (int32, bool, int32) { (@id(1), @id(True), @id(2)) }",
        """
def @id(%x: int32) -> int32 { %x }
def @id_1(%x: bool) -> bool { %x }
def @main() -> (int32, bool, int32) { (@id(1), @id_1(True), @id(2)) }
""",
    )


def test_let_functions_and_what_is_around_them():
    check(
        """
def @main(%n: int32) -> ((int32, int32), (int32, bool)) {
  let %pair = fn(%x) { (%n, %x) };
  (%pair(1), %pair(True))
}""",
        """
def @main(%n: int32) -> ((int32, int32), (int32, bool)) {
  let %pair: fn(int32) -> (int32, int32) = fn(%x: int32) -> (int32, int32) { (%n, %x) };
  let %pair_1: fn(bool) -> (int32, bool) = fn(%x: bool) -> (int32, bool) { (%n, %x) };
  (%pair(1), %pair_1(True))
}""",
    )


def test_operators_and_constructors_as_values():
    check(
        """
type Box[A] { Box(A) }
def @apply[A, B](%f: fn(A) -> B, %x: A) -> B { %f(%x) }
def @main(%n: int32) -> (int32, Box[int32]) { (@apply(negative, %n), @apply(Box, %n)) }
""",
        """
type Box[A] { Box(A) }
def @apply(%f: fn(int32) -> int32, %x: int32) -> int32 { %f(%x) }
def @apply_1(%f: fn(int32) -> Box[int32], %x: int32) -> Box[int32] { %f(%x) }
def @main(%n: int32) -> (int32, Box[int32]) {
  (@apply(fn(%x0: int32) -> int32 { negative(%x0) }, %n),
   @apply_1(fn(%x0: int32) -> Box[int32] { Box(%x0) }, %n))
}""",
    )


def test_a_function_of_shapes_and_dtypes():
    result = instantiated(
        "def @f[s: Shape, t: BaseType](%x: Tensor[s, t]) -> Tensor[s, t] { %x }"
        "def @main(%x: Tensor[(2, n), int8]) -> (Tensor[(2, n), int8], bool) { (@f(%x), @f(True)) }"
    )
    assert str(result["f_1"].checked_type) == "fn(bool) -> bool"
    assert result["f"].params[0].checked_type == result["main"].params[0].checked_type


def test_references_of_instances_are_their_own():
    text = """
def @main(%n: int32) {
  let %counter = fn(%x) { let %r = ref(1); fn() { ref_write(%r, ref_read(%r) + 1); (%x, ref_read(%r)) } };
  let %a = %counter(%n);
  let %b = %counter(True);
  (%a().1, %a().1, %b().1)
}"""
    for kind in ("debug", "vm"):
        counts = relay.create_executor(kind, relay.parse(text)).evaluate()(7)
        assert [int(count.numpy()) for count in counts] == [2, 3, 2]


def test_nothing_to_instantiate():
    mod = relay.parse("def @f(%x: int32) -> int32 { %x } def @main(%x: int32) -> int32 { @f(%x) }")
    assert monomorphic(mod, instances_in(mod)) is mod


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def @main(%x) { %x }", r"@main, which is called from outside and polymorphic, of type fn\[t0\]"),
        (
            "def @g[A](%n: int32, %x: A) -> int32 { if (%n == 0) { 0 } else { @g(%n - 1, (%x, %x)) } }"
            "def @main(%n: int32) -> int32 { @g(%n, 1) }",
            r"@g, which calls itself at ever other types",
        ),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(DiagnosticError, match=f"E9050.*{message}.*has no translation to Relax"):
        instantiated(text)


def test_polymorphic_recursion_that_ends():
    text = (
        "def @swap[A, B](%n: int32, %a: A, %b: B) -> int32 {"
        "  if (%n == 0) { 0 } else { 1 + @swap(%n - 1, %b, %a) } }"
        "def @main(%n: int32) -> int32 { @swap(%n, 1f, True) }"
    )
    assert [g.name_hint for g in instantiated(text).functions] == ["swap", "swap_1", "main"]
    assert relay.create_executor("vm", relay.parse(text)).evaluate()(5).numpy() == 5
