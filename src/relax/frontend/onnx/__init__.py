"""Models in the ONNX format: `from_onnx`, and `converter` for operators of one's own. Needs the package ``onnx``."""

from __future__ import annotations

from . import operators as operators  # which registers the converters
from .emitter import Emitter
from .importer import from_onnx
from .registry import converter
from .values import Array, Dims, Ints, Tensor, Value

__all__ = ["Array", "Dims", "Emitter", "Ints", "Tensor", "Value", "converter", "from_onnx"]
