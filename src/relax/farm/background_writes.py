"""Background writes to the cache: large files are written while the built program is already in use.

The interpreter waits for pending writes at exit. A forked child leaves them to its parent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Final

from ..runtime.forks import hold_at_fork
from . import cache

_lock: Final = threading.Lock()
_pending: Final[dict[cache.Key, threading.Thread]] = {}
"""Writing threads, by cache key."""


def do_later(key: cache.Key, work: Callable[[], None]) -> None:
    """Run `work` for a key in a thread; in this thread if none can be started."""
    wait_for(key)
    context = copy_context()

    def run() -> None:
        try:
            context.run(work)
        except (OSError, ValueError, RuntimeError, MemoryError) as problem:
            cache.say("%s is not kept: %s", key.name, problem)
        finally:
            with _lock:
                _pending.pop(key, None)

    thread = threading.Thread(target=run, name="relax-cache")
    with _lock:
        _pending[key] = thread
    try:
        thread.start()
    except RuntimeError:  # no more threads, or the interpreter ends
        run()


def wait_for(key: cache.Key) -> None:
    """Wait for the pending work of a key."""
    with _lock:
        thread = _pending.get(key)
    if thread is not None and thread.is_alive():
        thread.join()


def wait_for_all() -> None:
    """Wait for all pending work."""
    with _lock:
        keys = list(_pending)
    for key in keys:
        wait_for(key)


hold_at_fork(_lock)
