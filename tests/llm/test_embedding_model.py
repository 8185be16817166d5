"""Models of sentences: vectors of texts, whatever texts they are encoded with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_models import small_bert, small_model

from relax import llm

TEXTS = ["the cat plays", "the dog sleeps the cat", "cats", "the cat plays", ""]


def test_vectors_have_length_one_and_do_not_depend_on_other_texts(tmp_path: Path) -> None:
    model = llm.load_embedding(small_bert(tmp_path / "bert"))
    vectors = model.embed(TEXTS)
    assert vectors.shape == (5, 16)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(vectors[0], vectors[3], rtol=1e-6)
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(model.embed(text), vector, rtol=1e-4, atol=1e-5)
    assert model.embed([]).shape[0] == 0


def test_more_texts_than_are_encoded_together(tmp_path: Path) -> None:
    model = llm.load_embedding(small_bert(tmp_path / "bert"))
    texts = ["the " * (1 + i % 7) + "cat" for i in range(70)]
    vectors = model.embed(texts)
    np.testing.assert_allclose(vectors[69], model.embed(texts[69]), rtol=1e-4, atol=1e-5)


def test_a_long_text_is_cut_and_keeps_its_end(tmp_path: Path) -> None:
    model = llm.load_embedding(small_bert(tmp_path / "bert"))
    assert model.longest == 12
    np.testing.assert_allclose(model.embed("cat " * 50), model.embed("cat " * 10), rtol=1e-5, atol=1e-6)


def test_pooling_by_the_first_token(tmp_path: Path) -> None:
    mean = llm.load_embedding(small_bert(tmp_path / "mean", normalises=False))
    first = llm.load_embedding(small_bert(tmp_path / "cls", pooling="cls", normalises=False))
    assert not np.allclose(mean.embed("the cat"), first.embed("the cat"))
    assert abs(float(np.linalg.norm(first.embed("the cat"))) - 1) > 1e-3


def test_models_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bert models embed texts: use relax.llm.load_embedding"):
        llm.load(small_bert(tmp_path / "bert"))
    with pytest.raises(ValueError, match="has no model of sentences with a tokenizer"):
        llm.load_embedding(small_model(tmp_path / "llama"))
