"""Passes in TVM's spelling: tune a module while it is lowered, and apply records.

Before   @T.prim_func def main(…): loops in the order of the formula
After    MetaScheduleTuneTIR, MetaScheduleTuneIRMod: the same; the records are in the database
         MetaScheduleApplyDatabase: T.func_attr({"relax.schedule": {"rule": …, "parameters": …}}) on what has a record
Keeps    PrimFuncs that are scheduled already
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..farm.host import resolve
from ..farm.tuning_records import Database, current_database
from ..ir import IRModule
from ..ir.transform import Pass, module_pass
from ..schedules import cpu
from ..target import Target
from ..vm.tuned import with_records
from .tuner import tune_tir


def MetaScheduleTuneTIR(work_dir: str | os.PathLike[str], max_trials_global: int | None = None, **options: Any) -> Pass:
    """Pass: tune the PrimFuncs of a module for the current target, and leave the module as it is.

    `options` are those of `relax.tune.tune_tir`, such as `seconds`. Raises what it raises.
    """

    def run(mod: IRModule) -> IRModule:
        tune_tir(mod, Target.current(), work_dir, max_trials_global, **options)
        return mod

    return module_pass(run, name="MetaScheduleTuneTIR")()


def MetaScheduleTuneIRMod(
    params: Mapping[str, Any] | None = None,
    work_dir: str | os.PathLike[str] = ".",
    max_trials_global: int | None = None,
    max_trials_per_task: int | None = None,
    op_names: list[str] | None = None,
    **options: Any,
) -> Pass:
    """Pass: tune the PrimFuncs of a lowered module for the current target, and leave the module as it is.

    `op_names` are names of functions, to tune no others. The parameters `params` and `max_trials_per_task` are TVM's,
    and change nothing: kernels are tuned for random arguments, within one time for all. `relax.tune.tune_relax` tunes a
    program before it is lowered, with a profile. `options` are those of `relax.tune.tune_tir`, whose errors it raises.
    """
    del params, max_trials_per_task

    def run(mod: IRModule) -> IRModule:
        functions = {
            global_var: func
            for global_var, func in mod.functions.items()
            if op_names is None or global_var.name_hint in op_names
        }
        tune_tir(mod.with_functions(functions), Target.current(), work_dir, max_trials_global, **options)
        return mod

    return module_pass(run, name="MetaScheduleTuneIRMod")()


def MetaScheduleApplyDatabase(
    work_dir: str | os.PathLike[str] | None = None, enable_warning: bool = False, database: Database | None = None
) -> Pass:
    """Pass: give PrimFuncs the schedules that a database has for the current target, as an attribute.

    The database is that in `work_dir`, else `database`, else the one in use (``with database:``); without any, the
    module stays as it is. `enable_warning` is TVM's, and changes nothing.
    """
    del enable_warning

    def run(mod: IRModule) -> IRModule:
        chosen = database if work_dir is None else Database(os.path.join(work_dir, "tuning.sqlite"))
        target = resolve(Target.current())
        in_use = current_database() if chosen is None else chosen
        return with_records(mod, target, cpu.rules_for(target), in_use)

    return module_pass(run, name="MetaScheduleApplyDatabase")()
