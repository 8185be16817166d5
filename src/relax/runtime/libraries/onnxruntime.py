"""Modules for ONNX Runtime: a session for each model, which reads arguments and writes outputs where they lie.

`pip install onnxruntime`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from ..dtypes import Array
from ..modules import Module, required
from ..rooms import ModuleWhenUsed
from ..threads import num_threads
from .onnx_code import OnnxFunction

_ort: Final[Any] = ModuleWhenUsed("onnxruntime")

ELEMENTS: Final = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16,
}  # fmt: skip
"""ONNX's numbers of element types."""
DTYPES: Final = frozenset(ELEMENTS)
"""Dtypes of tensors that are handed over."""


def session_of(model: bytes, threads: int = 1, optimize: bool = True) -> Any:
    """Return the session of a model on the CPU. Raises what ONNX Runtime does for a model that it does not run."""
    options = _ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    if not optimize:
        options.graph_optimization_level = _ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return _ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class Session(OnnxFunction):
    """The function of one model."""

    dtypes: ClassVar = DTYPES

    def __init__(self, module: Module) -> None:
        required("onnxruntime", "onnxruntime")
        super().__init__(module)

    def start(self, model: bytes, options: dict[str, Any]) -> None:
        self.session = session_of(model, int(options.get("threads", num_threads())))

    def compute(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        binding = self.session.io_binding()
        for (name, dtype), array in zip(self.inputs, inputs, strict=True):
            _bind(binding.bind_input, name, dtype, array)
        for (name, dtype), array in zip(self.outputs, outputs, strict=True):
            if array.size:
                _bind(binding.bind_output, name, dtype, array)
            else:
                binding.bind_output(name)
        self.session.run_with_iobinding(binding)

    def results(self, inputs: Sequence[Array]) -> list[Array]:
        binding = self.session.io_binding()
        for (name, dtype), array in zip(self.inputs, inputs, strict=True):
            _bind(binding.bind_input, name, dtype, array)
        for name, _ in self.outputs:
            binding.bind_output(name)
        self.session.run_with_iobinding(binding)
        return binding.copy_outputs_to_cpu()


_NOWHERE: Final = np.zeros(1, np.float64)
"""Memory for inputs without elements, whose address must not be 0."""


def _bind(bind: Callable[..., None], name: str, dtype: str, array: Array) -> None:
    where = array if array.size else _NOWHERE
    bind(name, "cpu", 0, ELEMENTS[dtype], list(array.shape), where.ctypes.data)


load = Session.load
