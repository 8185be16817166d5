"""Ctrl-C while a model computes: `interrupted_later`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def interrupted_later() -> Generator[None]:
    """Context manager: an interruption by the user (SIGINT) takes effect at the end of the block.

    In a block that changes a cache, KeyboardInterrupt would leave it half changed; inside of tvm-ffi, which makes
    objects for Python, it would release them twice. Only the main thread is interrupted: in others nothing is done.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.get_ident() != threading.main_thread().ident or not callable(handler):
        yield
        return
    came: list[tuple[int, Any]] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append((number, frame))

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(*came[0])


__all__ = ["interrupted_later"]
