"""Kernels tuned at several sizes: the best candidates of ranges are joined, and checked around the bounds."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from column_vectors import Split, doubled
from tuned_kernels import LONG, PATIENT, TARGET, product, record, variant

import relax
from relax import te, tune
from relax.farm.tuning_records import Database, key_of
from relax.schedules import PackedFunction
from relax.schedules.cpu import RULES
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from relax.tune import search as searching
from relax.tune.candidates import Candidate, Candidates
from relax.tune.design_spaces import Choice
from relax.tune.kernels import Kernel
from relax.tune.measuring import Measurement, Measurer
from relax.tune.tuner import record_of
from relax.tune.variants import Range, best_ranges, bound_between, joined_choice, parts_of, sizes_around
from relax.vm.lowering import unscheduled
from relax.vm.tuned import with_records

# -------------------------------------------------------------------------------------- ranges


def test_each_value_has_its_best_candidate():
    """Rows are candidates, the first one the default; columns are values of the size."""
    gains = [[0, 0, 0, 0], [0.4, 0.3, -0.1, -0.3], [-0.2, 0.1, 0.2, -0.1]]
    ranges, gain = best_ranges(gains, 4, 0.01)
    assert ranges == [Range(0, 2, 1), Range(2, 3, 2), Range(3, 4, 0)]
    assert gain == pytest.approx(0.9)


def test_a_further_range_must_gain_something():
    gains = [[0, 0], [0.3, 0.28], [0.2, 0.3]]
    assert best_ranges(gains, 4, 0.05)[0] == [Range(0, 2, 1)]
    assert best_ranges(gains, 4, 0.01)[0] == [Range(0, 1, 1), Range(1, 2, 2)]
    assert best_ranges([[0, 0], [0, 0]], 4, 0)[0] == [Range(0, 2, 0)]


def test_no_more_ranges_than_variants():
    gains = [[1 if row == column else 0 for column in range(6)] for row in range(6)]
    ranges, gain = best_ranges(gains, 4, 0.01)
    assert [r.begin for r in ranges[1:]] == [r.end for r in ranges[:-1]]
    assert (len(ranges), gain) == (4, 4)


@pytest.mark.parametrize(("low", "high", "bound"), [(1, 16, 4), (16, 17, 16), (0, 5, 0), (1, 2, 1), (64, 1024, 256)])
def test_bounds_are_geometric_means(low, high, bound):
    assert bound_between(low, high) == bound
    assert low <= bound < high


# -------------------------------------------------------------------------------------- joined choices


@T.prim_func
def shifted(a: T.handle, b: T.handle):
    n, m = T.int64(), T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (n, m), "float32")
    for i, j in T.grid(n, m):
        B[i, j] = A[i, j] + T.float32(1)


def measured(rule, gains, packings=None):
    """A candidate that is `gains` times as fast as the default at each size, with packings of constants."""
    pairs = tuple(((1.0, gain), (1.0, gain)) for gain in gains)
    candidate = Candidate(Choice(rule), PackedFunction(shifted, packings or {}), rule.encode())
    return candidate, Measurement(pairs, pairs)


def joined_at(sizes, *candidates, default=None):
    """The variants that the best candidates at these sizes are joined to."""
    kernel = Kernel("shifted", shifted, (), tuple(sizes))
    own = Candidate(None, PackedFunction(shifted, default or {}), b"default")
    joined = joined_choice(kernel, own, candidates, 0.01)
    return None if joined is None else joined.choice.values


def test_the_size_with_most_values_decides():
    """Measurements with one value of it count together."""
    sizes = [{"n": 1, "m": 8}, {"n": 1, "m": 32}, {"n": 2, "m": 128}]
    first, second = measured("First", (2.0, 2.0, 1.0)), measured("Second", (1.0, 1.0, 2.0))
    assert joined_at(sizes, first, second) == {
        "size": 1,
        "name": "m",
        "variants": [{"at_most": 64, "rule": "First", "parameters": {}}, {"rule": "Second", "parameters": {}}],
    }
    by_rows = joined_at([{"n": 1, "m": 8}, {"n": 1, "m": 8}, {"n": 2, "m": 8}], first, second)
    assert (by_rows["name"], by_rows["variants"][0]["at_most"]) == ("n", 1)
    assert joined_at([{"n": 1, "m": 8}] * 3, first, second) is None


def test_one_candidate_that_is_the_best_everywhere_is_not_joined():
    sizes = [{"n": 1, "m": 8}, {"n": 16, "m": 8}]
    assert joined_at(sizes, measured("First", (2.0, 2.0)), measured("Second", (1.5, 1.5))) is None


def test_variants_read_constants_in_one_layout():
    """First and Second are the best, but First and Third can be joined."""
    sizes = [{"n": 1, "m": 8}, {"n": 16, "m": 8}]
    panels, blocks = {1: "panels"}, {1: "blocks"}
    first, second = measured("First", (3.0, 1.0), panels), measured("Second", (1.0, 3.0), blocks)
    third = measured("Third", (1.0, 2.0), panels)
    rules = [entry["rule"] for entry in joined_at(sizes, first, second, third, default=blocks)["variants"]]
    assert rules == ["First", "Third"]


# -------------------------------------------------------------------------------------- search


SIZES = ({"n": 1}, {"n": 16}, {"n": 512})
SECONDS = {2: (1.0, 3.0, 3.0), 4: (2.0, 2.0, 2.0), 8: (3.0, 3.0, 1.0)}
"""Seconds of a call by the length of vectors, at each of the sizes: 4 is the default."""


class Told:
    """Takes the place of a `Measurer`: a candidate takes the time that `SECONDS` tells."""

    slow = 1.0
    """What a decision between variants costs: a factor of the time."""
    beside: ClassVar[list] = []
    """Sizes at which results were compared."""

    def __init__(self, kernel, default, target, conditions):
        self.beside.clear()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def measure(self, digest, candidate, pairs, beside=()):
        self.beside += beside
        choice = candidate.func.attrs.get("relax.schedule", {})
        times = [self.time(choice, place) for place in range(3)]
        warm = tuple(((ours, SECONDS[4][place]),) * pairs for place, ours in enumerate(times))
        return Measurement(warm, warm)

    def measure_all(self, requests, pairs):
        for digest, candidate, beside in requests:
            yield digest, self.measure(digest, candidate, pairs, beside)

    def time(self, choice, place):
        if not isinstance(choice, tuple):
            return SECONDS[choice.get("parameters", {}).get("factor", 4)][place]
        n = SIZES[place]["n"]
        own = next(entry for entry in choice if "at_most" not in entry or n <= entry["at_most"]["n"])
        return self.slow * SECONDS[own.get("parameters", {}).get("factor", 4)][place]


@pytest.fixture
def found(monkeypatch):
    """Search with told times; the outcome."""

    def run(sizes=SIZES, slow=1.0):
        monkeypatch.setattr(searching, "Measurer", Told)
        monkeypatch.setattr(Told, "slow", slow)
        kernel = Kernel("doubled", doubled, (), tuple(sizes))
        return searching.search(kernel, TARGET, [Split()], options=searching.SearchOptions(seconds=LONG))

    return run


VARIANTS = {
    "name": "n",
    "size": 0,
    "variants": [
        {"at_most": 4, "rule": "Split", "parameters": {"factor": 2}},
        {"at_most": 90},
        {"rule": "Split", "parameters": {"factor": 8}},
    ],
}


def test_the_best_at_each_size_are_joined(found):
    """No candidate is as fast as the default at all sizes."""
    outcome = found()
    assert outcome.chosen.choice.rule == "Variants"
    assert outcome.chosen.choice.values == VARIANTS
    assert list(outcome.measurement.seconds[0]) == [1.0, 2.0, 1.0]
    assert str(outcome.chosen) == "n up to 4: Split(factor=2); n 5 to 90: the default; n above 90: Split(factor=8)"


def test_results_are_compared_around_the_bounds(found):
    found()
    assert {sizes["n"] for sizes in Told.beside} == {4, 5, 90, 91}


def test_variants_that_are_slower_than_they_promise_are_not_taken(found):
    """The joined kernel is measured at every size: here it is slower than the default at n=16."""
    outcome = found(slow=1.1)
    assert outcome.chosen is None


def test_one_size_has_no_variants(found, monkeypatch):
    monkeypatch.setattr(Told, "measure", at_first)
    outcome = found(SIZES[:1])
    assert outcome.chosen.choice == Choice("Split", '{"factor": 2}')


def at_first(told, digest, candidate, pairs, beside=()):
    """A measurement at the first size."""
    warm = (((told.time(candidate.func.attrs.get("relax.schedule", {}), 0), SECONDS[4][0]),) * pairs,)
    return Measurement(warm, warm)


def test_sizes_around_the_bounds():
    kernel = Kernel("doubled", doubled, (), SIZES)
    choice = Choice("Variants", '{"size": 0, "variants": [{"at_most": 15}, {}]}')
    assert sizes_around(kernel, choice) == ({"n": 15},)  # 16 is measured
    assert sizes_around(kernel, Choice("Split")) == sizes_around(kernel, None) == ()


def test_a_later_search_begins_with_the_variants_and_their_parts():
    choice = Choice(
        "Variants", '{"size": 0, "variants": [{"at_most": 1, "rule": "Split"}, {"at_most": 2}, {"rule": "A"}]}'
    )
    assert parts_of(choice) == [Choice("Split"), Choice("A")]
    assert parts_of(Choice("Split")) == [Choice("Split")]


def test_choices_of_records_that_somebody_else_wrote():
    """A search drops them."""
    wrong = Choice("Variants", '{"size": "all"}')
    assert parts_of(wrong) == []
    candidates = Candidates(Kernel("doubled", doubled, (), SIZES), TARGET, [Split()])
    assert candidates.make(wrong) is None
    assert candidates.failures["Variants(size=all)"].startswith("ValueError: Variants has the parameters `size`, ")


@T.prim_func
def wrong_at_five(a: T.handle, b: T.handle):
    T.func_attr({"tir.noalias": True})
    n = T.int64()
    A = T.match_buffer(a, (n, 16), "float32")
    B = T.match_buffer(b, (n, 16), "float32")
    for i, j in T.grid(n, 16):
        B[i, j] = A[i, j] * T.Select(n == 5, T.float32(3), T.float32(2))


def test_a_result_that_is_wrong_beside_a_bound():
    kernel = Kernel("doubled", doubled, (), ({"n": 16},))
    with Measurer(kernel, variant(doubled), TARGET, PATIENT) as one:
        failed = one.measure(b"wrong", variant(wrong_at_five), 1, [{"n": 4}, {"n": 5}])
        assert failed.reason.startswith("wrong result for n=5: at [0, 0] it computes ")
        assert isinstance(one.measure(b"right", variant(doubled), 1, [{"n": 4}, {"n": 5}]), Measurement)


# -------------------------------------------------------------------------------------- records


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("rows", 40), "float32"), w: R.Tensor((40, 64), "float32")):
        with R.dataflow():
            y = R.matmul(x, w)
            R.output(y)
        return y


TILES = {
    "size": 0,
    "name": "n",
    "variants": [
        {"at_most": 4, "rule": "Product", "parameters": {"tile": [2, 1], "strassen": False}},
        {"rule": "Product", "parameters": {"tile": [3, 1], "strassen": False}},
    ],
}


@pytest.fixture
def database(tmp_path):
    """A database with a record that has variants, for products with any number of rows."""
    database = Database(tmp_path / "tuning.sqlite")
    key = key_of(product(te.var("n", "int64")), TARGET)
    database.add(record(key, "Variants", TILES, sizes=({"n": 1}, {"n": 16})))
    return database


def test_a_size_may_have_another_name(database):
    applied = with_records(unscheduled(Model, TARGET), TARGET, RULES, database)["matmul"]
    first, second = applied.attrs["relax.schedule"]
    assert first == {"at_most": {"rows": 4}, "rule": "Product", "parameters": {"tile": (2, 1), "strassen": False}}
    assert second == {"rule": "Product", "parameters": {"tile": (3, 1), "strassen": False}}


def test_a_program_with_variants(database):
    with database:
        run = relax.VirtualMachine(relax.build(Model, "llvm"))["main"]
    w = np.random.default_rng(0).integers(-4, 5, (40, 64)).astype("float32")
    for rows in (0, 1, 4, 5, 30):
        x = np.random.default_rng(rows).integers(-4, 5, (rows, 40)).astype("float32")
        np.testing.assert_array_equal(run(x, w).numpy(), x @ w)


def test_variants_in_words(database):
    assert tune.shown_records(database, TARGET) == (
        "product: 2.00 times as fast (1 ms instead of 2 ms and 1 ms instead of 2 ms) by 2 variants (n up to 4: Product "
        "with strassen=False, tile=[2, 1]; n above 4: Product with strassen=False, tile=[3, 1]) at n=1; n=16"
    )


@pytest.mark.parametrize(
    "parameters",
    [{}, {**TILES, "size": 7}, {**TILES, "variants": [{"at_most": 4}]}, {**TILES, "variants": [{"rule": "NoRule"}]}],
)
def test_variants_of_somebody_else_are_ignored(tmp_path, parameters):
    database = Database(tmp_path / "tuning.sqlite")
    database.add(record(key_of(product(te.var("n", "int64")), TARGET), "Variants", parameters))
    applied = with_records(unscheduled(Model, TARGET), TARGET, RULES, database)["matmul"]
    assert "relax.schedule" not in applied.attrs
    assert tune.shown_records(database, TARGET).startswith("product: 2.00 times as fast ")


def test_the_record_of_a_search(found):
    own = record_of(found(), TARGET)
    assert (own.rule, own.parameters, own.taken) == ("Variants", VARIANTS, True)
    assert [dict(sizes) for sizes in own.sizes] == list(SIZES)
    assert (own.seconds, own.default_seconds) == ((1.0, 2.0, 1.0), (2.0, 2.0, 2.0))
