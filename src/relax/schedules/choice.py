"""The schedule that a function asks for: a rule and its parameters, as an attribute of the function.

    T.func_attr({"relax.schedule": {"rule": "Product", "parameters": {"tile": [6, 2]}}})

`schedule` and `PackConstants` try this rule before all others; where it refuses the function, the others decide. Tuning
writes the attribute from its records, and anybody may write it by hand. The rule ``Traced`` has as its parameter the
trace of a `tir.Schedule`, as JSON text: it replays the primitives. ``Described`` lets the other rules choose for
another description of the machine (`described`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from .. import tir
from ..ir import Diagnostic, DiagnosticError
from ..runtime.records import dataclass
from ..target import Target
from ..tir import PrimFunc
from .described import Described
from .rule import Refusal, ScheduleRule
from .space import Space

SCHEDULE: Final = "relax.schedule"
"""Attribute of a function that names a rule and its parameters."""

NO_CHOICE: Final = "E4110"
"""Error code: an attribute that names no rule of the target, or no parameters of the rule's space."""

TRACED: Final = "Traced"
"""Name of the rule that replays a trace."""


@dataclass(frozen=True)
class Trace:
    """Parameters of `Traced`."""

    trace: str = "[[], []]"
    """JSON of `tir.schedule.Trace.as_json`."""


class Traced(ScheduleRule):
    """Schedule rule that replays the trace of a `tir.Schedule`.

    A primitive that would be wrong here is refused, and so is one that may change results (`unsafe_set_dtype` …).
    """

    parameters = Trace()

    def space(self, target: Target) -> Space[Trace]:
        """Return the space of the one trace that this rule has."""
        del target
        return Space(Trace, {"trace": (self.parameters.trace,)})

    def apply(self, func: PrimFunc, target: Target, tunable: bool) -> PrimFunc | Refusal:
        """Return the function after the primitives, or a `Refusal` if one of them does not apply."""
        del target, tunable
        sch = tir.Schedule(func, seed=1, error_render_level="none")
        try:
            tir.schedule.Trace.apply_json_to_schedule(json.loads(self.parameters.trace), sch)
        except (DiagnosticError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            return Refusal(f"the trace does not apply: {str(error).splitlines()[0] if str(error) else error!r}")
        if not keeps_results(sch.trace):
            return Refusal("the trace has a primitive that may change results")
        return next(f for f in sch.mod.functions.values() if isinstance(f, PrimFunc))


def keeps_results(trace: tir.schedule.Trace) -> bool:
    """True unless a trace has one of the primitives ``unsafe_…``."""
    return not any(inst.kind.method.startswith("unsafe_") for inst in trace.insts)


def name_of(rule: ScheduleRule) -> str:
    """Return the name by which a choice refers to a rule: that of its class."""
    return type(rule).__name__


def named_rule(name: str, parameters: Mapping[str, Any], target: Target, rules: Iterable[ScheduleRule]) -> ScheduleRule:
    """Return the first of `rules` with this name, at these parameters of its space for a resolved target.

    Raises ValueError if no rule has the name, or its space lacks the parameters.
    """
    if name == TRACED:
        trace = parameters.get("trace")
        if not isinstance(trace, str) or len(parameters) != 1:
            raise ValueError("Traced has one parameter, `trace`: JSON text")
        return Traced().at(Trace(trace))
    candidates = tuple(rules)
    for rule in (*candidates, Described()):
        if name_of(rule) == name:
            return rule.at(rule.space(target).point(parameters)) if parameters else rule
    raise ValueError(f"there is no rule {name!r} (there is: {', '.join(map(name_of, candidates))})")


def rules_for_function(func: PrimFunc, target: Target, rules: Iterable[ScheduleRule]) -> tuple[ScheduleRule, ...]:
    """Return `rules`, behind the one that the function's attribute names.

    Raises DiagnosticError (E4110) for a wrong attribute.
    """
    several = tuple(rules)
    choice = func.attrs.get(SCHEDULE)
    if choice is None:
        return several
    try:
        return (rule_of_choice(choice, target, several), *several)
    except ValueError as error:
        hint = 'write it as {"rule": "Product", "parameters": {"tile": [6, 2]}}'
        raise DiagnosticError(Diagnostic(NO_CHOICE, f"{SCHEDULE}: {error}", func.span, hint=hint)) from None


def rule_of_choice(choice: object, target: Target, rules: Iterable[ScheduleRule]) -> ScheduleRule:
    """Return the rule of an attribute's value at its parameters. Raises ValueError for a value of another form."""
    if not isinstance(choice, Mapping):
        raise ValueError(f"expected a dict with a rule and parameters, found {type(choice).__name__}")
    table = dict(cast("Mapping[str, Any]", choice))
    name, parameters = table.get("rule"), table.get("parameters", {})
    if not isinstance(name, str) or not isinstance(parameters, Mapping) or table.keys() - {"rule", "parameters"}:
        raise ValueError("expected a dict with `rule`, a text, and `parameters`, a dict")
    return named_rule(name, cast("Mapping[str, Any]", parameters), target, rules)
