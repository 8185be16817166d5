"""``relax cache``: list, clear, prune, export, import and warm the cache of compiled kernels and programs.

An action is an entry of `ACTIONS`: a word, what it does, its arguments, and the function that runs it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from ..farm import cache, packed_weights
from ..runtime.rooms import ModuleWhenUsed
from .arguments import positive
from .failures import FAILURE, SUCCESS
from .tables import byte_size, plural, text_table

_files: Final = ModuleWhenUsed("relax.cli.cache_files")
_warming: Final = ModuleWhenUsed("relax.cli.cache_warming")

DESCRIPTION = """\
List, clear, prune, export, import and warm the cache of compiled kernels and programs
(RELAX_CACHE_DIR, RELAX_CACHE_SIZE). Without an action: list it. The weights of language models, which lie beside it,
are listed and cleared, too."""
EXAMPLES = """
  relax cache list                                  what is in it, and where it is
  relax cache prune --limit 500M
  relax cache export kernels.cache                  for another machine of this kind, such as a container
  relax cache import kernels.cache
  relax cache warm                                  kernels for all sizes, which many programs call
"""


class Action(NamedTuple):
    """An action on the cache."""

    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.set_defaults(action="list")
    actions = parser.add_subparsers(metavar="ACTION", title="actions")
    for name, action in ACTIONS.items():
        inner = actions.add_parser(name, help=action.help, description=f"{action.help[0].upper()}{action.help[1:]}.")
        inner.set_defaults(action=name)
        action.add_arguments(inner)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    return ACTIONS[options.action].run(options)


def _no_arguments(_: argparse.ArgumentParser) -> None:
    """Declare no arguments."""


# ------------------------------------------------------------------------------------------- list


def _list(_: argparse.Namespace) -> int:
    entries = cache.entries()
    rows: list[tuple[str, str, str, str]] = []
    for kind, title in cache.KINDS.items():
        own = [entry for entry in entries if cache.kind_of(entry) == kind]
        if own:
            rows.append((title, *_figures(own)))
    if len(rows) > 1:
        rows.append(("all", *_figures(entries)))
    if rows:
        sys.stdout.write(text_table(("kind", "entries", "size", "last used"), rows, right=(1, 2)) + "\n")
    total = byte_size(sum(entry.size for entry in entries))
    used = f"{total} of {byte_size(cache.size_limit())}" if rows else "no entries"
    problem = cache.problem()
    sys.stdout.write(f"{cache.directory()}: {used}{'' if problem is None else f'; not used: {problem}'}\n")
    weights = packed_weights.entries()
    if weights:
        size, limit = byte_size(sum(entry.size for entry in weights)), byte_size(packed_weights.size_limit())
        count = plural(len(weights), "language model")
        sys.stdout.write(f"{packed_weights.directory()}: weights of {count}, {size} of {limit}\n")
    return SUCCESS


def _figures(entries: list[cache.Entry]) -> tuple[str, str, str]:
    """Number of entries, their size, and the time of the last use, as text."""
    used = time.localtime(max(entry.used for entry in entries))
    return str(len(entries)), byte_size(sum(entry.size for entry in entries)), time.strftime("%Y-%m-%d %H:%M", used)


# ------------------------------------------------------------------------------------------- clear, prune


def _clear(_: argparse.Namespace) -> int:
    return _removed(cache.clear() + packed_weights.clear())


def _add_limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", metavar="SIZE", type=_size, help="500M, 2G (default: RELAX_CACHE_SIZE, or 2G)")


def _size(text: str) -> int:
    size = cache.parsed_size(text)
    if size is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size, such as 500M or 2G")
    return size


def _prune(options: argparse.Namespace) -> int:
    return _removed(cache.prune(options.limit))


def _removed(count: int) -> int:
    """Print how many entries were removed, and if some could not be."""
    left = byte_size(sum(entry.size for entry in cache.entries()))
    sys.stdout.write(f"{plural(count, 'entry', 'entries')} removed, {left} left in {cache.directory()}\n")
    problems = cache.statistics.problems
    if problems:
        sys.stderr.write(f"error: {plural(problems, 'entry', 'entries')} could not be removed\n")
    return FAILURE if problems else SUCCESS


# ------------------------------------------------------------------------------------------- export, import


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="the file")
    parser.add_argument(
        "--target",
        metavar="TARGET",
        help='the entries for a machine: "llvm -mcpu=znver4 -num-cores=4" (default: this machine)',
    )


def _add_exported(parser: argparse.ArgumentParser) -> None:
    _add_file(parser)
    parser.add_argument("--programs", action="store_true", help="whole programs, too, with their weights")
    parser.add_argument("--all", action="store_true", help="entries for all targets, and of all versions of relax")


def _add_imported(parser: argparse.ArgumentParser) -> None:
    _add_file(parser)
    parser.add_argument("--all", action="store_true", help="entries for other machines and versions, too")


def _export(options: argparse.Namespace) -> int:
    return _files.export(options)


def _import(options: argparse.Namespace) -> int:
    return _files.import_(options)


# ------------------------------------------------------------------------------------------- warm


def _add_warmed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models", metavar="MODEL", type=Path, nargs="*", help="the kernels that these call (default: common ones)"
    )
    parser.add_argument("--target", metavar="TARGET", help='the machine: "llvm -mcpu=znver4" (default: this one)')
    parser.add_argument("--jobs", metavar="N", type=positive, help="processes that compile at once")


def _warm(options: argparse.Namespace) -> int:
    return _warming.warm_cache(options)


ACTIONS: Final[dict[str, Action]] = {
    "list": Action("print what is in the cache, and where it is", _no_arguments, _list),
    "clear": Action("remove all entries", _no_arguments, _clear),
    "prune": Action("remove the least recently used entries above a limit", _add_limit, _prune),
    "export": Action("write the entries for this machine to a file", _add_exported, _export),
    "import": Action("read the entries of a file that are for this machine", _add_imported, _import),
    "warm": Action("compile kernels for all sizes that programs of tier now call", _add_warmed, _warm),
}
