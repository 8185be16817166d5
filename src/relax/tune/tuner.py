"""Tuning of programs: kernels, their part of the time, and records.

`tune_relax` builds a program's kernels as `relax.build` does, up to the choice of schedules, runs the program for a
profile, and searches for each kernel that takes its part of the time. `tune_tir` does the same for PrimFuncs.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ..expr import Function
from ..farm.host import executes, resolve
from ..farm.tuning_records import Database, Record, default_path, key_of, open_database, target_digest
from ..ir import Diagnostic, DiagnosticError, IRModule
from ..runtime import Executable
from ..runtime.records import dataclass
from ..schedules import cpu
from ..schedules.choice import SCHEDULE
from ..schedules.rule import IS_SCHEDULED, ScheduleRule
from ..target import Target
from ..tir import PrimFunc
from ..vm import build
from ..vm.lowering import bind
from ..vm.lowering import unscheduled as unscheduled_module
from ..vm.tuned import tunable_kernels
from .candidates import Candidate
from .cluster import Cluster
from .context import SpaceGenerator
from .design_spaces import Choice, ScheduleFunction
from .kernels import CANNOT, Kernel, NotTunable, Sizes, check_sizes, with_sizes
from .learned import add_samples, path_beside, read_samples
from .loop_nests import loop_nests
from .measuring import Conditions, Measurement
from .profile import profiled
from .search import DEFAULT, Outcome, SearchOptions, search
from .variants import parts_of

SECONDS: Final = 60.0
"""Default duration of tuning."""
LEAST_SECONDS: Final = 2.0
"""Fewest seconds for a kernel: a process is started, and its default schedule compiled."""
LEAST_SHARE: Final = 0.01
"""Part of a program's time below which a kernel is not tuned."""


@dataclass(frozen=True)
class Progress:
    """State of tuning, for `progress` functions: called after each measurement and at the end of each kernel."""

    outcome: Outcome
    """State of the kernel at hand."""
    number: int
    """Number of the kernel, from 1."""
    count: int
    """Number of kernels."""
    left: float
    """Seconds left for all kernels."""
    gain: float
    """Estimated time of the program before, over that with what was found so far."""
    is_last: bool = False
    """True for a kernel's last report: its search has ended."""


def tune_tir(
    mod: IRModule | PrimFunc,
    target: str | Target | None = None,
    work_dir: str | os.PathLike[str] | None = None,
    max_trials_global: int | None = None,
    *,
    seconds: float = SECONDS,
    sizes: Sequence[Sizes] = (),
    database: Database | str | os.PathLike[str] | None = None,
    space: SpaceGenerator | ScheduleFunction | str | None = None,
    rules: Sequence[ScheduleRule] | None = None,
    constants: Sequence[int] = (),
    seed: int = 0,
    conditions: Conditions | None = None,
    progress: Callable[[Progress], object] = lambda state: None,
    cluster: str | None = None,
) -> Database:
    """Tune PrimFuncs, and record what is faster than their default schedules.

    Parameters
    ----------
    mod
        A PrimFunc, or a module; its PrimFuncs that are scheduled already are left alone.
    target
        The machine, which must be this one; the current target by default.
    work_dir
        Folder of the database ``tuning.sqlite``, as an alternative to `database`.
    max_trials_global
        Most candidates to measure, of all functions together; no limit by default.
    seconds
        Time for all functions together.
    sizes
        Values of symbolic sizes by name at which is measured; names without a value take two of relax's own.
    database
        Database, or its path; that of ``RELAX_TUNE_DATABASE`` by default.
    space
        Function that applies primitives, with ``sample_*`` instructions, to a `tir.Schedule`, or a `SpaceGenerator`:
        its schedules are candidates beside those of the rules. ``"rules"`` excludes relax's own space of loop nests.
    rules
        Schedule rules; those of `relax.build` for the target by default. Records of other rules are for builds that
        apply these.
    constants
        Positions of parameters that are constants where the functions are called.
    seed
        Seed of the search.
    conditions
        Limits of a measurement, and threads.
    progress
        Called after each measurement.
    cluster
        Address of a Ray cluster whose nodes schedule and measure candidates: ``"auto"``, or ``"head:6379"``. A node
        takes part if it offers the resource `processor_resource(target)`. This machine by default.

    Returns
    -------
    Database
        The database, with a record for each function; ``with database:`` makes `relax.build` use it.

    Raises
    ------
    DiagnosticError
        If the target is another machine, nothing in the module can be tuned, or no function has a size of `sizes`
        (E4112).
    ImportError, ConnectionError
        If the package ``ray`` is missing, or no cluster is at `cluster`.
    TypeError
        If `mod` is neither a module nor a PrimFunc.
    ValueError
        If a function has no parameter at a position of `constants`.
    """
    module = IRModule({"main": mod}) if isinstance(mod, PrimFunc) else mod
    if not isinstance(module, IRModule):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"tune_tir: expected an IRModule or a PrimFunc, found {type(module).__name__}")
    where = _target(target)
    kernels = [
        Kernel(global_var.name_hint, func, tuple(constants))
        for global_var, func in module.functions.items()
        if isinstance(func, PrimFunc) and not func.attrs.get(IS_SCHEDULED)
    ]
    kernels, refusals = _measurable(kernels, lambda kernel: with_sizes(kernel, sizes))
    if not kernels:
        raise _nothing("the module has no PrimFunc that can be tuned", refusals)
    check_sizes(sizes, {name for kernel in kernels for name in kernel.size_names}, "the module")
    equal = [Kernel(k.name, k.func, k.constants, k.sizes, 1 / len(kernels)) for k in kernels]
    records = _database(database, work_dir)
    with _workers(cluster, where, conditions) as workers:
        tuning = _Tuning(
            where, rules, _functions(space), seconds, max_trials_global, seed, conditions, progress, workers
        )  # fmt: skip
        return tuning.run(equal, records)


