"""Sampling: integers and places by chance, the same ones for the same seed, and those of a decision."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from relax.tir import LoopRV, Schedule

FUNC = """
@T.prim_func
def main(A: T.Buffer(({extent},), "int32"), B: T.Buffer(({extent},), "int32"), C: T.Buffer(({extent},), "int32")):
    for i in range({extent}):
        with T.block("B"):
            vi = T.axis.spatial({extent}, i)
            B[vi] = A[vi] + 1
    for i in range({extent}):
        with T.block("C"):
            vi = T.axis.spatial({extent}, i)
            C[vi] = B[vi] + 1
"""


def loop(sch):
    return sch.get_loops(sch.get_block("B"))[0]


def schedule(parse, extent=48, seed=0):
    return Schedule(parse(FUNC.format(extent=extent)), seed=seed)


def draw(parse, extent, number, **options):
    sch = schedule(parse, extent)
    the_loop = loop(sch)
    return [tuple(map(sch.get, sch.sample_perfect_tile(the_loop, **options))) for _ in range(number)]


def test_categorical(parse):
    sch = schedule(parse)
    values = Counter(sch.get(sch.sample_categorical([2, 4, 8], [0.25, 0.75, 0])) for _ in range(400))
    assert set(values) == {2, 4}
    assert 60 < values[2] < 140
    assert sch.get(sch.sample_categorical([2, 4, 8], [1, 0, 0], decision=2)) == 8
    assert sch.trace.get_decision(sch.trace.insts[-1]) == 2


def test_perfect_tiles_are_all_there_is(parse):
    every = {
        (a, b, 24 // (a * b)) for a in range(1, 25) for b in range(1, 25) if 24 % (a * b) == 0 and 24 // (a * b) <= 6
    }
    drawn = Counter(draw(parse, 24, 2000, n=3, max_innermost_factor=6))
    assert set(drawn) == every
    assert max(drawn.values()) < 3 * min(drawn.values())


@pytest.mark.parametrize("extent, n", [(1, 1), (1, 3), (7, 2), (13, 1), (720720, 4)])
def test_perfect_tiles_of_any_extent(parse, extent, n):
    for tiles in draw(parse, extent, 20, n=n, max_innermost_factor=16):
        assert math.prod(tiles) == extent
        assert len(tiles) == n
        assert n == 1 or tiles[-1] <= 16


def test_partitioned_tiles(parse):
    sch = schedule(parse, 48)
    the_loop = loop(sch)
    drawn = set()
    for _ in range(300):
        tiles = tuple(map(sch.get, sch.sample_partitioned_tile(the_loop, 4, 2, 12)))
        assert math.prod(tiles) == 48
        assert math.prod(tiles[2:]) % 12 == 0
        drawn.add(tiles)
    assert {math.prod(tiles[2:]) for tiles in drawn} == {12, 24, 48}
    assert math.prod(map(sch.get, sch.sample_partitioned_tile(the_loop, 2))) == 48


def test_the_seed_decides(parse):
    def drawn(seed):
        sch = schedule(parse, 48, seed)
        values = [*sch.sample_perfect_tile(loop(sch), 3), sch.sample_categorical(list(range(100)), [1] * 100)]
        return [*map(sch.get, values), sch.fork_seed(), sch.random.random()]

    assert drawn(7) == drawn(7)
    assert drawn(7) != drawn(8)
    sch = schedule(parse, 48, 3)
    sch.fork_seed()
    sch.seed(7)
    assert [sch.get(v) for v in sch.sample_perfect_tile(loop(sch), 3)] == drawn(7)[:3]


def test_copies_draw_on_their_own_and_reproducibly(parse):
    def drawn():
        sch = schedule(parse, 48, 1)
        other = sch.copy()
        return [s.get(s.sample_categorical(list(range(1000)), [1] * 1000)) for s in (sch, other, sch, other)]

    assert drawn() == drawn()
    assert len(set(drawn())) > 2


def test_tiles_split_a_loop(parse, check):
    def steps(sch):
        the_loop = loop(sch)
        a, b, c = sch.sample_perfect_tile(the_loop, 3)
        sch.split(the_loop, [a, b, c])
        first, second = sch.sample_partitioned_tile(sch.get_loops(sch.get_block("C"))[0], 2, 1, 4)
        sch.split(sch.get_loops(sch.get_block("C"))[0], [first * second, None])

    check(parse(FUNC.format(extent=48)), steps)


@pytest.mark.parametrize(
    "extent, decision, tiles",
    [(48, [4, 3, 4], [4, 3, 4]), (24, [4, 3, 4], [2, 3, 4]), (7, [4, 3, 4], [1, 1, 7]), (1, [4, 3, 4], [1, 1, 1])],
)
def test_decisions_are_adapted(parse, extent, decision, tiles):
    sch = schedule(parse, extent)
    assert [sch.get(v) for v in sch.sample_perfect_tile(loop(sch), 3, decision=decision)] == tiles
    assert sch.trace.get_decision(sch.trace.insts[-1]) == tiles


def test_places_without_a_consumer(parse, check):
    def steps(sch):
        place = sch.sample_compute_location(sch.get_block("C"), decision=-1)
        assert place.is_root_mark
        assert not place.is_inline_mark

    check(parse(FUNC.format(extent=8)), steps)


def test_marks():
    assert LoopRV.inline_mark().is_inline_mark
    assert not LoopRV.inline_mark().is_root_mark


@pytest.mark.parametrize(
    "step, message",
    [
        (lambda s: s.sample_categorical([], []), "there are 0 candidates and 0 probabilities"),
        (lambda s: s.sample_categorical([1, 2], [1]), "there are 2 candidates and 1 probabilities"),
        (lambda s: s.sample_categorical([1, 2], [0, 0]), "probs must be 0 or more, one of them more than 0"),
        (lambda s: s.sample_categorical([1, 2], [2, -1]), "probs must be 0 or more"),
        (lambda s: s.sample_categorical([1, 2], [1, float("nan")]), "probs must be 0 or more"),
        (lambda s: s.sample_categorical([1, 2], [1, "a"]), "probs[1] must be a number, found 'a'"),
        (lambda s: s.sample_categorical([1, 2], [1, 1], decision=2), "the decision 2 is no index of 2 candidates"),
        (lambda s: s.sample_perfect_tile(loop(s), 0), "must be 1 or more, found 0 and 16"),
        (lambda s: s.sample_perfect_tile(loop(s), 2, decision=[3]), "must be a list of 2 tiles, found [3]"),
        (lambda s: s.sample_partitioned_tile(loop(s), 2, 2), "partition_pos must be from 0 to 1, found 2"),
        (lambda s: s.sample_partitioned_tile(loop(s), 2, 1, 7), "innerpart_factor 7 does not divide the extent 48"),
        (
            lambda s: s.sample_partitioned_tile(loop(s), 2, 1, 6, decision=[16, 3]),
            "the inner tiles of [16, 3] are no multiple of 6",
        ),
        (lambda s: s.sample_compute_location(s.get_block("C"), decision=5), "the decision 5 is no place at which"),
    ],
)
def test_refusals(parse, refuse, step, message):
    assert message in refuse(parse(FUNC.format(extent=48)), step)


def test_symbolic_and_empty_loops_have_no_tiles(parse, refuse):
    symbolic = """
@T.prim_func
def main(b: T.handle):
    n = T.int64()
    B = T.match_buffer(b, (n,), "int32")
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = 1
"""
    text = refuse(parse(symbolic), lambda s: s.sample_perfect_tile(loop(s), 2))
    assert "loop i has n iterations, which cannot be tiled without remainder" in text
    text = refuse(parse(FUNC.format(extent=0)), lambda s: s.sample_partitioned_tile(loop(s), 2))
    assert "loop i has 0 iterations" in text
