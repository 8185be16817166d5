"""Passes on programs in text: what they make of them, and that it means the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from relax import relay
from relax.ir import IRModule
from relax.ir.transform import Pass, PassContext, VerifyInstrument


def module(text: str) -> IRModule:
    """A module, with types, of a text with definitions, or with the expression that is main."""
    if "def @" not in text:
        expr = relay.parse_expr(text)
        mod = IRModule.from_expr(expr if isinstance(expr, relay.Function) else relay.Function([], expr))
    else:
        mod = relay.parse(f'#[version = "0.0.5"]\n{text}')
    return relay.transform.InferType()(mod)


def run(step: Pass, mod: IRModule) -> IRModule:
    """The module after a pass, which is well-formed and has types."""
    with PassContext(opt_level=4, instruments=[VerifyInstrument(relay.analysis.check_well_formed)]):
        result = step(mod)
    return relay.transform.InferType()(result)


def main_text(mod: IRModule) -> str:
    """The text of main, of a module without tensor constants."""
    return mod["main"].astext().split("\n", 1)[1]


def values(mod: IRModule, args: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """The arrays of main's value, from left to right."""
    found: list[np.ndarray[Any, Any]] = []

    def collect(value: Any) -> None:
        if isinstance(value, tuple):
            for field in value:
                collect(field)
        elif hasattr(value, "numpy"):
            found.append(value.numpy())
        elif isinstance(value, relay.values.RefValue):
            collect(value.value)
        else:
            found.append(np.array(type(value).__name__ if isinstance(value, relay.values.Closure) else str(value)))

    collect(relay.create_executor("debug", mod).evaluate()(*args))
    return found


def assert_same_values(before: IRModule, after: IRModule, args: Sequence[Any], rtol: float = 0) -> None:
    for expected, found in zip(values(before, args), values(after, args), strict=True):
        assert expected.dtype == found.dtype
        if expected.dtype.kind in "US":
            assert expected == found
        else:
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


def check(step: Pass, before: str, expected: str | None, *args: Any, rtol: float = 0, settles: bool = True) -> IRModule:
    """A pass makes one program of another of the same value; nothing is left to do for it then.

    `expected` is None for a program that the pass must leave alone: the very module.
    """
    mod = module(before)
    result = run(step, mod)
    if expected is None:
        assert result is mod
    else:
        relay.assert_alpha_equal(result["main"], module(expected)["main"])
    assert_same_values(mod, result, args, rtol)
    if settles:
        assert run(step, result) is result
    return result


PROGRAMS = {
    "recursion": (
        """
def @fact(%n: int32) -> int32 { if (%n == 0) { 1 } else { %n * @fact(%n - 1) } }
def @main(%n: int32) -> int32 { @fact(%n) + 1 }""",
        5,
    ),
    "ackermann": (
        """
def @a(%m: int32, %n: int32) -> int32 {
  if (%m == 0) { %n + 1 } else if (%n == 0) { @a(%m - 1, 1) } else { @a(%m - 1, @a(%m, %n - 1)) }
}
def @main(%n: int32) -> int32 { @a(2, %n) }""",
        3,
    ),
    "closures": (
        """
def @twice(%f: fn(int32) -> int32, %x: int32) -> int32 { %f(%f(%x)) }
def @main(%n: int32) -> (int32, int32) {
  let %add = fn(%y: int32) -> int32 { %y + %n };
  let %g = if (%n > 3) { %add } else { fn(%y: int32) -> int32 { %y * %n } };
  (@twice(%g, 1), @twice(%add, 2))
}""",
        3,
    ),
    "local recursion": (
        "def @main(%n: int32) -> int32 { "
        "let %f = fn(%i: int32) -> int32 { if (%i == 0) { 0 } else { %i + %f(%i - 1) } }; %f(%n) }",
        6,
    ),
    "lists": (
        """
import "prelude.rly"
def @main(%n: int32) -> (int32, List[int32]) {
  let %l = @map(fn(%x: int32) -> int32 { %x * %n }, Cons(1, Cons(2, Nil)));
  (@foldl(fn(%a: int32, %b: int32) -> int32 { %a - %b }, 0, %l), %l)
}""",
        3,
    ),
    "references": (
        """
def @main(%n: int32) -> (int32, int32) {
  let %r = ref(%n);
  let %bump = fn(%k: int32) -> int32 { let %old = ref_read(%r); let %u = ref_write(%r, %old + %k); %old };
  let %a = %bump(1);
  let %b = %bump(10);
  (%a * 100 + %b, ref_read(%r))
}""",
        3,
    ),
}
"""Programs of functions of every kind, each with the argument of main."""
