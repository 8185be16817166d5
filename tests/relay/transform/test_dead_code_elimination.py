"""DeadCodeElimination: bindings that nothing uses."""

from __future__ import annotations

from pass_checks import check

from relax.relay.transform import DeadCodeElimination


def test_unused_bindings_and_what_only_they_use_go():
    check(
        DeadCodeElimination(),
        "fn(%x: int32) { let %a = %x + 1; let %b = %a * 2; let %c = %x - 1; let %d = %b; %c }",
        "fn(%x: int32) { let %c = %x - 1; %c }",
        3,
    )


def test_an_unused_recursive_function_goes():
    check(
        DeadCodeElimination(),
        "fn(%x: int32) { let %f = fn(%n: int32) -> int32 { %f(%n) }; %x }",
        "fn(%x: int32) { %x }",
        3,
    )


WRITES = """fn(%x: int32) {
  let %r = ref(%x);
  let %u = ref_write(%r, 2);
  let %v = ref_read(%r);
  let %f = fn(%y: int32) { ref_write(%r, %y) };
  let %w = %f(4);
  ref_read(%r)
}"""


def test_writes_and_calls_that_write_stay_and_unused_reads_go():
    check(DeadCodeElimination(), WRITES, WRITES.replace("let %v = ref_read(%r);", ""), 3)


def test_a_call_of_a_global_function_that_writes_stays():
    check(
        DeadCodeElimination(),
        """
def @pure(%x: int32) -> int32 { let %r = ref(%x); ref_read(%r) }
def @set(%r: ref(int32)) -> () { ref_write(%r, 5) }
def @main(%x: int32) -> int32 { let %r = ref(%x); let %a = @pure(%x); let %b = @set(%r); ref_read(%r) }""",
        """
def @set(%r: ref(int32)) -> () { ref_write(%r, 5) }
def @main(%x: int32) -> int32 { let %r = ref(%x); let %b = @set(%r); ref_read(%r) }""",
        3,
    )


def test_writes_go_if_impurity_is_to_be_ignored():
    text = "fn(%x: int32) { let %r = ref(%x); let %u = ref_write(%r, 2); %x }"
    check(DeadCodeElimination(ignore_impurity=True), text, "fn(%x: int32) { %x }", 3)


def test_what_is_used_once_is_inlined_on_request():
    check(
        DeadCodeElimination(inline_once=True),
        "fn(%x: int32) { let %a = %x + 1; let %b = %a * 2; let %c = %x - 3; (%b, fn() { %c }, %a).0 }",
        "fn(%x: int32) { let %a = %x + 1; let %c = %x - 3; (%a * 2, fn() { %c }, %a).0 }",
        3,
    )
