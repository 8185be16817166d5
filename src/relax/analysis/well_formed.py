"""Well-formedness: the 22 rules of language.md §5, and what holds of a program that has been normalised.

    check_well_formed(mod)      all violations of the rules, each with rule number, place and hint
    assert_well_formed(mod)     raise them
    well_formed(mod)            whether there is none; also of normal form and derived struct info

The rules themselves are in `rules/`, one function each; what they look at is collected by `program.collect`.
"""

from __future__ import annotations

from ..derive.rules import unknown_function
from ..ir import BaseFunc, Diagnostic, DiagnosticError, IRModule, RelaxExpr
from ..ir.deep import nested_too_deeply
from .derived import check_derived
from .nodes import BROKEN_NODE, check_nodes
from .normal_form import check_normal_form
from .program import ProgramFacts, collect
from .rules import RULES

Checked = IRModule | BaseFunc | RelaxExpr


def check_well_formed(obj: Checked) -> list[Diagnostic]:
    """Every violation of the rules in a module, a function or an expression, in the order of the source.

    Any program can be checked: rules speak of normal form and struct info nowhere. Of one whose nodes are not sound
    (see nodes.py) only that is reported. Raises TypeError if it is no program at all.
    """
    if not isinstance(obj, (IRModule, BaseFunc, RelaxExpr)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"expected an IRModule, a function or an expression, found {type(obj).__name__}")
    diagnostics = check_nodes(obj)
    if diagnostics:
        return sorted(diagnostics, key=_position)
    try:
        program = collect(obj)
        diagnostics = [violation.diagnostic() for rule in RULES for violation in rule(program)]
        diagnostics += _unknown_functions(program)
    except RecursionError:
        return [nested_too_deeply("the program", "checked", obj.span)]
    return sorted(diagnostics, key=_position)


def _unknown_functions(program: ProgramFacts) -> list[Diagnostic]:
    """The mentions of functions that the module does not have; what a lone function may mention is not known."""
    if program.module is None:
        return []
    names = dict.fromkeys(global_var.name_hint for global_var in program.module.functions)
    return [
        unknown_function(use.node.name_hint, list(names), use.place.span, use.place.label)
        for use in program.global_uses
        if use.node.name_hint not in names
    ]


def _position(diagnostic: Diagnostic) -> tuple[str, int, int]:
    span = diagnostic.span
    return ("~", 0, 0) if span is None else (span.source.name, span.line, span.column)


def check_normalized(obj: Checked) -> list[Diagnostic]:
    """Violations in a program after normalisation: of rules, normal form, struct info, purity."""
    diagnostics = check_well_formed(obj)
    if not any(d.code == BROKEN_NODE for d in diagnostics):
        diagnostics = (diagnostics + check_normal_form(obj)) or check_derived(obj)
    return diagnostics


def assert_well_formed(obj: Checked, check_struct_info: bool = True) -> None:
    """Raise DiagnosticError with all violations; with `check_struct_info`, those of normalised programs as well."""
    diagnostics = check_normalized(obj) if check_struct_info else check_well_formed(obj)
    if diagnostics:
        raise DiagnosticError(diagnostics)


def well_formed(obj: Checked, check_struct_info: bool = True) -> bool:
    """True if a program is well-formed.

    With `check_struct_info` it must also be in normal form, with struct info everywhere, and pure where it must be.
    """
    return not (check_normalized(obj) if check_struct_info else check_well_formed(obj))
