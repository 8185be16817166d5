"""Mutations of valid programs: those that break one rule, and are refused with that rule; and those that keep them valid.

    MUTATIONS         each with the code of the diagnostic it provokes; `check` applies one, and asserts what a broken
                      program is promised
    NEIGHBOURS        changes that look suspicious and keep a program valid; `check_neighbour`
    TEXT_MUTATIONS    typing errors; `check_text`
    check_program     a few of each, chosen by a seed; `mutated_programs` is a strategy of broken programs

Where choices are asked for, the `draw` of hypothesis will do, or a seed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

import relax
from relax.analysis import check_well_formed
from relax.expr import Function
from relax.ir import Diagnostic, DiagnosticError, IRModule, assert_structural_equal
from relax.script import from_source
from relax.transform import Normalize

from . import mutate_annotations, mutate_derivation, mutate_extremes, mutate_operators, mutate_rules, mutate_text
from .choices import Choices, Drawn, Seeded
from .harness import ELISION
from .mutate_neighbours import NEIGHBOURS, Neighbour
from .mutate_text import TextMutation
from .mutate_tree import LOST, SAME, Mutation

MUTATIONS: tuple[Mutation, ...] = (
    *mutate_rules.TABLE,
    *mutate_annotations.TABLE,
    *mutate_derivation.TABLE,
    *mutate_operators.TABLE,
)

TEXT_MUTATIONS: tuple[TextMutation, ...] = (*mutate_text.TABLE, *mutate_extremes.TABLE)

INTERPRETED = frozenset({"rules", mutate_derivation.DERIVE})
"""The stages whose errors the interpreter finds too."""


class Unrefused(AssertionError):
    """A broken program was not refused as it must be, or a valid one was; says what happened, and shows the program."""


def as_choices(source: Choices | Callable[[Any], Any] | int) -> Choices:
    """Choices from hypothesis's `draw`, from a seed, or as they are."""
    if isinstance(source, int):
        return Seeded(source)
    return source if hasattr(source, "pick") else Drawn(source)


# ------------------------------------------------------------------------------------ broken programs


