"""``relax bench model.gguf``: tokens a second of a language model, beside OpenVINO GenAI where it is installed."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..llm.loading import DEFAULT_CONTEXT
from ..llm.measuring import Speed, measured
from ..runtime import num_threads
from .failures import SUCCESS
from .language_models import loaded
from .tables import text_table

PROMPT: Final = 512
DECODE: Final = 128
SEQUENCES: Final = (1, 4, 16)
ROUNDS: Final = 3
"""Rounds, in which engines alternate; their best is shown."""


def run(options: argparse.Namespace) -> int:
    """Measure the model that options name; returns the exit status."""
    settings = argparse.Namespace(model=options.model, dtype=None, threads=None, context=None)
    model = loaded(settings, cache_tokens=max(DEFAULT_CONTEXT, SEQUENCES[-1] * (PROMPT + DECODE + 16)))
    theirs = None if options.alone else _openvino(str(options.model))
    rows: list[list[str]] = []
    for sequences in SEQUENCES:
        ours: list[Speed] = []
        others: list[Speed] = []
        for _ in range(ROUNDS):
            ours.append(measured(model.runner, model.vocabulary, sequences, PROMPT, DECODE))
            if theirs is not None and sequences == 1:
                others.append(theirs())
        for name, speeds in (("relax", ours), ("openvino-genai", others)):
            if speeds:
                best = max(s.prompt for s in speeds), max(s.decode for s in speeds)
                rows.append([str(sequences), name, f"{best[0]:.0f}", f"{best[1]:.0f}"])
    heading = f"{options.model.name}, {num_threads()} threads: tokens a second, best of {ROUNDS} rounds"
    header = ("sequences", "engine", f"prompt of {PROMPT}", f"decode of {DECODE}")
    sys.stdout.write(f"{heading}\n\n{text_table(header, rows, (0, 2, 3))}\n")
    return SUCCESS


def _openvino(path: str) -> Callable[[], Speed] | None:
    """Return what measures OpenVINO GenAI on the same file; None if it is not installed or does not read the file."""
    if importlib.util.find_spec("openvino_genai") is None or not path.endswith(".gguf"):
        return None
    genai: Any = importlib.import_module("openvino_genai")
    try:
        pipeline = genai.LLMPipeline(path, "CPU", INFERENCE_NUM_THREADS=num_threads())
    except RuntimeError:
        return None
    config = genai.GenerationConfig()
    config.max_new_tokens, config.min_new_tokens, config.ignore_eos, config.do_sample = (
        DECODE + 1,
        DECODE + 1,
        True,
        False,
    )
    rng = np.random.default_rng(0)

    def measure() -> Speed:
        openvino: Any = importlib.import_module("openvino")
        ids = openvino.Tensor(rng.integers(100, 20000, (1, PROMPT)).astype(np.int64))
        metrics = pipeline.generate(ids, config).perf_metrics
        return Speed(1, PROMPT / metrics.get_ttft().mean * 1e3, 1e3 / metrics.get_tpot().mean)

    return measure
