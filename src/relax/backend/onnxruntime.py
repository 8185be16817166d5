"""ONNX Runtime as a library: any region that ONNX can say.

mod = partition_for_onnxruntime(mod)            pip install relax[onnxruntime]

Options: `threads`, the number of threads of an operator, by default that of the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ..ir import IRModule
from ..op import Operator
from ..runtime.libraries.onnxruntime import DTYPES, session_of
from ..runtime.modules import required
from ..struct_info import TensorStructInfo
from .codegen import register_codegen
from .onnx_regions import is_empty, is_thread_count, may_be_empty, onnx_codegen, onnx_patterns, options_among
from .partition import partition

_DECLINED: Final = frozenset({
    "image.affine_grid", "image.grid_sample", "image.resize", "vision.all_class_non_max_suppression",
    "vision.padded_non_max_suppression",
})  # fmt: skip
"""Operators that ONNX Runtime computes in another way, or refuses only when they run."""
_NEEDS_ELEMENTS: Final = frozenset({"grad.take_backward", "image.resize2d", "nn.gru", "nn.lstm", "nn.rnn"})
"""Operators that it refuses, or whose computation ends the process, if a tensor has no elements; pools are, too."""


def _takes(operator: Operator, operands: Sequence[TensorStructInfo], results: Sequence[TensorStructInfo]) -> bool:
    """Return True for what ONNX Runtime computes as the language says."""
    name = operator.short_name
    tensors = (*operands, *results)
    if name in _DECLINED or any(map(is_empty, tensors)):
        return False
    if name in ("nn.gru", "nn.lstm") and str(operands[0].dtype) == "float64":
        return False
    if name in ("sum", "prod") and not operands[0].dtype.is_float:  # sums of integers stop at the greatest one
        return False
    if getattr(operator, "pad_mode", "") == "reflect":  # at most once
        return False
    return not (name in _NEEDS_ELEMENTS or "pool" in name) or not any(map(may_be_empty, tensors))


def _accepts(model: bytes) -> bool:
    """Return True if there are kernels for a model. Raises ImportError if the library is not installed."""
    required("onnxruntime", "relax[onnxruntime]")
    try:
        session_of(model, optimize=False)
    except Exception:  # noqa: BLE001 (ONNX Runtime has a dozen kinds)
        return False
    return True


def _options(given: dict[str, Any]) -> dict[str, Any]:
    return options_among("onnxruntime", {"threads": is_thread_count}, given)


register_codegen(
    "onnxruntime",
    patterns=onnx_patterns("onnxruntime", DTYPES, _takes, _accepts),
    codegen=onnx_codegen("onnxruntime", _options),
    override=True,
)


def partition_for_onnxruntime(mod: IRModule, **options: Any) -> IRModule:
    """Return a module whose operators run in ONNX Runtime where that has the same; see `partition`."""
    return partition(mod, "onnxruntime", options={"onnxruntime": options})
