"""ONNX models as programs. The optional package ``onnx`` is imported only when a model is read."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..ir import IRModule
from .failures import optional_package


def read_onnx(path: Path, shapes: Mapping[str, Sequence[int | str]], values: Mapping[str, Any]) -> IRModule:
    """Import an ONNX model. Raises DiagnosticError, or OSError if the file cannot be read."""
    optional_package("onnx", "relax[onnx]", "reading an ONNX model")
    return _frontend().from_onnx(path, shape_dict=dict(shapes) or None, values=dict(values) or None)


def variable_name(name: str) -> str:
    """Name of the variable for a value of an ONNX model."""
    return _frontend().emitter.identifier(name)


def _frontend() -> Any:
    return importlib.import_module("..frontend.onnx", __package__)
