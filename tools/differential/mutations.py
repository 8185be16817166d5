"""Mutations that break one rule of a valid program, and what must then happen: the program is refused, with that rule.

MUTATIONS is the table: each mutation's name, the code of the diagnostic it provokes, its function, and what it does.
`check` applies one and asserts all that a broken program is promised; `mutated_programs` draws broken programs.
NEIGHBOURS are changes that look suspicious and keep a program valid; TEXT_MUTATIONS break the text before it is parsed.

    python -c "from differential.mutations import MUTATIONS; print(*MUTATIONS, sep='\\n')"
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

import relax
from relax.analysis import check_well_formed
from relax.expr import Function
from relax.ir import Diagnostic, DiagnosticError, IRModule
from relax.script import from_source
from relax.transform import Normalize

from . import mutate_annotations, mutate_derivation, mutate_rules
from .mutate_tree import LOST, SAME, Draw, Mutation

MUTATIONS: tuple[Mutation, ...] = (*mutate_rules.TABLE, *mutate_annotations.TABLE, *mutate_derivation.TABLE)


INTERPRETED = frozenset({"rules"})
"""The stages whose errors the interpreter finds too."""


class Unrefused(AssertionError):
    """A broken program was not refused as it must be; says what happened, and shows the program."""


def check(module: IRModule, mutation: Mutation, draw: Draw) -> tuple[Diagnostic, ...] | None:
    """Apply a mutation to a valid, normalised module and assert that every way into the compiler refuses the result.

    Returns the diagnostics of the first check that fails; None where the mutation does not apply. Raises Unrefused.
    """
    broken = mutation.apply(module, draw)
    if broken is None:
        return None
    text = broken.script()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of run-time checks in the rest of the program
        found = _check_tree(broken, mutation)
        _check_build(broken, mutation)
        _check_text(broken, text, mutation)
    _check_words(found, mutation, broken, located=_is_located(module))
    return found


def _check_tree(broken: IRModule, mutation: Mutation) -> tuple[Diagnostic, ...]:
    """The first stage that complains is the one the mutation names, and it complains of nothing else."""
    rules = tuple(check_well_formed(broken))
    if mutation.stage == "rules":
        _expect(rules, mutation, "check_well_formed", broken)
        return rules
    _require(not rules, f"{mutation}: breaks a rule as well: {_codes(rules)}", broken)
    if mutation.stage == "derive":
        found = refusal(lambda: Normalize()(broken))
        _expect(found, mutation, "Normalize", broken)
        return found
    return refusal(lambda: relax.build(broken, "llvm"))


def _check_build(broken: IRModule, mutation: Mutation) -> None:
    """Neither compiled nor interpreted, with the same complaint."""
    _expect(refusal(lambda: relax.build(broken, "llvm")), mutation, "build", broken)
    entries = [g.name_hint for g, f in broken.items() if "global_symbol" in f.attrs and isinstance(f, Function)]
    name = next(iter(entries), "main")
    if mutation.stage in INTERPRETED and hasattr(relax, "interpret"):
        # Without arguments: a program that is refused is not even entered.
        _expect(refusal(lambda: relax.interpret(broken, name)), mutation, "interpret", broken)


def _check_text(broken: IRModule, text: str, mutation: Mutation) -> None:
    """What was printed is refused as well, in its own lines; unless text cannot say what is broken."""
    found = refusal(lambda: from_source(text))
    if mutation.text == LOST:
        return
    allowed = {mutation.code} if mutation.text == SAME else mutation.text
    codes = _codes(found)
    _require(
        bool(codes) and codes <= allowed,
        f"{mutation}: the text is answered with {codes or 'nothing'}",
        broken,
    )
    for diagnostic in found:
        _require(diagnostic.span is not None, f"{mutation}: no place in the text: {diagnostic}", broken)
        assert_inside(diagnostic, text)


def _check_words(
    found: tuple[Diagnostic, ...], mutation: Mutation, broken: IRModule, *, located: bool
) -> None:
    """Each diagnostic can be shown, gives its rule and a hint, and a place if the program has places."""
    for diagnostic in found:
        _require(bool(diagnostic.render()), f"{mutation}: shows nothing", broken)
        _require(bool(diagnostic.hint), f"{mutation}: no hint: {diagnostic}", broken)
        if mutation.rule is not None:
            _require(diagnostic.message.startswith(f"rule {mutation.rule}: "), f"{diagnostic}", broken)
        if located:
            _require(diagnostic.span is not None, f"{mutation}: no place: {diagnostic}", broken)


def _expect(found: tuple[Diagnostic, ...], mutation: Mutation, who: str, broken: IRModule) -> None:
    codes = _codes(found)
    text = "\n".join(d.render() for d in found)
    _require(codes == {mutation.code}, f"{mutation}: {who} says {codes or 'nothing'}\n{text}", broken)


def _require(holds: bool, message: str, broken: IRModule) -> None:
    if not holds:
        raise Unrefused(f"{message}\n\n{broken.script()}")


def refusal(action: Callable[[], Any]) -> tuple[Diagnostic, ...]:
    """The diagnostics an action is refused with; () if it is not. Any other exception is a bug, and passes."""
    try:
        action()
    except DiagnosticError as error:
        return tuple(d for d in error.diagnostics if d.level == "error")
    return ()


def assert_inside(diagnostic: Diagnostic, text: str) -> None:
    """The place of a diagnostic lies in a text."""
    span, lines = diagnostic.span, text.splitlines() or [""]
    if span is None:
        return
    inside = 1 <= span.line <= len(lines) and 1 <= span.column <= len(lines[span.line - 1]) + 1
    if not inside:
        raise Unrefused(f"line {span.line}, column {span.column} is not in the text: {diagnostic}\n\n{text}")


def _codes(found: tuple[Diagnostic, ...]) -> set[str]:
    return {d.code for d in found}


def _is_located(module: IRModule) -> bool:
    """Whether a module came from text, so that its parts know their place."""
    return all(f.span is not None for f in module.functions.values())


@st.composite
def mutated_programs(draw: Draw, modules: st.SearchStrategy[IRModule]) -> tuple[Mutation, IRModule]:
    """Broken programs: a module of a strategy with one mutation applied that is possible there."""
    module = draw(modules)
    order = draw(st.permutations(MUTATIONS))
    for mutation in order:
        broken = mutation.apply(module, draw)
        if broken is not None:
            return mutation, broken
    raise AssertionError("no mutation applies: every module has functions to break")


__all__ = ["MUTATIONS", "Unrefused", "assert_inside", "check", "mutated_programs", "refusal"]
