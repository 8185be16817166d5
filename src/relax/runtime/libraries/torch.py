"""Modules for PyTorch: graphs whose nodes are torch's functions, on tensors that DLPack shares (`pip install torch`).

A node is called as the Relax operator of its pattern: its attributes are that operator's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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


def _gated(function: str, **options: Any) -> Operator:
    """Return an activation that vanishes at minus infinity, where torch's is NaN."""

    def call(node: Node, x: Any) -> Any:
        return getattr(_torch.nn.functional, function)(x, **options).masked_fill_(x == -math.inf, -0.0)

    return call


def _axes(node: Node, name: str = "axis") -> tuple[int, ...] | None:
    """Return the axes of a reduction; None for all."""
    texts = node.texts(name)
    return None if texts == ("",) else tuple(map(int, texts))


def _keeps(node: Node) -> bool:
    return node.texts("keepdims") == ("True",)


def _reduction(function: str) -> Operator:
    """Return the operator that reduces axes; of no axis, which torch takes for all, it returns the tensor.

    Sums of integers have the integers' dtype, and wrap around.
    """

    def call(node: Node, x: Any) -> Any:
        axes = _axes(node)
        return x if axes == () else getattr(_torch, function)(x, axes, keepdim=_keeps(node), dtype=x.dtype)

    return call


def _permute(node: Node, x: Any) -> Any:
    axes = _axes(node, "axes")
    return x.permute(tuple(reversed(range(x.ndim))) if axes is None else axes)


def _normalized(function: str) -> Operator:
    """Return softmax or log_softmax, along an axis."""

    def call(node: Node, x: Any) -> Any:
        return getattr(_torch, function)(x, node.integer("axis"))

    return call


def _numbers(node: Node, name: str, *tensors: Any) -> tuple[Any, ...]:
    """Return the numbers of an operand, which the compiler wrote in postfix order: ``0:1 2 *`` is twice a dimension.

    ``0:1`` is dimension 1 of tensor 0.
    """
    text = node.texts(name)[0]
    return tuple(_number(item.split(), tensors) for item in text.split(",")) if text else ()


_ARITHMETIC: Final[Mapping[str, Callable[[int, int], int]]] = {
    "+": int.__add__, "-": int.__sub__, "*": int.__mul__, "//": int.__floordiv__, "%": int.__mod__,
}  # fmt: skip


def _number(words: Sequence[str], tensors: Sequence[Any]) -> Any:
    stack: list[Any] = []
    for word in words:
        if word in _ARITHMETIC:
            right = stack.pop()
            stack.append(_ARITHMETIC[word](stack.pop(), right))
        elif ":" in word:
            tensor, axis = map(int, word.split(":"))
            stack.append(int(tensors[tensor].shape[axis]))
        else:
            stack.append(int(word) if word.lstrip("-").isdigit() else float(word))
    return stack[0]


# ----------------------------------------------------------------------------------- windows


def _symmetric(node: Node, rank: int) -> tuple[int, ...]:
    """Return the padding of both sides of each of `rank` axes."""
    padding = _each(node, "padding", 2 * rank) if len(node.texts("padding")) == 2 * rank else node.integers("padding")
    return padding[:rank] if len(padding) >= rank else padding * rank


def _each(node: Node, name: str, rank: int) -> tuple[int, ...]:
    """Return an attribute with a number for each axis; one number is that of all."""
    numbers = node.integers(name)
    return numbers if len(numbers) == rank else numbers * rank


