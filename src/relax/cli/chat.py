"""``relax chat``: talk to a language model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from .failures import SUCCESS
from .language_models import add_model_arguments, add_sampling_arguments, loaded, sampling_of, unsuitable

DESCRIPTION = """\
Talk to a language model, a GGUF file or a folder of Hugging Face: each line is a message, and the answer is written as
it comes. An empty line or the end of the input ends the conversation; /new begins another one."""
EXAMPLES = """
  relax chat model.gguf
  relax chat model.gguf --system "Answer in one sentence." --temperature 0
"""

_NEW = "/new"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model_arguments(parser)
    parser.add_argument("--system", metavar="TEXT", help="message of the system, before all others")
    add_sampling_arguments(parser, 0.7)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    model = loaded(options, max_sequences=1)
    first = [{"role": "system", "content": options.system}] if options.system else []
    messages = [*first]
    for line in _lines():
        if line == _NEW:
            messages = [*first]
            continue
        messages.append({"role": "user", "content": line})
        answer: list[str] = []
        with unsuitable():
            for piece in model.chat(messages, stream=True, **sampling_of(options)):
                answer.append(piece)
                sys.stdout.write(piece)
                sys.stdout.flush()
        sys.stdout.write("\n")
        messages.append({"role": "assistant", "content": "".join(answer)})
    return SUCCESS


def _lines() -> Iterator[str]:
    """Messages that are typed, or come through a pipe, up to an empty one."""
    asks = sys.stdin.isatty()
    while True:
        if asks:
            sys.stderr.write("> ")
            sys.stderr.flush()
        line = sys.stdin.readline().strip()
        if not line:
            return
        yield line
