"""``relax compile``: compile a model to an executable file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..transform.remove_unused_functions import RemoveUnusedFunctions
from .arguments import add_building, add_model
from .failures import SUCCESS, UNSUITABLE, failure
from .models import chosen_entry, compile_program, entry_points, read_program
from .tables import byte_size

DESCRIPTION = "Compile a model to an executable file, which runs where only this package is installed."
EXAMPLES = """
  relax compile model.onnx -o model.relax
  relax compile model.py --shape x=1,3,224,224       fix the dimensions of an input
  relax compile model.py --target "llvm -mcpu=znver4"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model(parser)
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="the file to write (default: MODEL.relax)")
    add_building(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    model: Path = options.model
    output: Path = options.output or model.with_suffix(".relax")
    if output.exists() and output.samefile(model):
        raise failure(UNSUITABLE, f"{output} is the model itself", hint="write to another file with -o")
    mod = read_program(model, options)
    if options.entry is not None:
        mod = RemoveUnusedFunctions([chosen_entry(entry_points(mod), options.entry)])(mod)
    executable = compile_program(mod, options)
    executable.save(output)
    kernels = len(executable.kernels)
    size = byte_size(output.stat().st_size)
    entries = ", ".join(executable.entry_points)
    noun = "kernel" if kernels == 1 else "kernels"
    sys.stdout.write(f"{output}: {entries}, {kernels} {noun}, {size}\n")
    return SUCCESS
