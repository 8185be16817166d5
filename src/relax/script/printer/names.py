"""Unique names, assigned by the printer.

Nodes carry hints; two variables may share a hint, and a hint need not be a Python identifier. Each variable gets a
unique name within its global function: ``x``, ``x_1``, ``x_2``.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Iterable

from ...ir import Node

_NOT_A_NAME = re.compile(r"\W")


def identifier(hint: str, default: str = "v") -> str:
    """Python identifier closest to a hint."""
    text = hint if isinstance(hint, str) else default  # pyright: ignore[reportUnnecessaryIsInstance]
    # Python reads names in normal form NFKC: two that differ before are one after.
    name = _NOT_A_NAME.sub("_", unicodedata.normalize("NFKC", text)) or default
    if not name.isidentifier():
        name = f"{default}_{name}"
    return f"{name}_" if keyword.iskeyword(name) else name


class NameTable:
    """Unique names for nodes, by identity."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self._used = set(reserved)
        self._counts: dict[str, int] = {}
        self._log: list[tuple[int, str]] = []
        self._names: dict[int, tuple[Node, str]] = {}  # the node is held, so that its id stays its own

    def name_of(self, node: Node, hint: str, default: str = "v") -> str:
        """Name of a node, created at its first occurrence."""
        entry = self._names.get(id(node))
        if entry is None:
            entry = self._names[id(node)] = node, self.fresh(hint, default, id(node))
        return entry[1]

    def mark(self) -> int:
        """State of the table, for `release`."""
        return len(self._log)

    def release(self, mark: int) -> None:
        """Forget the names created since the mark, whose Python scope has ended."""
        while len(self._log) > mark:
            key, name = self._log.pop()
            self._used.discard(name)
            self._names.pop(key, None)

    def fresh(self, hint: str, default: str = "v", key: int = 0) -> str:
        """An unused name."""
        stem = identifier(hint, default)
        separator = "" if stem.endswith("_") else "_"
        name, count = stem, self._counts.get(stem, 0)
        while name in self._used:
            count += 1
            name = f"{stem}{separator}{count}"
        self._counts[stem] = count
        self._used.add(name)
        self._log.append((key, name))
        return name
