"""``relax explain``: what a diagnostic code means."""

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
    """The arguments of the command."""
    parser.add_argument("code", metavar="CODE", type=explained, help="a code, as diagnostics show it: E3102")


def explained(code: str) -> str:
    """The text about a code."""
    try:
        return explanation(code)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(options: argparse.Namespace) -> int:
    """Do what the arguments ask; the exit status."""
    sys.stdout.write(options.code)
    return SUCCESS
