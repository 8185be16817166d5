"""Tables as plain text, the same on a terminal and in a pipe."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> str:
    """Format a table with columns two spaces apart; those in `right` are right-aligned."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]

    def text(line: Sequence[str]) -> str:
        cells = (
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        return "  ".join(cells).rstrip()

    return "\n".join(map(text, lines))


def figure(number: float) -> str:
    """Format a number with four digits."""
    if math.isfinite(number) and number == int(number) and abs(number) < 1e6:
        return str(int(number))
    return f"{number:.4g}"


def duration(seconds: float) -> str:
    """Format a time with its unit: ``12.3 us``."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def byte_size(number: float) -> str:
    """Format a number of bytes with its unit: ``1.5 MB``."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= scale:
            return f"{number / scale:.3g} {unit}"
    return f"{number:.0f} B"


def plural(number: int, one: str, several: str = "") -> str:
    """Format a number of things: ``1 core``, ``2 cores``."""
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def count(number: float) -> str:
    """Format a count with three digits and a prefix: ``1.5 M``."""
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= scale:
            return f"{number / scale:.3g} {prefix}"
    return f"{number:.0f}"
