"""Operators of com.microsoft that ONNX Runtime's optimiser writes: fused products, activations, normalisations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import op
from ....expr import PrimValue
from ..emitter import Emitter
from ..registry import converter
from ..values import Floats, Ints, Tensor
from .activation import hard_sigmoid, softmax_of_the_rest, swish
from .math import gemm
from .nn import conv

DOMAIN = "com.microsoft"

# ------------------------------------------------------------------------------------- activations


@converter("BiasGelu", domain=DOMAIN)
def bias_gelu(g: Emitter, A: Tensor, B: Tensor) -> Tensor:
    return op.nn.gelu(op.add(A, B))


@converter("FastGelu", domain=DOMAIN)
def fast_gelu(g: Emitter, X: Tensor, bias: Tensor | None = None) -> Tensor:
    return op.nn.gelu_tanh(X if bias is None else op.add(X, bias))


@converter("GemmFastGelu", domain=DOMAIN)
def gemm_fast_gelu(g: Emitter, X: Tensor, W: Tensor, bias: Tensor | None = None) -> Tensor:
    return fast_gelu(g, op.matmul(X, W), bias)


@converter("QuickGelu", domain=DOMAIN)
def quick_gelu(g: Emitter, X: Tensor, *, alpha: float = 1.702) -> Tensor:
    return swish(g, X, alpha=alpha)


@converter("BiasAdd", domain=DOMAIN)
def bias_add(g: Emitter, X: Tensor, bias: Tensor, skip: Tensor) -> Tensor:
    return op.add(op.add(X, bias), skip)


@converter("BiasSoftmax", domain=DOMAIN)
def bias_softmax(g: Emitter, data: Tensor, bias: Tensor, *, axis: int = 1, is_inner_broadcast: int = 1) -> Tensor:
    if is_inner_broadcast and g.ndim(bias) != g.ndim(data):
        g.unsupported("a bias of another rank that is broadcast to inner dimensions")
    return softmax_of_the_rest(g, g.emit(op.add(data, bias)), axis=axis)


# ------------------------------------------------------------------------------------- products


def _activated(g: Emitter, x: Tensor, activation: str, params: list[float]) -> Tensor:
    """The activation that a fused operator names, with its parameters in order."""
    match activation, params:
        case "", _:
            return x
        case "Relu", _:
            return op.nn.relu(x)
        case "Sigmoid", _:
            return op.sigmoid(x)
        case "Tanh", _:
            return op.tanh(x)
        case "LeakyRelu", [alpha, *_]:
            return op.nn.leakyrelu(x, alpha)
        case "Clip", [low, high]:
            return op.clip(x, PrimValue(low), PrimValue(high))
        case "HardSigmoid", [alpha, beta, *_]:
            return hard_sigmoid(g, g.emit(x), alpha=alpha, beta=beta)
        case _:
            return g.unsupported(f"the activation {activation} with {len(params)} parameters")


@converter("FusedMatMul", "TransposeMatMul", domain=DOMAIN)
def fused_matmul(
    g: Emitter,
    A: Tensor,
    B: Tensor,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:
    left, right = _turned(g, A, transA, transBatchA), _turned(g, B, transB, transBatchB)
    product = op.matmul(left, right)
    return product if alpha == 1 else op.multiply(product, g.const(alpha, g.dtype(A)))


def _turned(g: Emitter, x: Tensor, trans: int, batch: int) -> Tensor:
    """Transpose a factor's last two dimensions; with `batch`, first move dimension 0 behind the batch."""
    order = list(range(g.ndim(x)))
    if len(order) < 2 or not (trans or batch):
        return x
    if batch:
        order = [*order[1:-1], order[0], order[-1]]
    if trans:
        order[-2:] = [order[-1], order[-2]]
    return op.permute_dims(x, order)


@converter("FusedGemm", domain=DOMAIN)
def fused_gemm(
    g: Emitter,
    A: Tensor,
    B: Tensor,
    C: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
) -> Tensor:
    result = gemm(g, A, B, C, alpha=alpha, beta=beta, transA=transA, transB=transB)
    params = [p for p in (activation_alpha, activation_beta, activation_gamma) if p is not None]
    return _activated(g, result, activation, params or _DEFAULTS.get(activation, []))


_DEFAULTS = {"LeakyRelu": [0.01], "HardSigmoid": [0.2, 0.5]}


@converter("FusedConv", domain=DOMAIN)
def fused_conv(
    g: Emitter,
    X: Tensor,
    W: Tensor,
    B: Tensor | None = None,
    Z: Tensor | None = None,
    *,
    activation: str = "",
    activation_params: Floats = (),
    auto_pad: str = "NOTSET",
    dilations: Ints = (),
    group: int = 1,
    kernel_shape: Ints = (),
    pads: Ints = (),
    strides: Ints = (),
) -> Tensor:
    result = conv(
        g,
        X,
        W,
        B,
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        kernel_shape=kernel_shape,
        pads=pads,
        strides=strides,
    )
    params = [float(p) for p in activation_params] or _DEFAULTS.get(activation, [])
    return _activated(g, result if Z is None else op.add(result, Z), activation, params)


# ------------------------------------------------------------------------------------- normalisations


