"""Locks, and processes that fork."""

from __future__ import annotations

import os
import threading


def hold_at_fork(lock: threading.Lock) -> None:
    """Have a fork wait for a lock, which a thread that the child does not have would hold there for ever."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


__all__ = ["hold_at_fork"]
