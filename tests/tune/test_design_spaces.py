"""Spaces of choices, the candidates made of them, and the order in which a draft puts these."""

from __future__ import annotations

import random
from itertools import islice

import pytest
from tuned_kernels import TARGET, product

from relax import te, tir
from relax.schedules.cpu import RULES, Product
from relax.script import tir as T
from relax.tune.candidates import Candidates
from relax.tune.design_spaces import Choice, RuleSpace, ScheduleSpace
from relax.tune.draft import estimate
from relax.tune.kernels import Kernel

WITHOUT_STRASSEN = '{"strassen": false}'


def test_a_rule_proposes_its_default_and_then_single_changes():
    choices = list(islice(RuleSpace(Product(), TARGET).first(random.Random(0)), 12))
    assert choices[0] == Choice("Product")
    assert choices[1] == Choice("Product", '{"depth": 32}')
    assert all(len(choice.values) == 1 for choice in choices[1:])


def test_parameters_that_need_another_change():
    """A tile is valid without Strassen's algorithm only."""
    choices = RuleSpace(Product(), TARGET).first(random.Random(0))
    tiles = [choice for choice in islice(choices, 60) if "tile" in choice.values]
    assert tiles
    assert all(choice.values["strassen"] is False for choice in tiles)


def test_choices_near_another_are_of_the_space():
    space, generator = RuleSpace(Product(), TARGET), random.Random(0)
    parent = Choice("Product", WITHOUT_STRASSEN)
    near = [space.near(parent, Choice("Product", '{"depth": 64}'), generator) for _ in range(50)]
    valid = [choice for choice in near if choice is not None]
    assert len(set(valid)) > 10
    for choice in valid:
        Product().space(TARGET).point(choice.values)  # which raises ValueError for others


def split_rows(sch):
    """Rows in tiles of a sampled size."""
    i, _, _ = sch.get_loops(sch.get_block("C"))
    tile = sch.sample_categorical([2, 3, 4, 6], [0.25] * 4)
    outer, _ = sch.split(i, [None, tile])
    sch.parallel(outer)


def test_decisions_of_a_schedule():
    space, generator = ScheduleSpace(product(), split_rows), random.Random(0)
    choices = set(islice(space.first(generator), 20))
    assert {str(choice) for choice in choices} == {f"Traced({decision})" for decision in range(4)}
    assert all(space.owns(choice) and choice in space.scheduled for choice in choices)
    assert {str(space.near(min(choices, key=str), None, generator)) for _ in range(20)} > {"Traced(2)"}


def test_equal_loops_are_one_candidate():
    candidates = Candidates(Kernel("product", product()), TARGET, RULES)
    assert candidates.make(Choice("Product")) is None  # the default
    assert candidates.make(Choice("Product", '{"depth": 64}')) is None  # deeper than the product
    one = candidates.make(Choice("Product", '{"strassen": false, "tile": [4, 2]}'))
    assert one is not None
    assert one.variant.func.attrs["relax.schedule"]["parameters"]["tile"] == (4, 2)


def test_candidates_of_all_rules_that_take_the_kernel():
    candidates = Candidates(Kernel("product", product()), TARGET, RULES, [split_rows])
    several = candidates.first(30, random.Random(0), lambda: True)
    rules = {candidate.choice.rule for candidate in several}
    assert {"Product", "Traced"} <= rules
    assert len({candidate.digest for candidate in several}) == len(several) == 30


def test_constants_are_packed():
    candidates = Candidates(Kernel("product", product(rows=te.var("n", "int64")), (1,)), TARGET, RULES)
    assert [*candidates.default.variant.packings] == [1]
    first = candidates.first(12, random.Random(0), lambda: True)
    packed = [c for c in first if c.choice.rule == "Product"]
    assert packed
    assert all(1 in c.variant.packings for c in packed)


@T.prim_func
def along_rows(A: T.Buffer((1024, 1024), "float32"), B: T.Buffer((1024, 1024), "float32")):
    for i, j in T.grid(1024, 1024):
        B[i, j] = A[i, j] * T.float32(2)


@T.prim_func
def along_columns(A: T.Buffer((1024, 1024), "float32"), B: T.Buffer((1024, 1024), "float32")):
    for j, i in T.grid(1024, 1024):
        B[i, j] = A[i, j] * T.float32(2)


@T.prim_func
def in_vectors(A: T.Buffer((1024, 1024), "float32"), B: T.Buffer((1024, 1024), "float32")):
    for i in range(1024):
        for j in T.vectorized(1024):
            B[i, j] = A[i, j] * T.float32(2)


def test_a_draft_orders_loops():
    vectors, rows, columns = (estimate(func, {}, TARGET) for func in (in_vectors, along_rows, along_columns))
    assert vectors < rows < columns


def test_a_draft_prefers_tiles_that_stay_in_registers():
    """Of an accumulator for each element and one for a whole tile."""
    good = Candidates(Kernel("product", product(64, 64, 512)), TARGET, RULES).default.variant.func
    plain = product(64, 64, 512)
    assert estimate(good, {}, TARGET) < estimate(plain, {}, TARGET) / 4


def test_a_draft_knows_dynamic_sizes():
    func = Candidates(Kernel("product", product(rows=te.var("n", "int64"))), TARGET, RULES).default.variant.func
    small, large = (estimate(func, {"n": n}, TARGET) for n in (8, 800))
    assert 10 * small < large


@pytest.mark.parametrize("threads", [1, 2])
def test_a_draft_of_functions_with_statements_of_all_kinds(threads):
    sch = tir.Schedule(product(), seed=1)
    split_rows(sch)
    assert 0 < estimate(sch.mod["main"], {}, TARGET, threads) < float("inf")
