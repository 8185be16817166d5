"""Flame graph as a self-contained HTML page: a box per function, with a width proportional to its time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from html import escape
from pathlib import Path

from ..runtime.records import dataclass
from .tables import duration

_TEMPLATE = Path(__file__).with_name("flame_page.html")


@dataclass
class _Box:
    """A function in a stack, and the functions it called."""

    name: str
    seconds: float = 0.0
    children: dict[str, _Box] = field(default_factory=dict[str, "_Box"])


def flame_page(title: str, stacks: Mapping[tuple[str, ...], float]) -> str:
    """HTML page for seconds by stack, outermost function first."""
    root = _Box("all", sum(stacks.values()))
    for stack, seconds in stacks.items():
        box = root
        for name in stack:
            box = box.children.setdefault(name, _Box(name))
            box.seconds += seconds
    page = _TEMPLATE.read_text(encoding="utf-8")
    subtitle = f"{duration(root.seconds)} a run"
    for mark, text in (("@title@", escape(title)), ("@subtitle@", subtitle), ("@boxes@", "".join(_boxes(root)))):
        page = page.replace(mark, text)
    return page


def _boxes(root: _Box) -> list[str]:
    """HTML of the boxes, nested by caller."""
    out: list[str] = []
    pending: list[tuple[_Box | None, float]] = [(root, root.seconds)]
    while pending:
        box, whole = pending.pop()
        if box is None:
            out.append("</div></div>\n")
            continue
        share = box.seconds / whole if whole else 0.0
        label = f"{box.name}: {duration(box.seconds)}, {box.seconds / (root.seconds or 1.0):.1%}"
        out.append(
            f'<div class="box" style="width:{_percent(share)}%" data-words="{escape(box.name.lower())}">'
            f'<button type="button" title="{escape(label)}" style="--tone:{_tone(box.name)}">{escape(label)}</button>'
            '<div class="row">'
        )
        pending.append((None, 0.0))
        children = sorted(box.children.values(), key=lambda child: child.seconds)
        pending += [(child, box.seconds) for child in children]
    return out


def _percent(share: float) -> str:
    """Percentage rounded down, so that the boxes of a row stay within 100 %."""
    return f"{math.floor(share * 1e6) / 1e4:.4f}"


def _tone(name: str) -> int:
    """A warm hue determined by a name."""
    return sum(ord(char) * (index + 1) for index, char in enumerate(name)) % 50
