"""Helpers of the tests of schedules: a schedule computes what the program computed, for sizes of every kind."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relax import tir
from relax.ir import IRModule, assert_structural_equal
from relax.prim import Var, evaluate
from relax.tir import PrimFunc, Schedule
from relax.tir.schedule import Trace

sys.path.insert(0, str(Path(__file__).parent))  # schedule_programs

SIZES = (0, 1, 3, 8)
"""Values that shape variables take in turn: none, one, one that divides nothing, one that many do."""


def arguments(func: PrimFunc, sizes: dict[Var, int], seed: int = 0) -> list[Any]:
    """An array of small integers for each buffer of a function, so that sums are exact in any order."""
    generator = np.random.default_rng(seed)
    result: list[Any] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            result.append(3)
            continue
        shape = [int(evaluate(size, sizes)) for size in buffer.shape]
        result.append(generator.integers(-4, 5, shape).astype(str(buffer.dtype)))
    return result


def shape_vars(func: PrimFunc) -> list[Var]:
    """The variables that stand alone as a size of a parameter."""
    sizes = (size for buffer in func.buffer_map.values() for size in buffer.shape)
    return list(dict.fromkeys(size for size in sizes if isinstance(size, Var)))


def compare(before: PrimFunc, *after: PrimFunc, sizes: Iterable[int] = SIZES) -> None:
    """Functions leave the same values in all their buffers, for every choice of sizes."""
    variables = shape_vars(before)
    choices: Iterable[Sequence[int]] = itertools.product(sizes, repeat=len(variables))
    for choice in choices:
        values = dict(zip(variables, choice, strict=True))
        expected = arguments(before, values)
        tir.interpret(before, *expected)
        for func in after:
            results = arguments(before, values)
            tir.interpret(func, *results, reverse_parallel=True)
            for x, y in zip(expected, results, strict=True):
                np.testing.assert_array_equal(x, y)


def replayed(sch: Schedule, func: PrimFunc | IRModule) -> list[Schedule]:
    """The trace of a schedule applied to the original program: as it is, simplified, as Python text, as JSON.

    Without checks after each step: the programs are compared with that of the schedule, which was checked.
    """
    direct, simplified, text, saved = (Schedule(func, debug_mask="none") for _ in range(4))
    sch.trace.apply_to_schedule(direct)
    sch.trace.simplified().apply_to_schedule(simplified)
    names: dict[str, Any] = {}
    exec(str(sch.trace), names)
    names["apply_trace"](text)
    Trace.apply_json_to_schedule(json.loads(json.dumps(sch.trace.as_json())), saved)
    return [direct, simplified, text, saved]


def replays(sch: Schedule, func: PrimFunc | IRModule) -> None:
    """Hold the trace of a schedule to what it did: each way of replaying gives an equal program and an equal trace."""
    direct, simplified, text, saved = replayed(sch, func)
    for other in (direct, simplified, text, saved):
        assert_structural_equal(other.mod, sch.mod)
    for other in (direct, text, saved):
        assert other.trace.as_json() == sch.trace.as_json()
        assert str(other.trace) == str(sch.trace)


@pytest.fixture(scope="session")
def same_values() -> Callable[..., None]:
    """``same_values(before, after, sizes=...)``: both leave the same values in all buffers."""
    return compare


@pytest.fixture(scope="session")
def check() -> Callable[..., PrimFunc]:
    """``check(func, steps, expected=None)``: the function after `steps(sch)`, held to what it must be.

    It is well-formed after each primitive, computes what it computed, survives lowering, and equals `expected` if given.
    Its trace, replayed on the original function, gives it again.
    """

    def run(
        func: PrimFunc, steps: Callable[[Schedule], Any], expected: PrimFunc | None = None, sizes: Iterable[int] = SIZES
    ) -> PrimFunc:
        sch = Schedule(func, debug_mask="all")
        steps(sch)
        after = sch.mod["main"]
        if expected is not None:
            assert_structural_equal(after, Schedule(expected).mod["main"])
        compare(func, after, tir.lower(after), sizes=sizes)
        replays(sch, func)
        return after

    return run


@pytest.fixture(scope="session")
def refuse() -> Callable[..., str]:
    """``refuse(func, steps)``: the text of the ScheduleError that the last step raises; the program is as before it."""

    def run(func: PrimFunc, *steps: Callable[[Schedule], Any]) -> str:
        sch = Schedule(func, debug_mask="all")
        for step in steps[:-1]:
            step(sch)
        before = sch.mod
        with pytest.raises(tir.ScheduleError) as raised:
            steps[-1](sch)
        assert sch.mod is before
        return str(raised.value)

    return run
