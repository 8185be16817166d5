"""``relax quantize``: write a language model as a GGUF file, with weights of few bits."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from ..llm import quantize
from ..llm.mixtures import file_type
from .failures import SUCCESS, UNREADABLE, UNSUITABLE, failure
from .progress import Meter
from .tables import byte_size, text_table

DESCRIPTION = """\
Write a language model, a folder of Hugging Face or a GGUF file, as a GGUF file with weights of few bits."""
EXAMPLES = """
  relax quantize SmolLM2-135M-Instruct -o model.gguf                     weights of 4 to 6 bits (q4_k_m)
  relax quantize SmolLM2-135M-Instruct -o model.gguf --type q8_0
  relax quantize model-f16.gguf -o model.gguf --type q4_k_m
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="a folder with config.json, or a .gguf file")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, required=True, help="the .gguf file to write")
    parser.add_argument(
        "--type", type=known_type, default="q4_k_m", metavar="TYPE",
        help="q8_0, q6_k, q5_k_m, q4_k_m (default), q4_0, q3_k_m, q2_k, float16, float32 and others",
    )  # fmt: skip


def known_type(text: str) -> str:
    """Type of files, of a word of the command line."""
    try:
        return file_type(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    model: Path = options.model
    output: Path = options.output
    if output.suffix != ".gguf":
        raise failure(UNSUITABLE, f"cannot write {output}: the format is GGUF", hint="call it *.gguf")
    if not model.exists():
        raise failure(UNREADABLE, f"{model} cannot be read: No such file or directory")
    with Meter(f"reading {model.name}", None, Console(file=sys.stderr)) as meter:
        try:
            written = quantize(
                model, output, options.type, progress=lambda doing, part: meter.describe(f"{doing}, {part:.0%}")
            )
        except OSError as error:
            name = error.filename or model
            raise failure(UNREADABLE, f"{name}: {error.strerror or error}") from None
        except ValueError as error:
            raise failure(UNSUITABLE, f"{model} is not written as GGUF: {error}") from None
    rows = [(layout, str(number), byte_size(nbytes)) for layout, (number, nbytes) in written.layouts.items()]
    sys.stdout.write(text_table(("type", "tensors", "size"), rows, (1, 2)) + "\n")
    sys.stdout.write(f"{output}: {written.type}, {byte_size(written.nbytes)}\n")
    return SUCCESS
