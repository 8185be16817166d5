"""Compilation of many texts on all cores, by worker processes that run `worker`.

A worker is started by the interpreter's path, not by `multiprocessing`: it is independent of the running program (its
``__main__``, its locks), so it works in notebooks, under ``python -c`` and in daemonic processes. This process compiles
as well, from the beginning, and takes over the work of a worker that does not start, or dies. Objects do not depend on
the process that compiled them.

Worker processes can also write the texts to be compiled: such a job is an `Errand`, which this process does itself
unless a worker has begun with it.

    RELAX_JOBS     number of processes that compile, including this one (default: one per processor)
"""

from __future__ import annotations

import heapq
import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from . import worker
from .claims import Claims
from .host import host_cores
from .worker import Errands, LLVMTarget, as_errand, receive, send, setup, with_machine

TEXTS_PER_HELPER: Final = 8
"""Number of texts that justifies another worker process: LLVM takes tens of milliseconds for each."""

PATIENCE: Final = 60.0
"""Seconds to wait for a worker's last job; after that the worker is killed, and the job done in this process."""

AHEAD: Final = 2
"""Number of jobs queued at a worker, so that it does not wait for this process between jobs."""

NO_ERRANDS: Final = Errands()

Aside: TypeAlias = "tuple[str, LLVMTarget]"
"""A text with its own machine, compiled in the background if there is time."""

START: Final = (
    "import sys, json, runpy; sys.path[:] = json.loads(sys.argv[1]); runpy.run_path(sys.argv[2], run_name='__main__')"
)


def job_limit() -> int:
    """Maximum number of processes that compile at the same time."""
    text = os.environ.get("RELAX_JOBS", "")
    return max(1, int(text)) if text.isascii() and text.isdigit() else host_cores()


def emit_objects(texts: Iterable[str], machine: LLVMTarget, jobs: int | None = None) -> list[bytes]:
    """Objects of all texts. Raises RuntimeError for the first text that LLVM rejects.

    Worker processes compile while this process still writes texts; afterwards it compiles the remaining ones.
    """
    with Compilers(machine, jobs) as compilers:
        return compilers.emit(texts)


class Errand:
    """A job other than compiling that a worker process may do in place of this process."""

    def __init__(self, order: Callable[[], bytes]) -> None:
        self.order = order
        """The order for a helper, made when one begins; empty if helpers cannot do this work."""
        self.answer: bytes | None = None
        """A helper's answer, empty if it could not do the work; None as long as there is none."""


