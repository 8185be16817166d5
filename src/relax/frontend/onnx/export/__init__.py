"""Relax functions as ONNX models: `to_onnx`, `save_onnx`, and `writer` for operators of one's own."""

from __future__ import annotations

from . import operators as operators  # which registers the writers
from .api import save_onnx, to_onnx
from .registry import writer

__all__ = ["save_onnx", "to_onnx", "writer"]
