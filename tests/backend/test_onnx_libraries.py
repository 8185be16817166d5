"""ONNX Runtime and OpenVINO as libraries: models at several sizes, fresh processes, options, and what goes wrong."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnxruntime as ort
import pytest
from models import bert, llama, mobilenet

import real_models
import relax
from relax.backend import partition
from relax.backend.onnxruntime import partition_for_onnxruntime
from relax.backend.openvino import partition_for_openvino
from relax.frontend.onnx import from_onnx
from relax.runtime import Executable, ExecutableError
from relax.runtime.modules import Module
from relax.script import from_source
from support import numbers

LIBRARIES = ("onnxruntime", "openvino")
MODELS = {"mobilenet": mobilenet, "bert": bert, "llama": llama}
OCR = {"ocr_detection": (64, 96), "ocr_recognition": (48, 80), "ocr_orientation": (48, 192)}
"""Height and width of images for the networks of `examples/ocr.py`."""


def parse(params, *body, result="y"):
    """A program with one dataflow block."""
    lines = "\n".join(f"            {line}" for line in body)
    return from_source(
        "from relax.script import ir as I, relax as R, tir as T\n@I.ir_module\nclass M:\n    @R.function\n"
        f"    def main({params}):\n        with R.dataflow():\n{lines}\n            R.output({result})\n"
        f"        return {result}\n"
    )


def flat(value):
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, (list, tuple)) else [value.numpy()]


def session_of(model):
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("library", [*LIBRARIES, "openblas"])
@pytest.mark.parametrize("name", MODELS)
def test_models(name, library):
    module = MODELS[name]
    model = module.model(**module.SMALL)
    split = partition(from_onnx(model), library)
    executable = Executable.from_bytes(relax.build(split).to_bytes())
    assert {module.kind for module in executable.modules} == {library}
    run, session = relax.VirtualMachine(executable)["main"], session_of(model)
    for index in range(3):
        sizes = {name: values[index] for name, values in module.DIMENSIONS.items()}
        arrays = module.inputs(np.random.default_rng(1), **sizes)
        found = flat(run(*(arrays[item.name] for item in model.graph.input)))
        for actual, expected in zip(found, session.run(None, arrays), strict=True):
            assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
            np.testing.assert_allclose(actual, expected, 1e-4, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("library", [*LIBRARIES, "openblas"])
@pytest.mark.parametrize("name", OCR)
def test_models_that_read_text(name, library):
    try:
        path = real_models.model_path(name)
    except real_models.Unavailable as error:
        pytest.skip(str(error))
    run = relax.VirtualMachine(relax.build(partition(from_onnx(path), library)))["main"]
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    height, width = OCR[name]
    for batch, wider in ((1, 0), (2, 32)):
        image = numbers(batch, 3, height, width + (wider if name != "ocr_orientation" else 0))
        (expected,) = session.run(None, {"x": image})
        np.testing.assert_allclose(flat(run(image))[0], expected, 1e-3, 1e-4)


LAYERS = (
    'x: R.Tensor(("n", 4), "float32"), w: R.Tensor((8, 4), "float32"), i: R.Tensor(("m",), "int64")',
    "g = R.nn.gelu(R.matmul(x, R.permute_dims(w)))",
    "s = R.split(g, 2, axis=1)",
    "r = R.reshape(R.concat((s[1], s[0], g), axis=1), R.shape([n * 4, 4]))",
    "y = R.nn.softmax(R.add(R.take(r, i, axis=0), R.const(1.0)), axis=-1)",
    "z = R.strided_slice(g, [0], [0], [2])",
)


@pytest.mark.parametrize("library", LIBRARIES)
def test_tuples_and_sizes_in_one_function(library):
    mod = parse(LAYERS[0], "n = T.int64()", *LAYERS[1:], result="y, z")
    split = partition(mod, library)
    assert split["main"].script().count("R.call_dps_packed") == 1
    run = relax.VirtualMachine(relax.build(split))["main"]
    for n, m in ((3, 5), (1, 1), (2, 0)):
        args = numbers(n, 4), numbers(8, 4, seed=1), np.arange(m) % max(n * 4, 1)
        for found, again, expected in zip(
            flat(run(*args)), flat(relax.interpret(split, "main", *args)), flat(relax.interpret(mod, "main", *args)),
            strict=True,
        ):  # fmt: skip
            np.testing.assert_allclose(found, expected, 1e-5, 1e-6)
            np.testing.assert_allclose(again, expected, 1e-5, 1e-6)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_fresh_process_without_the_compiler(library, tmp_path):
    mod = parse('x: R.Tensor(("n", 4), "float32")', "y = R.nn.softmax(x, axis=-1)")
    relax.build(partition(mod, library)).save(tmp_path / "model.rxe")
    code = f"""
import sys
import numpy as np, relax
main = relax.VirtualMachine(relax.runtime.load_module({str(tmp_path / "model.rxe")!r}))["main"]
print(main(np.zeros((2, 4), "float32")).numpy().tolist())
assert "relax.ir" not in sys.modules
assert "onnx" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert eval(done.stdout) == [[0.25] * 4] * 2


