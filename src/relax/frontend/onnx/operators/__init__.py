"""Converters of ONNX's operators, a file a family."""

from __future__ import annotations

from . import math, shape

__all__ = ["math", "shape"]
