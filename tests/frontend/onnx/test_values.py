"""Values given for inputs at import: constants of the program, by which conditions are decided."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import relax
from relax.frontend.onnx import from_onnx
from support import PLAIN_LOOPS, numbers

from .conftest import parse

BY_RATE = """
    agraph (float[N, L] x, int64 rate) => (float[N, K] y) <int64 high = {16000}, int64[2] short = {0, 0}> {
      c = Equal(rate, high)
      y = If (c) <then_branch = g1 () => (float[N, K] a) { a = Concat<axis=1>(x, x) },
                  else_branch = g2 () => (float[N, K] b) { b = Neg(x) }>
    }"""


def with_sums(text: str) -> onnx.ModelProto:
    """The model of a graph whose dimensions may be sums, as in ``float[N + 1] t``."""
    model = parse(text.replace(" + 1]", "_plus_1]"))
    for item in model.graph.input:
        for dim in item.type.tensor_type.shape.dim:
            if dim.HasField("dim_param"):
                dim.dim_param = dim.dim_param.replace("_plus_1", " + 1")
    return model


def expected(text: str, **inputs: np.ndarray) -> list[np.ndarray]:
    """The outputs of ONNX Runtime."""
    session = ort.InferenceSession(parse(text).SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


@pytest.mark.parametrize("rate", [16000, 8000, np.int64(16000), np.array(8000), relax.nd.array(np.array(8000))])
def test_a_value_decides_a_condition(imported, rate: object):
    mod = imported(BY_RATE, values={"rate": rate})
    assert [param.name_hint for param in mod["main"].params] == ["x"]
    assert mod["main"].attrs["num_input"] == 1
    assert "if " not in mod.script()
    x = numbers(2, 3)
    number = np.array(rate.numpy() if isinstance(rate, relax.nd.NDArray) else rate)
    (right,) = expected(BY_RATE, x=x, rate=number)
    for found in (relax.interpret(mod, "main", x), relax.VirtualMachine(relax.build(mod, PLAIN_LOOPS))["main"](x)):
        np.testing.assert_array_equal(found.numpy(), right)


def test_a_value_fixes_the_named_sizes_of_other_inputs():
    text = "agraph (float[N, 4] x, float[N] s, float[A] z, float[N + 1] t) => (float[N, 4] y) { y = Neg(x) }"
    mod = from_onnx(with_sums(text), values={"s": np.ones(3, "float32")})
    infos = [str(param.struct_info) for param in mod["main"].params]
    assert infos == [f'R.Tensor({shape}, dtype="float32")' for shape in ("(3, 4)", "(A,)", "(4,)")]


def test_a_value_takes_the_place_of_a_default(imported):
    text = "agraph (float[2] x) => (float[2] y) <float scale = {2.0}> { y = Mul(x, scale) }"
    model = parse(text)
    scale = model.graph.input.add(name="scale")
    scale.type.tensor_type.elem_type = 1
    scale.type.tensor_type.shape.SetInParent()
    mod = from_onnx(model, values={"scale": 0.5}, keep_params_in_input=True)
    assert 'R.const(0.5, "float32")' in mod.script()


def test_strings_are_values(imported):
    text = """
    agraph (string[N] s) => (int64[N] y) {
      y = ai.onnx.ml.LabelEncoder<keys_strings = ["a", "b"], values_int64s = [3, 4]>(s)
    }"""
    mod = imported(text, values={"s": ["b", "a"]})
    assert relax.interpret(mod, "main").numpy().tolist() == [4, 3]


@pytest.mark.parametrize(
    "values, message, hint",
    [
        ({"rat": 1}, "a value is given for 'rat', which is no input of the model", "did you mean 'rate'?"),
        ({"q": 1}, "a value is given for 'q', which is no input of the model", "the inputs are x, rate"),
        ({"rate": 1.0}, "the value of 'rate' does not fit: it is float, expected int64", "the model declares int64"),
        ({"rate": True}, "the value of 'rate' does not fit: it is bool, expected int64", "the model declares int64"),
        ({"rate": 1 << 70}, "the value of 'rate' does not fit: int64 cannot hold it", "the model declares int64"),
        (
            {"rate": "16k"},
            "the value of 'rate' does not fit: expected numbers of int64, found str",
            "the model declares",
        ),
        (
            {"rate": np.int32(1)},
            "the value of 'rate' does not fit: its dtype is int32, expected int64",
            "the model declares int64",
        ),
        (
            {"rate": [1]},
            "the value of 'rate' has the shape (1,), expected 0 dimensions",
            "the model declares the shape ()",
        ),
        ({"x": [[1e40]]}, "the value of 'x' does not fit: float32 cannot hold it", "the model declares float32"),
        ({"x": [[1j]]}, "the value of 'x' does not fit: expected numbers of float32, found list", "the model declares"),
        (
            {"x": [[1], [1, 2]]},
            "the value of 'x' does not fit: its lists have different lengths",
            "the model declares float32",
        ),
    ],
)
def test_values_that_do_not_fit(imported, values: dict[str, object], message: str, hint: str):
    with pytest.raises(relax.DiagnosticError) as error:
        imported(BY_RATE, values=values)
    (diagnostic,) = error.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == ("E6003", message)
    assert diagnostic.hint.startswith(hint)


@pytest.mark.parametrize(
    "values, message",
    [
        ({"s": np.ones((2, 2))}, r"the value of 's' has the shape \(2, 2\): dimension 0 must be 3"),
        ({"s": np.ones((3, 2)), "t": np.ones(4)}, r"the value of 't' has the shape \(4,\): dimension 0 must be 2"),
        ({"u": np.ones(4)}, "the value of 'u' has the size 4 in dimension 0, which depends on others"),
        ({"s": np.ones((3, 2)), "u": np.ones(4)}, r"the value of 'u' has the shape \(4,\): dimension 0 must be 3"),
    ],
)
def test_values_whose_sizes_contradict_others(values: dict[str, np.ndarray], message: str):
    text = "agraph (double[3, M] s, double[M] t, double[M + 1] u) => (double[3, M] y) { y = Neg(s) }"
    with pytest.raises(relax.DiagnosticError, match=message):
        from_onnx(with_sums(text), values=values)


def test_a_value_and_a_shape_for_one_input(imported):
    with pytest.raises(relax.DiagnosticError, match="a value and a shape are given for 'rate'"):
        imported(BY_RATE, values={"rate": 1}, shape_dict={"rate": []})


def test_values_are_a_dictionary(imported):
    with pytest.raises(TypeError, match="from_onnx: values is a dictionary of values by names of inputs, found list"):
        imported(BY_RATE, values=[("rate", 1)])