def tune_relax(
    mod: IRModule | Function,
    params: Mapping[str, Any] | None = None,
    target: str | Target | None = None,
    work_dir: str | os.PathLike[str] | None = None,
    max_trials_global: int | None = None,
    *,
    seconds: float = SECONDS,
    sizes: Sequence[Sizes] = (),
    inputs: Sequence[Sequence[Any]] = (),
    entry: str | None = None,
    database: Database | str | os.PathLike[str] | None = None,
    space: SpaceGenerator | ScheduleFunction | str | None = None,
    seed: int = 0,
    conditions: Conditions | None = None,
    progress: Callable[[Progress], object] = lambda state: None,
    cluster: str | None = None,
) -> Database:
    """Tune the kernels of a program, each by its share of the program's time.

    Parameters
    ----------
    mod
        A module, or a function.
    params
        Values of parameters by name that become constants, as in `relax.build`.
    target, work_dir, max_trials_global, seconds, database, space, seed, conditions, progress, cluster
        As in `tune_tir`.
    sizes
        Values of the program's symbolic sizes by name at which it is run for the profile, and its kernels are measured.
    inputs
        Arguments of the entry point, for each run of the profile; random ones at `sizes` by default.
    entry
        Entry point that is run; ``main`` or the only one by default.

    Returns
    -------
    Database
        The database, with a record for each kernel that was measured.

    Raises
    ------
    DiagnosticError
        If the target is another machine, no kernel can be tuned, or the program has no size of `sizes` (E4112).
    ImportError, ConnectionError
        If the package ``ray`` is missing, or no cluster is at `cluster`.
    TypeError
        If `mod` is neither a module nor a function.
    """
    where = _target(target)
    module = IRModule.from_expr(mod) if isinstance(mod, Function) else mod
    if not isinstance(module, IRModule):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"tune_relax: expected an IRModule or a Function, found {type(module).__name__}")
    if params:
        module = bind(module, params)
    found = {
        global_var.name_hint: (func, constants)
        for global_var, func, constants in tunable_kernels(unscheduled_module(module, where))
        if SCHEDULE not in func.attrs
    }
    profile = profiled(module, where, found.keys(), sizes, inputs, entry, seed)
    kernels = [Kernel(name, func, constants, (), profile.share(name)) for name, (func, constants) in found.items()]

    def at_sizes(kernel: Kernel) -> Kernel:
        if kernel.share < LEAST_SHARE:
            raise NotTunable(f"it takes {kernel.share:.1%} of the time")
        return with_sizes(kernel, profile.sizes_of(kernel.name, kernel.func))

    kernels, refusals = _measurable(kernels, at_sizes)
    if not kernels:
        raise _nothing("the program has no kernel that can be tuned", refusals)
    records = _database(database, work_dir)
    with _workers(cluster, where, conditions) as workers:
        tuning = _Tuning(
            where, None, _functions(space), seconds, max_trials_global, seed, conditions, progress, workers
        )  # fmt: skip
        return tuning.run(sorted(kernels, key=lambda kernel: -kernel.share), records)


