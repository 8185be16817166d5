"""Random schedules of random PrimFuncs, and what holds them. `make fuzz` runs the same for longer."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from differential import schedule_properties
from differential.properties import Failure
from differential.schedule_moves import MOVES, NOT_TRIED, USED_BY_ARGUMENTS, Row, random_moves
from differential.schedule_programs import FEATURES, schedule_program
from differential.schedule_properties import fewer_moves, schedules_agree
from differential.tir_properties import function
from relax.ir import assert_structural_equal
from relax.tir import ForKind, Schedule
from relax.tir.schedule import PRIMITIVES


@pytest.mark.parametrize("first", range(0, 12, 4))
def test_random_schedules(first):
    for seed in range(first, first + 4):
        program = schedule_program(f"tests:{seed}")
        schedules_agree(program.text, program.cases, moves=random_moves(f"tests:{seed}", 8))


def test_every_construct_and_every_move_occurs():
    found: set[str] = set()
    moves: Counter[str] = Counter()
    for seed in range(300):
        found |= set(schedule_program(seed).features)
        moves.update(name for name, _ in random_moves(seed))
    assert found == set(FEATURES)
    assert set(moves) == set(MOVES)
    assert schedule_program("7").text == schedule_program("7").text
    assert random_moves("7") == random_moves("7")


def test_every_primitive_is_tried():
    assert set(MOVES) | set(USED_BY_ARGUMENTS) | set(NOT_TRIED) == set(PRIMITIVES)


def test_programs_give_defined_values():
    """What is allocated is written before it is read: no value is garbage."""
    for seed in range(24):
        program = schedule_program(seed)
        for case in program.cases:
            for array in schedule_properties.interpreted(function(program.text), case):
                assert not np.isnan(array.astype("float64")).any()
                assert (abs(array.astype("float64")) < 2**24).all()


PROGRAM = """@I.ir_module
class Module:
    @T.prim_func
    def main(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (4, 6), "int32")
        B = T.match_buffer(b, (4, 6), "int32")
        C = T.match_buffer(c, (4, 6), "int32")
        for i, j in T.grid(T.int64(4), T.int64(6)):
            with T.block("B"):
                v0 = T.axis.spatial(4, i)
                v1 = T.axis.spatial(6, j)
                B[v0, v1] = A[v0, v1] + T.int32(1)
            with T.block("C"):
                v0 = T.axis.spatial(4, i)
                v1 = T.axis.spatial(6, j)
                C[v0, v1] = B[v0, T.max(v1 - 1, 0)]
"""
CASES = [[np.arange(24, dtype="int32").reshape(4, 6), *(np.zeros((4, 6), "int32") for _ in range(2))]]


def loop(sch: Schedule, choices: object):
    return sch.get_loops(sch.get_block("C"))[1]


def unproved(sch: Schedule, loop):
    """A primitive that forgets its condition."""
    node = sch.state.loop(loop)
    sch.state.replace(node, node.replace(kind=ForKind.PARALLEL), loop.function)


def lost(sch: Schedule, loop):
    """A primitive that raises an error of its own."""
    raise IndexError("no")


def moves_of(monkeypatch, name, function):
    """A primitive with another function, as the only move."""
    monkeypatch.setitem(MOVES, name, Row(name, 1, {"loop": loop}))
    monkeypatch.setattr(Schedule, name, lambda self, **options: function(self, **options), raising=False)
    return [("get_consumers", 1), (name, 1), ("add_unit_loop", 3)]


@pytest.mark.parametrize("function, kind", [(unproved, "computes: unproved"), (lost, "raises: lost IndexError")])
def test_what_is_wrong_is_seen_and_reduced(monkeypatch, function, kind):
    moves = moves_of(monkeypatch, function.__name__, function)
    with pytest.raises(Failure) as failure:
        schedules_agree(PROGRAM, CASES, moves=moves)
    assert failure.value.kind == kind
    assert failure.value.options["moves"] == moves[:2]
    assert fewer_moves(PROGRAM, CASES, moves, kind) == moves[1:2]


def test_a_change_that_no_trace_has_is_seen(monkeypatch):
    """The program is as it should be, but the trace does not say how it became so."""

    def silent(sch, loop):
        node = sch.state.loop(loop)
        sch.state.replace(node, node.replace(kind=ForKind.UNROLLED), loop.function)

    with pytest.raises(Failure) as failure:
        schedules_agree(PROGRAM, CASES, moves=moves_of(monkeypatch, "silent", silent)[:2])
    assert failure.value.kind.startswith("replays: direct")


def test_parallel_is_refused_where_forgetting_it_is_wrong():
    schedules_agree(PROGRAM, CASES, moves=[("parallel", number) for number in range(12)])


def test_a_move_is_decided_by_its_number():
    program = schedule_program("tests:3")
    moves = random_moves("tests:3", 6)
    results, state = [], random.getstate()
    for _ in range(2):
        sch = Schedule(function(program.text), seed=1)
        for move in moves:
            schedule_properties._tried(sch, move)
        results.append(sch)
        random.seed(len(results))
    random.setstate(state)
    assert str(results[0].trace) == str(results[1].trace)
    assert_structural_equal(results[0].mod, results[1].mod)
