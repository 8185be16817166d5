"""Samplers of relax.frontend.nn.op against loops over the classes."""

from __future__ import annotations

import numpy as np
import pytest
from nn_programs import Method, results

from relax.frontend.nn import op, spec

RNG = np.random.default_rng(5)
BATCH, CLASSES, COUNT = 5, 30, 100
PROB = RNG.random((BATCH, CLASSES)).astype("float32") ** 4
PROB /= PROB.sum(1, keepdims=True)
ORDER = np.argsort(-PROB, 1, kind="stable").astype("int32")
SORTED = np.take_along_axis(PROB, ORDER.astype("int64"), 1)
TOP_P = np.array([[0.5], [0.9], [1.0], [0.0], [2.0]], "float32")
TOP_K = np.array([[30], [3], [100], [7], [1]], "int32")
UNIFORM = RNG.random((COUNT, 1)).astype("float32")
ROWS = RNG.integers(0, BATCH, (COUNT, 1)).astype("int32")


def kept(row):
    """The number of classes of a row that are kept."""
    total = np.float32(0)
    for count, probability in enumerate(SORTED[row], 1):
        total += probability
        if total >= TOP_P[row, 0] or count >= TOP_K[row, 0]:
            return count
    return CLASSES


def method(function, **shapes):
    given = {name: spec.Tensor(shape, dtype) for name, (shape, dtype) in shapes.items()}
    return Method(function).export_tvm({"forward": given})[0]


LIMITS = {"top_p": (["batch", 1], "float32"), "top_k": (["batch", 1], "int32")}
SORTED_PROB = {"sorted_prob": (["batch", "v"], "float32"), "sorted_index": (["batch", "v"], "int32"), **LIMITS}


def sampled(row, uniform):
    """The class whose share of the kept probability has the number."""
    sums = np.cumsum(SORTED[row][: kept(row)])
    return ORDER[row, min(np.searchsorted(sums, uniform * sums[-1], side="right"), len(sums) - 1)]


def test_samples_are_of_the_most_likely_classes():
    mod = method(
        op.sample_top_p_top_k_from_sorted_prob,
        **SORTED_PROB,
        uniform_sample=(["n", 1], "float32"),
        sample_indices=(["n", 1], "int32"),
    )
    (found,) = results(mod, SORTED, ORDER, TOP_P, TOP_K, UNIFORM, ROWS)
    assert found.dtype == "int32"
    expected = [[sampled(row, uniform)] for row, uniform in zip(ROWS[:, 0], UNIFORM[:, 0], strict=True)]
    np.testing.assert_array_equal(found, expected)


def test_numbers_near_one_take_the_last_class_that_is_kept():
    mod = method(op.sample_top_p_top_k_from_sorted_prob, **SORTED_PROB, uniform_sample=(["batch", 1], "float32"))
    most = np.full((BATCH, 1), np.nextafter(np.float32(1), np.float32(0)))
    (found,) = results(mod, SORTED, ORDER, TOP_P, TOP_K, most)
    for row in range(BATCH):
        assert found[row, 0] in ORDER[row, : kept(row)]
    (found,) = results(mod, SORTED, ORDER, TOP_P, TOP_K, np.zeros((BATCH, 1), "float32"))
    np.testing.assert_array_equal(found, ORDER[:, :1])


def test_probabilities_of_what_is_kept():
    mod = method(
        op.renormalize_top_p_top_k_prob,
        prob=(["batch", "v"], "float32"),
        sorted_prob=(["batch", "v"], "float32"),
        **LIMITS,
    )
    (found,) = results(mod, PROB, SORTED, TOP_P, TOP_K)
    for row in range(BATCH):
        expected = np.zeros(CLASSES, "float32")
        chosen = ORDER[row, : kept(row)]
        expected[chosen] = PROB[row, chosen] / PROB[row, chosen].sum()
        np.testing.assert_allclose(found[row], expected, rtol=1e-5)


@pytest.mark.parametrize("with_rows", [False, True])
def test_multinomial(with_rows):
    shapes = {"prob": (["batch", "v"], "float32"), "uniform_sample": (["n" if with_rows else "batch", 1], "float32")}
    values = [PROB, UNIFORM if with_rows else UNIFORM[:BATCH]]
    if with_rows:
        shapes["sample_indices"] = (["n", 1], "int64")
        values.append(ROWS.astype("int64"))
        mod = method(lambda prob, uniform_sample, sample_indices: op.multinomial_from_uniform(
            prob, uniform_sample, sample_indices), **shapes)  # fmt: skip
    else:
        mod = method(lambda prob, uniform_sample: op.multinomial_from_uniform(prob, uniform_sample), **shapes)
    (found,) = results(mod, *values)
    rows = ROWS[:, 0] if with_rows else np.arange(BATCH)
    sums = np.cumsum(PROB, 1)
    expected = [np.searchsorted(sums[row], u, side="right") for row, u in zip(rows, values[1][:, 0], strict=True)]
    np.testing.assert_array_equal(found[:, 0], expected)
