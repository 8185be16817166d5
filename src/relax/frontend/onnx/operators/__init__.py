"""Converters of ONNX's operators, a file a family."""

from __future__ import annotations

from . import control, math, shape

__all__ = ["control", "math", "shape"]
