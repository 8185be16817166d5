"""Converters of ONNX's operators, a file a family."""

from __future__ import annotations

from . import control, image, math, nn, quantize, recurrent, shape, signal, training

__all__ = ["control", "image", "math", "nn", "quantize", "recurrent", "shape", "signal", "training"]
