"""Rules 4, 5 and 6: where shape variables are bound, and where they may be used."""

from __future__ import annotations

from collections.abc import Iterator

from ..program import ProgramFacts, ShapeUse
from .violation import Violation


def rule_4(program: ProgramFacts) -> Iterator[Violation]:
    """A return annotation uses only shape variables from the parameters or an outer scope."""
    for use in program.shape_uses:
        if use.position == "result":
            yield Violation(
                4,
                f"the return annotation uses {use.var.name}, which no parameter binds",
                use.place,
                "leave the dimension open (ndim=...), or name it in a parameter",
            )


def rule_5(program: ProgramFacts) -> Iterator[Violation]:
    """No shape variable is used before it is bound, by the signature or a match_cast."""
    for use in program.shape_uses:
        if use.position in ("parameter", "result"):
            continue
        name = use.var.name
        if is_bound_later(program, use):
            yield Violation(
                5, f"the shape variable {name} is used before it is bound", use.place, "move the match_cast up"
            )
        elif use.position == "expression":
            yield Violation(
                5,
                f"the shape variable {name} is not bound here",
                use.place,
                "bind it in the signature, or with R.match_cast, in a dimension of its own",
            )


def rule_6(program: ProgramFacts) -> Iterator[Violation]:
    """In a signature each shape variable stands alone at least once, in any parameter, in any order.

    No other function of the module binds it.
    """
    for use in program.shape_uses:
        if use.position == "parameter":
            name = use.var.name
            yield Violation(
                6,
                f"the signature uses {name}, but in no parameter does {name} stand alone in a dimension",
                use.place,
                f"only a dimension that is just {name} binds it",
            )
    for var, places in program.shape_definitions.items():
        first = places[0].scope.function
        elsewhere = {place.scope.function: place for place in places if place.scope.function != first}
        for function, place in elsewhere.items():
            yield Violation(
                6,
                f"the shape variable {var.name} of {first} is bound in {function} as well",
                place,
                "make a new tir.Var for each function; two may have one name",
            )


def is_bound_later(program: ProgramFacts, use: ShapeUse) -> bool:
    """True if a binding of the variable, visible at the use if it came sooner, is still to come."""
    return any(
        place.order >= use.place.order and place.scope.encloses(use.place.scope)
        for place in program.shape_definitions.get(use.var, ())
    )
