"""Graph: an ONNX model under construction, written the way PyTorch's exporter writes one.

    g = Graph("mlp", opset=17)
    x = g.input("x", "float32", "batch", 4)
    y = g.Relu(g.Add(g.MatMul(x, g.weight(4, 8)), g.weight(8)))
    model = g.model(y=(y, "float32", "batch", 8))

``g.Name(…)`` adds a node of the operator `Name` and gives the name of its output. Numbers and arrays among the
inputs become Constant nodes. Weights are random.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Dim = int | str


class Graph:
    """A model under construction; see the module's docstring."""

    def __init__(self, name: str, opset: int = 17, seed: int = 0) -> None:
        self.name, self.opset = name, opset
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._scope: list[str] = []

    # -- nodes

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if not op_type[0].isupper():
            raise AttributeError(op_type)

        def add(*inputs: Any, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
            label = "/".join([*self._scope, f"{op_type}_{len(self.nodes)}"])
            names = [f"{label}_out{i}" if i else f"{label}_out" for i in range(outputs)]
            sources = [self._value(item) for item in inputs]
            attributes = {key: value for key, value in attributes.items() if value is not None}
            self.nodes.append(helper.make_node(op_type, sources, names, name=label, domain=domain, **attributes))
            return names[0] if outputs == 1 else names

        return add

    def _value(self, item: Any) -> str:
        if item is None:
            return ""
        return item if isinstance(item, str) else self.constant(item)

    def constant(self, value: Any) -> str:
        """A Constant node: integers are int64, floats float32."""
        array = np.asarray(value)
        if array.dtype == np.float64:
            array = array.astype("float32")
        return self.Constant(value=numpy_helper.from_array(array))

    def scope(self, *parts: str) -> Graph:
        """Nodes from here on are named after this part of the model."""
        self._scope = list(parts)
        return self

    # -- inputs, weights, the model

    def input(self, name: str, dtype: str, *dims: Dim) -> str:
        """An input of the model."""
        self.inputs.append(_value_info(name, dtype, dims))
        return name

    def weight(self, *shape: int, scale: float | None = None, offset: float = 0.0) -> str:
        """A random float32 weight, normal around `offset`; by default scaled to keep the size of what is multiplied."""
        if scale is None:
            scale = 0.1 if len(shape) == 1 else float(np.prod(shape[1:] if len(shape) > 2 else shape[:1])) ** -0.5
        return self.parameter((self.random.standard_normal(shape) * scale + offset).astype("float32"))

    def parameter(self, array: np.ndarray) -> str:
        """An initializer."""
        name = "/".join([*self._scope, f"weight_{len(self.weights)}"])
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def model(self, **outputs: tuple[Any, ...]) -> onnx.ModelProto:
        """The model; an output is (value, dtype, *dims)."""
        infos: list[onnx.ValueInfoProto] = []
        for name, (value, dtype, *dims) in outputs.items():
            self.nodes.append(helper.make_node("Identity", [value], [name]))
            infos.append(_value_info(name, dtype, dims))
        graph = helper.make_graph(self.nodes, self.name, self.inputs, infos, self.weights)
        opsets = [helper.make_opsetid("", self.opset)]
        for domain in sorted({node.domain for node in self.nodes} - {""}):
            opsets.append(helper.make_opsetid(domain, 1))
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    # -- what the exporter makes of x.size(d), x.view(…), nn.Linear, nn.LayerNorm, F.gelu

    def size(self, x: str, axis: int) -> str:
        """x.size(axis), a scalar."""
        return self.Gather(self.Shape(x), axis, axis=0)

    def sizes(self, *parts: Any) -> str:
        """A vector of sizes: numbers, and scalars that the model computes."""
        vectors = [self.Unsqueeze(part, [0]) if isinstance(part, str) else [part] for part in parts]
        return self.Concat(*vectors, axis=0)

    def view(self, x: str, *parts: Any) -> str:
        """x.view(parts)."""
        return self.Reshape(x, self.sizes(*parts))

    def expand(self, x: str, *parts: Any) -> str:
        """x.expand(parts): -1 keeps a size, for which the exporter writes a choice between two vectors."""
        goal = self.sizes(*parts)
        one = numpy_helper.from_array(np.array([1], "int64"))
        ones = self.ConstantOfShape(self.Shape(goal), value=one)
        return self.Expand(x, self.Where(self.Equal(goal, self.Mul(ones, -1)), ones, goal))

    def cut(self, x: str, axis: int, begin: Any, end: Any) -> str:
        """x[..., begin:end, ...] along one axis."""
        bounds = [self.Unsqueeze(item, [0]) if isinstance(item, str) else [item] for item in (begin, end)]
        return self.Slice(x, *bounds, [axis], [1])

    def linear(self, x: str, rows: int, columns: int, bias: bool = True) -> str:
        """x @ w + b over the last dimension."""
        product = self.MatMul(x, self.weight(rows, columns))
        return self.Add(self.weight(columns), product) if bias else product

    def layer_norm(self, x: str, width: int, epsilon: float = 1e-5) -> str:
        """nn.LayerNorm: one node from opset 17 on, in older opsets what it consists of."""
        scale, shift = self.weight(width, offset=1.0), self.weight(width)
        if self.opset >= 17:
            return self.LayerNormalization(x, scale, shift, axis=-1, epsilon=epsilon)
        centred = self.Sub(x, self.ReduceMean(x, axes=[-1]))
        variance = self.ReduceMean(self.Pow(centred, 2.0), axes=[-1])
        normal = self.Div(centred, self.Sqrt(self.Add(variance, epsilon)))
        return self.Add(self.Mul(normal, scale), shift)

    def gelu(self, x: str) -> str:
        """F.gelu: x (1 + erf(x / √2)) / 2."""
        return self.Mul(self.Mul(x, self.Add(self.Erf(self.Div(x, 2**0.5)), 1.0)), 0.5)

    def conv(
        self, x: str, inputs: int, outputs: int, kernel: int, stride: int = 1, group: int = 1, bias: bool = True
    ) -> str:
        """nn.Conv2d with padding that keeps the size at stride 1."""
        weights = [self.weight(outputs, inputs // group, kernel, kernel)]
        if bias:
            weights.append(self.weight(outputs))
        pad = kernel // 2
        return self.Conv(
            x, *weights, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, dilations=[1, 1], group=group
        )

    def batch_norm(self, x: str, channels: int) -> str:
        """nn.BatchNorm2d in evaluation."""
        variance = self.parameter(self.random.uniform(0.5, 1.5, channels).astype("float32"))
        scale, shift, mean = self.weight(channels, offset=1.0), self.weight(channels), self.weight(channels)
        return self.BatchNormalization(x, scale, shift, mean, variance, epsilon=1e-5, momentum=0.9)


def _value_info(name: str, dtype: str, dims: Sequence[Dim]) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    assert kind != TensorProto.UNDEFINED
    return helper.make_tensor_value_info(name, kind, list(dims))
