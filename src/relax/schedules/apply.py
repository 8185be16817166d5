"""Arrange the loops of every PrimFunc by rules.

Before   @T.prim_func def matmul(…): loops as the formula says them
After    @T.prim_func def matmul(…): loops as the first rule that fits makes them, and the attribute tir.is_scheduled
Keeps    functions that are scheduled already, and those that no rule is for
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
    """Pass: each PrimFunc as the first of the rules that is for it arranges it; `scheduled` is told of each at once.

    The target is the one given, or the current one (``with target:``), which must be resolved: `relax.codegen.resolve`.
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
    """Refuse what is no rule, before any function is looked at."""
    if isinstance(rule, ScheduleRule):
        return
    if isinstance(rule, type) and issubclass(rule, ScheduleRule):
        name = rule.__name__
        raise TypeError(f"ApplyDefaultSchedule: {name} is a class of rules; pass an instance, {name}()")
    found = type(cast(Any, rule)).__name__
    raise TypeError(f"ApplyDefaultSchedule: expected instances of ScheduleRule, found {found}")


__all__ = ["ApplyDefaultSchedule"]
