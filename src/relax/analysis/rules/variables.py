"""Rules 1, 2, 3 and 11: where variables are bound, and where they may be used."""

from __future__ import annotations

from collections.abc import Iterator

from ...expr import DataflowVar, Var
from ...ir import Span
from ..program import ProgramFacts, Use
from .violation import Violation


def rule_1(program: ProgramFacts) -> Iterator[Violation]:
    """A DataflowVar is bound only inside a DataflowBlock and not used outside it."""
    for var, definitions in program.definitions.items():
        for definition in definitions:
            if isinstance(var, DataflowVar) and definition.place.scope.kind != "dataflow":
                problem = "a parameter" if definition.is_param else "bound outside a dataflow block"
                yield Violation(
                    1, f"the dataflow variable {var.name_hint} is {problem}", definition.place, "make it a Var"
                )
    for use in _invisible(program):
        if isinstance(use.var, DataflowVar) and _is_over(program, use):
            yield Violation(
                1,
                f"the dataflow variable {use.var.name_hint} is used outside its dataflow block",
                use.place,
                f"make {use.var.name_hint} an output of the block: R.output({use.var.name_hint})",
            )


def rule_2(program: ProgramFacts) -> Iterator[Violation]:
    """A Var used is a parameter or is bound exactly once, and not in its own value, unless that is a function."""
    for var, definitions in program.definitions.items():
        for again in definitions[1:]:
            first = definitions[0].place.span
            yield Violation(
                2,
                f"the variable {var.name_hint} is bound twice",
                again.place,
                "bind a new variable; two may have one name",
                () if first is None else (f"first bound at {first}",),
            )
    for use in program.uses:
        if use.problem == "own value":
            yield Violation(
                2,
                f"the variable {use.var.name_hint} is used in its own value",
                use.place,
                "only a function may refer to the variable it is bound to",
            )
    for use in _invisible(program):
        name = use.var.name_hint
        if use.var not in program.definitions:
            yield Violation(
                2, f"the variable {name} is used but never bound", use.place, "bind it before, or make it a parameter"
            )
        elif not isinstance(use.var, DataflowVar) and _is_over(program, use):
            yield Violation(
                2,
                f"the variable {name} is not bound here",
                use.place,
                "what a branch or a function binds is not seen outside it; return it as its result",
            )


def rule_3(program: ProgramFacts) -> Iterator[Violation]:
    """No use before the binding."""
    for use in _invisible(program):
        if use.var in program.definitions and not _is_over(program, use):
            name = use.var.name_hint
            yield Violation(
                3, f"the variable {name} is used before it is bound", use.place, f"move the binding of {name} up"
            )


def rule_11(program: ProgramFacts) -> Iterator[Violation]:
    """A Function inside a DataflowBlock captures no DataflowVar."""
    for use in program.uses:
        if use.problem == "captured":
            yield Violation(
                11,
                f"a function captures the dataflow variable {use.var.name_hint}",
                use.place,
                "pass it as an argument, or make it an output of a dataflow block before",
            )


def _invisible(program: ProgramFacts) -> Iterator[Use]:
    """Each use of a variable that is not visible there; one of several in one place."""
    seen: set[tuple[Var, str, Span | None]] = set()
    for use in program.uses:
        key = use.var, use.place.scope.function, use.place.span
        if use.problem == "invisible" and key not in seen:
            seen.add(key)
            yield use


def _is_over(program: ProgramFacts, use: Use) -> bool:
    """True if the variable's scope is another one, or over; if not, the binding is still to come."""
    return not any(
        definition.place.order > use.place.order and definition.scope.encloses(use.place.scope)
        for definition in program.definitions.get(use.var, ())
    )
