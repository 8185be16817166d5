"""``relax tune``: find faster schedules for a model's kernels by measuring, and record them."""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..farm.host import executes
from ..farm.tuning_records import VARIABLE, Database, default_path, open_database
from ..runtime import Executable
from ..tune import Conditions, Progress, shown_records, tune_relax
from ..tune.report import shown_outcome
from .arguments import MODEL_KINDS, add_inputs, add_reading, natural, once, positive, several_sizes
from .failures import SUCCESS, UNSUITABLE, failure
from .inputs import gather_inputs
from .models import read_model, signature_of
from .progress import Meter, progress
from .targets import target_of

DESCRIPTION = """\
Measure other schedules of a model's kernels beside those that the rules choose, and record the faster ones. Every later
build of the same kernels uses them, on this machine and by this version of relax. The time is divided among the kernels
by their part of a run."""
EXAMPLES = """
  relax tune model.onnx --size n=1,16 --seconds 300
  relax tune model.py --database team.sqlite
  relax tune --show                          what was learnt
  relax tune --export records.jsonl          all records as lines of JSON
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("model", type=Path, nargs="?", help=MODEL_KINDS)
    add_reading(parser)
    add_inputs(parser, several_sizes)
    parser.add_argument("--seconds", metavar="N", type=positive, default=60, help="time for all kernels (default: 60)")
    parser.add_argument("--trials", metavar="N", type=positive, help="most candidates to measure (default: no limit)")
    parser.add_argument("--threads", metavar="N", type=positive, default=1, help="threads of a kernel (default: 1)")
    parser.add_argument("--limit", metavar="N", type=positive, default=20, help="seconds for a candidate (default: 20)")
    parser.add_argument(
        "--memory", metavar="MB", type=natural, default=4096, help="memory of a candidate (default: 4096)"
    )
    parser.add_argument("--target", metavar="TARGET", help="the machine, which must be able to run here")
    parser.add_argument("--database", metavar="FILE", type=Path, help=f"the records (default: that of {VARIABLE})")
    parser.add_argument("--show", action="store_true", help="print the records, after tuning if there is a model")
    parser.add_argument("--export", metavar="FILE", type=Path, help="write all records as lines of JSON")
    parser.add_argument("--import", metavar="FILE", type=Path, dest="imported", help="add records from lines of JSON")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    database = _database(options.database)
    database.records()  # a file of somebody else is refused before anything is measured
    if options.model is None and not (options.show or options.export or options.imported):
        raise failure(UNSUITABLE, "there is no model to tune", hint="name one, or ask for the records: --show")
    if options.imported is not None:
        sys.stdout.write(f"{database.path}: {database.import_lines(options.imported)} records added\n")
    if options.model is not None:
        _tune(database, options)
    if options.export is not None:
        sys.stdout.write(f"{options.export}: {database.export_lines(options.export)} records\n")
    if options.show:
        sys.stdout.write(shown_records(database, target_of(options.target)) + "\n")
    return SUCCESS


def _database(path: Path | None) -> Database:
    chosen = path or default_path()
    if chosen is None:
        raise failure(UNSUITABLE, "no database is named", hint=f"--database FILE, or the variable {VARIABLE}")
    return open_database(chosen)


def _tune(database: Database, options: argparse.Namespace) -> None:
    target = target_of(options.target)
    if not executes(target):
        raise failure(UNSUITABLE, f"--target: this machine cannot run code for {target}")
    program = read_model(options.model, options)
    if isinstance(program, Executable):
        message = f"{options.model} is an executable, whose kernels are compiled already"
        raise failure(UNSUITABLE, message, hint="give the model it was compiled from")
    signature = signature_of(program, options.entry)
    sizes = list(_combinations(once(options.size, "--size")))
    inputs = [[entry.value for entry in gather_inputs(signature, options, chosen)] for chosen in sizes]
    reporter = _Reporter()
    with progress("running the model") as meter:
        reporter.meter = meter
        tune_relax(
            program,
            target=target,
            max_trials_global=options.trials,
            seconds=options.seconds,
            inputs=inputs,
            entry=signature.name,
            database=database,
            seed=options.seed,
            conditions=Conditions(options.limit, options.memory << 20, options.threads),
            progress=reporter,
        )
    sys.stdout.write("".join(f"{line}\n" for line in reporter.lines))
    sys.stdout.write(f"the model: {reporter.gain:.2f} times as fast, by estimate; records: {database.path}\n")


def _combinations(sizes: Mapping[str, Sequence[int]]) -> Iterator[dict[str, int]]:
    """All combinations of one size per dimension."""
    for chosen in itertools.product(*sizes.values()):
        yield dict(zip(sizes, chosen, strict=True))


class _Reporter:
    """Shows the kernel at hand with the best so far and the time left; collects a line for each kernel."""

    def __init__(self) -> None:
        self.meter: Meter | None = None
        self.lines: list[str] = []
        self.gain = 1.0

    def __call__(self, state: Progress) -> None:
        """Take a report."""
        outcome = state.outcome
        self.gain = state.gain
        if state.is_last:
            self.lines.append(shown_outcome(outcome))
        if self.meter is not None:
            best = 1.0 if outcome.measurement is None else max(math.exp(outcome.measurement.gain), 1.0)
            self.meter.describe(
                f"{outcome.kernel.name} ({state.number} of {state.count}): best so far {best:.2f} times as fast, "
                f"{outcome.tried} measured, {state.left:.0f} s left"
            )
