"""Compile kernels of the library beforehand, so that programs find them in the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ..codegen.build import statistics
from ..farm.host import resolve
from ..ir import IRModule
from ..library import common_calls, module_of
from ..target import Target
from .lowering import built_now

TOGETHER: Final = 64
"""Calls whose kernels are compiled together, by several processes."""


class Warmed(NamedTuple):
    """Progress of `warm`."""

    calls: int
    all_calls: int
    compiled: int
    """Kernels of the last part that were not in the cache."""


def warm(target: str | Target | None = None, calls: Sequence[str] | None = None) -> Iterator[Warmed]:
    """Compile the kernels of calls, by default of those that many programs have (`library.common`), for this machine.

    Yields after each part of the calls. A kernel that the cache has is not compiled again.
    """
    lines = list(common_calls() if calls is None else calls)
    for start in range(0, len(lines), TOGETHER):
        part = lines[start : start + TOGETHER]
        yield Warmed(start + len(part), len(lines), warm_for(module_of(part), target))


def warm_for(module: IRModule, target: str | Target | None = None) -> int:
    """Compile the kernels that a program of tier "now" calls; return how many were not in the cache."""
    before = statistics.llvm_runs
    built_now(module, resolve(target))
    return statistics.llvm_runs - before
