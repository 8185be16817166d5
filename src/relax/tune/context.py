"""TVM's names of a tuning task: a function, its target, and the space of its schedules."""

from __future__ import annotations

import random
from collections.abc import Sequence

from .. import tir
from ..farm.host import resolve
from ..ir import IRModule
from ..schedules import cpu
from ..schedules.apply import schedule
from ..schedules.choice import SCHEDULE
from ..target import Target
from ..tir import PrimFunc
from .candidates import Candidates
from .design_spaces import ScheduleFunction
from .kernels import Kernel


class SpaceGenerator:
    """Space of schedules for functions; a subclass defines `apply`.

    `apply` calls primitives of a `tir.Schedule`; its ``sample_*`` instructions are the decisions that tuning varies. It
    returns False for a function that it has no schedule for.
    """

    def apply(self, sch: tir.Schedule) -> object:
        """Apply primitives to a schedule."""
        raise NotImplementedError

    def generate_design_space(self, mod: IRModule | PrimFunc, seed: int = 1) -> list[tir.Schedule]:
        """Return a schedule of a module with random decisions; none if the space is not for it."""
        sch = tir.Schedule(mod, seed=seed)
        return [] if self.apply(sch) is False else [sch]


class ScheduleFn(SpaceGenerator):
    """Space of schedules that a function makes: ``ScheduleFn(lambda sch: …)``."""

    def __init__(self, sch_fn: ScheduleFunction) -> None:
        self.sch_fn = sch_fn

    def apply(self, sch: tir.Schedule) -> object:
        """Call the function with a schedule."""
        return self.sch_fn(sch)


class TuneContext:
    """A function to be tuned for a target, by the rules' spaces and by `space_generator`.

    Raises ValueError for a module with other than one PrimFunc, and for a constant at a position without a parameter.
    """

    def __init__(
        self,
        mod: IRModule | PrimFunc,
        *,
        target: str | Target | None = None,
        space_generator: SpaceGenerator | ScheduleFunction | None = None,
        task_name: str = "main",
        rand_state: int = 0,
        constants: Sequence[int] = (),
    ) -> None:
        funcs = [mod] if isinstance(mod, PrimFunc) else [f for f in mod.functions.values() if isinstance(f, PrimFunc)]
        if len(funcs) != 1:
            raise ValueError(f"a TuneContext has one PrimFunc, the module has {len(funcs)}")
        self.mod = IRModule({task_name: funcs[0]})
        self.func, self.task_name, self.rand_state = funcs[0], task_name, rand_state
        self.target = resolve(target)
        self._kernel = Kernel(task_name, self.func, tuple(constants))
        generator = space_generator
        self.space_generator = (
            generator if generator is None or isinstance(generator, SpaceGenerator) else ScheduleFn(generator)
        )

    def generate_design_space(self, count: int = 16) -> list[PrimFunc]:
        """Return up to `count` different scheduled functions, the default one first."""
        functions: list[ScheduleFunction] = [] if self.space_generator is None else [self.space_generator.apply]
        candidates = Candidates(self._kernel, self.target, cpu.rules_for(self.target), functions)
        several = candidates.first(count - 1, random.Random(self.rand_state), lambda: True)
        return [candidates.default.variant.func, *(candidate.variant.func for candidate in several)]

    def scheduled(self, rule: str, **parameters: object) -> PrimFunc:
        """Return the function scheduled by a rule at parameters of its space; fields not given have their default.

        Raises DiagnosticError (E4110) for a name or parameters that the target's rules lack.
        """
        choice = {"rule": rule, "parameters": parameters}
        return schedule(self.func.with_attr(SCHEDULE, choice), self.target, cpu.rules_for(self.target))
