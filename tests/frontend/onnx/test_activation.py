"""Activations and softmax: equal to ONNX Runtime at several sizes from one build."""

from __future__ import annotations

import numpy as np
import pytest

X = np.array([[-30, -1, -0.5, -1e-3], [0.25, 1, 2, 30]], "float32")


def sizes(*counts: int) -> list[np.ndarray]:
    """X repeated to other numbers of rows."""
    return [np.resize(X, (n, 4)) for n in counts]


def test_activations_with_their_defaults(agrees):
    names = ["Relu", "LeakyRelu", "Elu", "Selu", "Celu", "HardSigmoid", "HardSwish", "Softsign", "Softplus", "Sigmoid",
             "ThresholdedRelu", "Mish", "Tanh", "Shrink", "Gelu"]  # fmt: skip
    outputs = ", ".join(f"float[N, 4] y{i}" for i in range(len(names)))
    nodes = "\n".join(f"y{i} = {name}(x)" for i, name in enumerate(names))
    agrees(f"agraph (float[N, 4] x) => ({outputs}) {{ {nodes} }}", *sizes(0, 1, 2, 3), opset=20)


def test_activations_with_attributes(agrees):
    nodes = ["LeakyRelu<alpha = 0.3>", "Elu<alpha = 0.5>", "Selu<alpha = 2.0, gamma = 0.5>", "Celu<alpha = 2.0>",
             "HardSigmoid<alpha = 0.5, beta = 0.25>", "ThresholdedRelu<alpha = 0.1>", "Shrink<bias = 0.5, lambd = 0.75>",
             'Gelu<approximate = "tanh">']  # fmt: skip
    outputs = ", ".join(f"float[N, 4] y{i}" for i in range(len(nodes)))
    text = "\n".join(f"y{i} = {node}(x)" for i, node in enumerate(nodes))
    agrees(f"agraph (float[N, 4] x) => ({outputs}) {{ {text} }}", *sizes(1, 3), opset=20)


def test_slopes_of_prelu(agrees):
    slope = np.array([0.1, 0.2, 0.3, 0.4], "float32")
    agrees(
        """
    agraph (float[N, 4] x, float[4] s, float[1] one, float[2, 1] other, float[2, N, 4] z) => (
        float[N, 4] a, float[N, 4] b, float[2, N, 4] c) {
      a = PRelu(x, s)
      b = PRelu(x, one)
      o = Unsqueeze(other, axes)
      c = PRelu(z, o)
    }""".replace("a = PRelu", "axes = Constant<value_ints = [2]>()\n a = PRelu"),
        *((np.resize(X, (n, 4)), slope, slope[:1], slope[:2, None], np.resize(X, (2, n, 4))) for n in (0, 1, 3)),
    )


@pytest.mark.parametrize("opset", [11, 13])
def test_softmax_along_the_rest_and_along_an_axis(agrees, opset):
    """Before opset 13 all dimensions from the axis on are one."""
    rng = np.random.default_rng(0)
    agrees(
        """
    agraph (float[N, 3, M] x) => (float[N, 3, M] a, float[N, 3, M] b, float[N, 3, M] c, float[N, 3, M] d,
                                  float[N, 3, M] e) {
      a = Softmax(x)
      b = Softmax<axis = 1>(x)
      c = LogSoftmax<axis = -2>(x)
      d = Hardmax<axis = 1>(x)
      e = Hardmax(x)
    }""",
        *(rng.random(shape, "float32") for shape in ((1, 3, 1), (2, 3, 4), (3, 3, 2))),
        opset=opset,
    )


@pytest.mark.parametrize("opset", [11, 13])
def test_hardmax_along_an_empty_axis_is_empty(agrees, opset):
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    x[0, :, 1] = -np.inf
    text = "agraph (float[2, N, M] x) => (float[2, N, M] y) { y = Hardmax<axis = 1>(x) }"
    agrees(text, x, x[:, :0], x[:, :, :0], opset=opset)
    agrees("agraph (float[2, 0] x) => (float[2, 0] y) { y = Hardmax(x) }", x[:, 0, :0], opset=opset)
