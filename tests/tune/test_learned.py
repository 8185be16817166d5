"""Estimates that learn from measurements: what is measured first, and files of samples."""

from __future__ import annotations

import json
import math
import random
import sys

import pytest
from tuned_kernels import LONG, PATIENT, TARGET, product

from relax import tune
from relax.farm.tuning_records import target_digest
from relax.schedules.cpu import RULES
from relax.tune.candidates import Candidates
from relax.tune.draft import FEATURES, Draft, draft_of
from relax.tune.kernels import Kernel
from relax.tune.learned import Sample, add_samples, corrected, features_of, path_beside, read_samples, sample_of
from relax.tune.search import SearchOptions, search

DEFAULT = Draft(1000.0, (2.0,) * FEATURES)


def draft(cycles, first=2.0):
    """A draft that differs from the default's in one feature."""
    return Draft(cycles, (first, *(2.0,) * (FEATURES - 1)))


def samples_where(is_slow, count=40):
    """Samples with random features, of candidates that are estimated right, or take e² times as long."""
    generator = random.Random(0)
    found = []
    for _ in range(count):
        one = draft(generator.uniform(500, 2000), generator.choice([1.0, 5.0]))
        time = math.log(one.cycles / 1000) + (2.0 if is_slow(one) else 0.0)
        found.append(sample_of(one, DEFAULT, -time))
    return found


SLOW_IF_LARGE = samples_where(lambda one: one.features[0] > 3)


def test_a_draft_has_as_many_features_as_it_says():
    func = Candidates(Kernel("product", product()), TARGET, RULES).default.variant.func
    assert len(draft_of(func, {}, TARGET).features) == FEATURES
    assert draft_of(func, {}, TARGET) == draft_of(func, {}, TARGET)


def test_a_sample_is_the_error_of_an_estimate():
    assert sample_of(draft(2000), DEFAULT, -math.log(3)).error == pytest.approx(math.log(1.5))
    assert sample_of(draft(1000), DEFAULT, 0.0).error == 0
    assert features_of(draft(2000, 7.0), DEFAULT)[:2] == (5.0, 0.0)
    assert sample_of(Draft(math.inf, (0.0,) * FEATURES), DEFAULT, 0.5) is None


def test_estimates_stay_without_samples():
    times = corrected([draft(2000), draft(500), draft(math.inf)], DEFAULT, [], SLOW_IF_LARGE[:23], 0)
    assert times == [math.log(2), math.log(0.5), math.inf]


def test_an_error_that_was_measured_is_corrected():
    pytest.importorskip("sklearn")
    fast, slow, unknown = corrected(
        [draft(1100, 1.0), draft(1000, 5.0), draft(math.inf)], DEFAULT, [], SLOW_IF_LARGE, 0
    )
    assert fast == pytest.approx(0.1, abs=0.4)
    assert slow == pytest.approx(2.0, abs=0.4)
    assert unknown == math.inf


def test_the_kernel_at_hand_counts_more_than_others():
    pytest.importorskip("sklearn")
    own = samples_where(lambda one: one.features[0] < 3, 24)
    fast, slow = corrected([draft(1000, 5.0), draft(1000, 1.0)], DEFAULT, own, SLOW_IF_LARGE, 0)
    assert fast < slow - 0.5


def test_a_correction_is_the_same_each_time():
    drafts = [draft(1000 + 10 * number, number) for number in range(9)]
    assert corrected(drafts, DEFAULT, [], SLOW_IF_LARGE, 3) == corrected(drafts, DEFAULT, [], SLOW_IF_LARGE, 3)


def test_estimates_stay_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    assert corrected([draft(2000)], DEFAULT, [], SLOW_IF_LARGE, 0) == [math.log(2)]


def first_measured(samples):
    """Estimate of the candidate that a search measures first."""
    kernel = Kernel("product", product())
    options = SearchOptions(seconds=LONG, trials=1, conditions=PATIENT, samples=tuple(samples))
    outcome = search(kernel, TARGET, RULES, options=options)
    candidates = Candidates(kernel, TARGET, RULES).first(36, random.Random(0), lambda: True)
    (func,) = (one.variant.func for one in candidates if str(one) == outcome.steps[0].candidate)
    return draft_of(func, {}, TARGET).cycles


def test_a_search_measures_first_what_is_fast_by_samples():
    pytest.importorskip("sklearn")
    candidates = Candidates(Kernel("product", product()), TARGET, RULES)
    default = draft_of(candidates.default.variant.func, {}, TARGET)
    drafts = [draft_of(c.variant.func, {}, TARGET) for c in candidates.first(36, random.Random(0), lambda: True)]
    opposite = [sample_of(one, default, math.log(one.cycles / default.cycles)) for one in drafts]
    assert first_measured(opposite) > 1.2 * first_measured([])


# -------------------------------------------------------------------------------------- files


def test_samples_of_a_machine_are_read_again(tmp_path):
    path = path_beside(tmp_path / "tuning.sqlite")
    assert path.name == "tuning.samples.jsonl"
    assert read_samples(path, "here") == []
    add_samples(path, "here", SLOW_IF_LARGE[:2])
    add_samples(path, "elsewhere", SLOW_IF_LARGE[2:3])
    add_samples(path, "here", SLOW_IF_LARGE[3:4])
    several = read_samples(path, "here")
    assert [one.error for one in several] == [one.error for one in (*SLOW_IF_LARGE[:2], SLOW_IF_LARGE[3])]
    assert several[0].features == pytest.approx(SLOW_IF_LARGE[0].features, abs=1e-4)


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe",
        b"[" * 100_000,
        b"7",
        json.dumps({"machine": "here", "features": [1.0] * 5, "error": 0.5}).encode(),
        json.dumps({"machine": "here", "features": ["x"] * (2 * FEATURES + 1), "error": 0.5}).encode(),
        json.dumps({"machine": "here", "features": [1.0] * (2 * FEATURES + 1), "error": True}).encode(),
        json.dumps({"machine": "here", "features": [1.0] * (2 * FEATURES + 1), "error": math.nan}).encode(),
        json.dumps({"machine": "here", "features": [10**400] * (2 * FEATURES + 1), "error": 0.0}).encode(),
    ],
    ids=["no text", "deep", "a number", "few features", "words", "no error", "nan", "a huge number"],
)
def test_other_lines_are_ignored(tmp_path, line):
    path = tmp_path / "tuning.samples.jsonl"
    path.write_bytes(line + b"\n")
    add_samples(path, "here", [Sample((1.0,) * (2 * FEATURES + 1), 0.25)])
    assert read_samples(path, "here") == [Sample((1.0,) * (2 * FEATURES + 1), 0.25)]


def test_a_file_that_cannot_be_written_is_left(tmp_path):
    add_samples(tmp_path / "no folder" / "tuning.samples.jsonl", "here", SLOW_IF_LARGE)
    assert [*tmp_path.iterdir()] == []


def test_tuning_keeps_samples_beside_its_database(tmp_path):
    database = tune.tune_tir(product(), TARGET, tmp_path, seconds=LONG, max_trials_global=3, conditions=PATIENT)
    samples = read_samples(path_beside(database.path), target_digest(TARGET))
    assert 1 <= len(samples) <= 3
