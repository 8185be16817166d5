"""SimplifyInference: replace training operators and normalisations by arithmetic.

    nn.batch_norm(%x, %gamma, %beta, %mean, %var).0
        becomes  %x * (gamma * s) + (beta - mean * gamma * s)    where s = 1 / sqrt(var + epsilon)
    nn.dropout(%x).0                                becomes  %x
    nn.layer_norm, nn.instance_norm, nn.group_norm  become   (x - mean) / sqrt(variance + epsilon) * gamma + beta
    nn.l2_normalize(%x)                             becomes  x / sqrt(max(sum(x * x), eps))

The second and third results of `nn.batch_norm` are its input statistics. Skipped for tensors of unknown rank or, for
`nn.group_norm`, dynamic shape. Results differ from the operator's by rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from ..expr import Call, Expr, Function, TupleGetItem, const
from ..operators import call_operator
from ..types import TensorType
from .rewriting import Program, Rewriter, is_call, ordered_rewrite, relay_pass


class _Simplifier(Rewriter):
    def rewrite(self, pre: Expr, post: Expr) -> Expr:
        if isinstance(post, TupleGetItem):
            source = post.tuple_value
            if is_call(source, "nn.dropout") and post.index == 0:
                return source.args[0]
            if is_call(source, "nn.batch_norm"):
                return self._batch_norm(source, post)
        if isinstance(post, Call) and is_call(post, *_RULES):
            type_ = self.tensor(post.args[0])
            if type_ is not None:
                return _RULES[cast(Any, post.op).name](post, type_) or post
        return post

    def _batch_norm(self, call: Call, post: TupleGetItem) -> Expr:
        if post.index:
            return call.args[2 + post.index]
        type_ = self.tensor(call.args[0])
        if type_ is None:
            return post
        data, gamma, beta, mean, variance = call.args
        attrs = cast(Any, call.attrs)
        scale = _reciprocal_root(variance, attrs.epsilon, _dtype(type_))
        if attrs.scale:
            scale = call_operator("multiply", gamma, scale)
        shift = call_operator("negative", call_operator("multiply", mean, scale))
        if attrs.center:
            shift = call_operator("add", shift, beta)
        scaled = call_operator("multiply", data, _along(scale, attrs.axis, type_))
        return call_operator("add", scaled, _along(shift, attrs.axis, type_))


def _dtype(type_: TensorType) -> str:
    return str(type_.dtype)


def _rank(type_: TensorType) -> int:
    return len(cast("tuple[Any, ...]", type_.shape))


def _reciprocal_root(variance: Expr, epsilon: float, dtype: str) -> Expr:
    total = call_operator("add", variance, const(epsilon, dtype))
    return call_operator("divide", const(1, dtype), call_operator("sqrt", total))


def _along(vector: Expr, axis: int, type_: TensorType) -> Expr:
    """Append unit dimensions to a vector so that it broadcasts along an axis of a tensor."""
    behind = _rank(type_) - 1 - axis % _rank(type_)
    return call_operator("expand_dims", vector, axis=1, num_newaxis=behind) if behind else vector


def _normalized(data: Expr, axes: Sequence[int], epsilon: float, dtype: str) -> Expr:
    mean = call_operator("mean", data, axis=tuple(axes), keepdims=True)
    difference = call_operator("subtract", data, mean)
    square = call_operator("multiply", difference, difference)
    variance = call_operator("mean", square, axis=tuple(axes), keepdims=True)
    return call_operator("multiply", difference, _reciprocal_root(variance, epsilon, dtype))


def _scaled(data: Expr, call: Call, axis: int, type_: TensorType) -> Expr:
    attrs = cast(Any, call.attrs)
    if attrs.scale:
        data = call_operator("multiply", data, _along(call.args[1], axis, type_))
    if attrs.center:
        data = call_operator("add", data, _along(call.args[2], axis, type_))
    return data


def _layer_norm(call: Call, type_: TensorType) -> Expr:
    attrs = cast(Any, call.attrs)
    return _scaled(_normalized(call.args[0], [attrs.axis], attrs.epsilon, _dtype(type_)), call, attrs.axis, type_)


def _instance_norm(call: Call, type_: TensorType) -> Expr:
    attrs = cast(Any, call.attrs)
    axes = [i for i in range(1, _rank(type_)) if i != attrs.axis % _rank(type_)]
    return _scaled(_normalized(call.args[0], axes, attrs.epsilon, _dtype(type_)), call, attrs.axis, type_)


def _group_norm(call: Call, type_: TensorType) -> Expr | None:
    attrs = cast(Any, call.attrs)
    axis: int = attrs.axis % _rank(type_)
    try:
        shape = type_.concrete_shape
    except TypeError:
        return None
    groups: int = attrs.num_groups
    split: tuple[int, ...] = (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])
    data = call_operator("reshape", call.args[0], newshape=split)
    axes = [i for i in range(1, len(split)) if i != axis]
    normal = _normalized(data, axes, attrs.epsilon, _dtype(type_))
    return _scaled(call_operator("reshape", normal, newshape=shape), call, axis, type_)


def _l2_normalize(call: Call, type_: TensorType) -> Expr:
    attrs = cast(Any, call.attrs)
    data = call.args[0]
    total = call_operator("sum", call_operator("multiply", data, data), axis=attrs.axis, keepdims=True)
    floor = call_operator("maximum", total, const(attrs.eps, _dtype(type_)))
    return call_operator("divide", data, call_operator("sqrt", floor))


_RULES: Final[dict[str, Callable[[Call, TensorType], Expr | None]]] = {
    "nn.layer_norm": _layer_norm,
    "nn.instance_norm": _instance_norm,
    "nn.group_norm": _group_norm,
    "nn.l2_normalize": _l2_normalize,
}


def simplify_inference(expr: Expr, program: Program | None = None) -> Expr:
    """Return the typed expression with these operators replaced; itself if there are none."""
    program = Program() if program is None else program
    return ordered_rewrite(expr, program, lambda ordered: _Simplifier().visit(ordered))


@relay_pass("SimplifyInference", opt_level=0, required=["InferType"])
def SimplifyInference(function: Function, program: Program) -> Expr:
    """Replace training operators and normalisations by arithmetic, in every function."""
    return simplify_inference(function, program)
