"""``python -m relax``: what can be asked of relax from a shell.

python -m relax --explain E3102     what a diagnostic code means, and the way out
python -m relax --version
"""

from __future__ import annotations

import argparse
import sys

from . import __version__
from .ir.codes import explain


def main(arguments: list[str] | None = None) -> int:
    """Do what the arguments (of the process, if not given) ask; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m relax", description=(__doc__ or "").split("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--explain", metavar="CODE", help="say what a diagnostic code means, and the way out")
    what.add_argument("--version", action="version", version=__version__)
    asked = parser.parse_args(arguments)
    try:
        explain(asked.explain)
    except ValueError as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
