"""Limits of time and memory for code under test, and the place of an exception in relax."""

from __future__ import annotations

import resource
import signal
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

SECONDS = 20
"""Processor time for one mutant; good models take less than half a second."""
MOST_BYTES = 2 << 30
"""Memory that a mutant may take beyond what the process has."""


class TooLongError(Exception):
    """A mutant was not done in time."""


@contextmanager
def bounded(seconds: int = SECONDS, most: int = MOST_BYTES) -> Generator[None]:
    """Raise TooLongError in code that takes more processor time, and MemoryError in code that takes more memory.

    The processor time of this process: a busy machine makes nothing too long.
    """

    def stop(*_: object) -> None:
        raise TooLongError(f"not done in {seconds} seconds of the processor")

    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    handler = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + most, limits[1]))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
        resource.setrlimit(resource.RLIMIT_AS, limits)


def place_of(error: Exception) -> str:
    """Return the innermost file and line of relax in the traceback of an error."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = (frame for frame in reversed(frames) if {"relax", "src"} <= set(Path(frame.filename).parts))
    place = next(ours, frames[-1])
    return f"{Path(place.filename).name}:{place.lineno}"
