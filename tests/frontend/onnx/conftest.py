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
    imports = f'"": {opset}, "ai.onnx.ml": {3 if opset < 20 else 5}, "com.microsoft": 1'
    return onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]>\n{text}")


def _passed(value: object) -> object:
    """An input as the machine takes it: strings and None are what they are, a list is a sequence."""
    if isinstance(value, list):
        return [_passed(item) for item in value]
    is_text = isinstance(value, np.ndarray) and value.dtype == object
    return value if value is None or is_text else relax.nd.array(value)


def _compare(found: object, right: object, name: str, rtol: float, atol: float) -> None:
    if isinstance(right, list):
        assert len(found) == len(right), name
        for item, other in zip(found, right, strict=True):
            _compare(item, other, name, rtol, atol)
    elif isinstance(right, dict):
        assert set(found) == set(right), name
        for key, number in right.items():
            np.testing.assert_allclose(found[key], number, rtol, atol, err_msg=name)
    elif right is None:
        assert found is None, name
    else:
        array = found.numpy()
        assert (array.dtype, array.shape) == (right.dtype, right.shape), name
        if array.dtype == object:
            assert array.tolist() == right.tolist(), name
        else:
            np.testing.assert_allclose(array, right, rtol, atol, err_msg=name)


@pytest.fixture
def agrees() -> Callable[..., relax.IRModule]:
    """``agrees(text, inputs, inputs, …)``: import, build once with loops as written, and compare each call with ONNX Runtime.

    `inputs` is one array, a tuple of them in the order of the graph's inputs, or a dict. Returns the imported module.
    """

    def compare(text: str, *calls: object, opset: int = 18, rtol: float = 1e-5, atol: float = 1e-6) -> relax.IRModule:
        model = parse(text, opset)
        mod = from_onnx(model)
        vm = relax.VirtualMachine(relax.build(mod, "llvm -opt-level=1"), relax.cpu())
        session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        names = [item.name for item in model.graph.input]
        for call in calls:
            if isinstance(call, dict):
                arrays = tuple(call[name] for name in names)
            else:
                arrays = call if isinstance(call, tuple) else (call,)
            result = vm["main"](*map(_passed, arrays))
            results = [result] if len(model.graph.output) == 1 else list(result)
            expected = session.run(None, dict(zip(names, arrays, strict=True)))
            for output, found, right in zip(model.graph.output, results, expected, strict=True):
                _compare(found, right, output.name, rtol, atol)
        return mod

    return compare


@pytest.fixture
def imported() -> Callable[..., relax.IRModule]:
    """``imported(text)``: the module of a graph in text form."""
    return lambda text, opset=18, **options: from_onnx(parse(text, opset), **options)
