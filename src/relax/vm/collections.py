"""Python's search for unreachable cycles, postponed while a program is built.

A build makes millions of objects, and most of those that become garbage go at once, by their counts. To look for cycles
after every few hundred objects, and again and again through all of a model, takes a twentieth of its time.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

OBJECTS: Final = 50_000
"""New objects after which to look for cycles among them."""

_lock: Final = threading.Lock()
_builds: Final[list[tuple[int, int, int]]] = []
"""The thresholds before the first of the builds that run now, once for each."""


@contextmanager
def few_collections() -> Generator[None]:
    """A context in which Python looks for cycles seldom; who has switched that off, or made it rarer, has his way."""
    with _lock:
        before = _builds[0] if _builds else gc.get_threshold()
        _builds.append(before)
        if 0 < before[0] < OBJECTS:
            gc.set_threshold(OBJECTS, *before[1:])
    try:
        yield
    finally:
        with _lock:
            _builds.pop()
            if not _builds and gc.get_threshold()[0] == OBJECTS:
                gc.set_threshold(*before)


__all__ = ["OBJECTS", "few_collections"]
