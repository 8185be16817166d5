"""OpenVINO as a library: regions that ONNX can say, of dtypes in which its CPU computes as the language says.

mod = partition_for_openvino(mod)            pip install relax[openvino]

Options: `precision` is "float32", or "bfloat16" for sums of products in it where the processor has it; `threads` is the
number of threads of an operator, by default that of the machine. Quantised regions (`R.quantize`, products and
`R.dequantize` between them) run in int8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ..ir import IRModule
from ..op import Operator
from ..runtime.libraries.openvino import DTYPES, PRECISIONS, compiled_model
from ..runtime.modules import required
from ..struct_info import TensorStructInfo
from .codegen import register_codegen
from .onnx_regions import is_empty, is_thread_count, may_be_empty, onnx_codegen, onnx_patterns, options_among
from .partition import partition

_MOVES: Final = frozenset({
    "broadcast_to", "concat", "expand_dims", "flatten", "flip", "gather_nd", "permute_dims", "repeat", "reshape",
    "split", "squeeze", "stack", "strided_slice", "take", "tile", "where",
})  # fmt: skip
"""Operators that move elements, and compute with none."""
_INDEXED: Final = frozenset({"take", "gather_nd"})
"""Operators whose second operand holds indices."""
_DECLINED: Final = frozenset({
    "argsort", "gather_elements", "image.grid_sample", "image.resize", "nn.gru", "nn.lstm", "nn.rnn", "random.normal",
    "random.uniform", "sort", "topk", "vision.col2im",
})  # fmt: skip
"""Operators that OpenVINO computes in another way, or refuses only when they run."""
_NEEDS_ELEMENTS: Final = frozenset({"max", "min", "nn.attention", "nn.attention_bias", "nn.attention_var_len"})
"""Operators whose result is not right if a tensor has no elements; pools are, too."""
_QUANTIZED: Final = frozenset({"quantize", "dequantize"})


def _takes(operator: Operator, operands: Sequence[TensorStructInfo], results: Sequence[TensorStructInfo]) -> bool:
    """Return True for what OpenVINO's CPU computes as the language says: it has int64 as int32, and integers of 8 bits
    that do not wrap around."""
    name = operator.short_name
    dtypes = {"float32", "bool"}
    if name in _MOVES:
        dtypes |= {"int32", "int8", "uint8"}
    elif name in _QUANTIZED:
        dtypes |= {"int8", "uint8"}
    data = [operands[0], *operands[2:]] if name in _INDEXED else operands
    tensors = (*operands, *results)
    if name in _DECLINED or any(map(is_empty, tensors)):
        return False
    if (name in _NEEDS_ELEMENTS or "pool" in name) and any(map(may_be_empty, tensors)):
        return False
    if name in _QUANTIZED and operands[1].ndim and may_be_empty(operands[1]):  # a scale for each of unknown many
        return False
    unlike = {"ceil_mode": True, "method": "cubic", "pad_mode": "reflect"}
    if any(getattr(operator, attribute, None) == value for attribute, value in unlike.items()):
        return False
    return {str(info.dtype) for info in (*data, *results)} <= dtypes


def _accepts(model: bytes) -> bool:
    """Return True if OpenVINO compiles a model. Raises ImportError if the library is not installed."""
    required("openvino", "relax[openvino]")
    try:
        compiled_model(model, {"threads": 1})
    except RuntimeError:
        return False
    return True


def _options(given: dict[str, Any]) -> dict[str, Any]:
    known = {"precision": PRECISIONS.__contains__, "threads": is_thread_count}
    return options_among("openvino", known, given)


register_codegen(
    "openvino",
    patterns=onnx_patterns("openvino", DTYPES, _takes, _accepts),
    codegen=onnx_codegen("openvino", _options),
    override=True,
)


def partition_for_openvino(mod: IRModule, **options: Any) -> IRModule:
    """Return a module whose operators run in OpenVINO where that has the same; see `partition`."""
    return partition(mod, "openvino", options={"openvino": options})
