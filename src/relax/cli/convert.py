"""``relax convert``: write a model as ONNX."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .arguments import add_model
from .failures import SUCCESS, UNSUITABLE, failure
from .models import chosen_entry, entry_points, read_program
from .onnx_models import write_onnx
from .tables import byte_size

DESCRIPTION = "Write a model as ONNX. Symbolic dimensions, names and dtypes are kept."
EXAMPLES = """
  relax convert model.py -o model.onnx
  relax convert model.json -o model.onnx --opset 21
  relax convert big.py -o big.onnx --external-data     the weights in big.onnx.data
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model(parser)
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="the file to write (default: MODEL.onnx)")
    parser.add_argument("--opset", metavar="N", type=int, help="the opset (default: the newest that runs)")
    parser.add_argument(
        "--external-data", action="store_true", help="weights in a file beside the model (default: from 256 MiB on)"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    model: Path = options.model
    output: Path = options.output or model.with_suffix(".onnx")
    if output.suffix != ".onnx":
        raise failure(UNSUITABLE, f"cannot write {output}: the format is ONNX", hint="call it *.onnx")
    if output.exists() and output.samefile(model):
        raise failure(UNSUITABLE, f"{output} is the model itself", hint="write to another file with -o")
    mod = read_program(model, options, check_sizes=False)  # ONNX has no checks
    entry = chosen_entry(entry_points(mod), options.entry)
    opset, nodes = write_onnx(mod, output, entry, options.opset, options.external_data)
    noun = "node" if nodes == 1 else "nodes"
    sys.stdout.write(f"{output}: {entry}, {nodes} {noun}, opset {opset}, {byte_size(output.stat().st_size)}\n")
    return SUCCESS
