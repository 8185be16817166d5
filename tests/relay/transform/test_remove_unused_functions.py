"""RemoveUnusedFunctions."""

from __future__ import annotations

from pass_checks import module, run

from relax.relay.transform import RemoveUnusedFunctions


def names(step, mod):
    return [g.name_hint for g in run(step, mod).functions]


def test_what_no_entry_reaches_goes():
    mod = module(
        """
def @a(%x: int32) -> int32 { @b(%x) }
def @b(%x: int32) -> int32 { %x }
def @c(%x: int32) -> int32 { @c(%x) }
def @main(%x: int32) -> int32 { let %f = @a; %f(%x) }"""
    )
    assert names(RemoveUnusedFunctions(), mod) == ["a", "b", "main"]
    assert names(RemoveUnusedFunctions(["c"]), mod) == ["c"]
    assert run(RemoveUnusedFunctions(["nobody"]), mod) is mod
