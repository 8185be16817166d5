"""Search for the fastest candidate of one kernel, within a time.

draft       candidates of all spaces, ordered by the estimate of `draft`
halving     a few are measured with few pairs of samples; the faster half again with twice as many, and so on
changes     candidates near the best ones, or between two of them, as long as that gains more than the noise
decision    the best one is measured again with many pairs: it is taken if its gain exceeds the noise, and that of
            the default schedule measured against itself
variants    candidates that are the best at some sizes are joined by a decision on the size, and measured as one
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Final

from ..runtime.records import dataclass
from ..schedules.rule import ScheduleRule
from ..target import Target
from .candidates import Candidate, Candidates
from .design_spaces import Choice, ScheduleFunction
from .draft import estimate
from .kernels import Kernel, NotTunable, Sizes
from .measuring import Conditions, Measurement, Measurer
from .measuring_process import Failed
from .variants import joined_choice, sizes_around

FIRST: Final = 3
"""Pairs of samples of a candidate's first measurement."""
LAST: Final = 21
"""Pairs of samples on which the decision rests."""
BATCH: Final = 12
"""Candidates that are measured before the best of them are changed."""
DRAFTED: Final = 3
"""Candidates that are made for each that is measured."""
DRAFTING: Final = 0.35
"""Part of the time left, once the default schedule is measured, in which the first candidates are made."""
LEAST_GAIN: Final = 0.02
"""Logarithm of the least gain that is taken."""
RESTS: Final = 2
"""Rounds of changes without a gain after which the search ends."""


@dataclass
class Outcome:
    """Result of a search."""

    kernel: Kernel
    chosen: Candidate | None = None
    """Candidate that is faster than the default by more than the noise; None if there is none."""
    measurement: Measurement | None = None
    """Last measurement of the best candidate."""
    itself: Measurement | None = None
    """Measurement of the default schedule against itself."""
    tried: int = 0
    """Number of measured candidates."""
    made: int = 0
    """Number of different candidates that were scheduled."""
    failures: dict[str, str] = field(default_factory=dict[str, str])
    """Reasons by candidate for which it was dropped."""
    reason: str = ""
    """Reason for which the kernel was not tuned; "" if it was."""
    seconds: float = 0.0
    """Duration of the search."""
    floor: float = LEAST_GAIN
    """Logarithm of the gain that a candidate had to exceed."""


@dataclass(frozen=True)
class SearchOptions:
    """Options of a search."""

    seconds: float = 60.0
    trials: int = 10_000
    """Most candidates to measure."""
    seed: int = 0
    conditions: Conditions = field(default_factory=Conditions)
    before: tuple[Choice, ...] = ()
    """Choices to measure first: those that were fast in an earlier search."""


Report = Callable[[Outcome], object]
"""Called after each measurement with the state of the search."""


def search(
    kernel: Kernel,
    target: Target,
    rules: Sequence[ScheduleRule],
    functions: Sequence[ScheduleFunction] = (),
    options: SearchOptions | None = None,
    report: Report = lambda outcome: None,
) -> Outcome:
    """Search the spaces of `rules` and of `functions` for a kernel's fastest schedule, for a resolved target."""
    chosen = options or SearchOptions()
    outcome = Outcome(kernel)
    start = time.monotonic()
    try:
        candidates = Candidates(kernel, target, rules, functions)
        with Measurer(kernel, candidates.default.variant, target, chosen.conditions) as measurer:
            _Search(candidates, measurer, chosen, outcome, report, start + chosen.seconds).run()
    except NotTunable as error:
        outcome.reason = str(error)
    outcome.seconds = time.monotonic() - start
    return outcome


