"""Runner: logits of a token have the same bits whichever tokens are fed with it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from small_mixtures import gguf_file
from small_models import small_model

from relax.llm import load

TOKENS = np.random.default_rng(4).integers(1, 250, 60).tolist()


@pytest.fixture(scope="module", params=["float32", "bytes", "experts"])
def runner(request, tmp_path_factory):
    """Float32 weights, without and with activations in bytes, and a mixture of experts with weights of few bits."""
    folder = tmp_path_factory.mktemp("model")
    if request.param == "experts":
        gguf_file(folder / "model.gguf", "qwen3_moe")
        return load(folder / "model.gguf").runner
    dtype, activations = (None, "float32") if request.param == "float32" else ("q8_0", "int8")
    return load(small_model(folder / "small"), dtype=dtype, activations=activations).runner


def fed(runner, bounds, others=()):
    """Logits of the tokens, fed in chunks between bounds, with a chunk of each of the `others` beside each."""
    sequence, beside = runner.add(), [runner.add() for _ in others]
    logits = []
    for begin, end in pairwise(bounds):
        chunks = [(sequence, TOKENS[begin:end]), *zip(beside, others, strict=True)]
        logits.append(runner.step(chunks, every=True)[: end - begin])
    for number in (sequence, *beside):
        runner.remove(number)
    return np.concatenate(logits).tobytes()


@pytest.mark.parametrize(
    "bounds",
    [range(61), [0, 1, 3, 6, 10, 19, 51, 60], [0, 33, 59, 60], [0, 57, 58, 60]],
    ids=lambda each: str(list(each)[:4]),
)
def test_logits_have_the_same_bits_for_all_chunks(runner, bounds):
    assert fed(runner, bounds) == fed(runner, [0, 60])


def test_logits_have_the_same_bits_beside_other_sequences(runner):
    whole = fed(runner, [0, 60])
    assert fed(runner, [0, 40, 41, 42, 60], [[7], [8, 9], [3]]) == whole
    assert fed(runner, [0, 50, 60], [TOKENS[:9]]) == whole
