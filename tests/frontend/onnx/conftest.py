"""Models in ONNX's text form: imported, built once, and compared with ONNX Runtime at several sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import relax
from relax.frontend.onnx import from_onnx


def parse(text: str, opset: int = 18) -> onnx.ModelProto:
    """The model of a graph in text form."""
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]>\n{text}')


@pytest.fixture
def agrees() -> Callable[..., relax.IRModule]:
    """``agrees(text, inputs, inputs, …)``: import, build once, and compare each call with ONNX Runtime.

    `inputs` is one array, a tuple of them in the order of the graph's inputs, or a dict. Returns the imported module.
    """

    def compare(
        text: str, *calls: object, opset: int = 18, rtol: float = 1e-5, atol: float = 1e-6
    ) -> relax.IRModule:
        model = parse(text, opset)
        mod = from_onnx(model)
        vm = relax.VirtualMachine(relax.build(mod, "llvm"), relax.cpu())
        session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        names = [item.name for item in model.graph.input]
        for call in calls:
            if isinstance(call, dict):
                arrays = tuple(call[name] for name in names)
            else:
                arrays = call if isinstance(call, tuple) else (call,)
            result = vm["main"](*map(relax.nd.array, arrays))
            results = [result] if len(model.graph.output) == 1 else list(result)
            expected = session.run(None, dict(zip(names, arrays, strict=True)))
            for output, found, right in zip(model.graph.output, results, expected, strict=True):
                array = found.numpy()
                assert (array.dtype, array.shape) == (right.dtype, right.shape), output.name
                np.testing.assert_allclose(array, right, rtol, atol, err_msg=output.name)
        return mod

    return compare


@pytest.fixture
def imported() -> Callable[..., relax.IRModule]:
    """``imported(text)``: the module of a graph in text form."""
    return lambda text, opset=18, **options: from_onnx(parse(text, opset), **options)
