"""Modules for OpenVINO: a compiled model for each ONNX model, which reads arguments where they lie.

`pip install openvino`. The option `precision` is that in which it computes: "float32", or "bfloat16" where the
processor has it.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from ..dtypes import Array
from ..modules import Module, required
from ..rooms import ModuleWhenUsed
from ..threads import num_threads
from .onnx_code import OnnxFunction

_openvino: Final[Any] = ModuleWhenUsed("openvino")

DTYPES: Final = frozenset({"float32", "int8", "uint8", "int32", "int64", "bool"})
"""Dtypes of tensors that are handed over."""
PRECISIONS: Final = {"float32": "f32", "bfloat16": "bf16"}
"""OpenVINO's names of precisions."""


def compiled_model(model: bytes, options: dict[str, Any]) -> Any:
    """Return the compiled form of an ONNX model on the CPU. Raises RuntimeError for one that OpenVINO does not run."""
    core = _openvino.Core()
    configuration = {
        "INFERENCE_PRECISION_HINT": PRECISIONS[options.get("precision", "float32")],
        "INFERENCE_NUM_THREADS": int(options.get("threads", num_threads())),
        "PERFORMANCE_HINT": "LATENCY",
    }
    return core.compile_model(core.read_model(io.BytesIO(model)), "CPU", configuration)


class CompiledModel(OnnxFunction):
    """The function of one model."""

    dtypes: ClassVar = DTYPES

    def __init__(self, module: Module) -> None:
        required("openvino", "openvino")
        super().__init__(module)

    def start(self, model: bytes, options: dict[str, Any]) -> None:
        self.model = compiled_model(model, options)
        self.used = {name for port in self.model.inputs for name in port.names}
        """Names of the inputs that a result depends on; OpenVINO drops others."""
        self._own = threading.local()
        """A request for each thread: one runs at a time."""

    def compute(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        request = getattr(self._own, "request", None)
        if request is None:
            request = self._own.request = self.model.create_infer_request()
        for (name, _), array in zip(self.inputs, inputs, strict=True):
            if name in self.used:
                request.set_tensor(name, _openvino.Tensor(array, shared_memory=True))
        request.infer()
        for number, output in enumerate(outputs):
            value: Array = request.get_output_tensor(number).data
            if not output.ndim and value.size == 1:  # OpenVINO has vectors of one element for some
                value = value.reshape(())
            if (value.shape, value.dtype) != (output.shape, output.dtype):
                found = f"{value.dtype.name}{value.shape}, expected {output.dtype.name}{output.shape}"
                raise ValueError(f"{self.symbol}: an output is {found}")
            output[...] = value


load = CompiledModel.load
