"""Texts that end an answer: `StopStream`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final


@final
class StopStream:
    """Text that comes in pieces, up to the first stop string; what may begin one is withheld until it is known.

    `stopped` is True once a stop string came, and `stop` is that string. Of several ones the first to be complete ends
    the text; of those complete at the same character, the longest. Raises ValueError for an empty stop string.
    """

    def __init__(self, stops: Iterable[str] = ()) -> None:
        """Make a stream for some stop strings, or for one."""
        strings = (stops,) if isinstance(stops, str) else tuple(stops)
        if not all(strings):
            raise ValueError("a stop string is empty: it would end every text")
        self._stops = tuple(sorted(set(strings), key=len, reverse=True))
        self._withheld = ""
        self.stop: str | None = None

    @property
    def stopped(self) -> bool:
        """True after a stop string; further text is ignored."""
        return self.stop is not None

    def step(self, text: str) -> str:
        """Return the text that belongs to the answer for certain, now that `text` has come."""
        if self.stopped:
            return ""
        pending = self._withheld + text
        found = [(place + len(stop), -len(stop), stop) for stop in self._stops if (place := pending.find(stop)) >= 0]
        if found:
            end, _, self.stop = min(found)
            self._withheld = ""
            return pending[: end - len(self.stop)]
        keep = len(pending) - max((_overlap(pending, stop) for stop in self._stops), default=0)
        self._withheld = pending[keep:]
        return pending[:keep]

    def finish(self) -> str:
        """Return what is withheld, when no further text comes."""
        text, self._withheld = self._withheld, ""
        return text


def _overlap(text: str, stop: str) -> int:
    """Length of the longest proper beginning of `stop` that `text` ends with."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
