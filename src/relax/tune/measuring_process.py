"""The process that compiles and measures candidates; `measuring` starts it.

It reads pickled requests from standard input and answers on standard output, in messages of `farm.worker`:

    Setup                        →  Ready, or Failed
    Trial of one candidate       →  Times, or Failed
    …                               until the end of input

Memory is limited by the operating system, time by the process that asks. It runs on as many cores as it has threads.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import time
from collections.abc import Callable, Sequence
from typing import IO, Any, Final, cast

import numpy as np

from ..codegen import build_module
from ..farm import cache
from ..farm.worker import receive, send
from ..ir import DiagnosticError
from ..runtime.records import dataclass
from ..runtime.tensor import tensor_of_numpy
from ..schedules.rule import PackedFunction
from ..target import Machine, Target
from ..tir import PrimFunc, written_params
from .differences import difference
from .kernels import FAULTS, NotTunable, Sizes, copied, guarded, guards_hold, random_arguments

try:
    import resource
except ImportError:  # Windows
    resource = None

SAMPLE: Final = 400e-6
"""Fewest seconds of a sample: shorter calls are repeated."""
MOST_CALLS: Final = 200
"""Most calls of a sample."""
SLOW: Final = 3.0
"""Ratio from which a candidate is measured only once."""
COMPILED: Final = 24
"""Candidates that are kept compiled for another trial."""
_NAME: Final = "kernel"
SEEDS: Final = (2, 3)
"""Seeds of the arguments for which results are compared; the first one's are measured."""


@dataclass(frozen=True)
class Setup:
    """A kernel, its default schedule, and the conditions of its measurement."""

    func: PrimFunc
    default: PackedFunction
    bare_target: Target
    machine: Machine
    sizes: tuple[Sizes, ...]
    edges: tuple[Sizes, ...]
    threads: int
    memory: int
    """Bytes that the process may use beyond those of its start."""
    place: int = 0
    """Number of other measuring processes on this machine that have the cores before."""

    @property
    def target(self) -> Target:
        """The resolved target: its machine is not part of what is pickled."""
        return self.bare_target.with_machine(self.machine)


@dataclass(frozen=True)
class Trial:
    """A candidate, and the number of pairs of samples to take at each size."""

    digest: bytes
    candidate: PackedFunction
    pairs: int
    beside: tuple[Sizes, ...] = ()
    """Sizes beside those of the kernel at which its results are compared."""


@dataclass(frozen=True)
class Ready:
    """Answer to a Setup: the default schedule runs. Seconds of a call at each size."""

    seconds: tuple[float, ...]
    compared: int
    """Number of different sizes at which results are compared."""


Pairs = tuple[tuple[float, float], ...]
"""Seconds of a call of the candidate and of the default schedule, in pairs measured after each other."""


@dataclass(frozen=True)
class Times:
    """Answer to a Trial: pairs at each size, with data in the caches, and without."""

    warm: tuple[Pairs, ...]
    cold: tuple[Pairs, ...]


@dataclass(frozen=True)
class Failed:
    """Answer to a request that failed, with the reason."""

    reason: str


