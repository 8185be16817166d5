"""``relax complete``: continue a text by a language model."""

from __future__ import annotations

import argparse
import sys

from .failures import SUCCESS
from .language_models import (
    adapters_of,
    add_answer_arguments,
    add_model_arguments,
    add_sampling_arguments,
    answer_of,
    loaded,
    said,
    sampling_of,
    unsuitable,
)

DESCRIPTION = """\
Continue a text by a language model, a GGUF file or a folder of Hugging Face. The text is written as it comes."""
EXAMPLES = """
  relax complete model.gguf "The capital of France is" -n 20
  relax complete model.gguf "Ann, 34, drinks tea. As JSON:" --json-schema person.json
  echo "Once upon a time" | relax complete model.gguf - --temperature 0.8 --seed 1
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model_arguments(parser)
    parser.add_argument("prompt", metavar="TEXT", help="text to continue; -: the standard input")
    add_sampling_arguments(parser, 0.0)
    parser.add_argument("--stop", metavar="TEXT", action="append", default=[], help="end before this text")
    add_answer_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    model = loaded(options, max_sequences=1, adapters=adapters_of(options))
    settings = {**sampling_of(options), **answer_of(options)}
    prompt = sys.stdin.read().rstrip("\n") if options.prompt == "-" else options.prompt
    with unsuitable():
        for piece in model.generate(prompt, stop=options.stop, stream=True, **settings):
            sys.stdout.write(piece)
            sys.stdout.flush()
    sys.stdout.write("\n")
    if options.stats:
        sys.stderr.write(said(model.stats()))
    return SUCCESS