class _Search:
    """State of one search."""

    def __init__(
        self,
        candidates: Candidates,
        measurer: Measurer,
        options: SearchOptions,
        outcome: Outcome,
        report: Report,
        deadline: float,
    ) -> None:
        self._candidates, self._measurer, self._options = candidates, measurer, options
        self._outcome, self._report, self._deadline = outcome, report, deadline
        self._random = random.Random(options.seed)
        self._reserve = (0.1 if len(candidates.kernel.sizes) == 1 else 0.2) * options.seconds
        self._measured: dict[bytes, tuple[Candidate, Measurement]] = {}

    def run(self) -> None:
        """Fill the outcome."""
        self._set_floor()
        now = time.monotonic()
        until = now + DRAFTING * (self._deadline - now)
        drafted = self._candidates.first(
            DRAFTED * BATCH, self._random, lambda: self._has_time() and time.monotonic() < until, self._options.before
        )
        self._halve(self._drafted(drafted)[:BATCH])
        rests = 0
        while rests < RESTS and self._has_time() and self._measured:
            before = self._best_gain()
            parents = [candidate for candidate, _ in self._ranking()[:4]]
            parents += [c for c in self._best_by_size(self._measured.values()) if c not in parents]
            changed = self._candidates.near(parents, DRAFTED * BATCH // 2, self._random)
            if len(changed) < BATCH // 2:
                changed += self._candidates.first(BATCH // 2, self._random, self._has_time)
            if not changed:
                break
            self._halve(self._drafted(changed)[: BATCH // 2])
            rests = 0 if self._best_gain() > before + self._outcome.floor / 2 else rests + 1
        self._decide()
        self._outcome.failures.update(self._candidates.failures)

    def _has_time(self) -> bool:
        """True if trials are left, and more time than the reserve for the decision."""
        left = self._deadline - time.monotonic()
        return left > self._reserve and self._outcome.tried < self._options.trials

    def _set_floor(self) -> None:
        """Measure the default schedule against itself: a gain must exceed what that seems to gain."""
        default = self._candidates.default
        result = self._measurer.measure(default.digest, default.variant, 2 * FIRST + 1)
        if isinstance(result, Failed):
            raise NotTunable(f"its default schedule fails: {result.reason}")
        self._outcome.itself = result
        self._outcome.floor = max(LEAST_GAIN, abs(result.gain), 2 * result.noise)

    def _drafted(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return candidates by estimated time, at the last and the first of the sizes in turn.

        Every third is in the given order: estimates err.
        """
        self._outcome.made += len(candidates)
        target, threads = self._candidates.target, self._options.conditions.threads
        several = self._candidates.kernel.sizes

        def ordered(sizes: Sizes) -> list[Candidate]:
            times = {id(c): estimate(c.variant.func, sizes, target, threads) for c in candidates}
            return sorted(candidates, key=lambda candidate: times[id(candidate)])

        orders = [ordered(several[-1]), ordered(several[0]) if len(several) > 1 else [], list(candidates)]
        orders[1] = orders[1] or orders[0]
        result: dict[int, Candidate] = {}
        while len(result) < len(candidates):
            order = orders[len(result) % 3]
            candidate = next(c for c in order if id(c) not in result)
            result[id(candidate)] = candidate
        return list(result.values())

    def _halve(self, candidates: Sequence[Candidate]) -> None:
        """Measure candidates; the faster half again with twice as many pairs, until one is left.

        Those that are the best at one of several sizes stay as well.
        """
        pairs, current = FIRST, list(candidates)
        while current:
            measured = [candidate for candidate in current if self._measure(candidate, pairs)]
            if len(current) == 1 or pairs >= LAST:
                return
            measured.sort(key=lambda candidate: -self._measured[candidate.digest][1].gain)
            current = [c for c in measured[: (len(measured) + 1) // 2] if self._measured[c.digest][1].gain > -0.05]
            best = self._best_by_size([self._measured[c.digest] for c in measured])
            current += [candidate for candidate in best if candidate not in current]
            pairs *= 2

    def _measure(self, candidate: Candidate, pairs: int) -> bool:
        if not self._has_time():
            return False
        result = self._measured_by(candidate, pairs)
        self._outcome.tried += 1 if candidate.digest not in self._measured else 0
        if isinstance(result, Failed):
            self._outcome.failures[str(candidate)] = result.reason
            self._measured.pop(candidate.digest, None)
        else:
            self._measured[candidate.digest] = candidate, result
        self._note_best()
        self._report(self._outcome)
        return not isinstance(result, Failed)

    def _measured_by(self, candidate: Candidate, pairs: int) -> Measurement | Failed:
        beside = sizes_around(self._candidates.kernel, candidate.choice)
        return self._measurer.measure(candidate.digest, candidate.variant, pairs, beside)

    def _best_by_size(self, measured: Iterable[tuple[Candidate, Measurement]]) -> list[Candidate]:
        """Return the candidates that gain most at one of several sizes; none for one size, or without a gain there."""
        pairs = list(measured)
        count = len(self._candidates.kernel.sizes)
        best: list[Candidate] = []
        for number in range(count) if count > 1 and pairs else ():
            candidate, measurement = max(pairs, key=lambda pair: pair[1].gains[number])
            if measurement.gains[number] > self._outcome.floor / 2 and candidate not in best:
                best.append(candidate)
        return best

    def _ranking(self) -> list[tuple[Candidate, Measurement]]:
        return sorted(self._measured.values(), key=lambda pair: -pair[1].gain)

    def _best_gain(self) -> float:
        return max((measurement.gain for _, measurement in self._measured.values()), default=0.0)

    def _note_best(self) -> None:
        ranking = self._ranking()
        self._outcome.measurement = ranking[0][1] if ranking else None

    def _decide(self) -> None:
        """Choose the candidate whose gain is certain, or several for ranges of a size if that is faster."""
        self._decide_on_one()
        if time.monotonic() <= self._deadline:
            self._decide_on_variants()

    def _decide_on_variants(self) -> None:
        """Measure the best candidates of ranges of a size, joined in one kernel; take it if its gain is certain."""
        outcome, own = self._outcome, self._candidates
        step = outcome.floor / 2
        joined = joined_choice(own.kernel, own.default, [*self._measured.values()], step)
        least = outcome.measurement.gain if outcome.chosen is not None and outcome.measurement is not None else step
        candidate = None if joined is None or joined.gain <= least + step else own.make(joined.choice)
        if candidate is None:
            return
        result = self._measured_by(candidate, LAST)
        outcome.tried += 1
        if isinstance(result, Failed):
            outcome.failures[str(candidate)] = result.reason
        elif result.exceeds(outcome.floor) and result.gain > least:
            outcome.chosen, outcome.measurement = candidate, result
            self._report(outcome)

    def _decide_on_one(self) -> None:
        """Measure the best candidates again; take the first whose gain is certain."""
        for candidate, earlier in self._ranking()[:3]:
            if earlier.gain <= self._outcome.floor / 2:
                return
            result = self._measured_by(candidate, LAST)
            if isinstance(result, Failed):
                self._outcome.failures[str(candidate)] = result.reason
                continue
            self._measured[candidate.digest] = candidate, result
            if result.exceeds(self._outcome.floor):
                self._outcome.chosen, self._outcome.measurement = candidate, result
                self._report(self._outcome)
                return
            if time.monotonic() > self._deadline:
                return
