"""``relax explain``: explain a diagnostic code."""

from __future__ import annotations

import argparse
import sys

from ..ir.codes import explanation
from .failures import SUCCESS

DESCRIPTION = "Say what a diagnostic code means, and the way out."
EXAMPLES = """
  relax explain E3102
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("code", metavar="CODE", type=explained, help="a code, as diagnostics show it: E3102")


def explained(code: str) -> str:
    """Explanation of a code."""
    try:
        return explanation(code)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    sys.stdout.write(options.code)
    return SUCCESS