@pytest.mark.parametrize("library", LIBRARIES)
def test_without_the_library(library, monkeypatch):
    mod = parse('x: R.Tensor((2,), "float32")', "y = R.exp(x)")
    executable = relax.build(partition(mod, library))
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ExecutableError, match=f"it needs the library {library}: pip install {library}"):
        relax.VirtualMachine(executable)
    with pytest.raises(ImportError, match=rf"it needs the library {library}: pip install relax\[{library}\]"):
        partition(parse('x: R.Tensor((2,), "float32")', "y = R.cos(x)"), library)


@pytest.mark.parametrize(
    ("library", "params", "call"),
    [
        ("onnxruntime", 'x: R.Tensor("float32")', "R.exp(x)"),
        ("onnxruntime", 'x: R.Tensor(("n", "n"), "float32")', "R.unique(x)"),  # sizes that the data tell
        ("onnxruntime", 'x: R.Tensor((2,), "float8_e5m2")', 'R.astype(x, "float32")'),
        ("onnxruntime", 'x: R.Tensor((2, 0), "float32")', "R.exp(x)"),
        ("openvino", 'x: R.Tensor((2,), "int32")', "R.add(x, x)"),
        ("openvino", 'x: R.Tensor((2,), "int64")', "R.flip(x, 0)"),
        ("openvino", 'x: R.Tensor((2,), "float64")', "R.exp(x)"),
    ],
)
def test_what_a_library_does_not_compute_stays(library, params, call):
    mod = parse(params, f"y = {call}")
    assert partition(mod, library) is mod


def test_options():
    mod = parse('x: R.Tensor((2, 4), "float32")', "y = R.nn.softmax(x, axis=-1)")
    x = numbers(2, 4)
    for split in (
        partition_for_onnxruntime(mod, threads=1),
        partition_for_openvino(mod, threads=1, precision="bfloat16"),
    ):
        found = relax.VirtualMachine(relax.build(split))["main"](x).numpy()
        np.testing.assert_allclose(found, relax.interpret(mod, "main", x).numpy(), 1e-2)
    with pytest.raises(ValueError, match="onnxruntime has no option 'precision'; there is: threads"):
        partition_for_onnxruntime(mod, precision="float32")
    with pytest.raises(ValueError, match="openvino: the option precision cannot be 'int8'"):
        partition_for_openvino(mod, precision="int8")
    with pytest.raises(ValueError, match="openvino: the option threads cannot be 0"):
        partition_for_openvino(mod, threads=0)


@pytest.mark.parametrize("library", LIBRARIES)
def test_quantized_layers(library):
    mod = parse(
        'x: R.Tensor(("n", 3), "float32"), w: R.Tensor((3, 4), "int8")',
        's = R.const(0.05, "float32")', 'z = R.const(0, "int8")',
        'q = R.dequantize(R.quantize(x, s, z, axis=0, out_dtype="int8"), s, z, axis=0, out_dtype="float32")',
        'v = R.dequantize(w, s, z, axis=0, out_dtype="float32")',
        "y = R.matmul(q, v)",
    )  # fmt: skip
    split = partition(mod, library)
    assert split is not mod
    args = numbers(5, 3), np.arange(12, dtype="int8").reshape(3, 4)
    found = relax.VirtualMachine(relax.build(split))["main"](*args).numpy()
    np.testing.assert_allclose(found, relax.interpret(mod, "main", *args).numpy(), 1e-5, 1e-5)


@pytest.mark.parametrize("library", LIBRARIES)
def test_arguments_that_do_not_fit(library):
    mod = parse('x: R.Tensor(("n", 4), "float32")', "y = R.exp(x)")
    (module,) = relax.build(partition(mod, library)).modules
    (run,) = module.functions().values()
    x, y = relax.nd.array(numbers(2, 4)), relax.nd.empty((3, 4), "float32")
    with pytest.raises(TypeError, match="takes 1 inputs and 1 outputs, found 1 arguments"):
        run(x)
    with pytest.raises(TypeError, match="is of float32, found float64"):
        run(relax.nd.array(numbers(3, 4, dtype="float64")), y)
    with pytest.raises((RuntimeError, ValueError), match="shape|an output is"):
        run(x, y)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the first line of a module of kind .* does not describe its model"),
        (b"{}\n", "does not describe its model: KeyError: 'inputs'"),
        (b'{"inputs": [["x", "float99"]], "outputs": [], "options": {}}\n', "there is no input or output"),
        (b'{"inputs": 1, "outputs": [], "options": {}}\n', "does not describe its model: TypeError"),
        (b'{"inputs": [], "outputs": [], "options": {"threads": "many"}}\n', "does not describe its model: ValueError"),
        (b'{"inputs": [], "outputs": [], "options": {}}\nno model', "cannot load the module"),
    ],
)
def test_code_that_is_none(library, data, message):
    with pytest.raises(ExecutableError, match=message):
        Module(library, data, ("f",)).functions()
    with pytest.raises(ExecutableError, match="an ONNX model is one function, and the module has 2"):
        Module(library, data, ("f", "g")).functions()
