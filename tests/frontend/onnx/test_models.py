"""Whole models with random weights, in the form that exporters write: built once, equal to ONNX Runtime at five sizes
of each open dimension; sizes stay expressions of the inputs' dimensions.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from models import bert, detector, gpt2, llama, mobilenet, resnet, t5, tagger, unet, vit, yolo
from models.graph import Graph

import relax
from relax.frontend.onnx import from_onnx
from support import calls

MODELS = {
    module.__name__.rpartition(".")[2]: module
    for module in (bert, detector, gpt2, llama, mobilenet, resnet, t5, tagger, unet, vit, yolo)
}


def sizes_of(module) -> list[dict[str, int]]:
    """Sizes of the open dimensions: each takes five values in turn, while the others keep their first."""
    first = {name: values[0] for name, values in module.DIMENSIONS.items()}
    varied = [{**first, name: size} for name, values in module.DIMENSIONS.items() for size in values[1:]]
    return [first, *varied]


SLOW = {"detector", "llama", "unet", "vit", "yolo"}
"""Models that take long to build."""


def bindings(mod: relax.IRModule) -> list:
    return [binding for block in mod["main"].body.blocks for binding in block.bindings]


def match_casts(mod: relax.IRModule) -> list[str]:
    """The variables whose sizes only the data tell."""
    return [b.var.name_hint for b in bindings(mod) if isinstance(b, relax.expr.MatchCast)]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in MODELS]
)
def test_equal_to_onnx_runtime(name):
    module = MODELS[name]
    model = module.model(**module.SMALL)
    onnx.checker.check_model(model)
    mod = from_onnx(model)
    # How many boxes survive is the only size that is no expression of the inputs' dimensions.
    assert len(match_casts(mod)) == (name == "yolo")
    vm = relax.VirtualMachine(relax.build(mod, "llvm"), relax.cpu())
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for sizes in sizes_of(module):
        arrays = module.inputs(np.random.default_rng(1), **sizes)
        result = vm["main"](*(relax.nd.array(arrays[item.name]) for item in model.graph.input))
        results = [result] if len(model.graph.output) == 1 else list(result)
        for output, actual, expected in zip(model.graph.output, results, session.run(None, arrays)):
            array = actual.numpy()
            assert (array.dtype, array.shape) == (expected.dtype, expected.shape), (sizes, output.name)
            np.testing.assert_allclose(array, expected, 1e-4, 1e-5, err_msg=f"{sizes}: {output.name}")


SHAPE_ARITHMETIC = {"relax.shape_of", "relax.shape_to_tensor", "relax.tensor_to_shape"}


@pytest.mark.parametrize("name", MODELS)
def test_no_tensors_of_sizes(name):
    """What the models compute with Shape, Gather, Concat, Where and kin is gone: no tensor of sizes is left."""
    module = MODELS[name]
    mod = from_onnx(module.model(**module.SMALL))
    calls = [b.value for b in bindings(mod) if isinstance(getattr(b, "value", None), relax.Call)]
    names = {call.op.name for call in calls if isinstance(call.op, relax.ir.Op)}
    assert not names & SHAPE_ARITHMETIC


def chain(nodes: int) -> onnx.ModelProto:
    """A model of so many nodes: products, sums, views and transposes in turn."""
    g = Graph("chain", opset=17)
    x = g.input("x", "float32", "batch", 4, 4)
    while len(g.nodes) < nodes:
        y = g.Add(g.MatMul(x, g.weight(4, 4)), 1.0)
        x = g.Transpose(g.view(y, g.size(y, 0), 4, 4), perm=[0, 2, 1])
    return g.model(y=(x, "float32", "batch", 4, 4))


def test_import_is_linear_in_the_nodes():
    from_onnx(chain(10))  # what is cached once is not counted
    few, many = (calls(from_onnx, chain(nodes)) for nodes in (500, 1000))
    assert many < 2.1 * few
