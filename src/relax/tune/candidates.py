"""Candidates: a kernel scheduled by a choice. Choices with the same loops are one candidate."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Iterator, Sequence

from ..ir import DiagnosticError, nameless_digest
from ..optimize.pack_constants import packed_variant
from ..runtime.records import dataclass
from ..schedules.apply import completed, schedule
from ..schedules.choice import SCHEDULE
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


class Candidates:
    """Makes candidates for a kernel; each only once."""

    def __init__(
        self, kernel: Kernel, target: Target, rules: Sequence[ScheduleRule], functions: Sequence[ScheduleFunction] = ()
    ) -> None:
        self.kernel, self.target, self.rules = kernel, target, tuple(rules)
        self._func = kernel.func.without_attr(SCHEDULE)
        self.spaces: list[DesignSpace] = []
        self.default = self._made(None)
        self._seen = {self.default.digest}
        self._choices: set[Choice] = set()
        self.failures: dict[str, str] = {}
        """Reasons by choice for which a rule raised an error."""
        self.spaces = self._spaces(functions)

    def _spaces(self, functions: Sequence[ScheduleFunction]) -> list[DesignSpace]:
        """Return the space of each rule that takes the kernel, in the order of the rules, then those of functions."""
        spaces: list[DesignSpace] = [RuleSpace(rule, self.target) for rule in self.rules if self._takes(rule)]
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
        if choice in self._choices:
            return None
        self._choices.add(choice)
        try:
            candidate = self._made(choice)
        except FAULTS as error:
            self.failures[str(choice)] = f"{type(error).__name__}: {error}"
            return None
        if candidate.digest in self._seen:
            return None
        self._seen.add(candidate.digest)
        return candidate

    def first(
        self, count: int, generator: random.Random, goes_on: Callable[[], bool], before: Sequence[Choice] = ()
    ) -> list[Candidate]:
        """Return up to `count` candidates to begin with, as long as `goes_on` returns True.

        They are the choices `before`, and then those of all spaces in turn.
        """
        waiting: list[Iterator[Choice]] = [iter(before), *(space.first(generator) for space in self.spaces)]
        found: list[Candidate] = []
        tried = 0
        while waiting and len(found) < count and tried < 8 * count:
            for choices in tuple(waiting):
                choice = next(choices, None)
                if choice is None:
                    waiting.remove(choices)
                    continue
                tried += 1
                candidate = self.make(choice) if goes_on() else None
                if candidate is not None:
                    found.append(candidate)
            if not goes_on():
                break
        return found[:count]

    def near(self, best: Sequence[Candidate], count: int, generator: random.Random) -> list[Candidate]:
        """Return up to `count` new candidates that are near those of `best`, or between two of them."""
        parents = [candidate.choice for candidate in best if candidate.choice is not None]
        found: list[Candidate] = []
        for _ in range(6 * count):
            if not parents or len(found) == count:
                break
            parent = generator.choice(parents)
            other = generator.choice(parents) if len(parents) > 1 and generator.random() < 0.4 else None
            space = next((space for space in self.spaces if space.owns(parent)), None)
            choice = None if space is None else space.near(parent, other, generator)
            candidate = None if choice is None else self.make(choice)
            if candidate is not None:
                found.append(candidate)
        return found

    def _made(self, choice: Choice | None) -> Candidate:
        func = self._func if choice is None else self._func.with_attr(SCHEDULE, choice.attribute_for(self._func))
        for space in self.spaces if choice is not None else ():
            if isinstance(space, ScheduleSpace) and choice in space.scheduled:
                loops = space.scheduled.pop(choice).with_attr(SCHEDULE, choice.attribute_for(self._func))
                variant = PackedFunction(completed(loops, self.target, self.rules), {})
                return Candidate(choice, variant, _digest(variant))
        variant = scheduled_variant(func, self.target, self.rules, self.kernel.constants)
        return Candidate(choice, variant, _digest(variant))


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
