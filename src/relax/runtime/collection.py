"""Garbage collection while a program is read, built or loaded.

A build makes millions of nodes, nearly all of which live as long as the build or are freed by their last user. Python's
collector of cycles looks at every object that survives some hundred others, which takes a fifth of a build, and half of
the loading of thousands of functions; while a program is read, built or loaded it runs less often.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from .forks import hold_at_fork

_OBJECTS: Final = 300_000
"""Threshold of the garbage collector's first generation; Python's default is 700."""

_lock: Final = threading.Lock()
_users = 0
_before: tuple[int, int, int] = gc.get_threshold()


@contextmanager
def rarely_collected() -> Generator[None]:
    """Inside the ``with``, cycles of objects are collected less often, unless the program chose so itself.

    The setting is that of the process: the last of several users at once restores it.
    """
    global _users, _before
    with _lock:
        if _users == 0:
            _before = gc.get_threshold()
            if 0 < _before[0] < _OBJECTS:
                gc.set_threshold(_OBJECTS, *_before[1:])
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0 and gc.get_threshold() == (_OBJECTS, *_before[1:]):
                gc.set_threshold(*_before)


hold_at_fork(_lock)
