"""Schedule the loops of every PrimFunc by rules.

Before   @T.prim_func def matmul(…): loops in the order of the formula
After    @T.prim_func def matmul(…): loops written by the first matching rule; attribute tir.is_scheduled
Keeps    functions already scheduled, and those that no rule matches
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, cast

from ..ir import BaseFunc, GlobalVar, IRModule
from ..ir.transform import Pass, module_pass
from ..target import Target
from ..tir import PrimFunc
from .choice import SCHEDULE, rules_for_function
from .described import description_of
from .rule import IS_SCHEDULED, PackedFunction, ScheduleRule, applied
from .variants import has_variants, joined, variants_of

Scheduled: TypeAlias = Callable[[str, PrimFunc], object]
"""Callback: called with the name and the function as soon as its loops are final."""


def schedule(func: PrimFunc, target: Target, rules: Iterable[ScheduleRule]) -> PrimFunc:
    """Schedule the function with the first matching rule, then with the rules that complement others.

    The rule that the function's attribute names (`choice`) comes before `rules`; an attribute with several (`variants`)
    makes a function that decides by a size. Returns the function unchanged if no rule matches or it is scheduled
    already.
    """
    if func.attrs.get(IS_SCHEDULED):
        return func
    if has_variants(func):
        every = tuple(rules)
        scheduled = [(most, PackedFunction(schedule(one, target, every), {})) for most, one in variants_of(func)]
        whole = joined(func, scheduled).func
        return whole.with_attr(SCHEDULE, func.attrs[SCHEDULE]) if whole.attrs.get(IS_SCHEDULED) else func
    target, several = description_of(target, rules_for_function(func, target, rules))
    for number, rule in enumerate(several):
        if result := applied(rule, func, target):
            return completed(result, target, several[number + 1 :])
    return func


def completed(func: PrimFunc, target: Target, rules: Iterable[ScheduleRule]) -> PrimFunc:
    """Apply those of `rules` that complement others to a scheduled function, and mark it as scheduled."""
    for rule in rules:
        if rule.complements:
            func = applied(rule, func, target) or func
    return func.with_attr(IS_SCHEDULED, True)


def schedule_module(
    mod: IRModule, target: Target, rules: Iterable[ScheduleRule], scheduled: Scheduled | None = None
) -> IRModule:
    """Return the module with every PrimFunc scheduled by the first matching rule."""
    chosen = tuple(rules)
    functions: dict[GlobalVar, BaseFunc] = {}
    for global_var, func in mod.functions.items():
        if isinstance(func, PrimFunc):
            func = schedule(func, target, chosen)
            if scheduled is not None:
                scheduled(global_var.name_hint, func)
        functions[global_var] = func
    return mod.with_functions(functions)


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