class _Bench:
    """The default schedule of a kernel, its arguments, and the results that candidates must reproduce."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._written = sorted(written_params(setup.func))
        self._clock = time.thread_time if setup.threads == 1 else time.perf_counter
        caches = setup.target.machine.caches
        self._evicting = np.zeros(max(2 * caches.l2, min(2 * caches.l3, 64 << 20)), np.uint8)
        self._default = self._call(setup.default)
        self._compiled: dict[bytes, Callable[..., None]] = {}
        self._checked: set[bytes] = set()
        self._cases: list[tuple[Sizes, int, list[Any]]] = []
        for sizes in (*setup.sizes, *setup.edges):
            self._cases += self._expected_at(sizes)
        if not self._written:
            raise NotTunable("it writes nothing")

    def ready(self) -> Ready:
        """Return the time of a call of the default schedule at each size."""
        seconds: list[float] = []
        for sizes in self._setup.sizes:
            run = self._bound(self._default, self._arguments(self._setup.default, sizes, SEEDS[0]))
            run()
            seconds.append(min(self._timed(run, 1) for _ in range(3)))
        return Ready(tuple(seconds), len({repr(sizes) for sizes, _, _ in self._cases}))

    def trial(self, trial: Trial) -> Times | Failed:
        """Check a candidate, and measure it in alternation with the default schedule."""
        call = self._compiled.get(trial.digest)
        if call is None:
            call = self._call(trial.candidate)
            while len(self._compiled) >= COMPILED:
                self._compiled.pop(next(iter(self._compiled)))
            self._compiled[trial.digest] = call
        if trial.digest not in self._checked:
            beside = [case for sizes in trial.beside for case in self._expected_at(sizes)]
            for sizes, seed, expected in (*self._cases, *beside):
                wrong = self._wrong(trial.candidate, call, sizes, seed, expected)
                if wrong:
                    shown = ", ".join(f"{name}={size}" for name, size in sizes.items())
                    return Failed(f"wrong result{f' for {shown}' if shown else ''}: {wrong}")
            self._checked.add(trial.digest)
        warm: list[Pairs] = []
        cold: list[Pairs] = []
        for sizes in self._setup.sizes:
            ours = self._bound(call, self._arguments(trial.candidate, sizes, SEEDS[0]))
            theirs = self._bound(self._default, self._arguments(self._setup.default, sizes, SEEDS[0]))
            warm.append(self._pairs(ours, theirs, trial.pairs))
            cold.append(self._cold_pairs(ours, theirs, max(trial.pairs // 3, 1)))
        return Times(tuple(warm), tuple(cold))

    # ---------------------------------------------------------------- runs

    def _expected_at(self, sizes: Sizes) -> list[tuple[Sizes, int, list[Any]]]:
        """Return the default schedule's results at sizes, by seeds; none where the kernel's own checks refuse them."""
        cases: list[tuple[Sizes, int, list[Any]]] = []
        for seed in SEEDS:
            try:
                expected = self._results(self._setup.default, self._default, sizes, seed)
            except (DiagnosticError, NotTunable):
                raise
            except FAULTS as error:  # the kernel's own checks
                if sizes in self._setup.sizes:
                    raise NotTunable(f"it raises {type(error).__name__} for random arguments: {error}") from None
                break
            cases.append((sizes, seed, expected))
        return cases

    def _call(self, variant: PackedFunction) -> Callable[..., None]:
        func = variant.func.without_attr("global_symbol")
        with cache.disabled():  # most candidates are not met again
            module = build_module({_NAME: func}, self._setup.target)
        return module[_NAME].packed

    def _arguments(self, variant: PackedFunction, sizes: Sizes, seed: int) -> list[Any]:
        """Return arguments of a variant: those of the kernel, with constants in the layout that the variant reads."""
        arguments = random_arguments(self._setup.func, sizes, seed)
        for position, packing in variant.packings.items():
            packed = packing(arguments[position])
            arguments[position] = guarded(packed.shape, packed.dtype)
            arguments[position][...] = packed
        return arguments

    def _results(self, variant: PackedFunction, call: Callable[..., None], sizes: Sizes, seed: int) -> list[Any]:
        """Run a variant; return its results. Raises MemoryError if it wrote outside of an array."""
        arguments = copied(self._arguments(variant, sizes, seed))
        self._bound(call, arguments)()
        for position, argument in enumerate(arguments):
            if isinstance(argument, np.ndarray) and not guards_hold(cast(Any, argument)):
                raise MemoryError(f"it writes outside of argument {position}")
        return [arguments[position] for position in self._written]

    def _wrong(
        self, variant: PackedFunction, call: Callable[..., None], sizes: Sizes, seed: int, expected: list[Any]
    ) -> str:
        results = self._results(variant, call, sizes, seed)
        return next((text for pair in zip(results, expected, strict=True) if (text := difference(*pair))), "")

    @staticmethod
    def _bound(call: Callable[..., None], arguments: Sequence[Any]) -> Callable[[], object]:
        values = [tensor_of_numpy(value) if isinstance(value, np.ndarray) else value for value in arguments]
        return lambda: call(*values)

    def _timed(self, run: Callable[[], object], calls: int) -> float:
        clock = self._clock
        start = clock()
        for _ in range(calls):
            run()
        return (clock() - start) / calls

    def _pairs(self, ours: Callable[[], object], theirs: Callable[[], object], count: int) -> Pairs:
        """Return pairs of samples with data in the caches; the order within a pair alternates."""
        theirs()
        ours()
        once = max(self._timed(theirs, 1), 1e-9), max(self._timed(ours, 1), 1e-9)
        if once[1] > SLOW * once[0] and self._timed(ours, 1) > SLOW * self._timed(theirs, 1):
            return ((once[1], once[0]),)
        calls = min(max(int(SAMPLE / once[0]), 1), MOST_CALLS)
        pairs: list[tuple[float, float]] = []
        for number in range(count):
            first, second = (ours, theirs) if number % 2 else (theirs, ours)
            a, b = self._timed(first, calls), self._timed(second, calls)
            pairs.append((a, b) if number % 2 else (b, a))
        return tuple(pairs)

    def _cold_pairs(self, ours: Callable[[], object], theirs: Callable[[], object], count: int) -> Pairs:
        """Return pairs of single calls, each after other data filled the caches."""
        pairs: list[tuple[float, float]] = []
        for number in range(count):
            times: list[float] = []
            for run in (ours, theirs) if number % 2 else (theirs, ours):
                self._evicting += 1
                times.append(self._timed(run, 1))
            pairs.append((times[0], times[1]) if number % 2 else (times[1], times[0]))
        return tuple(pairs)


def main() -> int:
    """Answer requests until the input ends."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a kernel prints is no answer
    try:
        setup = pickle.loads(receive(requests))
        _limit(setup)
        bench = _first(setup, answers)
        while bench is not None:
            trial = pickle.loads(receive(requests))
            _answer(answers, lambda trial=trial: bench.trial(trial))
    except EOFError:
        pass
    return 0


def _first(setup: Setup, answers: IO[bytes]) -> _Bench | None:
    benches: list[_Bench] = []

    def begin() -> Ready:
        benches.append(_Bench(setup))
        return benches[0].ready()

    return benches[0] if _answer(answers, begin) else None


def _answer(answers: IO[bytes], work: Callable[[], object]) -> bool:
    """Send what `work` returns, or why it failed; return True if it did not."""
    try:
        result = work()
    except NotTunable as error:
        result = Failed(str(error))
    except FAULTS as error:
        text = str(error).strip().splitlines()
        result = Failed(f"{type(error).__name__}: {text[0] if text else ''}")
    stream = io.BytesIO()
    pickle.dump(result, stream)
    send(answers, stream.getvalue())
    return not isinstance(result, Failed)


def _limit(setup: Setup) -> None:
    """Limit memory, and run on the last cores that this process may use, or those before them at another place."""
    if resource is None:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if os.path.exists("/proc/self/statm"):
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[0])
        limit = pages * resource.getpagesize() + setup.memory
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        end = len(cores) - setup.place % max(len(cores) // setup.threads, 1) * setup.threads
        os.sched_setaffinity(0, cores[max(end - setup.threads, 0) : end])
