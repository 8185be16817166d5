"""Records and results of searches in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from ..farm.host import resolve
from ..farm.tuning_records import Database, Record, records_version, target_digest
from ..schedules.choice import TRACED, name_of
from ..schedules.described import FACTORS, Described
from ..schedules.variants import VARIANTS, ranges_of
from ..target import Target
from .design_spaces import decisions_of
from .search import DEFAULT, Outcome

DESCRIBED: Final = name_of(Described())


def shown_records(database: Database, target: str | Target | None = None) -> str:
    """Return a text with a line for each record of a database, and what it is good for.

    Records of another target or version are counted, not shown: no build uses them. Nor are those beside a kernel's
    record that is taken, or those that a search on a cluster has measured on its way.
    """
    where, version = target_digest(resolve(target)), records_version()
    records = database.records()
    usable = [record for record in records if record.key.version == version and record.key.target == where]
    taken = {record.key for record in usable if record.taken}
    ended = taken | {record.key for record in usable if record.rule == DEFAULT}
    shown = [record for record in usable if record.taken or (record.rule == DEFAULT and record.key not in taken)]
    lines = [shown_record(record) for record in sorted(shown, key=lambda record: (-record.gain, record.name))]
    unfinished = [record.key for record in usable if record.key not in ended]
    if unfinished:
        lines.append(f"{len(unfinished)} of {len(set(unfinished))} kernels whose search did not end")
    others = len(records) - len(usable)
    if others:
        lines.append(f"{others} of another target or version of relax, which are not used")
    return "\n".join(lines) if lines else f"no records in {database.path}"


def shown_record(record: Record) -> str:
    """Return a record as a line: kernel, gain, rule and parameters, sizes."""
    at = "; ".join(", ".join(f"{name}={size}" for name, size in sizes.items()) for sizes in record.sizes if sizes)
    behind = f" at {at}" if at else ""
    if not record.taken:
        return f"{record.name}: the default schedule; nothing was faster by more than {record.noise:.1%}{behind}"
    how = _how(record.rule, record.parameters)
    times = " and ".join(
        f"{time_in_words(a)} instead of {time_in_words(b)}"
        for a, b in zip(record.seconds, record.default_seconds, strict=True)
    )
    return f"{record.name}: {record.gain:.2f} times as fast ({times}) by {how}{behind}"


def shown_outcome(outcome: Outcome) -> str:
    """Return the result of a search as a line: kernel, gain and choice, candidates measured and dropped."""
    name = outcome.kernel.name
    if outcome.reason:
        return f"{name}: not tuned, since {outcome.reason}"
    wrong = len(outcome.failures)
    counts = f"{outcome.tried} measured{f', {wrong} of them failed' if wrong else ''}"
    if outcome.chosen is None or outcome.measurement is None:
        return f"{name}: the default schedule stays ({counts})"
    gain = math.exp(outcome.measurement.gain)
    return f"{name}: {gain:.2f} times as fast by {outcome.chosen} ({counts})"


def _how(rule: str, parameters: Mapping[str, Any]) -> str:
    """Return a rule and its parameters in words."""
    if rule == VARIANTS:
        try:
            ranges = ranges_of(parameters)
        except ValueError as error:
            return f"variants that cannot be read ({error})"
        parts = (
            f"{sizes}: {_how(own['rule'], own.get('parameters', {})) if own else 'the default schedule'}"
            for sizes, own in ranges
        )
        return f"{len(ranges)} variants ({'; '.join(parts)})"
    if rule == DESCRIBED:
        return f"the rules' loops for another description of the processor ({_differences(parameters)})"
    if rule == TRACED:
        return f"loops of a schedule with the decisions {decisions_of(parameters.get('trace'))}"
    values = ", ".join(f"{name}={value}" for name, value in parameters.items()) or "its default parameters"
    return f"{rule} with {values}"


def _differences(parameters: Mapping[str, Any]) -> str:
    """Return in words how the machine was described otherwise for a schedule: ``caches × 2, 32 vector registers``."""
    words = {"caches": "caches × {}", "registers": "{} vector registers", "vectors": "vectors of {} bits"}
    known = ((words[name], value) for name, value in parameters.items() if name in words)
    return ", ".join(text.format(f"{value:g}" if value in FACTORS else value) for text, value in known)


def time_in_words(seconds: float) -> str:
    """Return seconds with three digits and a unit: ``12.3 ms``."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
