"""Options of the commands that run language models, and loading with progress."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from rich.console import Console

from ..ir import DiagnosticError
from ..llm import LanguageModel, Stats, load
from ..runtime.rooms import ModuleWhenUsed
from .failures import NO_PACKAGE, UNREADABLE, UNSUITABLE, failure
from .progress import Meter

if TYPE_CHECKING:
    from ..llm.engine import drafters as _drafters
else:
    _drafters = ModuleWhenUsed("relax.llm.engine.drafters")

LOOKUP: Final = "lookup"
"""Value of `--draft` for tokens of the prompt in the place of a second model."""
_ADAPTER: Final = "adapter"
"""Name under which the adapter of `--adapter` is loaded."""

Progress: TypeAlias = Callable[[str, float], None]
"""Called with what is being done, and the part of it that is done."""


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that say which model is loaded, and how."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="a .gguf file, or a folder with config.json")
    parser.add_argument(
        "--threads", type=positive, metavar="N", help="threads (default: RELAX_NUM_THREADS, or all cores)"
    )
    parser.add_argument(
        "--context", type=positive, metavar="N",
        help="tokens of a conversation, at most (default: the model's, up to 8192)",
    )  # fmt: skip
    parser.add_argument("--dtype", metavar="TYPE", help="float32, or a block format such as q8_0 for other weights")


def add_sampling_arguments(parser: argparse.ArgumentParser, temperature: float) -> None:
    """Declare the arguments that say how tokens are chosen."""
    parser.add_argument(
        "-n", "--max-tokens", type=positive, metavar="N", help="tokens of an answer, at most (default: the context's)"
    )
    parser.add_argument(
        "--temperature", type=float, default=temperature, help="0: always the likeliest token (default: %(default)s)"
    )
    parser.add_argument("--top-p", type=float, default=1.0, metavar="P", help="likeliest tokens of P together")
    parser.add_argument("--top-k", type=int, default=0, metavar="K", help="the K likeliest tokens (default: all)")
    parser.add_argument("--min-p", type=float, default=0.0, metavar="P", help="tokens from P times the likeliest on")
    parser.add_argument(
        "--repetition-penalty", type=float, default=1.0, metavar="R",
        help="above 1: tokens of the last 64 become less likely (default: 1)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, metavar="N", help="the same seed, the same text")


def add_answer_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that say which form an answer has, and by which means it is computed."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json-schema", metavar="SCHEMA", help="the answer is JSON of this schema: a file, or its text; {}: any JSON"
    )
    form.add_argument("--regex", metavar="REGEX", help="the answer matches this expression as a whole")
    form.add_argument("--grammar", type=Path, metavar="FILE", help="the answer is of this grammar, in Lark's notation")
    parser.add_argument("--adapter", metavar="PATH", help="LoRA adapter: a folder of PEFT, or a GGUF file")
    add_draft_argument(parser)
    parser.add_argument("--stats", action="store_true", help="write tokens a second to the standard error")


def add_draft_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the argument that says what proposes tokens."""
    parser.add_argument(
        "--draft", metavar="MODEL",
        help="smaller model that proposes tokens; lookup: what followed the same words before",
    )  # fmt: skip


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
        "repetition_penalty": options.repetition_penalty,
    }  # fmt: skip


