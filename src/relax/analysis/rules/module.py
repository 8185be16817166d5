"""Rules 12, 13, 18 and 21: entry points, attributes, prim values."""

from __future__ import annotations

from collections.abc import Iterator

from ...derive.context import FORCE_PURE
from ..program import Place, ProgramFacts, Region, first_span
from .violation import Violation


def rule_12(program: ProgramFacts) -> Iterator[Violation]:
    """At least one entry point."""
    module = program.module
    if module is None or any("global_symbol" in f.attrs for f in module.functions.values()):
        return
    span = first_span(*module.functions.values(), module)
    names = ", ".join(g.name_hint for g in module.functions) or "none"
    yield Violation(
        12,
        "the module has no entry point",
        Place(0, Region(None, "sequence", ""), span),
        "a function with a global_symbol is one; @R.function(private=True) leaves it out",
        (f"its functions: {names}",),
    )


def rule_13(program: ProgramFacts) -> Iterator[Violation]:
    """global_symbol = GlobalVar name."""
    for global_var, function in program.module.functions.items() if program.module is not None else ():
        symbol = function.attrs.get("global_symbol")
        name = global_var.name_hint
        if symbol is not None and symbol != name:
            place = Place(0, Region(None, "sequence", name), first_span(function, global_var))
            yield Violation(
                13,
                f"the function {name} has the global_symbol {symbol!r}",
                place,
                "both names must be the same; rename one",
            )


def rule_18(program: ProgramFacts) -> Iterator[Violation]:
    """PrimValue holds integer/float/bool scalars with one lane."""
    for item in program.prim_values:
        dtype = item.node.value.dtype
        if not (dtype.is_integer or dtype.is_float or dtype.is_bool) or dtype.lanes != 1:
            yield Violation(
                18,
                f"a prim value has dtype {dtype!s}, expected an integer, float or bool scalar",
                item.place,
                "vectors and handles belong to loops (TIR)",
            )


def rule_21(program: ProgramFacts) -> Iterator[Violation]:
    """A function with `relax.force_pure` is `is_pure`."""
    for literal in program.functions:
        if literal.function.attrs.get(FORCE_PURE) and not literal.function.is_pure:
            yield Violation(
                21,
                f"a function with {FORCE_PURE} must be pure, and is declared with pure=False",
                literal.place,
                "drop one of the two",
            )
