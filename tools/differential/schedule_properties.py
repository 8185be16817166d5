"""What must hold of every schedule: `schedules_agree(text, cases, moves)` raises Failure where it does not.

A move is accepted, or refused with a ScheduleError that leaves the program alone. After each accepted one:

well_formed   the program is well-formed, and the state knows where its blocks and loops are
computes      it gives what the unscheduled program gives, also with parallel loops run backwards, and lowered
prints        printing and parsing is the identity
replays       the trace gives the same program again: as it is, simplified, as Python text, and as JSON
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from relax import tir
from relax.ir import IRModule, assert_structural_equal
from relax.script import from_source
from relax.tir import Schedule, ScheduleError
from relax.tir.schedule import Trace
from relax.tir.schedule.state import ScheduleState

from . import harness
from .properties import Case, Failure
from .schedule_moves import MOVES, Impossible, Move, apply_move
from .tir_properties import function, interpreted

FEATURES = [f"move {name}" for name in MOVES]


def schedules_agree(
    text: str,
    cases: Sequence[Case],
    exact: bool = True,
    moves: Sequence[Move] = (),
    accepted: Counter[str] | None = None,
) -> None:
    """All of it. `accepted` counts the primitives that were not refused."""
    func = function(text)
    expected = [interpreted(func, case) for case in cases]
    sch = Schedule(func, debug_mask="all", seed=1)
    for number, move in enumerate(moves):
        try:
            done = _tried(sch, move)
            if done and not move[0].startswith("get_"):
                _check(sch, cases, expected, move[0])
        except Failure as failure:
            failure.options = {**failure.options, "moves": list(moves[: number + 1])}
            raise
        if done and accepted is not None:
            accepted[f"move {move[0]}"] += 1
    try:
        _replays(sch, func)
        _prints(sch)
    except Failure as failure:
        failure.options = {**failure.options, "moves": list(moves)}
        raise


def _tried(sch: Schedule, move: Move) -> bool:
    """True if a move was accepted. A refusal changes nothing."""
    before = sch.mod
    try:
        apply_move(sch, move)
    except Impossible:
        return False
    except ScheduleError as error:
        str(error)  # printing it must not fail
        if sch.mod is not before:
            raise Failure(f"refuses: {move[0]}", "the program was changed by a primitive that was refused") from error
        return False
    except Exception as error:
        raise Failure(f"raises: {move[0]} {type(error).__name__}", f"{error}\n{sch.trace}\n{sch.mod}") from error
    return True


def _check(sch: Schedule, cases: Sequence[Case], expected: Sequence[Any], name: str) -> None:
    main = sch.mod["main"]
    assert isinstance(main, tir.PrimFunc)
    _known(sch, name)
    lowered = tir.lower(main)
    for case, arrays in zip(cases, expected, strict=True):
        for form, func in (("", main), (" lowered", lowered)):
            found = _backwards(func, case)
            for number, (a, b) in enumerate(zip(arrays, found, strict=True)):
                if not np.array_equal(a, b):
                    shapes = [array.shape for array in case]
                    message = f"array {number} for {shapes}: expected {a.ravel()[:9]}, found {b.ravel()[:9]}\n{sch.trace}\n{sch.mod}"
                    raise Failure(f"computes{form}: {name}", message)


def _backwards(func: tir.PrimFunc, case: Case) -> list[Any]:
    """The arrays after a run in which parallel and vectorised loops go backwards; an error is a failure."""
    copies = [arg.copy() for arg in case]
    try:
        tir.interpret(func, *copies, reverse_parallel=True)
    except Exception as error:
        raise Failure(f"computes: {type(error).__name__}", f"{error}\n{func}") from error
    return copies


def _known(sch: Schedule, name: str) -> None:
    """The state has each block and loop of the program, and nothing else, at its place."""
    fresh = ScheduleState(sch.mod)
    if fresh.mod is not sch.mod:
        raise Failure(f"well_formed: {name}", f"names or variables occur twice\n{sch.mod}")
    ours, theirs = sch.state.places, fresh.places
    if ours.keys() != theirs.keys():
        raise Failure(f"well_formed: {name}", f"other blocks and loops: {ours.keys() ^ theirs.keys()}")
    for key, place in ours.items():
        other = theirs[key]
        if place.stmt is not other.stmt or place.parent != other.parent or place.function != other.function:
            raise Failure(f"well_formed: {name}", f"the place of {key} is not the one in the program")


def _prints(sch: Schedule) -> None:
    text = sch.mod.script(show_meta=True)
    try:
        with harness.quiet():
            again = from_source(text)
        assert_structural_equal(again, sch.mod)
    except Exception as error:
        raise Failure(f"prints: {type(error).__name__}", f"{error}\n{text}") from error


def _replays(sch: Schedule, func: tir.PrimFunc) -> None:
    trace = sch.trace
    names: dict[str, Any] = {}

    def by_text(other: Schedule) -> None:
        exec(str(trace), names)
        names["apply_trace"](other)

    ways = {
        "direct": trace.apply_to_schedule,
        "simplified": lambda other: trace.simplified().apply_to_schedule(other),
        "text": by_text,
        "json": lambda other: Trace.apply_json_to_schedule(json.loads(json.dumps(trace.as_json())), other),
    }
    for way, replay in ways.items():
        other = Schedule(IRModule({"main": func}), seed=2)
        try:
            replay(other)
            assert_structural_equal(other.mod, sch.mod)
        except Exception as error:
            raise Failure(f"replays: {way} {type(error).__name__}", f"{error}\n{trace}\n{sch.mod}") from error
        if way != "simplified" and str(other.trace) != str(trace):
            raise Failure(f"replays: {way} trace", f"{trace}\n{other.trace}")


def fewer_moves(text: str, cases: Sequence[Case], moves: Sequence[Move], kind: str) -> list[Move]:
    """The moves without those that the failure does not need."""
    kept = list(moves)
    for number in reversed(range(len(kept))):
        shorter = kept[:number] + kept[number + 1 :]
        try:
            schedules_agree(text, cases, moves=shorter)
        except Failure as failure:
            if failure.kind == kind:
                kept = list(failure.options["moves"])
    return kept
