"""Candidates: a kernel scheduled by a choice. Choices with the same loops are one candidate."""

from __future__ import annotations

import hashlib
import itertools
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from ..ir import DiagnosticError, nameless_digest
from ..optimize.pack_constants import packed_variant
from ..runtime.records import dataclass
from ..schedules.apply import completed, schedule
from ..schedules.choice import SCHEDULE
from ..schedules.described import Described
from ..schedules.rule import PackedFunction, Refusal, ScheduleRule
from ..target import Target
from ..tir import PrimFunc
from .design_spaces import Choice, DesignSpace, RuleSpace, ScheduleFunction, ScheduleSpace
from .kernels import FAULTS, Kernel


@dataclass(frozen=True)
class Candidate:
    """A kernel scheduled by a choice."""

    choice: Choice | None
    """None: the default schedule."""
    variant: PackedFunction
    digest: bytes
    """Digest of the loops and of the layouts of constants."""

    def __str__(self) -> str:
        return "the default" if self.choice is None else str(self.choice)


@dataclass(frozen=True)
class Job:
    """A choice of which a candidate is to be made."""

    choice: Choice
    loops: PrimFunc | None = None
    """Loops by the decisions of a schedule, to be completed; None: a rule makes them."""


class Builder(Protocol):
    """Makes candidates, here or elsewhere."""

    @property
    def at_once(self) -> int:
        """Number of jobs to give at once."""
        ...

    def build(self, jobs: Sequence[Job]) -> Sequence[Candidate | str]:
        """Return the candidate of each job, or why there is none."""
        ...


@dataclass(frozen=True)
class LocalBuilder:
    """Makes candidates of a kernel in this process, one after another."""

    kernel: Kernel
    target: Target
    rules: tuple[ScheduleRule, ...]

    @property
    def at_once(self) -> int:
        """One, so that the time is looked at between two candidates."""
        return 1

    def build(self, jobs: Sequence[Job]) -> Sequence[Candidate | str]:
        """Return the candidate of each job, or why there is none."""
        return [built(job, self.kernel, self.target, self.rules) for job in jobs]


