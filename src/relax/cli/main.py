"""The command `relax`: its commands by name, each loaded at its use.

    relax compile model.onnx -o model.relax
    relax --help
    relax --explain E3102          what a diagnostic code means, and the way out

Exit status: 0 for success, 1 for an error in the input or a difference found by a comparison, 2 for a wrong command
line, 130 if interrupted. This module imports nothing but argparse and importlib: ``relax --help`` loads nothing else.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

COMMANDS: Final[Mapping[str, str]] = {
    "compile": "compile a model to an executable file",
    "convert": "write a model as ONNX",
    "run": "run a model on files or random inputs",
    "show": "print a model, or draw its dataflow",
    "check": "report everything that is wrong with a model",
    "bench": "measure how long a model takes",
    "profile": "measure how long each kernel of a model takes",
    "tune": "find faster schedules for a model's kernels by measuring",
    "memory": "show where the tensors of a model lie in memory",
    "diff": "find the first tensor in which two programs or engines differ",
    "info": "show what is in a file of weights, GGUF or safetensors",
    "chat": "talk to a language model",
    "complete": "continue a text by a language model",
    "serve": "answer requests to a language model over HTTP, as OpenAI's servers do",
    "transcribe": "write down what is spoken in a file of sound",
    "quantize": "write a language model as a GGUF file with weights of few bits",
    "cache": "list, prune, export and import compiled kernels",
    "explain": "say what a diagnostic code means",
    "completion": "print a script that completes commands in a shell",
}
"""Summaries of the commands; a command is the module of this package with its name."""

_EPILOG: Final = """\
examples:
  relax compile model.onnx -o model.relax
  relax run model.relax --size n=4
  relax check model.py
  relax COMMAND --help

exit status: 0 success, 1 an error or a difference, 2 a wrong command line
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line given by `arguments` (default: the process's); returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words and words[0] in COMMANDS:
            return _execute(words[0], words[1:])
        return _general(words)
    except SystemExit as end:  # argparse has written its message
        return end.code if isinstance(end.code, int) else 0
    except KeyboardInterrupt:
        return 130


def _general(words: Sequence[str]) -> int:
    """Handle a command line without a command."""
    parser = argparse.ArgumentParser(
        prog="relax",
        description="Compile and run deep-learning models with dimensions of any size.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="relax [--help] [--version] [--explain CODE] COMMAND ...",
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    parser.add_argument("--explain", metavar="CODE", help="say what a diagnostic code means, and the way out")
    width = max(map(len, COMMANDS))
    commands = parser.add_argument_group("commands", "\n".join(f"{n:{width}}  {COMMANDS[n]}" for n in COMMANDS))
    commands.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    if words and not words[0].startswith("-"):
        close = difflib.get_close_matches(words[0], COMMANDS, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"the commands are: {', '.join(COMMANDS)}"
        parser.error(f"there is no command {words[0]!r}; {hint}")
    options = parser.parse_args(words)
    if options.version:
        package: Any = importlib.import_module("relax")
        sys.stdout.write(f"{package.__version__}\n")
        return 0
    if options.explain is not None:
        return _execute("explain", [options.explain])
    parser.error("a command is missing; relax --help lists them")


def _execute(name: str, words: Sequence[str]) -> int:
    """Import a command's module and run it."""
    command = importlib.import_module(f".{name}", __package__)
    execution: Any = importlib.import_module(".execution", __package__)
    return cast(int, execution.execute(name, command, words))
