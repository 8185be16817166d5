"""Measurement of candidates in a process of their own, in alternation with the default schedule.

    with Measurer(kernel, default, target, conditions) as measurer:
        measurer.seconds                    time of a call of the default schedule at each size
        measurer.measure(candidate, 6)      Measurement, or Failed with the reason

A candidate that crashes, hangs or takes too much memory ends the process; the next request starts another one.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import pickle
import queue
import statistics
import subprocess
import sys
import threading
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, TypeAlias

from ..farm.worker import receive, send
from ..runtime.records import dataclass
from ..schedules.rule import PackedFunction
from ..target import Target
from .kernels import FAULTS, Array, Kernel, NotTunable, PackedElements, Sizes, digest_of, random_arguments
from .measuring_process import SEEDS, Failed, Pairs, Ready, Setup, Times, Trial

_START: Final = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from relax.tune.measuring_process import main; sys.exit(main())"
)
_FIRST: Final = 60.0
"""Seconds that the process has for its start and the default schedule, at least."""
CERTAINTY: Final = 2.5
"""Standard errors by which a gain must exceed zero."""
_TO_ERROR: Final = 1.4826 * 1.2533
"""Standard error of a median, times √n, over the median absolute deviation of normally distributed values."""


@dataclass(frozen=True)
class Conditions:
    """Conditions of measurement: limits of the process, and the threads that a kernel runs on."""

    seconds: float = 20.0
    """Seconds after which a candidate is given up, with its compilation."""
    memory: int = 4 << 30
    """Bytes that the process may use."""
    threads: int = 1
    """Threads of a kernel; with one, the processor's time is measured, which other processes do not disturb."""
    place: int = 0
    """Number of other measurements on this machine at the same time: each place has cores of its own."""

    def __post_init__(self) -> None:
        if not self.seconds > 0 or self.memory < 1 or self.threads < 1:
            raise ValueError(f"expected positive seconds, memory and threads, found {self!r}")


Request: TypeAlias = "tuple[bytes, PackedFunction, Sequence[Sizes]]"
"""Digest of a candidate, the candidate, and further sizes at which its results are compared."""


@dataclass(frozen=True)
class Measurement:
    """Times of a candidate and of the default schedule, in pairs at each size."""

    warm: tuple[Pairs, ...]
    cold: tuple[Pairs, ...]

    @property
    def gains(self) -> tuple[float, ...]:
        """Logarithm of the default's time over the candidate's at each size, weighted as in `gain`."""
        return tuple((3 * _gain(w) + _gain(c)) / 4 for w, c in zip(self.warm, self.cold, strict=True))

    @property
    def gain(self) -> float:
        """Logarithm of the default's time over the candidate's: mean over sizes, caches warm three times, cold once."""
        warm, cold = (statistics.fmean(map(_gain, several)) for several in (self.warm, self.cold))
        return (3 * warm + cold) / 4

    @property
    def noise(self) -> float:
        """Standard error of `gain`."""
        several = [_error(pairs) for pairs in self.warm]
        return math.sqrt(sum(error * error for error in several)) / len(several)

    @property
    def is_never_slower(self) -> bool:
        """True unless the candidate is slower at one of the sizes by more than the noise."""
        return all(_gain(pairs) > -max(CERTAINTY * _error(pairs), 0.02) for pairs in self.warm)

    def exceeds(self, least: float) -> bool:
        """True if the gain exceeds the noise and `least`, and the candidate is slower at no size."""
        return self.gain > max(CERTAINTY * self.noise, least) and self.is_never_slower

    @property
    def seconds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Medians for the candidate and for the default schedule, at each size, with data in the caches."""
        ours, theirs = (
            tuple(statistics.median(pair[side] for pair in pairs) for pairs in self.warm) for side in (0, 1)
        )
        return ours, theirs


def _gain(pairs: Pairs) -> float:
    return statistics.median(math.log(max(theirs, 1e-12) / max(ours, 1e-12)) for ours, theirs in pairs)


def _error(pairs: Pairs) -> float:
    """Standard error of the median of the pairs' logarithms; 1 for a single pair."""
    if len(pairs) < 2:
        return 1.0
    logs = [math.log(max(theirs, 1e-12) / max(ours, 1e-12)) for ours, theirs in pairs]
    middle = statistics.median(logs)
    deviation = statistics.median(abs(value - middle) for value in logs)
    return _TO_ERROR * deviation / math.sqrt(len(logs))


