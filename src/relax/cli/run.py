"""``relax run``: run a model once."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..runtime import VirtualMachine
from .arguments import add_building, add_inputs, add_model, once
from .failures import SUCCESS, running_program
from .inputs import gather_inputs
from .models import load, signature_of
from .outputs import named_parts, parts_of, save, summary
from .progress import progress

DESCRIPTION = "Run a model on files or random inputs; print what its outputs are, or save them."
EXAMPLES = """
  relax run model.relax --size n=4                     random inputs
  relax run model.onnx --input image=cat.png -o out.npz
  relax run model.py --input inputs.npz --size n=4     inputs by name; others are random
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model(parser)
    add_inputs(parser)
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="save the outputs to a .npz or .npy file")
    add_building(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    loaded = load(options.model, options)
    executable = loaded.executable
    signature = signature_of(executable, options.entry)
    inputs = gather_inputs(signature, options, once(options.size, "--size"))
    with running_program(), progress(f"running {signature.name}"):
        machine = VirtualMachine(executable)
        result = machine[signature.name](*(entry.value for entry in inputs))
    outputs = list(named_parts(result, loaded.outputs))
    if options.output is not None:
        save(options.output, outputs)
    rows = [(name, value, entry.source) for entry in inputs for name, value in parts_of(entry.value, entry.name)]
    rows += [(name, value, "" if options.output is None else str(options.output)) for name, value in outputs]
    sys.stdout.write(summary(rows) + "\n")
    return SUCCESS
