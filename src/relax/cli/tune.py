"""``relax tune``: find faster schedules for a model's kernels by measuring, and record them."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path

from ..farm.host import executes
from ..farm.tuning_records import VARIABLE, Database, default_path, open_database
from ..runtime import Executable
from ..tune import Conditions, Outcome, Progress, shown_records, tune_relax, tuning_page
from ..tune.report import shown_outcome
from .arguments import MODEL_KINDS, add_inputs, add_reading, natural, once, positive, several_sizes
from .failures import NO_PACKAGE, SUCCESS, UNSUITABLE, failure
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
  relax tune model.onnx --cluster head:6379   on machines that joined by ray start
  relax tune model.py --page page.html       curves of the search, and the chosen loops beside the default ones
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
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="measure on the machines of a Ray cluster: auto, or HOST:PORT (pip install relax[ray])",
    )
    parser.add_argument("--database", metavar="FILE", type=Path, help=f"the records (default: that of {VARIABLE})")
    parser.add_argument("--show", action="store_true", help="print the records, after tuning if there is a model")
    parser.add_argument("--page", metavar="FILE", type=Path, help="write a page with curves and chosen loops as HTML")
    parser.add_argument("--export", metavar="FILE", type=Path, help="write all records as lines of JSON")
    parser.add_argument("--import", metavar="FILE", type=Path, dest="imported", help="add records from lines of JSON")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    database = _database(options.database)
    database.records()  # a file of somebody else is refused before anything is measured
    if options.page is not None:
        _check_page(options)
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


def _check_page(options: argparse.Namespace) -> None:
    """Fail before anything is measured if there is nothing to write a page about, or it cannot be written."""
    if options.model is None:
        raise failure(UNSUITABLE, "--page shows what tuning a model does", hint="name a model")
    if options.page.is_dir() or not options.page.absolute().parent.is_dir():
        raise failure(UNSUITABLE, f"--page: there can be no file {options.page}")


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
    reporter = _Reporter(options.page, f"Tuning of {options.model.name}")
    with _cluster_failures(options.cluster), progress("running the model") as meter:
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
            cluster=options.cluster,
        )
    sys.stdout.write("".join(f"{line}\n" for line in reporter.lines))
    sys.stdout.write(f"the model: {reporter.gain:.2f} times as fast, by estimate; records: {database.path}\n")
    if options.page is not None:
        sys.stdout.write(f"{options.page}: curves and loops\n")


@contextlib.contextmanager
def _cluster_failures(address: str | None) -> Generator[None]:
    """Turn errors of joining a cluster into failures of the command."""
    try:
        yield
    except ImportError as error:
        if address is None or error.name != "ray":
            raise
        message, _, hint = str(error).partition(": ")
        raise failure(NO_PACKAGE, message, hint=hint) from None
    except ConnectionError as error:
        if address is None:
            raise
        hint = "start one: ray start --head"
        raise failure(UNSUITABLE, f"--cluster {address}: {error}", hint=hint) from None


def _combinations(sizes: Mapping[str, Sequence[int]]) -> Iterator[dict[str, int]]:
    """All combinations of one size per dimension."""
    for chosen in itertools.product(*sizes.values()):
        yield dict(zip(sizes, chosen, strict=True))


class _Reporter:
    """Shows the kernel at hand with the best so far and the time left; collects a line for each kernel.

    Writes `page` anew after each kernel, so that a run that is interrupted leaves one.
    """

    def __init__(self, page: Path | None = None, title: str = "") -> None:
        self.meter: Meter | None = None
        self.outcomes: list[Outcome] = []
        self.gain = 1.0
        self._page, self._title = page, title

    @property
    def lines(self) -> list[str]:
        """The result of each kernel in words."""
        return [shown_outcome(outcome) for outcome in self.outcomes]

    def __call__(self, state: Progress) -> None:
        """Take a report."""
        outcome = state.outcome
        self.gain = state.gain
        if state.is_last:
            self.outcomes.append(outcome)
            if self._page is not None:
                self._page.write_text(tuning_page(self.outcomes, self._title), encoding="utf-8")
        if self.meter is not None:
            best = 1.0 if outcome.measurement is None else max(math.exp(outcome.measurement.gain), 1.0)
            self.meter.describe(
                f"{outcome.kernel.name} ({state.number} of {state.count}): best so far {best:.2f} times as fast, "
                f"{outcome.tried} measured, {state.left:.0f} s left"
            )