def compile_relax(
    database: Database,
    mod: IRModule | Function,
    target: str | Target | None = None,
    params: Mapping[str, Any] | None = None,
    enable_warning: bool = False,
) -> Executable:
    """Build a program with the schedules of a database: ``with database: relax.build(mod, target, params)``.

    Raises what `relax.build` raises. `enable_warning` is TVM's, and changes nothing: kernels without a record have the
    rules' schedules.
    """
    del enable_warning
    with database:
        return build(mod, target, params)


# -------------------------------------------------------------------------------------- parts


class _Tuning:
    """Searches the kernels of a program one after another, within one time."""

    def __init__(
        self,
        target: Target,
        rules: Sequence[ScheduleRule] | None,
        functions: Sequence[ScheduleFunction],
        seconds: float,
        trials: int | None,
        seed: int,
        conditions: Conditions | None,
        progress: Callable[[Progress], object],
        workers: Cluster | None,
    ) -> None:
        self._target, self._functions, self._workers = target, functions, workers
        self._rules = cpu.rules_for(target) if rules is None else tuple(rules)
        self._deadline = time.monotonic() + seconds
        self._trials = 10**9 if trials is None else trials
        self._seed, self._conditions, self._progress = seed, conditions or Conditions(), progress
        self._saved = 0.0
        """Part of the program's time that is saved so far."""

    def run(self, kernels: Sequence[Kernel], database: Database) -> Database:
        """Search all kernels, the first ones first, and record the outcomes.

        Raises DiagnosticError (E4111) before anything is measured if records cannot be written.
        """
        database.prepare()
        remaining = sum(kernel.share for kernel in kernels)
        for number, kernel in enumerate(kernels, 1):
            left = self._deadline - time.monotonic()
            if number > 1 and (left < LEAST_SECONDS or self._trials <= 0):
                break
            own = max(left * kernel.share / max(remaining, 1e-9), LEAST_SECONDS)
            remaining -= kernel.share
            own = min(own, max(left, LEAST_SECONDS))
            options = self._options(kernel, database, own)

            def report(outcome: Outcome, number: int = number, is_last: bool = False) -> None:
                self._report(outcome, number, len(kernels), is_last)

            outcome = search(kernel, self._target, self._rules, self._functions, options, report)
            self._trials -= outcome.tried
            add_samples(path_beside(database.path), target_digest(self._target), outcome.samples)
            record = record_of(outcome, self._target)
            if record is not None:
                database.add(record)
                if record.taken:
                    self._saved += kernel.share * (1 - 1 / record.gain)
            report(outcome, is_last=True)
        return database

    def _options(self, kernel: Kernel, database: Database, seconds: float) -> SearchOptions:
        """Return the options of a search that goes on with the fastest choices that the database has for a kernel.

        Workers measure no choice again that the database has, and what they measure is recorded at once: a driver that
        is started again after a crash goes on where it was.
        """
        key = key_of(kernel.func, self._target, kernel.constants)
        records = [] if key is None else [r for r in database.measured(key) if r.rule != DEFAULT]
        choices = map(_choice_of, records[:4])
        before = tuple(dict.fromkeys(part for choice in choices for part in (choice, *parts_of(choice))))
        samples = tuple(read_samples(path_beside(database.path), target_digest(self._target)))
        options = SearchOptions(seconds, self._trials, self._seed, self._conditions, before, samples=samples)
        if self._workers is None or key is None:
            return options
        known = frozenset(_choice_of(record) for record in records if record.sizes == kernel.sizes)
        recorded = frozenset(map(_choice_of, records))

        def noted(candidate: Candidate, measurement: Measurement) -> None:
            choice = candidate.choice
            if choice is not None and choice not in recorded:
                (ours, theirs), noise = measurement.seconds, measurement.noise
                values, name, where = choice.values, kernel.name, str(self._target)
                database.add(Record(key, choice.rule, values, kernel.sizes, ours, theirs, noise, False, name, where))

        return replace(options, known=known, cluster=self._workers, noted=noted)

    def _report(self, outcome: Outcome, number: int, count: int, is_last: bool) -> None:
        left = max(self._deadline - time.monotonic(), 0.0)
        gain = 1 / (1 - min(self._saved, 0.99))
        self._progress(Progress(outcome, number, count, left, gain, is_last))


