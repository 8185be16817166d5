"""Spaces of schedules for one kernel: points are choices, a rule and its parameters (`schedules.choice`).

    RuleSpace         the points of a schedule rule's `space(target)`
    ScheduleSpace     the decisions of `sample_*` instructions in a function of a `tir.Schedule`

A space proposes choices to begin with, and choices near one or between two that proved fast.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, cast

from .. import tir
from ..ir import DiagnosticError
from ..runtime.records import dataclass
from ..schedules.choice import TRACED, keeps_results, name_of
from ..schedules.rule import ScheduleRule
from ..schedules.variants import VARIANTS, attribute_of, ranges_of
from ..target import Target
from ..tir import PrimFunc

FAILURES: Final = 24
"""Random decisions that do not fit together, after which no more are drawn."""

ScheduleFunction: TypeAlias = "Callable[[tir.Schedule], object]"
"""Applies primitives to a schedule; its result is ignored, except False: the space has no point for the function."""


@dataclass(frozen=True)
class Choice:
    """A rule and its parameters, as the attribute ``relax.schedule`` holds them."""

    rule: str
    parameters: str = "{}"
    """JSON of the fields that differ from the default."""

    @property
    def values(self) -> dict[str, Any]:
        """Parameters by name."""
        return json.loads(self.parameters)

    @property
    def attribute(self) -> dict[str, Any]:
        """Value of the attribute; for variants `attribute_for` returns it."""
        return {"rule": self.rule, "parameters": self.values}

    def attribute_for(self, func: PrimFunc) -> Any:
        """Return the value of the attribute for a function.

        Raises ValueError if variants do not fit the function's sizes.
        """
        return attribute_of(self.rule, self.values, func)

    def __str__(self) -> str:
        if self.rule == VARIANTS:
            with contextlib.suppress(ValueError):  # of a record that somebody else wrote
                return "; ".join(f"{sizes}: {self._part(entry)}" for sizes, entry in ranges_of(self.values))
        if self.rule == TRACED:
            return f"{TRACED}({decisions_of(self.values['trace'])})"
        return f"{self.rule}({', '.join(f'{name}={value}' for name, value in self.values.items())})"

    @staticmethod
    def _part(entry: Mapping[str, Any]) -> str:
        if not entry:
            return "the default"
        return str(Choice(entry["rule"], json.dumps(entry.get("parameters", {}), sort_keys=True)))


class DesignSpace(Protocol):
    """Choices for one kernel."""

    def first(self, generator: random.Random) -> Iterator[Choice]:
        """Yield choices to begin with, the most common first; it may end."""
        ...

    def near(self, choice: Choice, other: Choice | None, generator: random.Random) -> Choice | None:
        """Return a choice that differs in little from one of this space, or mixes two of them; None without any."""
        ...

    def owns(self, choice: Choice) -> bool:
        """True for a choice of this space."""
        ...


class RuleSpace:
    """Points of a rule's space for a resolved target."""

    def __init__(self, rule: ScheduleRule, target: Target) -> None:
        self.name, self._space = name_of(rule), rule.space(target)

    def owns(self, choice: Choice) -> bool:
        """True for a choice of this rule."""
        return choice.rule == self.name

    def first(self, generator: random.Random) -> Iterator[Choice]:
        """Yield the default, the points that differ from it in one field, and then random ones."""
        fields = self._space.fields
        yield Choice(self.name)
        for number in range(1, max(map(len, fields.values()), default=0)):
            for name, values in fields.items():
                if number < len(values):
                    yield from self._choice({name: values[number]})
        yield from self._pairs(fields)
        count = math.prod(map(len, fields.values()))
        for _ in range(4 * min(count, 4096) if len(fields) > 1 else 0):
            yield from self._choice({name: generator.choice(list(values)) for name, values in fields.items()})

    def _pairs(self, fields: Mapping[str, Sequence[Any]]) -> Iterator[Choice]:
        """Yield points of fields that allow no change alone: those valid only with another field changed."""
        for name, values in fields.items():
            for value in values[1:]:
                if next(self._choice({name: value}), None) is None:
                    for other, others in fields.items():
                        for second in others[1:] if other != name else ():
                            yield from self._choice({name: value, other: second})

    def near(self, choice: Choice, other: Choice | None, generator: random.Random) -> Choice | None:
        """Change one or two fields, or take each field from one of two choices."""
        fields, values = self._space.fields, dict(choice.values)
        if other is not None and self.owns(other):
            values = {
                name: source[name]
                for name in fields
                if name in (source := generator.choice((choice.values, other.values)))
            }
        several = [name for name, choices in fields.items() if len(choices) > 1]
        if not several:
            return None
        for name in generator.sample(several, min(len(several), generator.choice((1, 1, 2)))):
            values[name] = generator.choice(list(fields[name]))
        return next(self._choice(values), None)

    def _choice(self, values: Mapping[str, Any]) -> Iterator[Choice]:
        """Yield the choice of these values if they are a valid point."""
        try:
            point = self._space.point(values)
        except ValueError:
            return
        yield Choice(self.name, json.dumps(self._space.values_of(point), sort_keys=True))


