"""Tables that are often copied and rarely modified in between: facts of nested scopes.

Copies of a large table share its entries, as immutable layers:

    t = copied({…1000 entries})      u = copied(t)      t: {} over L     u: {} over L        L: the 1000 entries
    u[k] = v                         w = copied(u)      u: {} over M, L  w: {} over M, L     M: {k: v}

A layer has at most half the entries of the one below it; otherwise both are merged. A look-up therefore examines a
logarithmic number of layers, and a thousand tables that each add an entry to the previous one need the space of one. A
small table is a plain dict, and its copy a plain copy.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, MutableMapping
from typing import Any, Final, TypeAlias, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")

SMALL: Final = 256
"""Smaller tables are copied entry by entry, which is faster."""

_ABSENT: Final[Any] = object()


class LayeredTable(MutableMapping[_K, _V]):
    """A mapping with own entries above shared layers; entries are added or replaced, rarely removed."""

    __slots__ = ("_below", "_own", "_size")

    def __init__(self, entries: dict[_K, _V]) -> None:
        self._own: dict[_K, _V] = entries
        self._below: tuple[dict[_K, _V], ...] = ()
        """Layers from the newest to the oldest, which are never changed."""
        self._size = len(entries)

    def copy(self) -> LayeredTable[_K, _V]:
        """Return a table of the same entries that shares their storage."""
        own, below = self._own, self._below
        if own:
            while below and 2 * len(own) > len(below[0]):
                own, below = below[0] | own, below[1:]
            self._below = (own, *below)  # first, so that a reader in another thread misses nothing
            self._own = {}
        other = LayeredTable[_K, _V]({})
        other._below, other._size = self._below, self._size
        return other

    def __getitem__(self, key: _K) -> _V:
        value = self.get(key, _ABSENT)
        if value is _ABSENT:
            raise KeyError(key)
        return value

    def get(self, key: _K, default: Any = None) -> Any:
        if key in self._own:
            return self._own[key]
        for layer in self._below:
            if key in layer:
                return layer[key]
        return default

    def __contains__(self, key: object) -> bool:
        return key in self._own or any(key in layer for layer in self._below)

    def __setitem__(self, key: _K, value: _V) -> None:
        self._size += key not in self
        self._own[key] = value

    def __delitem__(self, key: _K) -> None:
        entries = self._merged()
        del entries[key]
        self._own, self._below, self._size = entries, (), len(entries)

    def setdefault(self, key: _K, default: Any = None) -> Any:
        value = self.get(key, _ABSENT)
        if value is _ABSENT:
            self[key] = value = default
        return value

    def clear(self) -> None:
        self._own, self._below, self._size = {}, (), 0

    def _merged(self) -> dict[_K, _V]:
        entries: dict[_K, _V] = {}
        for layer in (*reversed(self._below), self._own):
            entries.update(layer)
        return entries

    def __iter__(self) -> Iterator[_K]:
        return iter(self._merged())

    def keys(self) -> KeysView[_K]:
        return self._merged().keys()

    def items(self) -> ItemsView[_K, _V]:
        return self._merged().items()

    def __len__(self) -> int:
        return self._size


Table: TypeAlias = "dict[_K, _V] | LayeredTable[_K, _V]"


def copied(table: Table[_K, _V]) -> Table[_K, _V]:
    """Return a copy of a table to which entries will be added."""
    if isinstance(table, LayeredTable):
        return table.copy()
    return dict(table) if len(table) < SMALL else LayeredTable(dict(table))


def noted(table: Table[_K, None], keys: Iterable[_K]) -> None:
    """Add keys to a table used as a set."""
    table.update(dict.fromkeys(keys))
