"""The examples of language models."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "llm"


def module(name: str):
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    module("sentences").main()
    said = capsys.readouterr().out
    assert "The capital of France is Paris." in said
    assert "tokens a second, of weights of 97 MB" in said


def test_the_nearest_note() -> None:
    vectors = np.eye(4, dtype=np.float32)
    assert module("retrieval").nearest(vectors, np.array([0.1, 0.2, 0.9, 0.3])) == 2
