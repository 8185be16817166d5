"""``relax bench``: measure a model's run time."""

from __future__ import annotations

import argparse
import importlib
import itertools
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ..runtime import Executable, VirtualMachine
from .arguments import add_building, add_inputs, add_model, natural, once, positive, several_sizes
from .failures import SUCCESS, UNSUITABLE, failure, running_program
from .inputs import gather_inputs
from .models import executable_of, read_model, signature_of
from .onnx_runtime import OnnxRuntime, is_installed
from .progress import progress
from .tables import duration, text_table

DESCRIPTION = """\
Measure how long a model takes: the median over runs, after some that are not counted. An ONNX model is also
run by ONNX Runtime, where it is installed; the ratio is the other's time over ours. For a language model (a GGUF file,
or a folder of Hugging Face): tokens a second, beside OpenVINO GenAI where it is installed."""
EXAMPLES = """
  relax bench model.relax --size n=1,16,256      one line for each size
  relax bench model.onnx --runs 200
  relax bench model.py --input inputs.npz
  relax bench model.gguf                         prompts of 512 tokens, 128 new ones; 1, 4 and 16 sequences
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model(parser)
    add_inputs(parser, several_sizes)
    parser.add_argument("--runs", metavar="N", type=positive, default=50, help="runs that are counted (default: 50)")
    parser.add_argument("--warmup", metavar="N", type=natural, default=5, help="runs before these (default: 5)")
    parser.add_argument("--alone", action="store_true", help="do not run ONNX Runtime")
    add_building(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    if options.model.suffix == ".gguf" or (options.model / "config.json").is_file():
        _refuse_for_language_models(options)
        language_bench: Any = importlib.import_module(".language_bench", __package__)
        return language_bench.run(options)
    program = read_model(options.model, options)
    signature = signature_of(program, options.entry)
    sizes = once(options.size, "--size")
    runs = [(chosen, gather_inputs(signature, options, chosen)) for chosen in _combinations(sizes)]
    executable = executable_of(program, options)
    other = None
    if options.model.suffix == ".onnx" and not options.alone and is_installed():
        other = OnnxRuntime(options.model, dict(options.value))
    rows: list[list[str]] = []
    for chosen, inputs in runs:
        values = [entry.value for entry in inputs]
        rows += _measured(executable, signature.name, other, values, chosen, options)
    header = ["sizes", "engine", "median", "min", "mean", "max", "ratio"]
    omitted = {0} if not sizes else set[int]()
    omitted |= {6} if other is None else set[int]()
    kept = [column for column in range(len(header)) if column not in omitted]
    table = text_table([header[c] for c in kept], [[row[c] for c in kept] for row in rows], right=range(len(kept)))
    sys.stdout.write(table + "\n")
    return SUCCESS


def _refuse_for_language_models(options: argparse.Namespace) -> None:
    """Raise DiagnosticError for options of other models, which would change nothing here."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    given = [name for name, value in vars(options).items() if value != parser.get_default(name)]
    refused = sorted(f"--{name}" for name in given if name in _OF_OTHER_MODELS)
    if refused:
        message = f"{', '.join(refused)}: not for language models"
        raise failure(
            UNSUITABLE, message, hint="relax bench model.gguf takes --alone; RELAX_NUM_THREADS sets the threads"
        )


_OF_OTHER_MODELS: Final = frozenset({
    "shape", "value", "fallback", "entry", "input", "size", "seed", "runs", "warmup", "target", "pipeline", "jobs",
})  # fmt: skip


def _combinations(sizes: Mapping[str, Sequence[int]]) -> Iterator[dict[str, int]]:
    """All combinations of one size per dimension."""
    for chosen in itertools.product(*sizes.values()):
        yield dict(zip(sizes, chosen, strict=True))


def _measured(
    executable: Executable,
    entry: str,
    other: OnnxRuntime | None,
    values: Sequence[Any],
    sizes: Mapping[str, int],
    options: argparse.Namespace,
) -> Iterator[list[str]]:
    """Table rows for one choice of sizes."""
    shown = " ".join(f"{name}={size}" for name, size in sizes.items())
    machine = VirtualMachine(executable)
    machine.save_function(entry, "measured", *values, include_return=False)
    seconds = timed(machine["measured"], options.runs, options.warmup)
    yield [shown, "relax", *_figures(seconds), "1"]
    if other is not None:
        feeds = other.feeds(values)
        theirs = timed(lambda: other.run(feeds), options.runs, options.warmup)
        yield [shown, "onnxruntime", *_figures(theirs), f"{np.median(theirs) / np.median(seconds):.2f}"]


def timed(call: Callable[[], object], runs: int, warmup: int) -> list[float]:
    """Run times of calls in seconds, after uncounted warm-up calls."""
    seconds: list[float] = []
    with running_program(), progress("measuring", runs + warmup) as meter:
        for index in range(runs + warmup):
            start = time.perf_counter()
            call()
            elapsed = time.perf_counter() - start
            if index >= warmup:
                seconds.append(elapsed)
            meter.advance()
    return seconds


def _figures(seconds: Sequence[float]) -> list[str]:
    figures = (np.median(seconds), min(seconds), np.mean(seconds), max(seconds))
    return [duration(float(number)) for number in figures]
