"""Modules for PyTorch: graphs whose nodes are torch's functions, on tensors that DLPack shares (`pip install torch`).

A node is called as the Relax operator of its pattern: its attributes are that operator's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, TypeAlias

from ..json_graph import JSONRuntime, Node
from ..modules import Module, required
from ..nd import NDArray
from ..rooms import ModuleWhenUsed

Operator: TypeAlias = "Callable[..., Any]"
"""A function of a node and of a tensor of torch for each of its inputs."""

_torch: Final[Any] = ModuleWhenUsed("torch")


def _same(function: str) -> Operator:
    """Return the operator that is one function of torch, of the tensors alone."""

    def call(node: Node, *tensors: Any) -> Any:
        return getattr(_torch, function)(*tensors)

    return call


def _functional(function: str) -> Operator:
    def call(node: Node, *tensors: Any) -> Any:
        return getattr(_torch.nn.functional, function)(*tensors)

    return call


def _axes(node: Node, name: str = "axis") -> tuple[int, ...] | None:
    """Return the axes of a reduction; None for all."""
    texts = node.texts(name)
    return None if texts == ("",) else tuple(map(int, texts))


def _keeps(node: Node) -> bool:
    return node.texts("keepdims") == ("True",)


def _reduction(function: str) -> Operator:
    """Return the operator that reduces axes; of no axis, which torch takes for all, it returns the tensor."""

    def call(node: Node, x: Any) -> Any:
        axes = _axes(node)
        return x if axes == () else getattr(_torch, function)(x, axes, keepdim=_keeps(node))

    return call


def _permute(node: Node, x: Any) -> Any:
    axes = _axes(node, "axes")
    return x.permute(tuple(reversed(range(x.ndim))) if axes is None else axes)


def _softmax(node: Node, x: Any) -> Any:
    return _torch.softmax(x, node.integer("axis"))


def _log_softmax(node: Node, x: Any) -> Any:
    return _torch.log_softmax(x, node.integer("axis"))


def _symmetric(node: Node) -> tuple[int, ...]:
    """Return the padding of both sides of each axis."""
    padding = node.integers("padding")
    return padding[: len(padding) // 2] if len(padding) > 2 else padding


def _conv2d(node: Node, x: Any, weight: Any) -> Any:
    return _torch.nn.functional.conv2d(
        x,
        weight,
        stride=node.integers("strides"),
        padding=_symmetric(node),
        dilation=node.integers("dilation"),
        groups=node.integer("groups"),
    )


def _leaky_relu(node: Node, x: Any) -> Any:
    return _torch.nn.functional.leaky_relu(x, node.number("alpha"))


def _layer_norm(node: Node, x: Any, gamma: Any, beta: Any) -> Any:
    axes = tuple(axis % x.ndim for axis in node.integers("axes"))
    sizes = tuple(x.shape[axis] for axis in axes)
    return _torch.nn.functional.layer_norm(x, sizes, gamma, beta, node.number("epsilon"))


UNARY: Final = {
    "abs": "abs", "acos": "acos", "asin": "asin", "atan": "atan", "ceil": "ceil", "cos": "cos", "cosh": "cosh",
    "erf": "erf", "exp": "exp", "floor": "floor", "log": "log", "negative": "neg", "round": "round", "rsqrt": "rsqrt",
    "sigmoid": "sigmoid", "sin": "sin", "sinh": "sinh", "sqrt": "sqrt", "square": "square", "tan": "tan",
    "tanh": "tanh", "trunc": "trunc", "nn.relu": "relu",
}  # fmt: skip
"""Functions of torch for Relax's operators of one tensor."""
BINARY: Final = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "power": "pow", "maximum": "maximum",
    "minimum": "minimum", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "equal": "eq",
    "not_equal": "ne", "matmul": "matmul",
}  # fmt: skip
"""Functions of torch for Relax's operators of two tensors."""

_OPERATORS: Final[Mapping[str, Operator]] = {
    **{name: _same(function) for name, function in (UNARY | BINARY).items()},
    "nn.gelu": _functional("gelu"),
    "nn.silu": _functional("silu"),
    "nn.leakyrelu": _leaky_relu,
    "nn.softmax": _softmax,
    "nn.log_softmax": _log_softmax,
    "nn.layer_norm": _layer_norm,
    "nn.conv2d": _conv2d,
    "permute_dims": _permute,
    "sum": _reduction("sum"),
    "mean": _reduction("mean"),
}


class TorchRuntime(JSONRuntime):
    """Runs graphs of torch's functions."""

    operators: ClassVar = {f"torch.{name}": function for name, function in _OPERATORS.items()}

    def __init__(self, module: Module) -> None:
        required("torch", "torch")
        super().__init__(module)

    def value_of(self, tensor: NDArray) -> Any:
        return _torch.from_dlpack(tensor)

    def write(self, value: Any, output: NDArray) -> None:
        target = _torch.from_dlpack(output)
        if target.shape != value.shape:
            raise ValueError(f"an output has the shape {tuple(value.shape)}, expected {tuple(target.shape)}")
        target.copy_(value)

    def run(self, *args: Any) -> None:
        with _torch.no_grad():
            super().run(*args)


load = TorchRuntime.load
