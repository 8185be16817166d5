"""Run the tests that a change is most likely to break, within a minute: `make quick`.

    python tools/quick.py [--seconds 60] [--since COMMIT] [--list] [PATH ...]

The change is what git shows: files that differ from HEAD or are untracked, and with `--since` all that differ from
that commit; or the paths given. Its rooms are folders of `src/relax`. Three groups of tests run, in this order:

1. test files that changed, and the tests of the rooms that changed (`tests/<room>`);
2. test files of the rooms above which import a changed room by name, from the nearest room to the farthest;
3. `tests/language`, which holds each statement of the language by a short program.

Slow tests are left out. Tests that have not begun after `--seconds` are left out too, and counted at the end.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE, TESTS = ROOT / "src" / "relax", ROOT / "tests"
HOMES = {
    "expr": "core", "struct_info": "core", "info": "core", "derive": "core", "block_builder": "core",
    "rewrite": "core", "utils": "compat", "expr_functor": "compat", "_api": "compat", "__main__": "cli",
    "support": "test_support.py", "project": "test_project.py", "quick": "test_quick.py",
}  # fmt: skip
"""Folders or files of tests of the rooms that have no folder of their own name."""
OUTSIDE = {
    "docs": "docs", "README.md": "docs", "examples": "examples", "packages": "runtime",
    "tools/differential": "differential", "tools/quick.py": "quick", "tools": "project",
    "Makefile": "project", "pyproject.toml": "project",
}  # fmt: skip
"""The rooms whose tests cover what lies outside of `src/relax` and `tests`; the first that fits counts."""
EVERYWHERE = "language"


def changed_files(since: str) -> list[Path]:
    """Return the files that differ from a commit, untracked ones included. Raises SystemExit if git knows none."""
    lines: list[str] = []
    for command in (["diff", "--name-only", since, "--"], ["ls-files", "--others", "--exclude-standard"]):
        result = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise SystemExit(f"quick: git shows no changes since {since!r}: {result.stderr.strip()}")
        lines += result.stdout.splitlines()
    return [ROOT / line for line in lines]


def layers() -> list[str]:
    """Return the names of the rooms, the highest first, as import-linter is told them in pyproject.toml."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rows = next(contract["layers"] for contract in contracts if contract["id"] == "rooms")
    return [name.strip(" ()") for row in rows for name in row.split(":")]


def rooms_of(files: Iterable[Path]) -> set[str]:
    """Return the rooms in whose sources or tests the files lie."""
    found: set[str] = set()
    for file in files:
        for base in (SOURCE, TESTS):
            if file.is_relative_to(base) and file.suffix == ".py":
                found.add(file.relative_to(base).parts[0].removesuffix(".py"))
        outside = (room for place, room in OUTSIDE.items() if file.is_relative_to(ROOT / place))
        found.update(itertools.islice(outside, 1))
    return found


def imported_rooms(file: Path) -> set[str]:
    """Return the rooms that a test file imports by name."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            parts = node.module.split(".")
            if parts[0] == "relax":
                found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
    return found


def home_of(room: str) -> Path:
    """Return the folder or file of a room's tests, which need not exist."""
    return TESTS / HOMES.get(room, room)


def selected(files: Sequence[Path]) -> list[Path]:
    """Return the test files and folders to run for changed files, in order, each once."""
    order = layers()
    rooms = rooms_of(files)
    chosen = [file for file in files if file.is_relative_to(TESTS) and file.name.startswith("test_") and file.exists()]
    chosen += [home_of(room) for room in sorted(rooms)]
    lowest = max((order.index(room) for room in rooms if room in order), default=0)
    for room in reversed(order[:lowest]):
        if room not in rooms:
            chosen += [file for file in sorted(home_of(room).rglob("test_*.py")) if imported_rooms(file) & rooms]
    if rooms:
        chosen.append(TESTS / EVERYWHERE)
    kept: list[Path] = []
    for path in chosen:
        if path.exists() and not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return kept


# pytest's processes load this file as a plugin, for these three hooks.

END = "RELAX_QUICK_END"
"""The environment variable with the time, in seconds since the epoch, after which no test begins."""
OUT_OF_TIME = "out of time"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Skip a test after the deadline."""
    if time.time() > float(os.environ[END]):
        pytest.skip(OUT_OF_TIME)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests were skipped for that."""
    skipped = terminalreporter.stats.get("skipped", [])
    if count := sum(OUT_OF_TIME in str(report.longrepr) for report in skipped):
        terminalreporter.write_line(f"{count} tests left out by time; make test runs them")


def main() -> int:
    """Select and run; return pytest's exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="instead of what git says has changed")
    parser.add_argument("--seconds", type=float, default=60.0, help="time after which no test begins (60)")
    parser.add_argument("--since", default="HEAD", metavar="COMMIT", help="the commit to compare with (HEAD)")
    parser.add_argument("--list", action="store_true", help="print the selection only")
    options = parser.parse_args()
    os.environ[END] = str(time.time() + options.seconds)
    files = [path.resolve() for path in options.paths] or changed_files(options.since)
    paths = [str(path.relative_to(ROOT)) for path in selected(files)]
    print("tests of:", " ".join(sorted(rooms_of(files))) or "nothing: git shows no change")
    if options.list or not paths:
        print("\n".join(paths))
        return 0
    return pytest.main(["-q", "-x", "-rfE", "-n", "2", "-p", "quick", *paths])


if __name__ == "__main__":
    sys.exit(main())