class Compilers:
    """Context manager of the processes that compile the texts of one build; at its end all have stopped.

    `expect` starts worker processes before the first text exists. Given a module for errands, they do those first.
    """

    def __init__(self, machine: LLVMTarget, jobs: int | None = None, errands: Errands = NO_ERRANDS) -> None:
        limit = job_limit() if jobs is None else max(1, jobs)
        self._limit = limit if _is_interpreter(sys.executable or "") else 1
        self._shared = _Shared((), machine, complete=False)
        self._errands = errands
        self._started: list[_Helper] = []
        self.claims: Final = Claims()
        """Claims on what is compiled, released at the end."""

    def __enter__(self) -> Compilers:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is not None:
            for helper in self._started:
                helper.kill()
        self._finish()
        self.claims.release_all()

    def _finish(self) -> None:
        for helper in self._started:
            helper.finish()
        self._started.clear()

    def helpers(self, count: int) -> int:
        """Number of worker processes for `count` texts."""
        return min(self._limit - 1, count // TEXTS_PER_HELPER)

    def expect(self, count: int, aside: Sequence[Aside] = ()) -> None:
        """Start worker processes for `count` texts; they compile the texts in `aside` as well."""
        self._shared.add_aside(aside)
        while len(self._started) < self.helpers(count):
            self._started.append(_Helper(self._shared, self._errands))

    def offer(self, errand: Errand) -> None:
        """Offer an errand; a worker process does it unless it is taken back first."""
        self._shared.offer(errand)

    def take_back(self, errand: Errand) -> bool:
        """Withdraw an errand. Return False if a worker has begun with it."""
        return self._shared.take_back(errand)

    def answer(self, errand: Errand) -> bytes:
        """Answer of the worker that has begun with an errand; empty if it failed.

        Compiles texts while waiting.
        """
        while (index := self._shared.text_before(errand)) is not None:
            self._compile(index)
        return errand.answer or b""

    def emit(self, texts: Iterable[str], finished: Callable[[int, bytes], None] | None = None) -> list[bytes]:
        """Objects of all texts; may be called once. Raises RuntimeError as `emit_objects` does.

        `finished` is called with the index and the object of each text as soon as there is one, from several threads.
        """
        shared = self._shared
        shared.finished = finished
        for text in texts:
            shared.add(text)
            self.expect(len(shared.texts))
        shared.complete()
        for index in shared:
            self._compile(index)
        self._finish()
        for index, data in enumerate(shared.objects):
            if not data:
                self._compile(index)
        return shared.objects

    def _compile(self, index: int) -> None:
        shared = self._shared
        shared.finish(index, worker.emit_object(shared.texts[index], shared.machine))

    @property
    def done_aside(self) -> dict[Aside, bytes]:
        """Objects that worker processes compiled in the background."""
        return self._shared.done_aside


def _is_interpreter(path: str) -> bool:
    """True for the path of a Python interpreter; in a program that embeds Python, it may be the program's path."""
    return Path(path).name.lower().startswith(("python", "pypy")) and not hasattr(sys, "frozen")


class _Work(NamedTuple):
    """A job for a worker process."""

    order: Callable[[], bytes]
    """Creates the request; empty if the job cannot be done there."""
    done: Callable[[bytes], None]
    """Receives the answer; empty if the worker could not do the job."""


class _Shared:
    """Queue of the texts, longest first, and the objects compiled so far.

    Worker processes get errands before texts, in the order in which they were offered.
    """

    def __init__(self, texts: Sequence[str], machine: LLVMTarget, complete: bool = True) -> None:
        self.texts = list(texts)
        self.machine = machine
        self.objects = [b""] * len(texts)
        self.finished: Callable[[int, bytes], None] | None = None
        """Called with the index and the object of each text that was compiled."""
        self.aside: list[Aside] = []
        """Texts that only helpers compile: what is not done in the end may not be needed."""
        self.done_aside: dict[Aside, bytes] = {}
        self._known_aside: set[Aside] = set()
        self._errands: deque[Errand] = deque()
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

    def add_aside(self, aside: Sequence[Aside]) -> None:
        """Add texts to be compiled in the background; duplicates are dropped."""
        with self._changed:
            new = [job for job in aside if job not in self._known_aside]
            self._known_aside.update(new)
            self.aside += new
            self._changed.notify_all()

    def offer(self, errand: Errand) -> None:
        """Add an errand."""
        with self._changed:
            self._errands.append(errand)
            self._changed.notify_all()

    def take_back(self, errand: Errand) -> bool:
        """Withdraw an errand. Return False if a worker has begun with it."""
        with self._changed:
            if errand not in self._errands:
                return False
            self._errands.remove(errand)
            return True

    def text_before(self, errand: Errand) -> int | None:
        """Index of a text to compile while waiting for an errand.

        Returns None once the errand has its answer, or if there is nothing to compile for `PATIENCE` seconds.
        """
        with self._changed:
            self._changed.wait_for(lambda: errand.answer is not None or self._waiting, PATIENCE)
            if errand.answer is None and self._waiting:
                return heapq.heappop(self._waiting)[1]
            return None

    def finish(self, index: int, data: bytes) -> None:
        """Set the object of a text."""
        self.objects[index] = data
        if self.finished is not None:
            self.finished(index, data)

    def complete(self) -> None:
        """Signal that no more texts will be added."""
        with self._changed:
            self._is_complete = True
            self._changed.notify_all()

    def __iter__(self) -> _Shared:
        return self

    def __next__(self) -> int:
        """Index of a text not yet begun; waits while more may be added."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_complete or self._waiting)
            if not self._waiting:
                raise StopIteration
            return heapq.heappop(self._waiting)[1]

    def close(self) -> None:
        """Stop handing out work."""
        with self._changed:
            self._waiting.clear()
            self.aside.clear()
            self._errands.clear()
            self._is_complete = True
            self._changed.notify_all()

    def next_work(self, does_errands: bool, wait: bool = True) -> _Work | None:
        """Next job for a worker; None if there will be no more, or, without `wait`, if there is none at present."""

        def is_decided() -> bool:
            some = self._waiting or self.aside or (does_errands and self._errands)
            return bool(some) or self._is_complete

        with self._changed:
            if wait:
                self._changed.wait_for(is_decided)
            if does_errands and self._errands:
                return self._errand(self._errands.popleft())
            if self.aside:
                return self._text_aside(self.aside.pop(0))
            return self._text(heapq.heappop(self._waiting)[1]) if self._waiting else None

    def _errand(self, errand: Errand) -> _Work:
        def order() -> bytes:
            message = errand.order()
            return as_errand(message) if message else b""

        def done(answer: bytes) -> None:
            with self._changed:
                errand.answer = answer
                self._changed.notify_all()

        return _Work(order, done)

    def _text_aside(self, aside: Aside) -> _Work:
        def done(answer: bytes) -> None:
            self.done_aside[aside] = answer

        return _Work(lambda: with_machine(*aside), done)

    def _text(self, index: int) -> _Work:
        def done(answer: bytes) -> None:
            if answer:
                self.finish(index, answer)

        return _Work(lambda: with_machine(self.texts[index], self.machine), done)


class _Helper:
    """A worker process, and the thread that feeds it."""

    def __init__(self, shared: _Shared, errands: Errands = NO_ERRANDS) -> None:
        self._shared = shared
        self._busy = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    *(["-B"] if sys.dont_write_bytecode else []),
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
        self._thread = threading.Thread(target=self._feed, args=(self._process, errands), daemon=True)
        self._thread.start()

    def _feed(self, process: subprocess.Popen[bytes], errands: Errands) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            shared = self._shared
            send(process.stdin, setup(shared.machine, errands))
            ready = receive(process.stdout)
            if ready not in (worker.READY, worker.READY_FOR_ERRANDS):
                return
            with self._busy:
                _keep_busy(process, shared, does_errands=ready == worker.READY_FOR_ERRANDS)
        except (EOFError, OSError, ValueError):
            pass  # the work it did not do is done by this process

    def finish(self) -> None:
        """Wait at most `PATIENCE` seconds for the worker's present job, and kill the worker.

        A worker that is not ready yet is killed at once.
        """
        if self._process is None:
            return
        self._shared.close()
        if self._busy.acquire(timeout=PATIENCE):
            self._busy.release()
        self._process.kill()
        self._thread.join()
        self._process.communicate()

    def kill(self) -> None:
        """Kill the worker process."""
        if self._process is not None:
            self._process.kill()


def _keep_busy(process: subprocess.Popen[bytes], shared: _Shared, does_errands: bool) -> None:
    """Feed a worker process until there is no more work. Requests without an answer are completed with an empty one."""
    assert process.stdin is not None
    assert process.stdout is not None
    told: deque[_Work] = deque()
    try:
        while True:
            work = shared.next_work(does_errands, wait=not told)
            if work is not None:
                told.append(work)
                order = work.order()
                if order:
                    send(process.stdin, order)
                else:
                    told.pop().done(b"")
            elif not told:
                return
            if len(told) == AHEAD or (work is None and told):
                answer = receive(process.stdout)
                told.popleft().done(answer)
    finally:
        for work in told:
            work.done(b"")
