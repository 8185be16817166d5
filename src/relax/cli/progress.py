"""Progress on a terminal: a status line for jobs of more than a second; no output in a pipe."""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ..ir import IRModule
from ..ir.transform import PassContext, PassInfo, PassInstrument
from ..tir import PrimFunc

PATIENCE: Final = 1.0
"""Seconds before progress is shown."""


class Meter:
    """A status line with the current job and its progress, shown on a terminal after `PATIENCE` seconds."""

    def __init__(self, text: str, total: int | None, console: Console) -> None:
        bar = [BarColumn()] if total is not None else []
        columns = [SpinnerColumn(), TextColumn("{task.description}"), *bar, TimeElapsedColumn()]
        self._progress = Progress(*columns, console=console, transient=True)
        self._task = self._progress.add_task(text, total=total)
        self._timer = threading.Timer(PATIENCE, self._progress.start)
        self._timer.daemon = True
        self._active = console.is_terminal

    def describe(self, text: str) -> None:
        """Set the description of the current job."""
        self._progress.update(self._task, description=text)

    def advance(self) -> None:
        """Count one of `total` steps as done."""
        self._progress.advance(self._task)

    def __enter__(self) -> Meter:
        if self._active:
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._active:
            self._timer.cancel()
            self._timer.join()
            self._progress.stop()


@contextmanager
def progress(text: str, total: int | None = None) -> Generator[Meter]:
    """Context manager: show progress if stderr is a terminal."""
    with Meter(text, total, Console(file=sys.stderr)) as meter:
        yield meter


class _NamePasses(PassInstrument):
    needs_passes = False

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._is_last = False

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        # Kernels are lowered a few at a time, while others are compiled.
        is_lowering = self._is_last and all(isinstance(func, PrimFunc) for func in mod.functions.values())
        if not is_lowering:
            self._is_last = False
            self._meter.describe(f"compiling: {info.name}")

    def run_after_pass(self, mod: IRModule, info: PassInfo, changed: bool) -> None:
        if info.name == "to_machine":  # the last pass over a whole program
            self._is_last = True
            self._meter.describe("compiling: machine code")


class BuildProgress:
    """Context manager: show the running pass of a build."""

    def __init__(self) -> None:
        self._meter = Meter("compiling", None, Console(file=sys.stderr))
        self._context = PassContext(instruments=[_NamePasses(self._meter)])

    def __enter__(self) -> None:
        self._meter.__enter__()
        self._context.__enter__()

    def __exit__(self, *_: object) -> None:
        self._context.__exit__()
        self._meter.__exit__()