def answer_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `LanguageModel.generate` that the options of `add_answer_arguments` give.

    Raises DiagnosticError for files that cannot be read, schemas that are not JSON, and drafting models.
    """
    schema, grammar = options.json_schema, options.grammar
    return {
        "json_schema": None if schema is None else _schema(schema), "regex": options.regex,
        "grammar": None if grammar is None else _text_of(grammar),
        "adapter": None if options.adapter is None else _ADAPTER, "drafter": drafter_of(options, 1),
    }  # fmt: skip


def adapters_of(options: argparse.Namespace) -> dict[str, str]:
    """Return the argument `adapters` of `relax.llm.load` for the adapter that `add_answer_arguments` declares."""
    return {} if options.adapter is None else {_ADAPTER: options.adapter}


def drafter_of(options: argparse.Namespace, sequences: int) -> _drafters.Drafter | None:
    """Return what `--draft` names, for `sequences` answers at once; None without it.

    Raises DiagnosticError for a model that cannot be read, or cannot draft.
    """
    if options.draft is None:
        return None
    if options.draft == LOOKUP:
        return _drafters.PromptLookup()
    smaller = argparse.Namespace(**{**vars(options), "model": Path(options.draft), "dtype": None})
    model = loaded(smaller, max_sequences=sequences)
    with unsuitable():
        return _drafters.DraftModel(model)


def said(stats: Stats) -> str:
    """Return a line about the time that loading and answers took."""
    return (
        f"loaded in {stats.load_seconds:.1f} s; prompt: {stats.prompt_tokens} tokens, {stats.prompt_speed:.0f} a "
        f"second; answer: {stats.new_tokens} tokens, {stats.speed:.0f} a second\n"
    )


def _schema(given: str) -> dict[str, Any]:
    """Return the JSON schema that a word of the command line is, or the file that it names holds."""
    is_text = given.lstrip().startswith("{")
    where = "the text" if is_text else given
    try:
        schema = json.loads(given if is_text else _text_of(Path(given)))
    except (ValueError, RecursionError) as error:
        raise failure(UNSUITABLE, f"--json-schema: {where} is no JSON: {error}") from None
    if not isinstance(schema, dict):
        raise failure(UNSUITABLE, f"--json-schema: {where} is no schema: expected an object {{...}}")
    return cast("dict[str, Any]", schema)


def _text_of(path: Path) -> str:
    """Return the text of a file. Raises DiagnosticError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise failure(UNREADABLE, f"{path} cannot be read: {reason or error}") from None


def loaded(options: argparse.Namespace, **settings: Any) -> LanguageModel:
    """Load the model that options name, and show on a terminal what takes long.

    Raises DiagnosticError for a model that cannot be read.
    """
    with loading(options.model) as say:
        return load(
            options.model, dtype=options.dtype, threads=options.threads, context=options.context, progress=say,
            **settings,
        )  # fmt: skip


@contextmanager
def loading(model: Path) -> Generator[Progress]:
    """Context manager: show the progress of loading a model, and turn its errors into those of the command.

    Raises DiagnosticError for a model that cannot be read.
    """
    with Meter(f"loading {model.name}", None, Console(file=sys.stderr)) as meter:

        def say(doing: str, part: float) -> None:
            meter.describe(
                f"{doing} (once for this computer), {part:.0%}" if part else f"{doing}; faster the next time"
            )

        try:
            yield say
        except ImportError as error:
            message, _, hint = str(error).partition(": ")
            raise failure(NO_PACKAGE, message, hint=hint) from None
        except OSError as error:
            place = error.filename or model
            hint = _hint(model) if Path(place).name == "config.json" else ""
            raise failure(UNREADABLE, f"{place} cannot be read: {error.strerror or error}", hint=hint) from None
        except DiagnosticError:  # a corrupt file
            raise
        except ValueError as error:
            raise failure(UNREADABLE, f"{model} is not run: {error}") from None


def _hint(folder: Path) -> str:
    """Hint for a folder without ``config.json``."""
    files = sorted(folder.glob("*.gguf"))
    if files:
        return f"name the file: {files[0]}"
    return "a model is a .gguf file, or a folder of Hugging Face with config.json and safetensors files"


@contextmanager
def unsuitable() -> Generator[None]:
    """Context manager: arguments that the model refuses are errors of the command line."""
    try:
        yield
    except ValueError as error:
        raise failure(UNSUITABLE, str(error)) from None


__all__ = [
    "LOOKUP",
    "adapters_of",
    "add_answer_arguments",
    "add_draft_argument",
    "add_model_arguments",
    "add_sampling_arguments",
    "answer_of",
    "drafter_of",
    "loaded",
    "loading",
    "positive",
    "said",
    "sampling_of",
    "unsuitable",
]
