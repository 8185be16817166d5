"""Constant weights in block formats, exported: ONNX Runtime computes the same, and the importer reads the formats again."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import relax
from relax import op
from relax.frontend.onnx import from_onnx, to_onnx
from relax.script import relax as R
from relax.topi.block_formats import FORMATS, block_format, group_rows
from weights_in_blocks import rows

GROUPED = ("int4_g32", "int4_g64_zero", "int8_g32_float16", "int8_g128_zero")
PLAIN = sorted(name for name, held in FORMATS.items() if held.minimum is None)
WITH_MINIMA = sorted(name for name, held in FORMATS.items() if held.minimum is not None)


def depth(name: str) -> int:
    """The numbers of a row of two blocks."""
    return 2 * block_format(name).elements


def module(params, result) -> relax.IRModule:
    """A function of parameters that returns what `result` emits."""
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            value = builder.emit_output(result(builder, *params))
        builder.emit_func_output(value)
    return builder.get()


def product(name: str, weights: np.ndarray, size: int | None = None, dtype: str = "float32") -> relax.IRModule:
    """A product of activations that are rounded to bytes, in blocks of the format or of `size`."""

    def result(builder, x):
        rounded = builder.emit(op.nn.dynamic_quantize(x, size or block_format(name).elements))
        return op.nn.quantized_matmul(rounded[0], rounded[1], relax.const(weights), name)

    return module([relax.Var("x", R.Tensor(("n", depth(name)), dtype))], result)


def run(mod: relax.IRModule, *arrays: np.ndarray) -> np.ndarray:
    vm = relax.VirtualMachine(relax.build(mod, "llvm -opt-level=1"), relax.cpu())
    return vm["main"](*map(relax.nd.array, arrays)).numpy()


def exported(mod: relax.IRModule, *arrays: np.ndarray) -> tuple[onnx.ModelProto, list[str]]:
    """The model, whose results are compared, and its operators."""
    model = to_onnx(mod)
    onnx.checker.check_model(model, full_check=True)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # it would round other data to bytes
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [item.name for item in session.get_inputs()]
    (found,) = session.run(None, dict(zip(names, arrays, strict=True)))
    scale = 1e-5 * np.abs(found).max()
    np.testing.assert_allclose(found, run(mod, *arrays), 1e-4, scale)
    np.testing.assert_allclose(run(from_onnx(model), *arrays), found, 1e-4, scale)
    return model, [node.op_type for node in model.graph.node]


def activations(name: str, rows_: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(rows_).standard_normal((rows_, depth(name))).astype(dtype)


@pytest.mark.parametrize("name", [*PLAIN, *GROUPED])
def test_weights_are_dequantised_in_blocks(name):
    """Bits are as few as hold the numbers and zero points; steps of the scale make blocks of their own."""
    weights = rows(name, (5,), 2)
    mod = module(
        [relax.Var("x", R.Tensor(("n", depth(name)), "float32"))],
        lambda builder, x: op.matmul(
            x, builder.emit(op.permute_dims(builder.emit(op.dequantize_blocks(relax.const(weights), name))))
        ),
    )
    model, operators = exported(mod, activations(name, 3))
    assert operators == ["DequantizeLinear", "Transpose", "MatMul"]
    held = block_format(name)
    numbers = next(item for item in model.graph.initializer if item.name == model.graph.node[0].input[0])
    narrow = {"q4_0": "INT4", "tq2_0": "INT4", "int4_g32": "INT4"}
    expected = narrow.get(name, "INT4" if held.integers.bits < 4 and not held.integers.table else "INT8")
    assert onnx.TensorProto.DataType.Name(numbers.data_type) == expected
    assert {a.name: a.i for a in model.graph.node[0].attribute}["block_size"] == held.group


def test_zero_points_of_4_bits_are_as_narrow_as_the_numbers():
    rng = np.random.default_rng(0)
    numbers, zeros = rng.integers(0, 16, (5, 64)), rng.integers(0, 16, (5, 2))
    weights, held = group_rows(numbers, rng.random((5, 2)).astype("float32"), zeros, 4)
    mod = module([], lambda builder: op.dequantize_blocks(relax.const(weights), held.name))
    model, operators = exported(mod)
    assert operators == ["DequantizeLinear"]
    assert {item.data_type for item in model.graph.initializer} == {onnx.TensorProto.UINT4, onnx.TensorProto.FLOAT}


@pytest.mark.parametrize("name", ["q4_0", "q8_0", "tq2_0", "mxfp4", *GROUPED])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_products_of_rounded_activations(name, dtype):
    """One node for the rounding and the product, which is imported as both."""
    mod = product(name, rows(name, (5,), 2), dtype=dtype)
    model, operators = exported(mod, activations(name, 3, dtype))
    assert operators == ["MatMulNBits"] if dtype == "float32" else ["Cast", "MatMulNBits"]
    assert [(item.domain, item.version) for item in model.opset_import][1:] == [("com.microsoft", 1)]
    script = from_onnx(model).script()
    assert "R.nn.dynamic_quantize(" in script
    assert "R.nn.quantized_matmul(" in script


def test_products_of_formats_with_steps_are_written_with_their_rounding():
    """MatMulNBits would round activations in blocks of 16, not of 256."""
    mod = product("q6_k", rows("q6_k", (5,), 2))
    _, operators = exported(mod, activations("q6_k", 3))
    assert "MatMulNBits" not in operators
    assert operators.count("DequantizeLinear") == 2


@pytest.mark.parametrize(("shape", "size"), [((3, 70), 32), ((2, 3, 64), 32), ((7,), 8), ((0, 8), 4)])
def test_activations_alone(shape, size):
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    x.reshape(-1)[1:2] = 0
    mod = module([relax.Var("x", R.Tensor(shape, "float32"))], lambda builder, x: op.nn.dynamic_quantize(x, size))
    model = to_onnx(mod)
    found = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    numbers, scales = op.nn.dynamic_quantize(relax.const(x), size).attrs.reference(x)
    np.testing.assert_array_equal(found[0], numbers)
    np.testing.assert_allclose(found[1], scales, 1e-6)


@pytest.mark.parametrize("name", ["q4_0", "q6_k", *GROUPED])
@pytest.mark.parametrize("dtype", ["int64", "uint8"])
def test_rows_of_tables(name, dtype):
    table = rows(name, (9,), 2)
    mod = module(
        [relax.Var("i", R.Tensor(("n", 2), dtype))],
        lambda builder, i: op.nn.quantized_take(relax.const(table), i, name),
    )
    _, operators = exported(mod, np.array([[0, 8], [3, 1]], dtype))
    assert operators == ["GatherBlockQuantized"] if dtype == "int64" else ["Cast", "GatherBlockQuantized"]


@pytest.mark.parametrize("name", WITH_MINIMA)
def test_formats_with_minima_are_refused(name):
    with pytest.raises(relax.DiagnosticError) as raised:
        to_onnx(product(name, rows(name, (5,), 2)))
    assert f"ONNX cannot say the block format {name}, which has minima" in str(raised.value)


def test_weights_that_are_inputs_are_refused():
    mod = module([relax.Var("w", R.Tensor((4, 18), "uint8"))], lambda builder, w: op.dequantize_blocks(w, "q4_0"))
    with pytest.raises(relax.DiagnosticError) as raised:
        to_onnx(mod)
    assert "ONNX cannot say weights in the block format q4_0 that are no constants" in str(raised.value)