def record_of(outcome: Outcome, target: Target) -> Record | None:
    """Return the record of a search: of what was chosen, else of the default; None if nothing was measured."""
    kernel, itself = outcome.kernel, outcome.itself
    key = key_of(kernel.func, target, kernel.constants)
    if key is None or itself is None:
        return None
    if outcome.chosen is None or outcome.chosen.choice is None or outcome.measurement is None:
        seconds, _ = itself.seconds
        noise = outcome.floor
        return Record(key, DEFAULT, {}, kernel.sizes, seconds, seconds, noise, False, kernel.name, str(target))
    choice, noise = outcome.chosen.choice, outcome.measurement.noise
    ours, theirs = outcome.measurement.seconds
    return Record(key, choice.rule, choice.values, kernel.sizes, ours, theirs, noise, True, kernel.name, str(target))


def _choice_of(record: Record) -> Choice:
    return Choice(record.rule, json.dumps(dict(record.parameters), sort_keys=True))


def _workers(
    address: str | None, target: Target, conditions: Conditions | None
) -> contextlib.AbstractContextManager[Cluster | None]:  # fmt: skip
    return contextlib.nullcontext() if address is None else Cluster(address, target, conditions)


def _target(target: str | Target | None) -> Target:
    where = resolve(target)
    if not executes(where):
        message = f"cannot tune for {where}: candidates are measured on this machine, which cannot run its code"
        raise DiagnosticError(Diagnostic(CANNOT, message, hint='tune on the machine itself: target="llvm"'))
    return where


def _nothing(message: str, refusals: Mapping[str, str]) -> DiagnosticError:
    notes = [f"{name}: {reason}" for name, reason in refusals.items()]
    return DiagnosticError(Diagnostic(CANNOT, message, notes=tuple(notes[:10])))


def _measurable(
    kernels: Iterable[Kernel], prepare: Callable[[Kernel], Kernel]
) -> tuple[list[Kernel], dict[str, str]]:  # fmt: skip
    """Return prepared kernels, and the reasons by name for which others cannot be tuned."""
    prepared: list[Kernel] = []
    refusals: dict[str, str] = {}
    for kernel in kernels:
        try:
            prepared.append(prepare(kernel))
        except NotTunable as error:
            refusals[kernel.name] = str(error)
    return prepared, refusals


def _functions(space: SpaceGenerator | ScheduleFunction | str | None) -> list[ScheduleFunction]:
    """Return the functions of a space beside the rules' own. Raises ValueError for another name."""
    if space is None:
        return [loop_nests]
    if isinstance(space, str):
        if space != "rules":
            raise ValueError(f"there is no space {space!r}; there is 'rules', a SpaceGenerator, or a function")
        return []
    if isinstance(space, SpaceGenerator):
        return [space.apply]
    return [space]


def _database(
    database: Database | str | os.PathLike[str] | None, work_dir: str | os.PathLike[str] | None
) -> Database:  # fmt: skip
    """Return the database to write to. Raises DiagnosticError if none is named."""
    if isinstance(database, Database):
        return database
    path = database
    if path is None:
        path = Path(work_dir) / "tuning.sqlite" if work_dir is not None else default_path()
    if path is None:
        hint = "name a file: database=, or the environment variable RELAX_TUNE_DATABASE"
        raise DiagnosticError(Diagnostic(CANNOT, "there is no database to write records to", hint=hint))
    return open_database(path)