def _skipped(g: Emitter, x: Tensor, skip: Tensor, bias: Tensor | None) -> Tensor:
    """The sum that is normalised."""
    if any(g.outputs[1:3]):
        g.unsupported("the outputs mean and inv_std_var, of training,")
    return g.emit(op.add(op.add(x, skip), bias) if bias is not None else op.add(x, skip))


@converter("SkipLayerNormalization", domain=DOMAIN)
def skip_layer_normalization(
    g: Emitter,
    input: Tensor,
    skip: Tensor,
    gamma: Tensor,
    beta: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
) -> tuple[Any, ...]:
    total = _skipped(g, input, skip, bias)
    return _normalized(g, total, gamma, beta, epsilon), None, None, total


def _normalized(g: Emitter, x: Tensor, gamma: Tensor, beta: Tensor | None, epsilon: float) -> Tensor:
    shift = op.zeros_like(gamma) if beta is None else beta
    return op.nn.layer_norm(x, gamma, shift, axes=[-1], epsilon=epsilon, center=beta is not None)


@converter("SkipSimplifiedLayerNormalization", domain=DOMAIN)
def skip_simplified_layer_normalization(
    g: Emitter, input: Tensor, skip: Tensor, gamma: Tensor, bias: Tensor | None = None, *, epsilon: float = 1e-12
) -> tuple[Any, ...]:
    total = _skipped(g, input, skip, bias)
    return op.nn.rms_norm(total, gamma, axes=[-1], epsilon=epsilon), None, None, total


@converter("EmbedLayerNormalization", domain=DOMAIN)
def embed_layer_normalization(
    g: Emitter,
    input_ids: Tensor,
    segment_ids: Tensor | None,
    word_embedding: Tensor,
    position_embedding: Tensor,
    segment_embedding: Tensor | None,
    gamma: Tensor,
    beta: Tensor,
    mask: Tensor | None = None,
    position_ids: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> tuple[Any, ...]:
    """The sum of embeddings of words, positions and segments, normalised; and how many words each mask keeps."""
    batch, length = g.shape(input_ids, 2, "input_ids")
    if position_ids is None:
        positions = op.strided_slice(position_embedding, [0], [0], [length])
    else:
        positions = op.take(position_embedding, position_ids, axis=0)
    total = op.add(op.take(word_embedding, input_ids, axis=0), positions)
    if segment_ids is not None and segment_embedding is not None:
        total = op.add(total, op.take(segment_embedding, segment_ids, axis=0))
    total = g.emit(total)
    if mask is None:
        counts = op.zeros([batch], "int32")
    else:
        counts = op.sum(op.astype(op.equal(mask, g.const(1, g.dtype(mask))), "int32"), axis=[1])
    return _normalized(g, total, gamma, beta, epsilon), counts, total


# ------------------------------------------------------------------------------------- quantised LSTM


@converter("DynamicQuantizeLSTM", domain=DOMAIN)
def dynamic_quantize_lstm(
    g: Emitter,
    X: Tensor,
    W: Tensor,
    R: Tensor,
    B: Tensor | None,
    sequence_lens: Tensor | None,
    initial_h: Tensor | None,
    initial_c: Tensor | None,
    P: Tensor | None,
    W_scale: Tensor,
    W_zero_point: Tensor,
    R_scale: Tensor,
    R_zero_point: Tensor,
    *,
    hidden_size: int | None = None,
    activation_alpha: Floats = (),
    activation_beta: Floats = (),
    activations: Sequence[str] = (),
    clip: float | None = None,
    direction: str = "forward",
    input_forget: int = 0,
) -> Tensor:
    """An LSTM on dequantised weights, in float32. ONNX Runtime also rounds the activations to 8 bits at each step."""
    return op.nn.lstm(
        X,
        g.emit(_dequantized(g, W, W_scale, W_zero_point)),
        g.emit(_dequantized(g, R, R_scale, R_zero_point)),
        B,
        sequence_lens,
        initial_h,
        initial_c,
        P,
        direction=direction,
        activations=list(activations) or None,
        activation_alpha=list(activation_alpha),
        activation_beta=list(activation_beta),
        clip=clip,
        input_forget=bool(input_forget),
    )


def _dequantized(g: Emitter, weight: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
    """Weights (directions, inputs, gates) in float32, as (directions, gates, inputs).

    They are dequantised as rows of all directions, of which each has a scale, by an operator that DequantizeInProducts
    finds: the weights stay narrow.
    """
    directions, inputs, gates = g.shape(weight, 3, "a quantised weight")
    rows = g.emit(op.reshape(op.permute_dims(weight, [0, 2, 1]), [directions * gates, inputs]))
    parameters: list[Tensor] = []
    for name, parameter in (("scale", scale), ("zero point", zero_point)):
        if g.ndim(parameter) not in (1, 2):
            raise g.error(f"a {name} must have 1 or 2 dimensions, found {g.ndim(parameter)}")
        column = op.reshape(parameter, [directions, 1]) if g.ndim(parameter) == 1 else parameter
        parameters.append(g.emit(op.reshape(op.broadcast_to(column, [directions, gates]), [directions * gates])))
    return op.reshape(g.emit(op.dequantize(rows, *parameters, axis=0)), [directions, gates, inputs])
