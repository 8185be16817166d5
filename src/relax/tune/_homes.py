"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    "..farm.tuning_records": "Database JSONDatabase Record",
    ".cluster": "processor_resource",
    ".context": "ScheduleFn SpaceGenerator TuneContext",
    ".measuring": "Conditions",
    ".page": "tuning_page",
    ".passes": "MetaScheduleApplyDatabase MetaScheduleTuneIRMod MetaScheduleTuneTIR",
    ".report": "shown_records",
    ".search": "Outcome",
    ".tuner": "Progress compile_relax tune_relax tune_tir",
}
