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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import Final, NamedTuple

from ..runtime.records import dataclass
from ..schedules.rule import ScheduleRule
from ..target import Target
from .candidates import Candidate, Candidates
from .cluster import Cluster, ClusterMeasurer
from .design_spaces import Choice, ScheduleFunction
from .draft import Draft, draft_of
from .kernels import Kernel, NotTunable, Sizes
from .learned import Sample, corrected, sample_of
from .measuring import Conditions, Measurement, Measurer, Request
from .measuring_process import Failed
from .variants import joined_choice, sizes_around

DEFAULT: Final = "default"
"""Rule of a record that says that nothing was faster."""
FIRST: Final = 3
"""Pairs of samples of a candidate's first measurement."""
LAST: Final = 21
"""Pairs of samples on which the decision rests."""
BATCH: Final = 12
"""Candidates that are measured before the best of them are changed."""
DRAFTED: Final = 3
"""Candidates that are made for each that is measured."""
DRAFTING: Final = 0.35
"""Part of the time left in which candidates are made, each time before some of them are measured."""
LEAST_GAIN: Final = 0.02
"""Logarithm of the least gain that is taken."""
RESTS: Final = 2
"""Rounds of changes without a gain after which the search ends."""


class Step(NamedTuple):
    """One measurement of a search."""

    seconds: float
    """Time since the search began."""
    candidate: str
    """Choice that was measured, as text."""
    gain: float | None
    """Logarithm of the default's time over the candidate's; None for a candidate that failed."""
    best: float
    """Logarithm of the gain of the best candidate so far; 0 as long as the default is the best."""


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
    default: Candidate | None = None
    """The default schedule; None for a kernel that was not tuned."""
    steps: list[Step] = field(default_factory=list[Step])
    """All measurements of candidates, in the order in which they ended."""
    samples: list[Sample] = field(default_factory=list[Sample])
    """Last measurement of each candidate at the first and the last size, for later searches to learn from."""


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
    known: frozenset[Choice] = frozenset()
    """Choices that are not measured again, unless they are in `before`."""
    cluster: Cluster | None = None
    """Workers that make and measure candidates; None: this machine does."""
    samples: tuple[Sample, ...] = ()
    """Measurements of earlier searches on this machine, by which estimates are corrected."""
    noted: Callable[[Candidate, Measurement], object] = lambda candidate, measurement: None
    """Called with each candidate that was measured for the first time."""


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
        cluster = chosen.cluster
        builder = None if cluster is None else cluster.builder(kernel, rules)
        known = chosen.known.difference(chosen.before)
        candidates = Candidates(kernel, target, rules, functions, builder, known)
        default = candidates.default.variant
        several = (
            Measurer(kernel, default, target, chosen.conditions)
            if cluster is None
            else cluster.measurer(kernel, default)
        )
        with several as measurer:
            _Search(candidates, measurer, chosen, outcome, report, start).run()
    except NotTunable as error:
        outcome.reason = str(error)
    outcome.seconds = time.monotonic() - start
    return outcome


