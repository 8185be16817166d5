"""Locks, and processes that fork.

What a thread holds while another one forks, nobody gives back in the child, which has not that thread. So a fork waits
for the locks of this module, and the child finds them free, and what they protect whole.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Final


def hold_at_fork(lock: threading.Lock) -> None:
    """Make forks wait for a lock: in the child, a lock held by another thread would never be released."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


class ForkLock:
    """A lock of an object, one among many, for which a fork waits while the object lives."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        with _guard:
            _alive.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def acquire(self) -> None:
        """Take the lock."""
        self._lock.acquire()

    def release(self) -> None:
        """Give the lock back."""
        self._lock.release()


_guard: Final = threading.Lock()
"""Of the set of locks."""
_alive: Final[weakref.WeakSet[ForkLock]] = weakref.WeakSet()
_held: Final[list[ForkLock]] = []
"""The locks that a fork under way has taken, by the holder of the guard."""


def _before() -> None:
    _guard.acquire()
    _held.extend(_alive)
    for lock in _held:
        lock.acquire()


def _after() -> None:
    for lock in _held:
        lock.release()
    _held.clear()
    _guard.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
