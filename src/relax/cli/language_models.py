"""Options of the commands that run language models, and loading with progress."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from ..llm import LanguageModel, load
from .failures import NO_PACKAGE, UNREADABLE, UNSUITABLE, failure
from .progress import Meter


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that say which model is loaded, and how."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="a .gguf file, or a folder with config.json")
    parser.add_argument(
        "--threads", type=positive, metavar="N", help="threads (default: RELAX_NUM_THREADS, or all cores)"
    )
    parser.add_argument("--context", type=positive, metavar="N", help="tokens of a conversation, at most")
    parser.add_argument("--dtype", metavar="TYPE", help="float32, or a block format such as q8_0 for other weights")


def add_sampling_arguments(parser: argparse.ArgumentParser, temperature: float) -> None:
    """Declare the arguments that say how tokens are chosen."""
    parser.add_argument("-n", "--max-tokens", type=positive, metavar="N", help="tokens of an answer, at most")
    parser.add_argument(
        "--temperature", type=float, default=temperature, help="0: always the likeliest token (default: %(default)s)"
    )
    parser.add_argument("--top-p", type=float, default=1.0, metavar="P", help="likeliest tokens of P together")
    parser.add_argument("--top-k", type=int, default=0, metavar="K", help="the K likeliest tokens (default: all)")
    parser.add_argument("--min-p", type=float, default=0.0, metavar="P", help="tokens from P times the likeliest on")
    parser.add_argument("--seed", type=int, metavar="N", help="the same seed, the same text")


def positive(text: str) -> int:
    """Whole number from 1 on, of a word of the command line."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 on")
    return number


def sampling_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `LanguageModel.generate` that options give."""
    return {
        "max_new_tokens": options.max_tokens, "temperature": options.temperature, "top_p": options.top_p,
        "top_k": options.top_k, "min_p": options.min_p, "seed": options.seed,
    }  # fmt: skip


def loaded(options: argparse.Namespace, **settings: Any) -> LanguageModel:
    """Load the model that options name, and show on a terminal what takes long.

    Raises DiagnosticError for a model that cannot be read.
    """
    with Meter(f"loading {options.model.name}", None, Console(file=sys.stderr)) as meter:

        def say(doing: str, part: float) -> None:
            meter.describe(f"{doing} (once for this computer), {part:.0%}" if part else f"{doing}, once for this model")

        try:
            return load(
                options.model, dtype=options.dtype, threads=options.threads, context=options.context, progress=say,
                **settings,
            )  # fmt: skip
        except ImportError as error:
            message, _, hint = str(error).partition(": ")
            raise failure(NO_PACKAGE, message, hint=hint) from None
        except OSError as error:
            raise failure(UNREADABLE, f"{options.model} cannot be read: {error.strerror or error}") from None
        except ValueError as error:
            raise failure(UNREADABLE, f"{options.model} is not run: {error}") from None


@contextmanager
def unsuitable() -> Generator[None]:
    """Context manager: arguments that the model refuses are errors of the command line."""
    try:
        yield
    except ValueError as error:
        raise failure(UNSUITABLE, str(error)) from None


__all__ = ["add_model_arguments", "add_sampling_arguments", "loaded", "positive", "sampling_of", "unsuitable"]
