"""``relax memory``: show a model's memory plan and its lower bound."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..analysis.memory import memory_plan
from ..optimize.pipeline import GRAPH, LOWER, as_pass
from .arguments import add_model, once, one_size_each
from .failures import MISFIT_INPUT, SUCCESS, failure
from .models import chosen_entry, entry_points, read_program
from .progress import progress

DESCRIPTION = """\
Show the memory that a model lays out for its own tensors: where each lies and when it lives, for some sizes of the
open dimensions, beside the bytes of the largest set of tensors that are alive at once."""
EXAMPLES = """
  relax memory model.onnx --size batch=1 --size seq=128
  relax memory model.py --size n=64 --svg plan.svg          a picture: time to the right, addresses upwards
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model(parser)
    parser.add_argument(
        "--size",
        metavar="NAME=N",
        action="extend",
        default=[],
        type=one_size_each,
        help="the size of an open dimension: n=4; of several: n=4,m=8",
    )
    parser.add_argument("--svg", metavar="FILE", type=Path, help="write a picture of the plan to an SVG file")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    mod = read_program(options.model, options)
    name = chosen_entry(entry_points(mod), options.entry)
    with progress("planning memory"):
        planned = as_pass((*GRAPH, *LOWER), "memory")(mod)
        try:
            plan = memory_plan(planned, name, once(options.size, "--size"))
        except ValueError as error:
            text = str(error).removeprefix("memory_plan: ")
            raise failure(MISFIT_INPUT, text, hint="give each of them: --size NAME=N") from None
    sys.stdout.write(plan.table() + "\n")
    if options.svg is not None:
        options.svg.write_text(plan.svg(), encoding="utf-8")
        sys.stdout.write(f"{options.svg}: {len(plan.tensors)} tensor{'s' * (len(plan.tensors) != 1)}\n")
    return SUCCESS
