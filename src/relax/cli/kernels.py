"""Kernels of a program, with the schedule rule of each: `relax show --kernels`."""

from __future__ import annotations

from collections import Counter

from ..explanation.rules import RuleReport, rule_report
from ..expr import Call, Function
from ..farm.host import resolve
from ..ir import GlobalVar, IRModule
from ..optimize.pack_constants import constant_positions
from ..rewrite import bindings_in
from ..tir import PrimFunc
from .tables import text_table


def kernels_table(mod: IRModule, only: str | None = None) -> str:
    """Return a table of the kernels that a lowered module calls: calls, schedule rule, and the rules that refuse it.

    `only` is the name of a kernel, or of a function whose calls are counted; None stands for all.
    """
    target, calls = resolve(None), Counter[tuple[str, tuple[int, ...]]]()
    for caller, func in mod.functions.items():
        for binding in bindings_in(func) if isinstance(func, Function) else ():
            value = getattr(binding, "value", None)
            if not isinstance(value, Call) or not isinstance(value.op, GlobalVar):
                continue
            if only in (None, caller.name_hint, value.op.name_hint):
                calls[value.op.name_hint, constant_positions(value)] += 1
    rows: list[tuple[str, str, str]] = []
    for (name, constants), count in calls.items():
        kernel = mod.functions[mod.get_global_var(name)]
        if isinstance(kernel, PrimFunc):
            rows += _rows(rule_report(name, kernel, target, constants), count)
    return text_table(("kernel", "calls", "schedule rule"), rows, right=(1,))


def _rows(report: RuleReport, count: int) -> list[tuple[str, str, str]]:
    """Return a kernel's row, and a row for each reason of rules that refuse it."""
    chosen = "scheduled already" if report.is_scheduled else ", then ".join(report.taken) or "none"
    reasons = [("", "", f"not {', '.join(rules)}: {reason}") for reason, rules in report.reasons().items()]
    return [(report.function, str(count), chosen), *reasons]
