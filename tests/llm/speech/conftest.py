"""A small model of speech, compiled once a module."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_whisper import small_whisper

from relax import llm


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_whisper(tmp_path_factory.mktemp("speech") / "small")


@pytest.fixture(scope="module")
def model(folder: Path) -> llm.SpeechModel:
    return llm.load_speech(folder)
