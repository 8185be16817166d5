"""Choice of the opset: the newest one in which ONNX Runtime has a kernel for each operator of a model."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Collection
from functools import cache
from typing import Any, Final

from onnx import defs, helper

from ....ir import Diagnostic, DiagnosticError

OLDEST: Final = 21
"""First opset with the forms of operators that writers use: 4-bit integers, axes of reductions and Pad as inputs."""

NEWEST: Final = 28
"""Last opset whose changes of operators writers follow."""

_OPEN: Final = 1 << 30
"""Ends of ranges of versions from here on are open: ONNX Runtime writes the greatest int32."""


def latest() -> int:
    """The newest opset that the installed onnx knows and writers follow."""
    return min(defs.onnx_opset_version(), NEWEST)


def newest(operators: Collection[str]) -> int:
    """The newest opset in which ONNX Runtime has kernels for these operators; `latest` if it has none in any, or is not
    installed."""
    ranges = _kernels()
    if not ranges:
        return latest()
    return next((opset for opset in range(latest(), OLDEST - 1, -1) if _runs(operators, opset, ranges)), latest())


def _runs(operators: Collection[str], opset: int, ranges: dict[str, list[tuple[int, int]]]) -> bool:
    """True if there is a kernel for the version that each operator has in an opset."""
    return all(_has_kernel(name, _version(name, opset), ranges) for name in operators)


def _has_kernel(name: str, version: int, ranges: dict[str, list[tuple[int, int]]]) -> bool:
    """True if a kernel is for this version. A range that is open holds for its first version only, as for ONNX Runtime
    itself: a later one may differ. Operators that are defined by others have no kernels."""
    known = ranges.get(name)
    if version == 0 or known is None:
        schema: Any = defs.get_schema(name, version, "") if version else None
        return bool(schema is not None and schema.has_function)
    return any(low == version or (low <= version <= high < _OPEN) for low, high in known)


@cache
def _version(name: str, opset: int) -> int:
    """The opset that introduced the form that an operator has in `opset`; 0 if it has none yet."""
    if not defs.has(name):
        return 0
    versions = [s.since_version for s in _history().get(name, ()) if s.since_version <= opset]
    return max(versions, default=0)


@cache
def _history() -> dict[str, list[Any]]:
    """All forms of the operators of ONNX's own domain."""
    schemas: dict[str, list[Any]] = {}
    for schema in defs.get_all_schemas_with_history():
        if not schema.domain:
            schemas.setdefault(schema.name, []).append(schema)
    return schemas


@cache
def _kernels() -> dict[str, list[tuple[int, int]]]:
    """Versions of operators for which ONNX Runtime has kernels for the CPU; {} if it is not installed."""
    if importlib.util.find_spec("onnxruntime") is None:
        return {}
    state: Any = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    if not hasattr(state, "get_all_opkernel_def"):
        return {}
    ranges: dict[str, list[tuple[int, int]]] = {}
    for kernel in state.get_all_opkernel_def():
        if kernel.domain == "" and kernel.provider == "CPUExecutionProvider":
            ranges.setdefault(kernel.op_name, []).append(tuple(kernel.version_range))
    return ranges


def require_opset(opset: int) -> None:
    """Raise DiagnosticError for an opset that is not written."""
    if not OLDEST <= opset <= latest():
        message = f"to_onnx: opset must be in [{OLDEST}, {latest()}], found {opset}"
        hint = "leave it out for the newest one in which ONNX Runtime runs the model"
        raise DiagnosticError(Diagnostic("E6009", message, None, "", (), hint))


def ir_version_for(opset: int) -> int:
    """The version of the file format in which an opset was introduced."""
    return int(helper.find_min_ir_version_for([helper.make_opsetid("", opset)]))
