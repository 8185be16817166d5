"""ONNX models as programs. The optional package ``onnx`` is imported only when a model is read."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..ir import IRModule
from .failures import optional_package


def read_onnx(
    path: Path, shapes: Mapping[str, Sequence[int | str]], values: Mapping[str, Any], fallback: str | None
) -> IRModule:
    """Import an ONNX model. Raises DiagnosticError, or OSError if the file cannot be read."""
    optional_package("onnx", "relax[onnx]", "reading an ONNX model")
    if fallback is not None:
        optional_package(fallback, f"relax[{fallback}]", f"--fallback {fallback}")
    values = dict(values)
    return _frontend().from_onnx(path, shape_dict=dict(shapes) or None, values=values or None, fallback=fallback)


def write_onnx(mod: IRModule, path: Path, entry: str, opset: int | None, external_data: bool) -> tuple[int, int]:
    """Write a function as an ONNX model; returns (opset, number of nodes)."""
    optional_package("onnx", "relax[onnx]", "writing an ONNX model")
    model = _frontend().save_onnx(mod, path, entry=entry, opset=opset, external_data=external_data or None)
    return model.opset_import[0].version, len(model.graph.node)


def variable_name(name: str) -> str:
    """Name of the variable for a value of an ONNX model."""
    return _frontend().emitter.identifier(name)


def _frontend() -> Any:
    return importlib.import_module("..frontend.onnx", __package__)
