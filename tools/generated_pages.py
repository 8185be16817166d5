"""Pages of the documentation with a part that a tool writes: between two marks, or checked against what it would be."""

from __future__ import annotations

import argparse
from pathlib import Path


def with_part(page: Path, begin: str, end: str, part: str) -> str:
    """The text of a page with another part between its marks `begin` and `end`. Raises SystemExit without marks."""
    before, mark, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closing, after = rest.partition(end)
    if not mark or not closing:
        raise SystemExit(f"{page} has no marks {begin.strip()} and {end.strip()}")
    return f"{before}{begin}\n{part}\n{end}{after}"


def write_or_check(page: Path, text: str, description: str | None) -> int:
    """Write a page, or with the argument --check compare it; the exit status, 1 for a page that is not up to date."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    if parser.parse_args().check:
        return int(text != page.read_text(encoding="utf-8"))
    page.write_text(text, encoding="utf-8")
    return 0
