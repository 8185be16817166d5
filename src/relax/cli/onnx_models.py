"""ONNX models as programs. Reading one imports the package ``onnx``, which is optional, so it is imported then."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..ir import IRModule
from .failures import optional_package


def read_onnx(path: Path, shapes: Mapping[str, Sequence[int | str]]) -> IRModule:
    """The program that an ONNX model is. Raises DiagnosticError, OSError if the file cannot be read."""
    optional_package("onnx", "relax[onnx]", "reading an ONNX model")
    return _frontend().from_onnx(path, shape_dict=dict(shapes) or None)


def variable_name(name: str) -> str:
    """The name of the variable for a value of an ONNX model."""
    return _frontend().emitter.identifier(name)


def _frontend() -> Any:
    return importlib.import_module("..frontend.onnx", __package__)