def _windows(
    x: Any, window: Sequence[int], strides: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> list[int]:
    """Return the number of windows along each spatial axis, without those of ceil_mode."""
    return [
        (size + 2 * pad - step * (extent - 1) - 1) // stride + 1
        for size, extent, stride, pad, step in zip(x.shape[2:], window, strides, padding, dilation, strict=True)
    ]


def _conv(rank: int) -> Operator:
    """Return a convolution over `rank` spatial axes. torch makes none without windows."""

    def call(node: Node, x: Any, weight: Any) -> Any:
        strides, dilation = _each(node, "strides", rank), _each(node, "dilation", rank)
        padding = _symmetric(node, rank)
        counts = _windows(x, weight.shape[2:], strides, padding, dilation)
        if 0 in (*counts, *x.shape, *weight.shape):
            return x.new_zeros((x.shape[0], weight.shape[0], *counts))
        function = getattr(_torch.nn.functional, f"conv{rank}d")
        return function(x, weight, None, strides, padding, dilation, node.integer("groups"))

    return call


def _conv_transpose(rank: int) -> Operator:
    """Return a transposed convolution over `rank` spatial axes. torch makes none of no elements."""

    def call(node: Node, x: Any, weight: Any) -> Any:
        strides, dilation = _each(node, "strides", rank), _each(node, "dilation", rank)
        padding, extra, groups = _symmetric(node, rank), _each(node, "output_padding", rank), node.integer("groups")
        sizes = [
            (size - 1) * stride - 2 * pad + step * (extent - 1) + 1 + more
            for size, extent, stride, pad, step, more in zip(
                x.shape[2:], weight.shape[2:], strides, padding, dilation, extra, strict=True
            )
        ]
        if 0 in (*x.shape, *weight.shape, *sizes):
            return x.new_zeros((x.shape[0], weight.shape[1] * groups, *sizes))
        function = getattr(_torch.nn.functional, f"conv_transpose{rank}d")
        return function(x, weight, None, strides, padding, extra, groups, dilation)

    return call


def _pool(rank: int, kind: str) -> Operator:
    def call(node: Node, x: Any) -> Any:
        window, strides = _each(node, "pool_size", rank), _each(node, "strides", rank)
        padding, dilation = _symmetric(node, rank), _each(node, "dilation", rank)
        ceil = node.texts("ceil_mode") == ("True",)
        if 0 in x.shape[:2]:
            one = call(node, x.new_zeros((1, 1, *x.shape[2:])))
            return one.expand(*x.shape[:2], *one.shape[2:])
        if not ceil and 0 in (counts := _windows(x, window, strides, padding, dilation)):
            return x.new_zeros((*x.shape[:2], *counts))
        function = getattr(_torch.nn.functional, f"{kind}_pool{rank}d")
        if kind == "max":
            return function(x, window, strides, padding, dilation, ceil)
        return function(x, window, strides, padding, ceil, node.texts("count_include_pad") == ("True",))

    return call


def _adaptive_pool(rank: int) -> Operator:
    def call(node: Node, x: Any) -> Any:
        size = _each(node, "output_size", rank)
        if not x.numel():
            return x.new_full((*x.shape[:2], *size), float("nan"))
        return getattr(_torch.nn.functional, f"adaptive_avg_pool{rank}d")(x, size)

    return call


# ------------------------------------------------------------------------------- normalisation


def _leaky_relu(node: Node, x: Any) -> Any:
    return _torch.nn.functional.leaky_relu(x, node.number("alpha"))


def _softplus(node: Node, x: Any) -> Any:
    return _torch.nn.functional.softplus(x, node.number("beta"), node.number("threshold"))


def _sizes(node: Node, x: Any) -> tuple[int, ...]:
    """Return the sizes of the axes that are normalised."""
    return tuple(x.shape[axis] for axis in node.integers("axes"))


def _layer_norm(node: Node, x: Any, gamma: Any, beta: Any) -> Any:
    return _torch.nn.functional.layer_norm(x, _sizes(node, x), gamma, beta, node.number("epsilon"))


def _rms_norm(node: Node, x: Any, weight: Any) -> Any:
    return _torch.nn.functional.rms_norm(x, _sizes(node, x), weight, node.number("epsilon"))


def _group_norm(node: Node, x: Any, gamma: Any, beta: Any) -> Any:
    groups = node.integer("num_groups") if "num_groups" in node.attrs else x.shape[1]
    return _torch.group_norm(x, groups, gamma, beta, node.number("epsilon")) if x.numel() else x.clone()


def _batch_norm(node: Node, x: Any, gamma: Any, beta: Any, mean: Any, variance: Any) -> Any:
    epsilon = node.number("nn.batch_norm.epsilon")  # not of the last operator, which takes the result out of a tuple
    return _torch.nn.functional.batch_norm(x, mean, variance, gamma, beta, False, 0.0, epsilon)


def _attention(node: Node, query: Any, key: Any, value: Any, bias: Any = None) -> Any:
    """Return attention, whose heads come after the sequence in Relax and before it in torch.

    Not by scaled_dot_product_attention, which hides no score that is NaN.
    """
    query, key, value = (tensor.transpose(1, 2) for tensor in (query, key, value))
    scale, mask = node.texts("scale")[0], node.texts("causal_mask")[0]
    factor = float(scale) if scale else query.shape[-1] ** -0.5
    m, n = query.shape[2], key.shape[2]
    scores = query @ key.transpose(2, 3) * factor
    if bias is not None:
        scores = scores + bias
    if mask:
        hidden = _torch.ones(m, n, dtype=_torch.bool).triu(1 + (n - m if mask == "BottomRight" else 0))
        scores = scores.masked_fill_(hidden, -math.inf)
    weights = scores.softmax(-1).masked_fill_((scores == -math.inf).all(-1, keepdim=True), 0.0)
    return (weights @ value).transpose(1, 2)


# ----------------------------------------------------------------------------- moves and selection


def _reshape(node: Node, x: Any) -> Any:
    return x.reshape(_numbers(node, "newshape", x))


def _batch_flatten(node: Node, x: Any) -> Any:
    return x.reshape(x.shape[0], math.prod(x.shape[1:]))


def _flatten(node: Node, x: Any) -> Any:
    return x.reshape(-1)


def _broadcast_to(node: Node, x: Any) -> Any:
    return x.expand(_numbers(node, "newshape", x))


def _expand_dims(node: Node, x: Any) -> Any:
    axes = node.integers("axis")
    rank = x.ndim + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(axis)
    return x


def _squeeze(node: Node, x: Any) -> Any:
    """Return the tensor without axes of one element. torch would keep an axis of more."""
    axes = node.integers("axis")
    if any(x.shape[axis] != 1 for axis in axes):
        raise ValueError(f"squeeze: the axes {axes} of a tensor of shape {tuple(x.shape)} have not one element each")
    return x.squeeze(axes)


def _concat(node: Node, *tensors: Any) -> Any:
    return _torch.cat(tensors, node.integer("axis"))


def _stack(node: Node, *tensors: Any) -> Any:
    return _torch.stack(tensors, node.integer("axis"))


def _split(node: Node, x: Any) -> Any:
    places, axis = node.integers("indices_or_sections"), node.integer("axis")
    size = x.shape[axis]
    count = len(node.dtypes)
    if len(places) == count:  # a number of sections: see relax.backend.torch
        step = -(-size // count)
        places = tuple(min(step * k, size) for k in range(1, count))
    return tuple(x.tensor_split(places, axis))


def _strided_slice(node: Node, x: Any) -> Any:
    """Return part of a tensor; bounds are cut off and count from the end as in Python."""
    axes, begin, end = (_numbers(node, name, x) for name in ("axes", "begin", "end"))
    strides = _numbers(node, "strides", x) if "strides" in node.attrs else (1,) * len(axes)
    index = [slice(None)] * x.ndim
    for axis, first, last, step in zip(axes, begin, end, strides, strict=True):
        index[axis] = slice(first, last, step)
    return x[tuple(index)]


def _flip(node: Node, x: Any) -> Any:
    return x.flip(node.integers("axis"))


def _tile(node: Node, x: Any) -> Any:
    return x.tile(_numbers(node, "repeats", x))


def _pad(node: Node, x: Any) -> Any:
    widths = _numbers(node, "pad_width", x)
    pairs = [widths[2 * axis : 2 * axis + 2] for axis in reversed(range(x.ndim))]
    value = node.number("pad_value")
    return _torch.nn.functional.pad(
        x, [w for pair in pairs for w in pair], value=value if x.is_floating_point() else int(value)
    )


def _in_range(index: Any, size: int, what: str) -> Any:
    """Return int64 indices that count from the start. Raises IndexError for one that is out of range."""
    index = index.long()
    if index.numel() and not bool(((index >= -size) & (index < size)).all()):
        raise IndexError(f"{what}: an index is out of range for size {size}")
    return _torch.where(index < 0, index + size, index)


def _take(node: Node, x: Any, index: Any) -> Any:
    axis = node.texts("axis")[0]
    x, at = (x.reshape(-1), 0) if not axis else (x, int(axis) % x.ndim)
    shape = (*x.shape[:at], *index.shape, *x.shape[at + 1 :])
    if 0 in shape:
        return x.new_empty(shape)
    return x.index_select(at, _in_range(index, x.shape[at], "take").reshape(-1)).reshape(shape)


def _gather(node: Node, x: Any, index: Any) -> Any:
    axis = node.integer("axis")
    return (
        x.gather(axis, _in_range(index, x.shape[axis], "gather_elements"))
        if index.numel()
        else x.new_empty(index.shape)
    )


def _clip(node: Node, x: Any) -> Any:
    """Clamp between bounds; those of integers are cut off at the range of the dtype."""
    (low,), (high,) = _numbers(node, "min", x), _numbers(node, "max", x)
    if not x.is_floating_point():
        limits = _torch.iinfo(x.dtype)
        low, high = (int(min(max(bound, limits.min), limits.max)) for bound in (low, high))
    return x.clamp(low, high)


def _dtype(node: Node) -> Any:
    """Return the dtype of a node's last result."""
    return getattr(_torch, node.dtypes[-1])


def _astype(node: Node, x: Any) -> Any:
    return x.to(_dtype(node))


# ----------------------------------------------------------------------------- reductions, order


def _whole(node: Node, x: Any, axis: str = "axis") -> tuple[Any, int]:
    """Return the tensor and an axis of it; the flattened tensor if there is no axis."""
    text = node.texts(axis)[0]
    return (x, int(text)) if text else (x.reshape(-1), 0)


def _extremum(function: str) -> Operator:
    def call(node: Node, x: Any) -> Any:
        axes = _axes(node)
        return (
            x
            if axes == ()
            else getattr(_torch, function)(x, tuple(range(x.ndim)) if axes is None else axes, _keeps(node))
        )

    return call


def _arg_extremum(function: str) -> Operator:
    def call(node: Node, x: Any) -> Any:
        axis = node.texts("axis")[0]
        if axis:
            return getattr(_torch, function)(x, int(axis), _keeps(node))
        index = getattr(_torch, function)(x.reshape(-1), 0)
        return index.reshape((1,) * x.ndim) if _keeps(node) else index

    return call


def _variance(root: bool) -> Operator:
    def call(node: Node, x: Any) -> Any:
        function = _torch.std if root else _torch.var
        axes = _axes(node)
        if axes == ():
            return (x - x).abs()
        if not x.numel():
            return x.mean(axes, keepdim=_keeps(node))  # NaN, of which torch warns in variances
        return function(x, axes, correction=0, keepdim=_keeps(node))

    return call


def _cumulative(function: str) -> Operator:
    def call(node: Node, x: Any) -> Any:
        x, axis = _whole(node, x)
        return getattr(_torch, function)(x, axis)

    return call


def _sort(node: Node, x: Any) -> Any:
    return _sorted(node, x)[0]


def _argsort(node: Node, x: Any) -> Any:
    return _sorted(node, x)[1].to(_dtype(node))


def _sorted(node: Node, x: Any, name: str = "descending") -> Any:
    """Return values and indices; equal elements keep their order."""
    return _torch.sort(x, dim=node.integer("axis"), descending=node.texts(name) == ("True",), stable=True)


def _topk(node: Node, x: Any) -> Any:
    """Return the first of the sorted elements: unlike torch.topk, sorting keeps the order of equal ones."""
    axis, (count,) = node.integer("axis"), _numbers(node, "k", x) if "k" in node.attrs else (1,)
    values, indices = _sorted(node, x, "largest")
    size = x.shape[axis]
    if count > size:
        raise ValueError(f"topk: k is {count}, more than the {size} elements along axis {axis}")
    count = size if count < 0 else count
    results = values.narrow(axis, 0, count), indices.narrow(axis, 0, count).to(_dtype(node))
    which = node.texts("ret_type")[0]
    return results if which == "both" else results[which == "indices"]


def _resize2d(node: Node, x: Any) -> Any:
    size = _numbers(node, "size", x)
    if 0 in (*x.shape[:2], *size):
        return x.new_empty((*x.shape[:2], *size))
    method = node.texts("method")[0]
    if method == "nearest_neighbor":
        return _torch.nn.functional.interpolate(x, size, mode="nearest")
    corners = node.texts("coordinate_transformation_mode") == ("align_corners",)
    mode = "bilinear" if method == "linear" else "bicubic"
    return _torch.nn.functional.interpolate(x, size, mode=mode, align_corners=corners)


UNARY: Final = {
    "abs": "abs", "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atan": "atan", "atanh": "atanh",
    "ceil": "ceil", "cos": "cos", "cosh": "cosh", "erf": "erf", "exp": "exp", "floor": "floor", "log": "log",
    "negative": "neg", "round": "round", "rsqrt": "rsqrt", "sigmoid": "sigmoid", "sin": "sin", "sinh": "sinh",
    "sqrt": "sqrt", "square": "square", "tan": "tan", "tanh": "tanh", "trunc": "trunc", "nn.relu": "relu",
}  # fmt: skip
"""Functions of torch for Relax's operators of one tensor of floats."""
TESTS: Final = {"isfinite": "isfinite", "isinf": "isinf", "isnan": "isnan"}
"""Functions of torch for Relax's operators from floats to booleans."""
BINARY: Final = {
    "add": "add", "subtract": "sub", "multiply": "mul", "maximum": "maximum", "minimum": "minimum", "greater": "gt",
    "greater_equal": "ge", "less": "lt", "less_equal": "le", "equal": "eq", "not_equal": "ne",
}  # fmt: skip
"""Functions of torch for Relax's operators of two tensors of floats or integers."""
FLOAT_BINARY: Final = {"divide": "div", "power": "pow", "matmul": "matmul"}
"""Functions of torch for Relax's operators of two tensors of floats."""
BITS: Final = {
    "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor",
}  # fmt: skip
"""Functions of torch for Relax's operators of two tensors of integers or booleans."""
LOGIC: Final = {"logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor"}
"""Functions of torch for Relax's operators of two tensors of booleans."""

_OPERATORS: Final[Mapping[str, Operator]] = {
    **{name: _same(function) for name, function in (UNARY | TESTS | BINARY | FLOAT_BINARY | BITS | LOGIC).items()},
    "bitwise_not": _same("bitwise_not"),
    "logical_not": _same("logical_not"),
    "where": _same("where"),
    "nn.gelu": _gated("gelu"),
    "nn.gelu_tanh": _gated("gelu", approximate="tanh"),
    "nn.silu": _gated("silu"),
    "nn.relu6": _functional("relu6"),
    "nn.leakyrelu": _leaky_relu,
    "nn.softplus": _softplus,
    "nn.softmax": _normalized("softmax"),
    "nn.log_softmax": _normalized("log_softmax"),
    "nn.layer_norm": _layer_norm,
    "nn.rms_norm": _rms_norm,
    "nn.group_norm": _group_norm,
    "nn.instance_norm": _group_norm,
    "nn.batch_norm": _batch_norm,
    "nn.attention": _attention,
    **{f"nn.conv{rank}d": _conv(rank) for rank in (1, 2, 3)},
    **{f"nn.conv{rank}d_transpose": _conv_transpose(rank) for rank in (1, 2, 3)},
    **{f"nn.{kind}_pool{rank}d": _pool(rank, kind) for rank in (1, 2, 3) for kind in ("max", "avg")},
    **{f"nn.adaptive_avg_pool{rank}d": _adaptive_pool(rank) for rank in (1, 2, 3)},
    "nn.pad": _pad,
    "nn.batch_flatten": _batch_flatten,
    "flatten": _flatten,
    "image.resize2d": _resize2d,
    "permute_dims": _permute,
    "reshape": _reshape,
    "broadcast_to": _broadcast_to,
    "expand_dims": _expand_dims,
    "squeeze": _squeeze,
    "concat": _concat,
    "stack": _stack,
    "split": _split,
    "strided_slice": _strided_slice,
    "flip": _flip,
    "tile": _tile,
    "take": _take,
    "gather_elements": _gather,
    "clip": _clip,
    "astype": _astype,
    "sum": _reduction("sum"),
    "mean": _reduction("mean"),
    "max": _extremum("amax"),
    "min": _extremum("amin"),
    "variance": _variance(False),
    "std": _variance(True),
    "argmax": _arg_extremum("argmax"),
    "argmin": _arg_extremum("argmin"),
    "cumsum": _cumulative("cumsum"),
    "sort": _sort,
    "argsort": _argsort,
    "topk": _topk,
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
        """Run the graph. Shapes among the arguments, which tell sizes, are those of the tensors."""
        with _torch.no_grad():
            super().run(*(arg for arg in args if isinstance(arg, NDArray)))


load = TorchRuntime.load