class ScheduleSpace:
    """Decisions of the sampling instructions that a function applies to a schedule of the kernel.

    A function that applies primitives ``unsafe_…`` has no choices: no build would replay them.
    """

    def __init__(self, func: PrimFunc, function: ScheduleFunction, count: int = 256) -> None:
        self._func, self._function, self._count = func, function, count
        self.scheduled: dict[Choice, PrimFunc] = {}
        """Functions of the choices that were proposed."""

    def owns(self, choice: Choice) -> bool:
        """True for a choice that replays a trace."""
        return choice.rule == TRACED

    def first(self, generator: random.Random) -> Iterator[Choice]:
        """Yield choices of random decisions."""
        failures = 0
        for _ in range(self._count):
            sch = tir.Schedule(self._func, seed=generator.randrange(1, 1 << 31), error_render_level="none")
            try:
                if self._function(sch) is False or not keeps_results(sch.trace):
                    return
            except DiagnosticError:  # these decisions do not fit together
                failures += 1
                if failures == FAILURES:
                    return
                continue
            yield self._noted(sch)

    def near(self, choice: Choice, other: Choice | None, generator: random.Random) -> Choice | None:
        """Draw one or two decisions again."""
        del other
        sch = tir.Schedule(self._func, seed=1, error_render_level="none")
        try:
            tir.schedule.Trace.apply_json_to_schedule(json.loads(choice.values["trace"]), sch)
            trace = sch.trace
            sampled = [inst for inst in trace.insts if inst.kind.samples]
            if not sampled:
                return None
            again = set(generator.sample(range(len(sampled)), min(len(sampled), generator.choice((1, 1, 2)))))
            chosen = {id(inst) for number, inst in enumerate(sampled) if number in again}
            new = tir.Schedule(self._func, seed=generator.randrange(1, 1 << 31), error_render_level="none")
            trace.apply_to_schedule(
                new, decision_provider=lambda inst, _inputs, _attrs, old: None if id(inst) in chosen else old
            )
        except DiagnosticError:
            return None
        return self._noted(new)

    def _noted(self, sch: tir.Schedule) -> Choice:
        choice = Choice(TRACED, json.dumps({"trace": json.dumps(sch.trace.as_json())}))
        self.scheduled[choice] = next(f for f in sch.mod.functions.values() if isinstance(f, PrimFunc))
        return choice


def decisions_of(trace: object) -> str:
    """Return the decisions of a trace's sampling instructions as text, in order; "?" for text that is no trace."""
    try:
        values: Any = json.loads(cast(str, trace))
        return ", ".join(json.dumps(decision) for _, decision in values[1])
    except (ValueError, TypeError, LookupError, RecursionError):  # a record that was edited by hand
        return "?"