class Candidates:
    """Makes candidates for a kernel; each only once, and none of the choices `known`.

    `builder` makes them; by default this process does.
    """

    def __init__(
        self,
        kernel: Kernel,
        target: Target,
        rules: Sequence[ScheduleRule],
        functions: Sequence[ScheduleFunction] = (),
        builder: Builder | None = None,
        known: Iterable[Choice] = (),
    ) -> None:
        self.kernel, self.target, self.rules = kernel, target, tuple(rules)
        self._func = kernel.func.without_attr(SCHEDULE)
        self.spaces: list[DesignSpace] = []
        variant = scheduled_variant(self._func, target, self.rules, kernel.constants)
        self.default = Candidate(None, variant, _digest(variant))
        self._builder = builder or LocalBuilder(kernel, target, self.rules)
        self._seen = {self.default.digest}
        self._choices: set[Choice] = set(known)
        self.failures: dict[str, str] = {}
        """Reasons by choice for which a rule raised an error."""
        self.spaces = self._spaces(functions)

    def _spaces(self, functions: Sequence[ScheduleFunction]) -> list[DesignSpace]:
        """Return the space of each rule that takes the kernel, in their order, then descriptions and functions."""
        spaces: list[DesignSpace] = [RuleSpace(rule, self.target) for rule in self.rules if self._takes(rule)]
        if spaces:
            spaces.append(RuleSpace(Described(), self.target))
        if not self.kernel.constants:  # a trace knows nothing of packed constants
            spaces += [ScheduleSpace(self._func, function) for function in functions]
        return spaces

    def _takes(self, rule: ScheduleRule) -> bool:
        try:
            if self.kernel.constants:
                packed = rule.pack(self._func, self.target, self.kernel.constants)
                if isinstance(packed, PackedFunction):
                    return True
            result = rule.apply(self._func, self.target, False)
        except (DiagnosticError, ValueError):
            return False
        return result is not None and not isinstance(result, Refusal)

    def make(self, choice: Choice) -> Candidate | None:
        """Return the kernel scheduled by a choice; None if there is one with the same loops already, or it fails."""
        candidates = self._several(iter([choice]), 1, lambda: True)
        return candidates[0] if candidates else None

    def first(
        self, count: int, generator: random.Random, goes_on: Callable[[], bool], before: Sequence[Choice] = ()
    ) -> list[Candidate]:
        """Return up to `count` candidates to begin with, as long as `goes_on` returns True.

        They are the choices `before`, and then those of all spaces in turn.
        """
        choices = _in_turn([iter(before), *(space.first(generator) for space in self.spaces)])
        return self._several(itertools.islice(choices, 8 * count), count, goes_on)

    def near(
        self, best: Sequence[Candidate], count: int, generator: random.Random, goes_on: Callable[[], bool]
    ) -> list[Candidate]:
        """Return up to `count` new candidates that are near those of `best`, or between two of them.

        Ends early once `goes_on` returns False.
        """
        parents = [candidate.choice for candidate in best if candidate.choice is not None]

        def choices() -> Iterator[Choice]:
            for _ in range(6 * count if parents else 0):
                if not goes_on():
                    return
                parent = generator.choice(parents)
                other = generator.choice(parents) if len(parents) > 1 and generator.random() < 0.4 else None
                space = next((space for space in self.spaces if space.owns(parent)), None)
                choice = None if space is None else space.near(parent, other, generator)
                if choice is not None:
                    yield choice

        return self._several(choices(), count, goes_on)

    def _several(self, choices: Iterator[Choice], count: int, goes_on: Callable[[], bool]) -> list[Candidate]:
        """Return up to `count` candidates with loops of their own, as long as `goes_on` returns True."""
        found: list[Candidate] = []
        jobs = self._jobs(choices)
        while len(found) < count and goes_on():
            group = list(itertools.islice(jobs, min(self._builder.at_once, count - len(found))))
            if not group:
                break
            for job, candidate in zip(group, self._builder.build(group), strict=True):
                if isinstance(candidate, str):
                    self.failures[str(job.choice)] = candidate
                elif candidate.digest not in self._seen:
                    self._seen.add(candidate.digest)
                    found.append(candidate)
        return found

    def _jobs(self, choices: Iterator[Choice]) -> Iterator[Job]:
        """Yield a job for each choice that is not made yet."""
        for choice in choices:
            loops = [
                s.scheduled.pop(choice) for s in self.spaces if isinstance(s, ScheduleSpace) and choice in s.scheduled
            ]
            if choice not in self._choices:
                self._choices.add(choice)
                yield Job(choice, loops[0] if loops else None)


def _in_turn(sources: Sequence[Iterator[Choice]]) -> Iterator[Choice]:
    """Yield a choice of each source in turn, until all have ended."""
    waiting = list(sources)
    while waiting:
        for source in tuple(waiting):
            choice = next(source, None)
            if choice is None:
                waiting.remove(source)
            else:
                yield choice


def built(job: Job, kernel: Kernel, target: Target, rules: Sequence[ScheduleRule]) -> Candidate | str:
    """Return a kernel scheduled by a choice, or the reason for which a rule raises an error."""
    try:
        attribute = job.choice.attribute_for(kernel.func)
        if job.loops is not None:
            loops = job.loops.with_attr(SCHEDULE, attribute)
            variant = PackedFunction(completed(loops, target, rules), {})
        else:
            variant = scheduled_variant(kernel.func.with_attr(SCHEDULE, attribute), target, rules, kernel.constants)
        return Candidate(job.choice, variant, _digest(variant))
    except FAULTS as error:
        return f"{type(error).__name__}: {error}"


def scheduled_variant(
    func: PrimFunc, target: Target, rules: Sequence[ScheduleRule], constants: Sequence[int]
) -> PackedFunction:
    """Return a kernel as `relax.build` schedules it: for packed constants if a rule packs them."""
    packed = packed_variant(func, target, rules, constants) if constants else None
    return PackedFunction(schedule(func, target, rules), {}) if packed is None else packed


def _digest(variant: PackedFunction) -> bytes:
    loops, _ = nameless_digest(variant.func.replace(attrs={}))
    layouts = re.sub(r" at 0x[0-9a-f]+", "", repr(sorted(variant.packings.items(), key=lambda pair: pair[0])))
    return loops + hashlib.blake2b(layouts.encode(), digest_size=16).digest()
