"""Schedules for another description of the machine than the target's own: caches, vector registers, width of vectors.

    T.func_attr({"relax.schedule": {"rule": "Described", "parameters": {"caches": 2.0, "registers": 32}}})

Rules compute tiles and blocks from the description of the machine. Where it is wrong (a virtual machine that reports
half of its cache), or the rules draw a wrong conclusion from it, the same rules choose better loops from another one.
Only schedules depend on it: code is generated for the target itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ..runtime.records import dataclass
from ..target import Caches, Target
from .rule import ScheduleRule
from .space import Space

FACTORS: Final = (1.0, 2.0, 4.0, 0.5, 0.25)
"""Sizes of all caches in a description, over those of the target."""


@dataclass(frozen=True)
class MachineChanges:
    """Differences between a description and the target's own; None and 1 for what is equal."""

    caches: float = 1.0
    """Factor of the sizes of all caches."""
    registers: int | None = None
    """Number of vector registers."""
    vectors: int | None = None
    """Width of vectors in bits."""


class Described(ScheduleRule):
    """Names another description of the machine, by which the other rules schedule a function; takes none itself."""

    parameters = MachineChanges()

    def space(self, target: Target) -> Space[MachineChanges]:
        """Return factors of caches, and the vector registers that processors of the target's architecture have."""
        machine = target.machine
        registers = sorted({v.registers for v in machine.isa.vectors} - {machine.vector_registers}, reverse=True)
        widths = sorted({v.bits for v in machine.isa.vectors} - {machine.vector_bits}, reverse=True)
        return Space(
            MachineChanges,
            {"caches": FACTORS, "registers": (None, *registers), "vectors": (None, *widths)},
        )  # fmt: skip

    def target_for(self, target: Target) -> Target:
        """Return a resolved target with the description that the parameters name."""
        changes, machine = self.parameters, target.machine
        sizes = (machine.caches.l1, machine.caches.l2, machine.caches.l3)
        described = replace(
            machine,
            caches=Caches(*(int(size * changes.caches) for size in sizes)),
            vector_registers=changes.registers or machine.vector_registers,
            vector_bits=changes.vectors or machine.vector_bits,
        )
        return target.with_machine(described)


def description_of(target: Target, rules: Sequence[ScheduleRule]) -> tuple[Target, tuple[ScheduleRule, ...]]:
    """Return the target as a rule `Described` before all others describes it, and the rules behind it.

    Without such a rule both are returned unchanged.
    """
    if rules and isinstance(rules[0], Described):
        return rules[0].target_for(target), tuple(rules[1:])
    return target, tuple(rules)