class _Search:
    """State of one search."""

    def __init__(
        self,
        candidates: Candidates,
        measurer: Measurer | ClusterMeasurer,
        options: SearchOptions,
        outcome: Outcome,
        report: Report,
        start: float,
    ) -> None:
        self._candidates, self._measurer, self._options = candidates, measurer, options
        self._outcome, self._report = outcome, report
        self._start, self._deadline = start, start + options.seconds
        self._random = random.Random(options.seed)
        self._reserve = (0.1 if len(candidates.kernel.sizes) == 1 else 0.2) * options.seconds
        self._measured: dict[bytes, tuple[Candidate, Measurement]] = {}
        self._drafts: dict[tuple[bytes, int], Draft] = {}
        self._begun: set[bytes] = set()
        """Candidates that were measured, or are being measured."""

    def run(self) -> None:
        """Fill the outcome."""
        self._set_floor(2 * FIRST + 1)
        goes_on = self._until(DRAFTING)
        drafted = self._candidates.first(DRAFTED * BATCH, self._random, goes_on, self._options.before)
        self._halve(self._drafted(drafted)[:BATCH])
        rests = 0
        while rests < RESTS and self._has_time() and self._measured:
            before = self._best_gain()
            parents = [candidate for candidate, _ in self._ranking()[:4]]
            parents += [c for c in self._best_by_size(self._measured.values()) if c not in parents]
            goes_on = self._until(DRAFTING)
            changed = self._candidates.near(parents, DRAFTED * BATCH // 2, self._random, goes_on)
            if len(changed) < BATCH // 2:
                changed += self._candidates.first(BATCH // 2, self._random, goes_on)
            if not changed:
                break
            self._halve(self._drafted(changed)[: BATCH // 2])
            rests = 0 if self._best_gain() > before + self._outcome.floor / 2 else rests + 1
        self._decide()
        self._outcome.samples = self._samples()
        self._outcome.failures.update(self._candidates.failures)

    def _until(self, part: float) -> Callable[[], bool]:
        """Return a function that is True for this part of the time left, as long as there is time at all."""
        now = time.monotonic()
        until = now + part * (self._deadline - now)
        return lambda: self._has_time() and time.monotonic() < until

    def _has_time(self) -> bool:
        """True if trials are left, and more time than the reserve for the decision."""
        left = self._deadline - time.monotonic()
        return left > self._reserve and len(self._begun) < self._options.trials

    def _set_floor(self, pairs: int) -> None:
        """Measure the default schedule against itself: a gain must exceed what that seems to gain."""
        default = self._candidates.default
        result = self._measurer.measure(default.digest, default.variant, pairs)
        if isinstance(result, Failed):
            raise NotTunable(f"its default schedule fails: {result.reason}")
        self._outcome.itself, self._outcome.default = result, default
        self._outcome.floor = max(LEAST_GAIN, abs(result.gain), 2 * result.noise)

    def _drafted(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return candidates by estimated time, at the last and the first of the sizes in turn.

        Estimates are corrected by what was measured so far, here and in earlier searches (`learned`). Every third is
        in the given order: estimates err.
        """
        self._outcome.made += len(candidates)
        several, samples = self._candidates.kernel.sizes, self._samples()

        def ordered(number: int) -> list[Candidate]:
            drafts = [self._draft(candidate, number) for candidate in candidates]
            default = self._draft(self._candidates.default, number)
            times = corrected(drafts, default, samples, self._options.samples, self._options.seed)
            places = sorted(range(len(candidates)), key=lambda place: times[place])
            return [candidates[place] for place in places]

        last = len(several) - 1
        orders = [ordered(last), ordered(0) if last else [], list(candidates)]
        orders[1] = orders[1] or orders[0]
        result: dict[int, Candidate] = {}
        while len(result) < len(candidates):
            order = orders[len(result) % 3]
            candidate = next(c for c in order if id(c) not in result)
            result[id(candidate)] = candidate
        return list(result.values())

    def _draft(self, candidate: Candidate, number: int) -> Draft:
        """Return the draft of a candidate at the size `number`."""
        place = candidate.digest, number
        if place not in self._drafts:
            own, threads = self._candidates, self._options.conditions.threads
            sizes = own.kernel.sizes[number]
            self._drafts[place] = draft_of(candidate.variant.func, sizes, own.target, threads)
        return self._drafts[place]

    def _samples(self) -> list[Sample]:
        """Return the last measurement of each candidate at the first and the last of the sizes."""
        last = len(self._candidates.kernel.sizes) - 1
        samples = [
            sample_of(self._draft(candidate, number), self._draft(self._candidates.default, number), gains[number])
            for candidate, measurement in self._measured.values()
            for gains in [measurement.gains]
            for number in sorted({0, last})
        ]
        return [sample for sample in samples if sample is not None]

    def _halve(self, candidates: Sequence[Candidate]) -> None:
        """Measure candidates; the faster half again with twice as many pairs, until one is left.

        Those that are the best at one of several sizes stay as well.
        """
        pairs, current = FIRST, list(candidates)
        while current:
            measured = self._measure(current, pairs)
            if len(current) == 1 or pairs >= LAST:
                return
            measured.sort(key=lambda candidate: -self._measured[candidate.digest][1].gain)
            current = [c for c in measured[: (len(measured) + 1) // 2] if self._measured[c.digest][1].gain > -0.05]
            best = self._best_by_size([self._measured[c.digest] for c in measured])
            current += [candidate for candidate in best if candidate not in current]
            pairs *= 2

    def _measure(self, candidates: Sequence[Candidate], pairs: int) -> list[Candidate]:
        """Measure candidates while there is time; return those that did not fail, in their order."""
        by_digest = {candidate.digest: candidate for candidate in candidates}
        right: set[bytes] = set()
        for digest, result in self._measurer.measure_all(self._requests(candidates), pairs):
            self._note(by_digest[digest], result)
            if not isinstance(result, Failed):
                right.add(digest)
        return [candidate for candidate in candidates if candidate.digest in right]

    def _requests(self, candidates: Sequence[Candidate]) -> Iterator[Request]:
        for candidate in candidates:
            if not self._has_time():
                return
            self._begun.add(candidate.digest)
            yield candidate.digest, candidate.variant, self._beside(candidate)

    def _note(self, candidate: Candidate, result: Measurement | Failed) -> None:
        is_first = candidate.digest not in self._measured
        self._outcome.tried += is_first
        if isinstance(result, Failed):
            self._outcome.failures[str(candidate)] = result.reason
            self._measured.pop(candidate.digest, None)
        else:
            self._measured[candidate.digest] = candidate, result
            if is_first:
                self._options.noted(candidate, result)
        self._note_best()
        self._add_step(candidate, result)
        self._report(self._outcome)

    def _add_step(self, candidate: Candidate, result: Measurement | Failed) -> None:
        gain = None if isinstance(result, Failed) else result.gain
        step = Step(time.monotonic() - self._start, str(candidate), gain, max(self._best_gain(), 0.0))
        self._outcome.steps.append(step)

    def _measured_by(self, candidate: Candidate, pairs: int) -> Measurement | Failed:
        return self._measurer.measure(candidate.digest, candidate.variant, pairs, self._beside(candidate))

    def _beside(self, candidate: Candidate) -> tuple[Sizes, ...]:
        return sizes_around(self._candidates.kernel, candidate.choice)

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
        if self._measured and self._outcome.floor > 2 * LEAST_GAIN:  # a few pairs, measured beside other work
            self._set_floor(2 * LAST)
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
        if not isinstance(result, Failed):
            self._measured[candidate.digest] = candidate, result
        self._add_step(candidate, result)
        if isinstance(result, Failed):
            outcome.failures[str(candidate)] = result.reason
        elif result.exceeds(outcome.floor) and result.gain > least:
            outcome.chosen, outcome.measurement = candidate, result
            self._report(outcome)

    def _is_in_noise(self, result: Measurement | Failed) -> bool:
        """True for a gain that would be taken if it were certain: more pairs may tell."""
        floor = self._outcome.floor
        return not isinstance(result, Failed) and result.gain > floor and not result.exceeds(floor)

    def _decide_on_one(self) -> None:
        """Measure the best candidates again; take the first whose gain is certain."""
        for candidate, earlier in self._ranking()[:3]:
            if earlier.gain <= self._outcome.floor / 2:
                return
            result = self._measured_by(candidate, LAST)
            if self._is_in_noise(result) and time.monotonic() < self._deadline:
                result = self._measured_by(candidate, 4 * LAST)
            if isinstance(result, Failed):
                self._outcome.failures[str(candidate)] = result.reason
                self._measured.pop(candidate.digest, None)
                self._add_step(candidate, result)
                continue
            self._measured[candidate.digest] = candidate, result
            self._add_step(candidate, result)
            if result.exceeds(self._outcome.floor):
                self._outcome.chosen, self._outcome.measurement = candidate, result
                self._report(self._outcome)
                return
            if time.monotonic() > self._deadline:
                return