class Measurer:
    """Context manager of the process that measures the candidates of one kernel.

    Raises NotTunable if the default schedule cannot be measured with random arguments.
    """

    def __init__(self, kernel: Kernel, default: PackedFunction, target: Target, conditions: Conditions) -> None:
        self._setup = Setup(
            kernel.func, default, target, target.machine, kernel.sizes, kernel.edges(), conditions.threads,
            conditions.memory, conditions.place,
        )  # fmt: skip
        self._kernel, self._conditions = kernel, conditions
        self._process: _Process | None = None
        self.seconds: tuple[float, ...] = ()
        """Time of a call of the default schedule at each size."""
        self.lost = 0
        """Processes that candidates have ended."""

    def __enter__(self) -> Measurer:
        try:
            self.seconds = self._ready().seconds
        except BaseException:  # as an interrupt from the keyboard, which does not reach the process
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def measure(
        self, digest: bytes, candidate: PackedFunction, pairs: int, beside: Sequence[Sizes] = ()
    ) -> Measurement | Failed:
        """Measure a candidate by pairs of samples; `digest` identifies it.

        Its results are compared at the sizes `beside` as well: those where it changes its loops.
        """
        if self._process is None:
            self._ready()
        assert self._process is not None
        expected = 60 * pairs * sum(max(seconds, 1e-3) for seconds in self.seconds)
        trial = Trial(digest, portable(candidate, self._kernel, beside), pairs, tuple(beside))
        answer = self._process.asked(pickle.dumps(trial), self._conditions.seconds + expected)
        if isinstance(answer, Times):
            return Measurement(answer.warm, answer.cold)
        if isinstance(answer, Failed):
            return answer
        return self._ended(answer)

    def measure_all(self, requests: Iterable[Request], pairs: int) -> Generator[tuple[bytes, Measurement | Failed]]:
        """Measure candidates one after another; yield digests and results."""
        for digest, candidate, beside in requests:
            yield digest, self.measure(digest, candidate, pairs, beside)

    def _ready(self) -> Ready:
        self._process = _Process(self._conditions.threads)
        setup = replace(self._setup, default=portable(self._setup.default, self._kernel))
        answer = self._process.asked(pickle.dumps(setup), max(_FIRST, 3 * self._conditions.seconds))
        if isinstance(answer, Ready):
            return answer
        failure = answer if isinstance(answer, Failed) else self._ended(answer)
        self._end()
        raise NotTunable(failure.reason)

    def _ended(self, answer: object) -> Failed:
        """Return the failure of a candidate that ended its process, or did not answer in time (None)."""
        process, self._process = self._process, None
        self.lost += 1
        status = None if process is None else process.end()
        if answer is None:
            return Failed(f"it did not end within {self._conditions.seconds:g} s")
        return Failed(f"it ended its process{'' if status is None else f' with {status}'}")

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None


def portable(variant: PackedFunction, kernel: Kernel, beside: Sequence[Sizes] = ()) -> PackedFunction:
    """Return a variant that can be pickled: with the packed elements in place of packings that cannot."""
    packings = dict(variant.packings)
    for position, packing in variant.packings.items():
        try:
            pickle.dumps(packing)
        except (pickle.PicklingError, AttributeError, TypeError):
            packings[position] = PackedElements.of(packing, _constants(kernel, position, beside))
    return PackedFunction(variant.func, packings)


def _constants(kernel: Kernel, position: int, beside: Sequence[Sizes]) -> list[Array]:
    """Return the different arrays that stand for a constant in the process that measures."""
    arrays: dict[bytes, Array] = {}
    for sizes in (*kernel.sizes, *kernel.edges(), *beside):
        for seed in SEEDS:
            array = random_arguments(kernel.func, sizes, seed)[position]
            arrays[digest_of(array)] = array
    return list(arrays.values())


_ENDED: Final = object()


class _Process:
    """A process that measures, and a thread that waits for its answers."""

    def __init__(self, threads: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _START, json.dumps([*map(str, sys.path)])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt from the keyboard is this process's affair
            env={**os.environ, "RELAX_NUM_THREADS": str(threads)},
        )
        self._answers: queue.Queue[Any] = queue.Queue()
        self._has_ended = False
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        try:
            while True:
                self._answers.put(pickle.loads(receive(self._process.stdout)))
        except (*FAULTS, EOFError, pickle.UnpicklingError):  # anything, if a kernel wrote to the pipe
            self._has_ended = True
            self._answers.put(_ENDED)

    def asked(self, request: bytes, seconds: float) -> object:
        """Return the answer to a request; None if there is none in time, `_ENDED` if the process has ended."""
        assert self._process.stdin is not None
        try:
            send(self._process.stdin, request)
        except OSError:
            self._has_ended = True
            return _ENDED
        try:
            return self._answers.get(timeout=seconds)
        except queue.Empty:
            return None

    def end(self) -> int | None:
        """End the process; return its exit status if it had ended by itself."""
        status: int | None = None
        if self._has_ended:
            status = self._process.wait()
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        return status
