"""``relax chat``: talk to a language model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from ..ir import DiagnosticError
from ..llm import LanguageModel
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
Talk to a language model, a GGUF file or a folder of Hugging Face: each line is a message, and the answer is written as
it comes. An empty line or the end of the input ends the conversation; /new begins another one. Ctrl-C ends an answer,
and between answers the command. When the context is full, the oldest messages are forgotten."""
EXAMPLES = """
  relax chat model.gguf
  relax chat model.gguf --system "Answer in one sentence." --temperature 0
"""

_NEW: Final = "/new"
_ANSWER: Final = 256
"""Tokens for which there is room behind the messages, if the context has four times as many."""

_Messages: TypeAlias = list[dict[str, str]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model_arguments(parser)
    parser.add_argument("--system", metavar="TEXT", help="message of the system, before all others")
    add_sampling_arguments(parser, 0.7)
    add_answer_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    model = loaded(options, max_sequences=1, adapters=adapters_of(options))
    settings = {**sampling_of(options), **answer_of(options)}
    first: _Messages = [{"role": "system", "content": options.system}] if options.system else []
    messages = [*first]
    for line in _lines():
        if line == _NEW:
            messages = [*first]
            continue
        messages.append({"role": "user", "content": line})
        try:
            with unsuitable():
                _forget(model, messages, len(first), options.max_tokens or _ANSWER)
                answer = _answer(model, messages, settings)
        except DiagnosticError as error:
            if not sys.stdin.isatty():
                raise
            sys.stderr.write(error.render(shell=True) + "\n")
            messages.pop()
            continue
        messages.append({"role": "assistant", "content": answer})
    if options.stats:
        sys.stderr.write(said(model.stats()))
    return SUCCESS


def _answer(model: LanguageModel, messages: _Messages, settings: dict[str, Any]) -> str:
    """Write the answer to messages, and return it. On a terminal, Ctrl-C cuts it off."""
    answer: list[str] = []
    try:
        for piece in model.chat(messages, stream=True, **settings):
            answer.append(piece)
            sys.stdout.write(piece)
            sys.stdout.flush()
    except KeyboardInterrupt:
        if not sys.stdin.isatty():
            raise
    sys.stdout.write("\n")
    return "".join(answer)


def _forget(model: LanguageModel, messages: _Messages, kept: int, answer: int) -> None:
    """Remove the oldest questions and their answers, behind the first `kept` messages, if they leave too little room.

    There is room for `answer` tokens, or a quarter of the context if that is less. The last message is not removed.
    Raises ValueError if the chat template refuses the messages.
    """
    room = model.context - min(answer, model.context // 4)
    before = len(messages)
    while len(messages) > kept + 2 and _tokens(model, messages) > room:
        del messages[kept : kept + 2]
    if len(messages) < before:
        sys.stderr.write("(the context is full, and the oldest messages are forgotten; --context sets its tokens)\n")


def _tokens(model: LanguageModel, messages: _Messages) -> int:
    """Return the number of tokens of messages, as the model reads them."""
    text = model.tokenizer.apply_chat_template(messages)
    return len(model.tokenizer.encode(text, add_special=False, parse_special=True))


def _lines() -> Iterator[str]:
    """Messages that are typed, or come through a pipe, up to an empty one."""
    asks = sys.stdin.isatty()
    while True:
        if asks:
            sys.stderr.write("> ")
            sys.stderr.flush()
        try:
            line = sys.stdin.readline().strip()
        except KeyboardInterrupt:
            sys.stderr.write("\n" if asks else "")
            raise
        if not line:
            return
        yield line
