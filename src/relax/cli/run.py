"""``relax run``: run a model once."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..ir import IRModule
from ..runtime import VirtualMachine
from .arguments import add_building, add_inputs, add_model, once
from .failures import SUCCESS, running_program
from .inputs import gather_inputs, sizes_of
from .models import executable_of, output_names, read_model, signature_of
from .outputs import named_parts, parts_of, save, summary
from .progress import progress
from .run_warnings import warn_of_empty_tensors, warn_of_hollow_outputs

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
    parser.add_argument(
        "--tier",
        choices=("full", "now"),
        default="full",
        help="now: kernels that serve all sizes, most of them in the cache (default: full, kernels made for the model)",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    program = read_model(options.model, options)
    signature = signature_of(program, options.entry)
    inputs = gather_inputs(signature, options, once(options.size, "--size"))
    if isinstance(program, IRModule):
        warn_of_empty_tensors(program, signature.name, sizes_of(signature, inputs))
    executable = executable_of(program, options)
    values = [entry.value for entry in inputs]
    with running_program(), progress(f"running {signature.name}"):
        machine = VirtualMachine(executable)
        result = machine[signature.name](*values)
    outputs = list(named_parts(result, output_names(program, signature.name)))
    warn_of_hollow_outputs(executable, signature.name, values, outputs, traced=program is executable)
    if options.output is not None:
        save(options.output, outputs)
    rows = [(name, value, entry.source) for entry in inputs for name, value in parts_of(entry.value, entry.name)]
    rows += [(name, value, "" if options.output is None else str(options.output)) for name, value in outputs]
    sys.stdout.write(summary(rows) + "\n")
    return SUCCESS