def check(module: IRModule, mutation: Mutation, draw: Any) -> tuple[Diagnostic, ...] | None:
    """Apply a mutation to a valid, normalised module and assert that every way into the compiler refuses the result.

    Returns the diagnostics of the first check that fails; None where the mutation does not apply. Raises Unrefused.
    """
    broken = mutation.apply(module, as_choices(draw))
    if broken is None:
        return None
    text = broken.script(show_meta=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of run-time checks in the rest of the program
        found = _check_tree(broken, mutation)
        _check_ways_in(broken, mutation)
        if ELISION not in text:
            _check_printed(broken, text, mutation)
    _check_words(found, mutation, broken, located=_is_located(module))
    return found


def _check_tree(broken: IRModule, mutation: Mutation) -> tuple[Diagnostic, ...]:
    """The first stage that complains is the one the mutation names, and it complains of nothing else."""
    rules = tuple(check_well_formed(broken))
    if mutation.stage == "rules":
        _expect(rules, mutation, "check_well_formed", broken)
        return rules
    _require(not rules, f"{mutation}: breaks a rule as well: {_codes(rules)}", broken)
    if mutation.stage == mutate_derivation.DERIVE:
        found = refusal(lambda: Normalize()(broken))
        _expect(found, mutation, "Normalize", broken)
        return found
    return refusal(lambda: relax.build(broken, "llvm"))


def _check_ways_in(broken: IRModule, mutation: Mutation) -> None:
    """Neither compiled nor interpreted, with the same complaint."""
    _expect(refusal(lambda: relax.build(broken, "llvm")), mutation, "build", broken)
    entries = [g.name_hint for g, f in broken.items() if "global_symbol" in f.attrs and isinstance(f, Function)]
    name = next(iter(entries), "main")
    if mutation.stage in INTERPRETED:
        # Without arguments: a program that is refused is not even entered.
        _expect(refusal(lambda: relax.interpret(broken, name)), mutation, "interpret", broken)


def _check_printed(broken: IRModule, text: str, mutation: Mutation) -> None:
    """What was printed is refused as well, in its own lines; unless text cannot say what is broken."""
    if mutation.stage == mutate_operators.BUILD:
        found = refusal(lambda: relax.build(from_source(text), "llvm"))
    else:
        found = refusal(lambda: from_source(text))
    for diagnostic in found:
        assert_inside(diagnostic, text)
    if mutation.text == LOST:
        return
    allowed = {mutation.code} if mutation.text == SAME else mutation.text
    codes = _codes(found)
    _require(bool(codes) and codes <= allowed, f"{mutation}: the text is answered with {codes or 'nothing'}", broken)
    for diagnostic in found:
        _require(diagnostic.span is not None, f"{mutation}: no place in the text: {diagnostic}", broken)


def _check_words(found: tuple[Diagnostic, ...], mutation: Mutation, broken: IRModule, *, located: bool) -> None:
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


def _require(holds: bool, message: str, module: IRModule) -> None:
    if not holds:
        raise Unrefused(f"{message}\n\n{module.script()}")


def refusal(action: Callable[[], Any]) -> tuple[Diagnostic, ...]:
    """The diagnostics an action is refused with; () if it is not. Any other exception is a bug, and passes."""
    try:
        action()
    except DiagnosticError as error:
        return tuple(d for d in error.diagnostics if d.level == "error")
    return ()


def assert_inside(diagnostic: Diagnostic, text: str) -> None:
    """The place of a diagnostic, if it has one, lies in a text."""
    span, lines = diagnostic.span, text.splitlines() or [""]
    if span is None:
        return
    inside = 1 <= span.line <= len(lines) and 1 <= span.column <= len(lines[span.line - 1]) + 1
    if not inside or (span.end_line, span.end_column) < (span.line, span.column):
        raise Unrefused(f"line {span.line}, column {span.column} is not in the text: {diagnostic}\n\n{text}")


def _codes(found: tuple[Diagnostic, ...]) -> set[str]:
    return {d.code for d in found}


def _is_located(module: IRModule) -> bool:
    """Whether a module came from text, so that its parts know their place."""
    return all(f.span is not None for f in module.functions.values())


# ------------------------------------------------------------------------------------ valid neighbours


def check_neighbour(
    module: IRModule,
    neighbour: Neighbour,
    draw: Any,
    difference: Callable[[IRModule, IRModule], str | None] | None = None,
) -> IRModule | None:
    """Apply a change that keeps a module valid, and assert that it is accepted and means the same.

    `difference` runs two modules and says how what they do differs, None if it does not. Returns the changed module,
    normalised; None where the change does not apply. Raises Unrefused.
    """
    changed = neighbour.apply(module, as_choices(draw))
    if changed is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = tuple(check_well_formed(changed)) or refusal(lambda: Normalize()(changed))
        _require(not found, f"{neighbour}: refused: {[d.render() for d in found]}", changed)
        normal = Normalize()(changed)
        _require(not relax.analysis.check_normalized(normal), f"{neighbour}: not as normalised", normal)
        text = normal.script(show_meta=True)
        if ELISION in text:
            return normal
        found = refusal(lambda: from_source(text))
        _require(not found, f"{neighbour}: its text is refused: {[d.render() for d in found]}", normal)
        again = from_source(text)
        assert_structural_equal(again, normal)
        if neighbour.same == "structure":
            assert_structural_equal(changed, module)
            assert_structural_equal(normal, module)
        elif neighbour.same == "functions":
            for global_var, function in module.functions.items():
                assert_structural_equal(normal[global_var.name_hint], function)
        if difference is not None:
            told = difference(module, again)
            _require(told is None, f"{neighbour}: {told}", normal)
    return normal


# ------------------------------------------------------------------------------------ text


def check_text(text: str, mutation: TextMutation, draw: Any) -> tuple[Diagnostic, ...] | None:
    """Break a text and assert that parsing answers with diagnostics that point into it, or accepts what is still valid.

    Returns the diagnostics; None where the mutation does not apply. Raises Unrefused, or whatever the parser raises
    that is no diagnostic: a bug.
    """
    broken = mutation.apply(text, as_choices(draw))
    if broken is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = refusal(lambda: from_source(broken))
        except Exception as error:
            raise Unrefused(f"{mutation}: {type(error).__name__}: {error}\n\n{broken}") from error
    codes = _codes(found)
    if mutation.breaks and (not codes or (mutation.codes and not codes & mutation.codes)):
        raise Unrefused(f"{mutation}: answered with {codes or 'nothing'}\n\n{broken}")
    for diagnostic in found:
        longest = max(map(len, diagnostic.render().splitlines()))
        if longest > 2500:
            raise Unrefused(f"{mutation}: a line of the message has {longest} characters\n\n{broken[:2000]}")
        assert_inside(diagnostic, broken)
    return found


# ------------------------------------------------------------------------------------ many


def check_program(text: str, seed: int, count: int = 4) -> None:
    """Assert all of the above of a valid program given as text, for `count` mutations of each kind that a seed chooses."""
    choices = Seeded(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = from_source(text)
    for _ in range(count):
        check(module, choices.pick(MUTATIONS), choices)
        check_neighbour(module, choices.pick(NEIGHBOURS), choices)
        check_text(text, choices.pick(TEXT_MUTATIONS), choices)


@st.composite
def mutated_programs(draw: Callable[[Any], Any], modules: st.SearchStrategy[IRModule]) -> tuple[Mutation, IRModule]:
    """Broken programs: a module of a strategy with one mutation applied that is possible there."""
    module = draw(modules)
    for mutation in draw(st.permutations(MUTATIONS)):
        broken = mutation.apply(module, Drawn(draw))
        if broken is not None:
            return mutation, broken
    raise AssertionError("no mutation applies: every module has functions to break")


__all__ = [
    "MUTATIONS",
    "NEIGHBOURS",
    "TEXT_MUTATIONS",
    "Unrefused",
    "as_choices",
    "assert_inside",
    "check",
    "check_neighbour",
    "check_program",
    "check_text",
    "mutated_programs",
    "refusal",
]
