"""Benchmark results and profiles."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from .records import dataclass


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
        """The median."""
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
    """Time `repeat` times `number` runs, more of them if a repeat would take less than `min_repeat_ms`.

    Raises ValueError if one of the two is less than 1.
    """
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
class ReportRow:
    """The calls of a kernel or function at one place of a program."""

    name: str
    """The function called."""
    variable: str = ""
    """The variable of the program that it computes; "" for builtins and where none is known."""
    location: str = ""
    """The place in the source, as file:line:column; "" if it is not known."""
    shapes: str = ""
    """The shapes of the first call's tensors: ``(2, 4) (4, 8) -> (2, 8)``."""
    calls: int = 0
    seconds: float = 0.0
    flops: int | None = None
    """Arithmetic operations of all calls, as `tir.analysis.estimate_tir_flops` counts them; None if not known."""
    nbytes: int = 0
    """Bytes of the tensors of all calls, each of a call once."""

    def add(self, seconds: float, flops: int | None, nbytes: int) -> None:
        """Count one call."""
        unknown = flops is None or (self.calls > 0 and self.flops is None)
        self.flops = None if unknown else (self.flops or 0) + (flops or 0)
        self.calls += 1
        self.seconds += seconds
        self.nbytes += nbytes


_HEADER = ("name", "variable", "calls", "total us", "share", "FLOPs", "GFLOP/s", "bytes", "GB/s", "shapes", "place")
_LEFT = ("name", "variable", "shapes", "place")


@dataclass
class Report:
    """The time of a run, row by row."""

    total: float = 0.0
    rows: list[ReportRow] = field(default_factory=list[ReportRow])
    """The calls by their places in the order of the first run of each; those of a builtin are one row."""

    @property
    def calls(self) -> dict[str, tuple[int, float]]:
        """Calls and seconds of each function, by name."""
        result: dict[str, tuple[int, float]] = {}
        for row in self.rows:
            count, before = result.get(row.name, (0, 0.0))
            result[row.name] = count + row.calls, before + row.seconds
        return result

    def share(self, row: ReportRow) -> float:
        """The part of the whole time that a row took, from 0 to 1."""
        return row.seconds / self.total if self.total else 0.0

    def table(self) -> str:
        """Format the rows by decreasing time, and the VM's own overhead."""
        inside = sum(row.seconds for row in self.rows)
        own = ReportRow("(the machine itself)", calls=1, seconds=max(self.total - inside, 0.0))
        rows = [*sorted(self.rows, key=lambda row: -row.seconds), own]
        cells = [_HEADER, *(self._cells(row) for row in rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            " ".join(
                cell.ljust(width) if title in _LEFT else cell.rjust(width)
                for cell, width, title in zip(line, widths, _HEADER, strict=True)
            ).rstrip()
            for line in cells
        ]
        return "\n".join(lines) + f"\ntotal {self.total * 1e6:.2f} us\n"

    def _cells(self, row: ReportRow) -> tuple[str, ...]:
        return (
            row.name,
            row.variable,
            str(row.calls),
            f"{row.seconds * 1e6:.2f}",
            f"{self.share(row):.1%}",
            "" if row.flops is None else str(row.flops),
            _rate(row.flops or 0, row.seconds),
            str(row.nbytes) if row.nbytes else "",
            _rate(row.nbytes, row.seconds),
            row.shapes,
            row.location,
        )

    def __str__(self) -> str:
        return self.table()


def _rate(amount: int, seconds: float) -> str:
    """Billions a second; "" for none."""
    return f"{amount / seconds / 1e9:.2f}" if amount and seconds else ""
