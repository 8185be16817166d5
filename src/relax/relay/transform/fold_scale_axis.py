"""Fold per-channel scales into the weights of convolutions and products: ForwardFoldScaleAxis, BackwardFoldScaleAxis.

    forward     nn.conv2d(%x * s, %w)    becomes    nn.conv2d(%x, %w * s)      along the input channels
    backward    nn.conv2d(%x, %w) * s    becomes    nn.conv2d(%x, %w * s)      along the output channels

`s` has one element per channel, or a single one. Operators between scale and convolution must be used once: `nn.relu`
and `nn.max_pool2d` (if `s` is a nonnegative constant), `nn.avg_pool2d`, and, backward, the addition of a per-channel
bias, which is scaled too. FoldConstant then computes the scaled weights. Results differ by rounding.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple, cast

from ..expr import Call, Constant, Expr, Function
from ..operators import call_operator
from ..parts import parts_of, with_parts
from ..scopes import nodes_with_parts
from ..types import TensorType
from .rewriting import Program, is_call, ordered_rewrite, relay_pass, static_shape

_WEIGHTED = ("nn.conv2d", "nn.dense")


class _Scale(NamedTuple):
    """Per-channel multiplication: the data, the scale, and the scale as a vector."""

    data: Expr
    factor: Expr
    vector: Expr

    @property
    def is_positive(self) -> bool:
        return isinstance(self.factor, Constant) and bool((cast(Any, self.factor.data) >= 0).all())


def _axes(call: Call) -> tuple[int, int, int] | None:
    """(Channel axis of the data, counted from the end; input channel axis, output channel axis of the weight).

    None if a layout is packed, which splits such an axis, or the result has another layout than the data.
    """
    if is_call(call, "nn.dense"):
        return -1, 1, 0
    attrs = cast(Any, call.attrs)
    layout, kernel = attrs.data_layout, attrs.kernel_layout
    if not (layout + kernel).isupper() or attrs.out_layout not in ("", layout):
        return None
    return layout.index("C") - len(layout), kernel.index("I"), kernel.index("O")


def _shape(expr: Expr) -> tuple[int, ...] | None:
    return static_shape(expr.type if isinstance(expr, Constant) else getattr(expr, "checked_type_", None))


class _Folder:
    """Forward or backward rewrite of one expression."""

    def __init__(self, expr: Expr, is_forward: bool) -> None:
        self.is_forward = is_forward
        self.order = nodes_with_parts(expr)
        self.uses = Counter(part for node in self.order for part in parts_of(node))
        self.memo: dict[Expr, Expr] = {}

    def run(self, expr: Expr) -> Expr:
        for node in self.order:
            folded = self._forward(node) if self.is_forward else self._backward(node)
            if folded is None:
                folded = with_parts(node, [self._standing(part) for part in parts_of(node)])
            self.memo[node] = folded
        return self._standing(expr)

    def _standing(self, expr: Expr) -> Expr:
        return self.memo.get(expr, expr)

    def _scale(self, node: Expr, axis: int) -> _Scale | None:
        """Match a per-channel multiplication on an axis counted from the end, or return None."""
        if not is_call(node, "multiply"):
            return None
        for data, factor in (node.args, reversed(node.args)):
            vector = self._vector(data, factor, axis)
            if vector is not None:
                return _Scale(data, factor, vector)
        return None

    def _vector(self, data: Expr, factor: Expr, axis: int) -> Expr | None:
        """Convert a tensor that broadcasts along one axis of another to a vector, or return None."""
        type_, shape = getattr(data, "checked_type_", None), _shape(factor)
        if shape is None or not isinstance(type_, TensorType) or not isinstance(type_.shape, tuple):
            return None
        if len(shape) > len(type_.shape):
            return None
        channels = static_shape(TensorType((type_.shape[axis],)))
        sizes = (1,) * (len(type_.shape) - len(shape)) + shape
        other_sizes = [size for i, size in enumerate(sizes) if i != len(sizes) + axis]
        if any(size != 1 for size in other_sizes) or channels is None or sizes[axis] not in (1, channels[0]):
            return None
        return call_operator("reshape", self._standing(factor), newshape=[-1])

    def _scaled(self, weight: Expr, vector: Expr, axis: int) -> Expr:
        """Multiply the weight by a vector along an axis."""
        rank = len(cast(Any, getattr(weight, "checked_type_", None) or cast(Constant, weight).type).shape)
        behind = rank - 1 - axis
        column = call_operator("expand_dims", vector, axis=1, num_newaxis=behind) if behind else vector
        return call_operator("multiply", self._standing(weight), column)

    def _forward(self, node: Expr) -> Expr | None:
        if not is_call(node, *_WEIGHTED) or (node.attrs is not None and node.attrs.get("groups", 1) != 1):
            return None
        axes = _axes(node)
        if axes is None:
            return None
        axis, inputs, _ = axes
        between: list[Call] = []
        data = node.args[0]
        while self.uses[data] == 1 and is_call(data, "nn.relu", "nn.max_pool2d", "nn.avg_pool2d"):
            between.append(data)
            data = data.args[0]
        scale = self._scale(data, axis) if self.uses[data] == 1 else None
        if scale is None or not _may_pass(between, scale):
            return None
        inner = self._standing(scale.data)
        for step in reversed(between):
            inner = step.replace(args=(inner,))
        return node.replace(args=(inner, self._scaled(node.args[1], scale.vector, inputs)))

    def _backward(self, node: Expr) -> Expr | None:
        if not is_call(node, "multiply"):
            return None
        for start in node.args:
            folded = self._backward_from(node, start)
            if folded is not None:
                return folded
        return None

    def _backward_from(self, node: Call, start: Expr) -> Expr | None:
        between: list[Call] = []
        target = start
        while self.uses[target] == 1 and is_call(
            target, "nn.relu", "nn.max_pool2d", "nn.avg_pool2d", "add", "nn.bias_add"
        ):
            between.append(target)
            target = target.args[0]
        if self.uses[target] != 1 or not is_call(target, *_WEIGHTED):
            return None
        axes = _axes(target)
        if axes is None:
            return None
        axis, _, outputs = axes
        scale = self._scale(node, axis)
        if scale is None or scale.data is not start or not _may_pass(between, scale):
            return None
        inner: Expr = target.replace(
            args=(self._standing(target.args[0]), self._scaled(target.args[1], scale.vector, outputs))
        )
        for step in reversed(between):
            rest = tuple(self._scaled_bias(step, arg, scale, axis) for arg in step.args[1:])
            if any(arg is None for arg in rest):
                return None
            inner = step.replace(args=(inner, *rest))
        return inner

    def _scaled_bias(self, step: Call, bias: Expr, scale: _Scale, axis: int) -> Expr | None:
        """Scale the bias added after the weights; None if it is not per channel."""
        if is_call(step, "nn.bias_add"):
            rank = len(cast(Any, step.checked_type).shape)
            if cast(Any, step.attrs).axis % rank != rank + axis:
                return None
            return call_operator("multiply", self._standing(bias), scale.vector)
        if self._vector(step.args[0], bias, axis) is None:
            return None
        return call_operator("multiply", self._standing(bias), self._standing(scale.factor))


def _may_pass(between: list[Call], scale: _Scale) -> bool:
    """True if a scale commutes with these operators."""
    return scale.is_positive or not any(is_call(step, "nn.relu", "nn.max_pool2d") for step in between)


def fold_scale_axis(expr: Expr, is_forward: bool, program: Program | None = None) -> Expr:
    """Fold scales into weights of a typed expression; return it unchanged if there are none."""
    program = Program() if program is None else program
    return ordered_rewrite(expr, program, lambda ordered: _Folder(ordered, is_forward).run(ordered))


@relay_pass("ForwardFoldScaleAxis", opt_level=3, required=["InferType"])
def ForwardFoldScaleAxis(function: Function, program: Program) -> Expr:
    """Fold scales of the inputs of convolutions and products into their weights, in every function."""
    return fold_scale_axis(function, True, program)


@relay_pass("BackwardFoldScaleAxis", opt_level=3, required=["InferType"])
def BackwardFoldScaleAxis(function: Function, program: Program) -> Expr:
    """Fold scales of the results of convolutions and products into their weights, in every function."""
    return fold_scale_axis(function, False, program)
