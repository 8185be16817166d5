"""``relax check``: report all errors of models."""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

from ..expr import Function
from ..ir import DiagnosticError
from .arguments import add_building, add_reading
from .execution import warning_text
from .failures import FAILURE, SUCCESS
from .models import check_program, compile_program, read_executable, read_program

DESCRIPTION = "Report everything that is wrong with models: syntax, the rules of the language, shapes and dtypes."
EXAMPLES = """
  relax check model.py
  relax check model.onnx --build      also compile it
  relax check models/*.py

exit status: 0 if nothing is wrong, 1 if there are errors
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("model", type=Path, nargs="+", help="models, as in relax compile; or executables")
    add_reading(parser)
    parser.add_argument("--build", action="store_true", help="also compile each model, for errors of later stages")
    parser.add_argument("--strict", action="store_true", help="warnings count as errors")
    add_building(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    results = [_check(path, options) for path in options.model]
    return SUCCESS if all(results) else FAILURE


def _check(path: Path, options: argparse.Namespace) -> bool:
    """Check one model and print its errors; True if there are none."""
    told: dict[str, None] = {}
    errors = 0
    summary = ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            summary = _checked(path, options)
        except DiagnosticError as error:
            errors = len(error.diagnostics)
            told.update(dict.fromkeys(diagnostic.render(shell=True) for diagnostic in error.diagnostics))
    warned = dict.fromkeys(warning_text(warning.message) for warning in caught)  # a pass may say the same again
    for text in [*warned, *told]:
        sys.stdout.write(text + "\n\n")
    counts = [f"{errors} error{'s' * (errors != 1)}"] if errors else []
    counts += [f"{len(warned)} warning{'s' * (len(warned) != 1)}"] if warned else []
    sys.stdout.write(f"{path}: {', '.join(counts) or summary}\n")
    return not errors and not (warned and options.strict)


def _checked(path: Path, options: argparse.Namespace) -> str:
    """Summary of a valid model. Raises DiagnosticError with all errors."""
    if path.suffix == ".relax":
        executable = read_executable(path)
        return f"an executable with {', '.join(executable.entry_points)}"
    mod = read_program(path, options)
    check_program(mod)
    if options.build:
        compile_program(mod, options)
    names = [g.name_hint for g, f in mod.functions.items() if isinstance(f, Function)]
    return f"no errors in {', '.join(names) or 'its loops'}"
