"""Gradients of operators, as Relay expressions.

The gradient of an operator is its ``.grad`` operator (`ops.derivative`), which follows Relax's rules. This module has
rules for operators that Relax has none for; `register_gradient` adds others.

    @register_gradient("my.scale")
    def my_scale(call, grad):
        return [grad * call.args[1], grad * call.args[0]]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from ..ir import Diagnostic, DiagnosticError, Op
from .calls import operator_function
from .expr import Call, Expr, TupleGetItem, const
from .operators import call_operator
from .ops.derivative import NO_GRADIENT, derivative

Rule = Callable[[Call, Expr], Sequence[Expr]]
"""Maps a call and the gradient of its result to the gradients of its operands."""

RULE: Final = "FPrimalGradient"
"""Op attribute key of the gradient rule."""


def register_gradient(op_name: str, fgradient: Rule | None = None, level: int = 10) -> Any:
    """Register a gradient: ``fgradient(call, grad)`` returns the gradients of the call's operands.

    Without `fgradient`, returns a decorator. `level` is accepted for compatibility. Raises KeyError for an unknown
    operator.
    """
    del level

    def register(rule: Rule) -> Rule:
        Op.get(op_name).set_attr(RULE, rule)
        return rule

    return register if fgradient is None else register(fgradient)


def gradients_of(call: Call, grad: Expr) -> Sequence[Expr]:
    """Return the gradients of a call's operands, given the gradient of its result."""
    op = cast(Op, call.op)
    rule: Rule | None = op.get_attr(RULE)
    if rule is not None:
        return rule(call, grad)
    backward = derivative(op)
    if backward is None:
        raise no_gradient(call, f"{op.name} has no gradient")
    gradients = Call(backward, (*call.args, grad), call.attrs, span=call.span)
    return [TupleGetItem(gradients, i) for i in range(len(call.args))]


def no_gradient(call: Call, message: str) -> DiagnosticError:
    """Return the error for a call without gradients."""
    return DiagnosticError(Diagnostic(NO_GRADIENT, message, call.span))


def _op(name: str, *operands: Any, **attrs: Any) -> Any:
    return operator_function(name)(*operands, **attrs)


def _again(call: Call, **changed: Any) -> Call:
    """Copy the call with some attributes changed."""
    return call_operator(cast(Op, call.op).name, *call.args, **{**dict(cast(Any, call.attrs).items()), **changed})


def _widened(call: Call, grad: Expr) -> Expr:
    """Expand the gradient of a reduction's result to the dimensions the reduction removed."""
    return _op("reshape_like", grad, _again(call, keepdims=True))


def _extremum(call: Call, grad: Expr) -> Sequence[Expr]:
    """Divide the gradient among the elements equal to the extremum."""
    (x,) = call.args
    at = _op("cast_like", _op("equal", x, _again(call, keepdims=True)), x)
    attrs: Any = call.attrs
    count = _op("sum", at, axis=attrs.axis, keepdims=True, exclude=attrs.exclude)
    return [_widened(call, grad) * at / count]


register_gradient("max", _extremum)
register_gradient("min", _extremum)


@register_gradient("logsumexp")
def _logsumexp(call: Call, grad: Expr) -> Sequence[Expr]:
    (x,) = call.args
    return [cast(Any, _widened(call, grad)) * _op("exp", x - _again(call, keepdims=True))]  # type: ignore[operator]


@register_gradient("take")
def _take(call: Call, grad: Expr) -> Sequence[Expr]:
    attrs: Any = call.attrs
    x, indices = call.args
    if attrs.batch_dims:
        raise no_gradient(call, "take has no gradient with batch_dims other than 0")
    if attrs.mode != "fast":  # map out-of-range indices to the elements they denote
        shape = _op("shape_of", x, dtype="int64")
        size = _op("prod", shape) if attrs.axis is None else _op("take", shape, const(attrs.axis, "int64"), mode="wrap")
        size = _op("cast_like", size, indices)
        if attrs.mode == "wrap":
            indices = _op("floor_mod", indices, size)
        else:
            zero, one = _op("zeros_like", size), _op("ones_like", size)
            indices = _op("maximum", _op("minimum", indices, size - one), zero)
    fast = _again(call, mode="fast").attrs
    gradients = Call(cast(Op, derivative(Op.get("take"))), (x, indices, grad), fast, span=call.span)
    return [TupleGetItem(gradients, 0), _op("zeros_like", call.args[1])]


@register_gradient("cumsum")
def _cumsum(call: Call, grad: Expr) -> Sequence[Expr]:
    attrs: Any = call.attrs
    if attrs.axis is None:
        raise no_gradient(call, "cumsum has a gradient along an axis")
    summed = _op("cumsum", _op("reverse", grad, axis=attrs.axis), axis=attrs.axis, exclusive=attrs.exclusive)
    return [_op("reverse", summed, axis=attrs.axis)]


@register_gradient("nn.pad")
def _pad(call: Call, grad: Expr) -> Sequence[Expr]:
    attrs: Any = call.attrs
    if attrs.pad_mode != "constant":
        raise no_gradient(call, f"nn.pad has no gradient in the mode {attrs.pad_mode!r}")
    begin = [before for before, _ in attrs.pad_width]
    end = [-after if after else 2**31 - 1 for _, after in attrs.pad_width]
    return [_op("strided_slice", grad, begin=begin, end=end), _op("zeros_like", call.args[1])]


def _pooling(call: Call, grad: Expr) -> Sequence[Expr]:
    name = f"{cast(Op, call.op).name}_grad"
    return [Call(Op.get(name), (grad, *call.args), call.attrs, span=call.span)]


register_gradient("nn.max_pool2d", _pooling)
register_gradient("nn.avg_pool2d", _pooling)


@register_gradient("nn.batch_norm")
def _batch_norm(call: Call, grad: Expr) -> Sequence[Expr]:
    """Gradient in inference mode: (x - mean) / sqrt(var + epsilon) * gamma + beta, and the given mean and variance."""
    attrs: Any = call.attrs
    x, gamma, _, mean, var = call.args
    by_y, by_mean, by_var = (TupleGetItem(grad, i) for i in range(3))
    negative = _op("negative", mean)
    scale: Any = _op("rsqrt", _op("add", var, _op("cast_like", attrs.epsilon, var)))
    factor = scale * gamma if attrs.scale else scale

    def along(vector: Any) -> Any:
        return _op("nn.bias_add", _op("zeros_like", x), vector, axis=attrs.axis)

    def total(value: Any) -> Any:
        return _op("sum", value, axis=attrs.axis, exclude=True)

    centred: Any = _op("nn.bias_add", x, negative, axis=attrs.axis)
    by_factor = total(by_y * centred)
    by_scale = by_factor * gamma if attrs.scale else by_factor
    zeros = _op("zeros_like", gamma)
    half = _op("cast_like", -0.5, var)
    return [
        by_y * along(factor),
        by_factor * scale if attrs.scale else zeros,
        total(by_y) if attrs.center else zeros,
        by_mean - total(by_y) * factor,
        by_var + by_scale * half * scale * scale * scale,
    ]
