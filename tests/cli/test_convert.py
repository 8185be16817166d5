"""``relax convert``: models as ONNX."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest


def test_a_converted_model_runs_in_onnx_runtime(command, folder):
    said = command("convert", "model.py", "-o", "model.onnx", "--opset", "21")
    assert said.status == 0
    assert said.out.startswith("model.onnx: main, ")
    assert "opset 21" in said.out
    model = onnx.load(folder / "model.onnx")
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    shapes = {value.name: [d if isinstance(d, int) else 3 for d in value.shape] for value in session.get_inputs()}
    outputs = session.run(None, {name: np.ones(shape, "float32") for name, shape in shapes.items()})
    assert outputs[0].shape[0] == 3


def test_the_file_is_named_after_the_model_and_weights_lie_beside_it(command, folder):
    (folder / "big.py").write_text(
        "from relax.script import relax as R\n@R.function\n"
        "def main(x: R.Tensor(('n',), 'float32')):\n"
        f"    return R.add(R.expand_dims(x, 1), R.const({list(range(300))}, 'float32'))\n",
        encoding="utf-8",
    )
    assert command("convert", "big.py", "--external-data").status == 0
    assert (folder / "big.onnx.data").stat().st_size == 1200
    assert command("convert", "big.onnx", "-o", "again.onnx").status == 0
    assert command("run", "again.onnx", "--size", "n=2").status == 0


def test_values_of_inputs_are_constants_of_the_converted_model(command, folder):
    text = "from relax.script import relax as R\n@R.function\ndef main(x: R.Tensor((2,), 'float32'), w: R.Tensor((2,), 'float32')):\n"
    (folder / "sum.py").write_text(f"{text}    return R.add(x, w)\n", encoding="utf-8")
    assert command("convert", "sum.py", "--value", "w=[1,2]").status == 0
    session = onnxruntime.InferenceSession(folder / "sum.onnx", providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": np.zeros(2, "float32")})[0].tolist() == [1, 2]


@pytest.mark.parametrize(
    "words, message",
    [
        (("model.py", "-o", "model.tflite"), "error[E7004]: cannot write model.tflite: the format is ONNX"),
        (("model.py", "--opset", "3"), "error[E6009]: to_onnx: opset must be in [21, "),
        (("model.pt2",), "error[E7001]: "),
    ],
)
def test_what_is_not_converted(command, folder, words, message):
    said = command("convert", *words)
    assert said.status == 1
    assert message in said.err


def test_a_model_is_not_overwritten(command, folder):
    command("convert", "model.py")
    said = command("convert", "model.onnx")
    assert "model.onnx is the model itself" in said.err
