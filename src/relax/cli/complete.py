"""``relax complete``: continue a text by a language model."""

from __future__ import annotations

import argparse
import sys

from .failures import SUCCESS
from .language_models import add_model_arguments, add_sampling_arguments, loaded, sampling_of, unsuitable

DESCRIPTION = """\
Continue a text by a language model, a GGUF file or a folder of Hugging Face. The text is written as it comes."""
EXAMPLES = """
  relax complete model.gguf "The capital of France is" -n 20
  echo "Once upon a time" | relax complete model.gguf - --temperature 0.8 --seed 1
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model_arguments(parser)
    parser.add_argument("prompt", metavar="TEXT", help="text to continue; -: the standard input")
    add_sampling_arguments(parser, 0.0)
    parser.add_argument("--stop", metavar="TEXT", action="append", default=[], help="end before this text")
    parser.add_argument("--stats", action="store_true", help="write tokens a second to the standard error")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    model = loaded(options, max_sequences=1)
    prompt = sys.stdin.read().rstrip("\n") if options.prompt == "-" else options.prompt
    with unsuitable():
        for piece in model.generate(prompt, stop=options.stop, stream=True, **sampling_of(options)):
            sys.stdout.write(piece)
            sys.stdout.flush()
    sys.stdout.write("\n")
    if options.stats:
        stats = model.stats()
        sys.stderr.write(
            f"loaded in {stats.load_seconds:.1f} s; prompt: {stats.prompt_tokens} tokens, {stats.prompt_speed:.0f} a "
            f"second; answer: {stats.new_tokens} tokens, {stats.speed:.0f} a second\n"
        )
    return SUCCESS
