"""Compiling many texts on all processors, with helper processes that run `worker`.

A helper is started by the interpreter's path, not by `multiprocessing`: it needs nothing of the program that runs (its
``__main__``, its locks), so it works in notebooks, under ``python -c`` and in daemonic processes. This process compiles
too, from the first moment on. A helper that does not start, or dies, is missed by nobody: its text is compiled here.
Objects do not depend on who compiled them.

    RELAX_JOBS     how many processes compile at once, this one included (default: one per processor)
"""

from __future__ import annotations

import heapq
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from . import worker
from .host import host_cores
from .worker import Machine, receive, send, with_machine

TEXTS_PER_HELPER: Final = 8
"""The number of texts that pays for the start of a helper: LLVM takes tens of milliseconds for each."""

PATIENCE: Final = 60.0
"""Seconds to wait for the last text of a helper; then it is ended, and the text compiled here."""

Aside: TypeAlias = "tuple[str, Machine]"
"""A text that is compiled for a machine of its own, if there is time."""

START: Final = (
    "import sys, json, runpy; sys.path[:] = json.loads(sys.argv[1]); "
    "runpy.run_path(sys.argv[2], run_name='__main__')"
)


def job_limit() -> int:
    """The number of processes that may compile at once."""
    text = os.environ.get("RELAX_JOBS", "")
    return max(1, int(text)) if text.isascii() and text.isdigit() else host_cores()


def emit_objects(texts: Iterable[str], machine: Machine, jobs: int | None = None) -> list[bytes]:
    """The object of every text. Raises RuntimeError for the first text that LLVM does not accept.

    Helpers compile while this process still makes the texts; it compiles what they have not begun with after that.
    """
    with Compilers(machine, jobs) as compilers:
        return compilers.emit(texts)


class Compilers:
    """The processes that compile the texts of one build: a context, at whose end none is left.

    A build that knows that texts will come has helpers started before it makes the first (`expect`).
    """

    def __init__(self, machine: Machine, jobs: int | None = None) -> None:
        limit = job_limit() if jobs is None else max(1, jobs)
        self._limit = limit if _is_interpreter(sys.executable or "") else 1
        self._shared = _Shared((), machine, complete=False)
        self._started: list[_Helper] = []

    def __enter__(self) -> Compilers:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is not None:
            for helper in self._started:
                helper.kill()
        self._finish()

    def _finish(self) -> None:
        for helper in self._started:
            helper.finish()
        self._started.clear()

    def expect(self, count: int, aside: Sequence[Aside] = ()) -> None:
        """Start the helpers for that many texts; while they have none, they compile what may be done aside."""
        self._shared.aside += aside
        while len(self._started) < min(self._limit - 1, count // TEXTS_PER_HELPER):
            self._started.append(_Helper(self._shared))

    def emit(self, texts: Iterable[str]) -> list[bytes]:
        """The object of every text, once for all the texts there are. Raises RuntimeError as `emit_objects` does."""
        shared = self._shared
        for text in texts:
            shared.add(text)
            self.expect(len(shared.texts))
        shared.complete()
        for index in shared:
            shared.objects[index] = worker.emit_object(shared.texts[index], shared.machine)
        self._finish()
        return [
            data or worker.emit_object(text, shared.machine)
            for text, data in zip(shared.texts, shared.objects, strict=True)
        ]

    @property
    def done_aside(self) -> dict[Aside, bytes]:
        """The objects that helpers made aside."""
        return self._shared.done_aside


def _is_interpreter(path: str) -> bool:
    """True for the path of a Python; in a program that embeds Python, it may be the program's own."""
    return Path(path).name.lower().startswith(("python", "pypy")) and not hasattr(sys, "frozen")


class _Shared:
    """Texts, of which each is given out once, the longest first; and the objects made of them so far."""

    def __init__(self, texts: Sequence[str], machine: Machine, complete: bool = True) -> None:
        self.texts = list(texts)
        self.machine = machine
        self.objects = [b""] * len(texts)
        self.aside: list[Aside] = []
        """Texts for helpers that have nothing else to do yet."""
        self.done_aside: dict[Aside, bytes] = {}
        self._waiting = [(-len(text), index) for index, text in enumerate(texts)]
        """A heap: the longest text first, and of several the one that came first."""
        heapq.heapify(self._waiting)
        self._is_complete = complete
        self._changed = threading.Condition()

    def add(self, text: str) -> None:
        """Add a text."""
        with self._changed:
            heapq.heappush(self._waiting, (-len(text), len(self.texts)))
            self.texts.append(text)
            self.objects.append(b"")
            self._changed.notify()

    def complete(self) -> None:
        """Say that no more texts come."""
        with self._changed:
            self._is_complete = True
            self._changed.notify_all()

    def __iter__(self) -> _Shared:
        return self

    def __next__(self) -> int:
        """The number of a text that nobody has begun with; waits for one while more may come."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_complete or self._waiting)
            if not self._waiting:
                raise StopIteration
            return heapq.heappop(self._waiting)[1]

    def close(self) -> None:
        """Give out no more texts."""
        with self._changed:
            self._waiting.clear()
            self.aside.clear()
            self._is_complete = True
            self._changed.notify_all()

    def next_aside(self) -> Aside | None:
        """The text that a helper without one may compile; None if there is none, or there are others."""
        with self._changed:
            return self.aside.pop(0) if self.aside and not self._waiting else None


def _answer(process: subprocess.Popen[bytes], text: str, machine: Machine) -> bytes:
    """The object that a helper makes of a text; nothing, if LLVM does not accept the text."""
    assert process.stdin is not None
    assert process.stdout is not None
    send(process.stdin, with_machine(text, machine))
    return receive(process.stdout)


class _Helper:
    """A helper process, and the thread that gives it texts."""

    def __init__(self, shared: _Shared) -> None:
        self._shared = shared
        self._busy = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    "-c",
                    START,
                    json.dumps([*map(str, sys.path)]),
                    worker.__file__,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # what it cannot compile, this process compiles, and says why not
                start_new_session=True,  # an interrupt from the keyboard is this process's affair
            )
        except OSError:
            return
        self._thread = threading.Thread(target=self._feed, args=(self._process,), daemon=True)
        self._thread.start()

    def _feed(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            shared = self._shared
            send(process.stdin, json.dumps(shared.machine).encode())
            if receive(process.stdout) != worker.READY:
                return
            with self._busy:
                while True:
                    while (aside := shared.next_aside()) is not None:
                        shared.done_aside[aside] = _answer(process, *aside)
                    index = next(shared, None)
                    if index is None:
                        break
                    shared.objects[index] = _answer(process, shared.texts[index], shared.machine)
        except (EOFError, OSError, ValueError):
            pass  # the texts it did not compile are compiled by this process

    def finish(self) -> None:
        """Wait for the text the helper is at, not for ever, and end it; one that is not ready yet is not waited for."""
        if self._process is None:
            return
        self._shared.close()
        if self._busy.acquire(timeout=PATIENCE):
            self._busy.release()
        self._process.kill()
        self._thread.join()
        self._process.communicate()

    def kill(self) -> None:
        """End the helper at once."""
        if self._process is not None:
            self._process.kill()
