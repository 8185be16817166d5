"""Tuning: find the schedule of each kernel by measuring, within the spaces of the schedule rules.

    database = relax.tune.tune_relax(mod, target="llvm", sizes=[{"n": 1}, {"n": 16}], seconds=60)
    with database:
        executable = relax.build(mod, "llvm")          consults the records of the database

The way of a kernel:

    kernels            a PrimFunc before it is scheduled, constants, sizes; random arguments
    design_spaces      choices: points of the rules' spaces, decisions of a `tir.Schedule`'s sampling instructions
    candidates         the function scheduled by a choice; equal results are one candidate
    draft              estimate of a candidate's time, which orders what is measured
    learned            correction of estimates by measurements, with scikit-learn
    measuring          a process with limits, in which candidates and the default schedule run in alternation
    search             successive halving of drafted candidates, then changes to the best ones
    cluster            candidates are made and measured by workers on the machines of a Ray cluster
    report, page       results in words, and as a page with curves and loops
    tuner              kernels of a program, time by their share of a profiled run; records of what was found

A record (`relax.farm.tuning_records`) is consulted by each `relax.build`, for the same structure, target and version of
the compiler. No schedule is recorded that computes anything else than the default one, or gains less than the noise.
Names are TVM's where it has them: `tune_tir`, `tune_relax`, `compile_relax`, `Database`, `TuneContext`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.tvm_names import answer_missing
from ..runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from ..farm.tuning_records import Database, JSONDatabase, Record
    from .cluster import processor_resource
    from .context import ScheduleFn, SpaceGenerator, TuneContext
    from .measuring import Conditions
    from .page import tuning_page
    from .passes import MetaScheduleApplyDatabase, MetaScheduleTuneIRMod, MetaScheduleTuneTIR
    from .report import shown_records
    from .search import Outcome
    from .tuner import Progress, compile_relax, tune_relax, tune_tir

__all__ = [
    "Conditions", "Database", "JSONDatabase", "MetaScheduleApplyDatabase", "MetaScheduleTuneIRMod",
    "MetaScheduleTuneTIR", "Outcome", "Progress", "Record", "ScheduleFn", "SpaceGenerator", "TuneContext",
    "compile_relax", "processor_resource", "shown_records", "tune_relax", "tune_tir", "tuning_page",
]  # fmt: skip

load_when_used(__name__, HOMES)
answer_missing(__name__)
