"""Measuring: benchmark results, and where the time of a run went."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class BenchmarkResult:
    """Seconds per run, one figure for each repeat."""

    results: Sequence[float]

    @property
    def mean(self) -> float:
        """The arithmetic mean."""
        return float(np.mean(self.results))

    @property
    def median(self) -> float:
        """The middle one."""
        return float(np.median(self.results))

    @property
    def min(self) -> float:
        """The fastest."""
        return min(self.results)

    @property
    def max(self) -> float:
        """The slowest."""
        return max(self.results)

    @property
    def std(self) -> float:
        """The standard deviation."""
        return float(np.std(self.results))

    def __str__(self) -> str:
        figures = ("mean", "median", "max", "min", "std")
        header = "".join(f"{name + ' (ms)':>14}" for name in figures)
        return f"Execution time summary:\n{header}\n" + "".join(
            f"{getattr(self, name) * 1e3:>14.4f}" for name in figures
        )


def measure(
    run: Callable[[], object],
    number: int,
    repeat: int,
    min_repeat_ms: float = 0,
    cooldown_interval_ms: float = 0,
    repeats_to_cooldown: int = 1,
) -> BenchmarkResult:
    """Time `repeat` times `number` runs, more of them if a repeat would take less than `min_repeat_ms`."""
    if number < 1 or repeat < 1:
        raise ValueError(f"time_evaluator: number and repeat are at least 1, not {number} and {repeat}")
    run()  # not measured: first-time costs
    results: list[float] = []
    for index in range(repeat):
        while True:
            start = time.perf_counter()
            for _ in range(number):
                run()
            elapsed = time.perf_counter() - start
            if elapsed * 1e3 >= min_repeat_ms:
                break
            number = max(number + 1, int(number * min_repeat_ms / max(elapsed * 1e3, 1e-3) * 1.1))
        results.append(elapsed / number)
        if cooldown_interval_ms and (index + 1) % repeats_to_cooldown == 0:
            time.sleep(cooldown_interval_ms / 1e3)
    return BenchmarkResult(results)


@dataclass(frozen=True)
class TracedCall:
    """One call that an instruction made of a kernel, a builtin or a packed function."""

    stack: tuple[tuple[str, int], ...]
    """The Relax functions under way, outermost first, each with the number of its instruction."""
    name: str
    """The function called."""
    location: str
    """The place in the source the instruction comes from, "" if not known."""
    args: Sequence[Any]
    result: Any
    seconds: float


Tracer = Callable[[TracedCall], None]


@dataclass
class Report:
    """Time spent in each function a run called, by name: (calls, seconds)."""

    total: float = 0.0
    calls: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])

    def add(self, name: str, seconds: float) -> None:
        """Count one call."""
        count, before = self.calls.get(name, (0, 0.0))
        self.calls[name] = count + 1, before + seconds

    def table(self) -> str:
        """The functions, those that took most time first, and what the machine itself took."""
        rows = sorted(self.calls.items(), key=lambda row: -row[1][1])
        inside = sum(seconds for _, seconds in self.calls.values())
        rows.append(("(the machine itself)", (1, max(self.total - inside, 0.0))))
        width = max(len(name) for name, _ in rows)
        lines = [f"{'name':<{width}} {'calls':>8} {'total us':>12} {'share':>7}"]
        for name, (count, seconds) in rows:
            share = seconds / self.total * 100 if self.total else 0.0
            lines.append(f"{name:<{width}} {count:>8} {seconds * 1e6:>12.2f} {share:>6.1f}%")
        return "\n".join(lines) + f"\ntotal {self.total * 1e6:.2f} us\n"

    def __str__(self) -> str:
        return self.table()
