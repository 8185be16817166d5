"""Compiling many texts on all processors, with helper processes that run `worker`.

A helper is started by the interpreter's path, not by `multiprocessing`: it needs nothing of the program that runs (its
``__main__``, its locks), so it works in notebooks, under ``python -c`` and in daemonic processes. This process compiles
too, from the first moment on. A helper that does not start, or dies, is missed by nobody: its text is compiled here.
Objects do not depend on who compiled them.

    RELAX_JOBS     how many processes compile at once, this one included (default: one per processor)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from . import worker
from .host import host_cores
from .worker import Machine, receive, send

TEXTS_PER_HELPER: Final = 8
"""The number of texts that pays for the start of a helper: LLVM takes tens of milliseconds for each."""

PATIENCE: Final = 60.0
"""Seconds to wait for the last text of a helper; then it is ended, and the text compiled here."""

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
    limit = job_limit() if jobs is None else max(1, jobs)
    limit = limit if _is_interpreter(sys.executable or "") else 1
    shared = _Shared((), machine, complete=False)
    started: list[_Helper] = []
    try:
        for text in texts:
            shared.add(text)
            if len(started) < min(limit - 1, len(shared.texts) // TEXTS_PER_HELPER):
                started.append(_Helper(shared))
        shared.complete()
        for index in shared:
            shared.objects[index] = worker.emit_object(shared.texts[index], machine)
    except BaseException:
        for helper in started:
            helper.kill()
        raise
    finally:
        for helper in started:
            helper.finish()
    return [
        data or worker.emit_object(text, machine)
        for text, data in zip(shared.texts, shared.objects, strict=True)
    ]


def _is_interpreter(path: str) -> bool:
    """True for the path of a Python; in a program that embeds Python, it may be the program's own."""
    return Path(path).name.lower().startswith(("python", "pypy")) and not hasattr(sys, "frozen")


class _Shared:
    """Texts, of which each is given out once, in order; and the objects made of them so far."""

    def __init__(self, texts: Sequence[str], machine: Machine, complete: bool = True) -> None:
        self.texts = list(texts)
        self.machine = machine
        self.objects = [b""] * len(texts)
        self._next = 0
        self._end: int | None = len(texts) if complete else None
        """The number of texts to give out; None while more may come."""
        self._changed = threading.Condition()

    def add(self, text: str) -> None:
        """Add a text."""
        with self._changed:
            self.texts.append(text)
            self.objects.append(b"")
            self._changed.notify()

    def complete(self) -> None:
        """Say that no more texts come."""
        with self._changed:
            self._end = len(self.texts)
            self._changed.notify_all()

    def __iter__(self) -> _Shared:
        return self

    def __next__(self) -> int:
        """The number of a text that nobody has begun with; waits for one while more may come."""
        with self._changed:
            self._changed.wait_for(lambda: self._end is not None or self._next < len(self.texts))
            if self._next >= (len(self.texts) if self._end is None else self._end):
                raise StopIteration
            self._next += 1
            return self._next - 1

    def close(self) -> None:
        """Give out no more texts."""
        with self._changed:
            self._end = 0
            self._changed.notify_all()


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
            send(process.stdin, json.dumps(self._shared.machine).encode())
            if receive(process.stdout) != worker.READY:
                return
            with self._busy:
                for index in self._shared:
                    send(process.stdin, self._shared.texts[index].encode())
                    self._shared.objects[index] = receive(process.stdout)
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
