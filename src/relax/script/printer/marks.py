"""Underlines and comments: converts invisible marks in the text to lines of carets and to comments."""

from __future__ import annotations

from collections.abc import Sequence

from .core import REMARK, UNDERLINE_END, UNDERLINE_START


def render_marks(lines: Sequence[str], remarks: Sequence[str]) -> list[str]:
    """Replace marks in the lines: carets below underlined parts, comments at the ends of lines."""
    out: list[str] = []
    rest = iter(remarks)
    depth = 0
    for line in lines:
        text: list[str] = []
        carets: list[str] = []
        notes: list[str] = []
        for char in line:
            if char == UNDERLINE_START:
                depth += 1
            elif char == UNDERLINE_END:
                depth -= 1
            elif char == REMARK:
                notes.append(next(rest, ""))
            else:
                text.append(char)
                carets.append("^" if depth else " ")
        code = "".join(text)
        out.append(code + "".join(f"  # {note}" for note in notes))
        below = "".join(carets).rstrip()
        if below:
            out.append(below)
    return out
