"""Kernels with the schedules that tuning found for them.

Before   @T.prim_func def matmul(…): loops in the order of the formula
After    the same with T.func_attr({"relax.schedule": {"rule": "Product", "parameters": {"tile": [6, 2]}}})
Keeps    kernels without a record of this target and version, kernels that have the attribute, and those called with
         constants at different positions
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..expr import Call, Function
from ..farm import cache
from ..farm.tuning_records import Database, KernelKey, Record, answer_of, key_of, note_answer
from ..ir import GlobalVar, IRModule
from ..optimize.pack_constants import constant_positions
from ..rewrite import bindings_in
from ..schedules.choice import SCHEDULE, rule_of_choice
from ..schedules.rule import IS_SCHEDULED, ScheduleRule
from ..schedules.variants import attribute_of, choices_of
from ..target import Target
from ..tir import PrimFunc


def with_records(mod: IRModule, target: Target, rules: Sequence[ScheduleRule], database: Database | None) -> IRModule:
    """Return the module whose kernels have the attribute of the schedule that `database` has for a resolved target.

    A record that names no rule of `rules`, or parameters outside its space, is ignored.
    """
    if database is None:
        return mod
    keys: dict[GlobalVar, KernelKey] = {}
    for global_var, func, constants in tunable_kernels(mod):
        key = key_of(func, target, constants)
        if key is not None and SCHEDULE not in func.attrs:
            keys[global_var] = key
    records = database.best(keys.values())
    for global_var, key in keys.items():
        record = records.get(key)
        note_answer(key, record)
        func = mod[global_var]
        attribute = _attribute(record, func, target, rules) if record and isinstance(func, PrimFunc) else None
        if attribute is not None and isinstance(func, PrimFunc):
            mod = mod.with_function(global_var.name_hint, func.with_attr(SCHEDULE, attribute))
            cache.say("%s: schedule %s by a tuning record", global_var.name_hint, answer_of(record))
    return mod


def tunable_kernels(mod: IRModule) -> Iterable[tuple[GlobalVar, PrimFunc, tuple[int, ...]]]:
    """Kernels of a module that are not scheduled, with the positions of the constants they are called with.

    Without those called with constants at different positions by different calls.
    """
    positions = _constants_by_kernel(mod)
    for global_var, func in mod.functions.items():
        if isinstance(func, PrimFunc) and not func.attrs.get(IS_SCHEDULED):
            several = positions.get(global_var.name_hint, {()})
            if len(several) == 1:
                yield global_var, func, next(iter(several))


def _constants_by_kernel(mod: IRModule) -> Mapping[str, set[tuple[int, ...]]]:
    """Positions of constant arguments in the calls of each function."""
    positions: dict[str, set[tuple[int, ...]]] = {}
    for func in mod.functions.values():
        for binding in bindings_in(func) if isinstance(func, Function) else ():
            call = getattr(binding, "value", None)
            if isinstance(call, Call) and isinstance(call.op, GlobalVar):
                positions.setdefault(call.op.name_hint, set()).add(constant_positions(call))
    return positions


def _attribute(record: Record, func: PrimFunc, target: Target, rules: Sequence[ScheduleRule]) -> Any:
    """Return the attribute of a function that asks for a record's schedule; None if the rules lack what it names."""
    try:
        attribute = attribute_of(record.rule, record.parameters, func)
        for choice in choices_of(attribute):
            rule_of_choice(choice, target, rules)
    except ValueError:
        return None
    return attribute
