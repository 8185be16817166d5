"""Parameters that are weights: those after the first `num_input` ones, in functions with that attribute."""

from __future__ import annotations

from collections.abc import Iterable

from ..derive.call_graph import global_vars_in
from ..expr import Function
from ..ir import Diagnostic, DiagnosticContext, DiagnosticError, IRModule

NUM_INPUT = "num_input"


def number_of_inputs(function: Function, name: str, who: str) -> int | None:
    """The number of parameters that are no weights; None without the attribute.

    Raises DiagnosticError (E4011) if the attribute is no such number.
    """
    value = function.attrs.get(NUM_INPUT)
    if value is None:
        return None
    try:
        count = int(value)
    except (TypeError, ValueError):
        count = -1
    if not 0 <= count <= len(function.params):
        message = f"{who}: num_input of {name} is {value}, of {len(function.params)} parameters"
        raise DiagnosticError(Diagnostic("E4011", message, function.span))
    return count


def with_weights(mod: IRModule, who: str) -> dict[str, tuple[Function, int]]:
    """The functions of a module with the attribute, and their numbers of inputs."""
    functions: dict[str, tuple[Function, int]] = {}
    for global_var, function in mod.functions.items():
        if isinstance(function, Function):
            count = number_of_inputs(function, global_var.name_hint, who)
            if count is not None:
                functions[global_var.name_hint] = function, count
    return functions


def require_uncalled(mod: IRModule, names: Iterable[str], who: str) -> None:
    """Report (E4011) functions whose signature would change although other functions call them."""
    problems = DiagnosticContext()
    functions = {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, Function)}
    for name in names:
        users = [user for user, function in functions.items() if name in global_vars_in(function)]
        if users:
            message = f"{who}: {name} is called by {', '.join(users)}, which pass all its parameters"
            hint = "inline it, or make it an entry point that nobody calls"
            problems.emit(Diagnostic("E4011", message, functions[name].span, hint=hint))
    problems.finish()
