"""What is known of the numbers in a shape heap while a function is compiled."""

from __future__ import annotations

import pytest

from relax.prim import Max, Min, SizeVar, Var
from relax.tir import Buffer, BufferLoad, BufferStore, LetStmt
from relax.vm.heap_slots import Slots

HEAP = Buffer(Var("heap", "handle"), "int64", (8,), name="heap")
N, Z = SizeVar("n", "int64"), Var("z", "int64")


def slot(number):
    return BufferLoad(HEAP, (number,))


def slots_with(value):
    """Slot 0 holds a size n, slot 1 a number z, slot 2 what is computed from them."""
    slots = Slots(HEAP)
    slots.add_size(0)
    store = BufferStore(HEAP, value, (2,))
    slots.define(LetStmt(N, slot(0), LetStmt(Z, slot(1), store)))
    return slots


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((N + 3) // 4, True),
        (N // 2, True),
        (Min(N, 1024), True),
        (N, True),
        (N - 1, False),  # negative for 0
        (N * 4, False),  # may be 2**48 or more
        (Z, False),
        (Max(Z, 0), False),
    ],
)
def test_sizes(value, expected):
    assert slots_with(value).is_size(slot(2)) is expected


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (N * 8, 4, True),
        (N * Z * 12, 4, True),
        (N * 8 + 4, 4, True),
        (Max(N * 8, Z * 4), 4, True),
        (Max(N * 8, Z * 2), 4, False),
        (N, 4, False),
        (N, 1, True),
    ],
)
def test_multiples(value, unit, expected):
    assert slots_with(value).is_multiple(slot(2), unit) is expected


def test_meanings_are_compared():
    slots = slots_with(Max(N * 256, Z * 4))
    other = BufferStore(HEAP, ((N + 1) // 2 + 1) // 2, (3,))
    slots.define(LetStmt(N, slot(0), other))
    n = slots.meaning(slot(0))
    assert slots.are_equal(slots.meaning(slot(3)), (n + 3) // 4)
    assert not slots.are_equal(slots.meaning(slot(3)), n // 4)
    assert slots.is_at_most(slots.meaning(slot(0) * 16 * 4), slots.meaning(slot(2)))
    assert not slots.is_at_most(slots.meaning(slot(0) * 260), slots.meaning(slot(2)))


def test_what_a_branch_has_found_is_forgotten():
    slots = slots_with(N - 1)
    before = slots.sizes()
    slots.add_size(2)
    assert slots.is_size(slot(2))
    slots.restore(before)
    assert not slots.is_size(slot(2))
    assert slots.is_size(slot(0))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (Max(N * 4, N * 2 + 64) + N, Max(N * 5, N * 3 + 64), True),
        (Max(N * 4, N * 2 + 64) + N, Max(N * 5, N * 3 + 63), False),
        (Max(N, Max(N * 2, Z)), Max(Z, N * 2), True),
        (Max(N, Z) + Max(N, Z), Max(N * 2, Z), False),
        (N, Max(N, Z), True),
    ],
)
def test_maxima_are_compared_by_what_they_are_the_maximum_of(low, high, expected):
    assert Slots(HEAP).is_at_most(low, high) is expected


def test_maxima_of_very_many_are_compared_whole():
    low, high = N, N
    for number in range(9):
        low, high = Max(low, N + number), Max(high, N + number)
    assert Slots(HEAP).is_at_most(low + low, high + high)
    assert not Slots(HEAP).is_at_most(low + low + 1, high + high)


def test_sums_of_many_maxima_are_compared_whole():
    """Their operands would be 2^40."""
    low = high = N
    for number in range(40):
        low, high = low + Max(N, number), high + Max(N, number)
    assert Slots(HEAP).is_at_most(low, high)
