"""Schedule the loops of every PrimFunc by rules.

Before   @T.prim_func def matmul(…): loops in the order of the formula
After    @T.prim_func def matmul(…): loops written by the first matching rule; attribute tir.is_scheduled
Keeps    functions already scheduled, and those that no rule matches
"""

from __future__ import annotations

from typing import Any, cast

from ..ir import IRModule
from ..ir.transform import Pass, module_pass
from ..target import Target
from .rule import Scheduled, ScheduleRule, schedule_module


def ApplyDefaultSchedule(
    *rules: ScheduleRule, target: Target | None = None, scheduled: Scheduled | None = None
) -> Pass:
    """Pass: rewrite each PrimFunc by the first rule that matches it; call `scheduled` with each rewritten function.

    `target` defaults to the current one (``with target:``) and must be resolved: `relax.codegen.resolve`.
    Raises ValueError if there is none, TypeError for a rule that is no instance of ScheduleRule.
    """
    for rule in rules:
        _check_rule(rule)

    def run(mod: IRModule) -> IRModule:
        chosen = target or Target.current(allow_none=False)
        assert chosen is not None
        return schedule_module(mod, chosen, rules, scheduled)

    return module_pass(run, name="ApplyDefaultSchedule")()


def _check_rule(rule: object) -> None:
    """Raise TypeError if `rule` is not a ScheduleRule, before any function is visited."""
    if isinstance(rule, ScheduleRule):
        return
    if isinstance(rule, type) and issubclass(rule, ScheduleRule):
        name = rule.__name__
        raise TypeError(f"ApplyDefaultSchedule: {name} is a class of rules; pass an instance, {name}()")
    found = type(cast(Any, rule)).__name__
    raise TypeError(f"ApplyDefaultSchedule: expected instances of ScheduleRule, found {found}")
