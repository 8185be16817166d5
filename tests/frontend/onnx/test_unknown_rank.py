"""Inputs without a declared rank: operators that need none are imported, others refuse the model at their node."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import relax
from relax.frontend.onnx import from_onnx
from support import numbers, plain_machine

from .conftest import parse

CONSTANTS = """
    float two = {2.0}, float[4] row = {1, 2, 3, 4}, int64[1] first = {0}, int64[1] last = {-1}, int64 zero = {0},
    int64[2] pairs = {-1, 2}, int64[1] all = {-1}, int64[2] rows = {1, 0}, float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}
"""


def unranked(nodes: str) -> onnx.ModelProto:
    """The model of nodes on an input ``x`` of unknown rank, with the output ``y``."""
    model = parse(f"agraph (float[N] x) => (float[M] y) <{CONSTANTS}> {{ {nodes} }}")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    model.graph.output[0].type.Clear()
    return model


@pytest.mark.parametrize(
    "nodes",
    [
        "y = Neg(x)",
        "h = Exp(x)\n y = Mul(h, two)",
        "y = Add(x, row)",
        "y = Pow(x, two)",
        "y = PRelu(x, row)",
        "y = Less(x, row)",
        "c = Less(x, two)\n y = Where(c, x, row)",
        "y = Cast<to = 11>(x)",
        "y = Clip(x, two)",
        "y = Softmax(x)",
        "y = Shape(x)",
        "y = Shape<start = -1>(x)",
        "y = Shape<start = 0, end = 1>(x)",
        "y = Size(x)",
        "y = ReduceSum(x)",
        "y = ReduceSum<keepdims = 0>(x)",
        "y = ReduceMax<keepdims = 0>(x, last)",
        "y = ReduceMean(x, first)",
        "y = ReduceLogSumExp(x)",
        "y = ReduceLogSumExp<keepdims = 0>(x)",
        "y = ReduceLogSumExp<keepdims = 0>(x, last)",
        "i = Cast<to = 6>(x)\n y = ReduceMean<keepdims = 0>(i)",
        "y = ArgMax<axis = -1>(x)",
        "y = CumSum(x, zero)",
        "y = MatMul(x, w)",
        "y = Gather(x, rows)",
        "y = Gather<axis = -1>(x, zero)",
        "y = Unsqueeze(x, first)",
        "h = Unsqueeze(x, first)\n y = Squeeze(h, first)",
        "y = Reshape(x, pairs)",
        "y = Reshape(x, all)",
        "y = Concat<axis = 0>(x, x)",
    ],
)
def test_operators_that_need_no_rank(nodes: str):
    model = unranked(nodes)
    mod = from_onnx(model)
    reference, vm = ReferenceEvaluator(model), plain_machine(mod)
    for shape in ((2, 4), (2, 3, 4)):
        x = numbers(*shape)
        (right,) = reference.run(None, {"x": x})
        for result in (vm["main"](x), relax.interpret(mod, "main", x)):
            found = result.numpy()
            assert (found.dtype, found.shape) == (right.dtype, np.shape(right))
            np.testing.assert_allclose(found, right, 1e-4, 1e-5)


@pytest.mark.parametrize("node", ["Flatten(x)", "Expand(x, pairs)", "Tile(x, pairs)", "Split<num_outputs = 1>(x)"])
def test_operators_that_need_a_rank_refuse_the_model_at_their_node(node: str):
    with pytest.raises(relax.DiagnosticError) as error:
        from_onnx(unranked(f"h = Neg(x)\n y = {node.replace('(x', '(h')}"))
    (diagnostic,) = error.value.diagnostics
    name = node.partition("(")[0].partition("<")[0]
    assert (diagnostic.code, diagnostic.message) == ("E6004", f'{name} "y": the rank of an input is not known')
    assert diagnostic.span.source.name == f'model: {name} "y"'
    assert diagnostic.hint == 'give the shape of the model\'s inputs: from_onnx(model, shape_dict={"x": [N, ...]})'
    assert diagnostic.shell_hint == "give the shape of the model's inputs: --shape x=N,..."


SQUEEZE = "agraph (float[N, 3, M] x) => (float[A] y, float[B] z) <int64 zero = {0}> { h = Squeeze(x)\n NODES }"


def test_squeeze_of_dynamic_dimensions(agrees):
    text = SQUEEZE.replace("NODES", "y = Neg(h)\n z = Gather(h, zero)")
    agrees(text, *({"x": numbers(n, 3, m)} for n in (1, 2) for m in (1, 4)))


def test_a_node_that_needs_the_rank_after_squeeze(agrees):
    text = SQUEEZE.replace("NODES", "y = Flatten(h)\n z = Exp(y)")
    agrees(text, *({"x": numbers(n, 3, m)} for n in (1, 2) for m in (1, 4)))


def test_the_rest_is_read_once_after_squeeze(agrees):
    text = SQUEEZE.replace("NODES", "y = Flatten(h)\n z = Exp(y)").replace("float[N, 3, M]", "float[2, 3, M]")
    script = agrees(text, *({"x": numbers(2, 3, m)} for m in (1, 4))).script()
    assert (script.count("R.reshape"), script.count("R.exp")) == (2, 1)


def test_squeeze_of_many_dynamic_dimensions(imported):
    text = "agraph (float[A, B, C, D, E] x) => (float[F] y) { y = Squeeze(x) }"
    with pytest.raises(relax.DiagnosticError) as error:
        imported(text)
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.code == "E6005"
    assert diagnostic.message == 'Squeeze "y": without axes, it must be known whether the size A is 1'
    assert diagnostic.hint == 'give the size: from_onnx(model, shape_dict={"x": [N, N, N, N, N]})'
