"""Samplers: the shares of the mass decide, so each choice is known."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

import relax
from paged_model import builtin
from relax.runtime.tensor import numpy_view, tensor_of_numpy
from relax.script import ir as I
from relax.script import relax as R
from support import MODES, PLAIN_LOOPS

PROB = (0.125, 0.5, 0.0, 0.25, 0.125)
"""Most likely first: tokens 1, 3, 0 and 4."""


def of(*values, dtype="float32"):
    return tensor_of_numpy(np.array(values, dtype))


@pytest.mark.parametrize(
    ("top_p", "choices"),
    [
        (0.01, {0.0: 1, 0.99: 1}),
        (0.5, {0.0: 1, 0.999: 1}),
        (0.51, {0.0: 1, 0.66: 1, 0.67: 3, 0.999: 3}),
        (0.75, {0.0: 1, 0.66: 1, 0.67: 3, 0.999: 3}),
        (0.8, {0.571: 1, 0.572: 3, 0.857: 3, 0.858: 0, 0.999: 0}),
        (0.9, {0.0: 1, 0.499: 1, 0.5: 3, 0.75: 0, 0.875: 4}),
        (1.0, {0.0: 0, 0.125: 1, 0.624: 1, 0.625: 3, 0.874: 3, 0.875: 4, 0.999: 4}),
    ],
)
def test_top_p_chooses_among_the_most_likely(top_p, choices):
    """With all of the mass, tokens are in the order of their numbers, as nothing has to be sorted."""
    sample = builtin("sample_top_p_from_prob")
    for share, token in choices.items():
        assert sample(of(*PROB), top_p, share) == token, share
        assert sample(tensor_of_numpy(np.array(PROB, "float32").reshape(1, 1, 5)), top_p, share) == token


@pytest.mark.parametrize("temperature", [0.25, 1.0, 3.0])
def test_logits_are_sampled_by_their_softmax(temperature):
    rng = np.random.default_rng(0)
    logits = (rng.standard_normal(5000) * 4).astype("float32")
    prob = np.exp(logits.astype("float64") / temperature)
    prob /= prob.sum()
    order = np.argsort(-prob)
    masses = np.cumsum(prob[order])
    for top_p in (0.3, 0.9, 0.9999):
        count = int((masses < top_p).sum()) + 1
        for share in rng.random(20):
            at = int((masses[:count] <= share * masses[count - 1]).sum())
            found = builtin("sample_top_p_from_logits")(tensor_of_numpy(logits), temperature, top_p, float(share))
            # near a border of two tokens, float32 may decide for the other one
            assert found in order[max(at - 1, 0) : at + 2]
            borders = masses[:count] / masses[count - 1]
            assert found == order[at] or np.abs(borders - share).min() < 1e-5


def test_no_temperature_is_the_greatest_logit():
    sample = builtin("sample_top_p_from_logits")
    for dtype in ("float32", "float16", ml_dtypes.bfloat16):
        assert sample(of(1, -math.inf, 3, 3, 2, dtype=dtype), 0.0, 0.9, 0.99) == 2


def test_all_tokens_as_likely():
    """The search for those that have the mass ends, and equal ones are taken by their numbers."""
    logits = of(*[0.0] * 1000)
    assert builtin("sample_top_p_from_logits")(logits, 1.0, 0.5, 0.999) == 499
    assert builtin("sample_top_p_from_prob")(of(1, *[1e-30] * 9), 0.999999, 0.5) == 0


def test_a_token_for_each_row():
    prob = of(PROB, PROB, (0, 0, 2, 0, 0), (0.5, 0.5, 0, 0, 0))
    tokens = builtin("multinomial_from_uniform")(prob, of([0.1], [0.9], [0.0], [1 - 1e-12], dtype="float64"))
    assert str(tokens.dtype) == "int64"
    assert numpy_view(tokens).tolist() == [[0], [4], [2], [1]]


def test_frequencies_are_as_probable():
    rng = np.random.default_rng(1)
    shares = rng.random(20000).astype("float32")[:, None]
    prob = np.broadcast_to(np.array(PROB, "float32"), (20000, 5)).copy()
    tokens = numpy_view(builtin("multinomial_from_uniform")(tensor_of_numpy(prob), tensor_of_numpy(shares)))
    np.testing.assert_allclose(np.bincount(tokens[:, 0], minlength=5) / 20000, PROB, atol=0.015)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_penalties_change_logits_in_place(dtype):
    logits = of([2, -2, 0, 4, 1], dtype=dtype)
    builtin("apply_repetition_penalty")(logits, of(0, 1, 2, 0, dtype="int32"), 2.0)
    assert numpy_view(logits).tolist() == [[1, -4, 0, 4, 1]]
    ids, freqs = of(3, 1, 4, dtype="int64"), of(2, 1, 0, dtype="int32")
    builtin("apply_presence_and_frequency_penalty")(logits, ids, freqs, 0.5, 0.25)
    assert numpy_view(logits).tolist() == [[1, -4.75, 0, 3, 1]]
    builtin("apply_softmax_with_temperature")(logits, 2.0)
    weights = np.exp(np.array([1, -4.75, 0, 3, 1]) / 2)
    np.testing.assert_allclose(
        numpy_view(logits)[0], weights / weights.sum(), rtol=1e-3 if dtype == "float16" else 1e-6
    )


LOGITS = of(1, 2, 3)


@pytest.mark.parametrize(
    ("name", "args", "error", "message"),
    [
        ("sample_top_p_from_logits", (3, 1.0, 0.9, 0.5), TypeError, "expected a tensor as logits, found the int 3"),
        ("sample_top_p_from_logits", (of(1, dtype="int32"), 1.0, 0.9, 0.5), TypeError, "the dtype int32, expected flo"),
        (
            "sample_top_p_from_logits",
            (of([1], [2]), 1.0, 0.9, 0.5),
            ValueError,
            r"shape \(2, 1\), expected that of one",
        ),
        ("sample_top_p_from_logits", (of(), 1.0, 0.9, 0.5), ValueError, r"shape \(0,\), expected that of one position"),
        (
            "sample_top_p_from_logits",
            (LOGITS, -1.0, 0.9, 0.5),
            ValueError,
            "temperature is -1.0, expected a number that",
        ),
        ("sample_top_p_from_logits", (LOGITS, "hot", 0.9, 0.5), TypeError, "expected a number as temperature"),
        (
            "sample_top_p_from_logits",
            (LOGITS, 1.0, 0.0, 0.5),
            ValueError,
            r"top_p is 0.0, expected a number in \(0, 1\]",
        ),
        (
            "sample_top_p_from_logits",
            (LOGITS, 1.0, 0.9, 1.0),
            ValueError,
            r"uniform_sample is 1.0, expected .* in \[0, 1",
        ),
        (
            "sample_top_p_from_logits",
            (of(1, math.nan), 0.0, 0.9, 0.5),
            ValueError,
            "logits have the greatest value nan",
        ),
        ("sample_top_p_from_logits", (of(-math.inf), 1.0, 0.9, 0.5), ValueError, "the greatest value -inf"),
        (
            "sample_top_p_from_prob",
            (of(0, 0), 0.9, 0.5),
            ValueError,
            "prob has values from 0.0 to 0.0, expected probab",
        ),
        ("sample_top_p_from_prob", (of(-1, 2), 0.9, 0.5), ValueError, "prob has values from -1.0 to 2.0"),
        ("multinomial_from_uniform", (of(1), of(0.5)), ValueError, r"prob has the shape \(1,\), expected \(n, vocab"),
        ("multinomial_from_uniform", (of([1]), of(0.5, 0.5)), ValueError, r"shape \(2,\), expected \(1, 1\)"),
        ("multinomial_from_uniform", (of([1]), of(1.5)), ValueError, "uniform_sample has numbers outside of"),
        (
            "apply_repetition_penalty",
            (LOGITS, of(3, dtype="int32"), 1.5),
            ValueError,
            "the id 3, expected one from 0 to 2",
        ),
        ("apply_repetition_penalty", (LOGITS, of(-1, dtype="int32"), 1.5), ValueError, "token_ids has the id -1"),
        (
            "apply_repetition_penalty",
            (LOGITS, of(1.0), 1.5),
            TypeError,
            "token_ids has the dtype float32, expected integ",
        ),
        (
            "apply_repetition_penalty",
            (LOGITS, of(1, dtype="int32"), 0.0),
            ValueError,
            "penalty is 0.0, expected a positive",
        ),
        (
            "apply_presence_and_frequency_penalty",
            (LOGITS, of(1, 1, dtype="int32"), of(1, 1, dtype="int32"), 0.1, 0.1),
            ValueError,
            "token_ids names a token twice",
        ),
        (
            "apply_presence_and_frequency_penalty",
            (LOGITS, of(1, dtype="int32"), of(1, 1, dtype="int32"), 0.1, 0.1),
            ValueError,
            "there are 2 frequencies of 1 tokens",
        ),
        ("apply_softmax_with_temperature", (LOGITS, 0.0), ValueError, "temperature is 0.0, expected a positive number"),
    ],
)
def test_what_is_refused(name, args, error, message):
    with pytest.raises(error, match=message):
        builtin(name)(*args)
    assert numpy_view(LOGITS).tolist() == [1, 2, 3]


@I.ir_module
class Sampler:
    @R.function(pure=False)
    def main(logits: R.Tensor((5,), "float32"), ids: R.Tensor((2,), "int32")):
        doubled = R.add(logits, logits)
        _ = R.call_packed("vm.builtin.apply_repetition_penalty", doubled, ids, R.prim_value(2.0), sinfo_args=R.Object)
        token = R.call_packed(
            "vm.builtin.sample_top_p_from_logits", doubled, R.prim_value(0.0), R.prim_value(0.9), R.prim_value(0.5),
            sinfo_args=R.Prim("int64"),
        )  # fmt: skip
        return (doubled, token)


@pytest.mark.parametrize("mode", [*MODES, "interpreter"])
def test_a_program_samples(mode):
    args = np.array([1, 4, 3, -2, 0], "float32"), np.array([1, 3], "int32")
    if mode == "interpreter":
        logits, token = relax.interpret(Sampler, "main", *args)
    else:
        logits, token = relax.VirtualMachine(relax.build(Sampler, PLAIN_LOOPS, exec_mode=mode), relax.cpu())["main"](
            *args
        )
    assert logits.numpy().tolist() == [2, 4, 6, -8, 0]
    assert token == 2
