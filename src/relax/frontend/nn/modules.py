"""Layers: modules with parameters of their own, under the names of TVM and torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...prim import PrimExpr
from . import op
from .core import Module, ModuleList
from .effect import IOEffect as IOEffect  # TVM has these two here
from .effect import KVCache as KVCache
from .parameter import Parameter
from .tensor import Dim, DimLike, Tensor


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, x: Tensor) -> Tensor:
        """Return `op.relu` of x."""
        return op.relu(x)


class SiLU(Module):
    """x · sigmoid(x)."""

    def forward(self, x: Tensor) -> Tensor:
        """Return `op.silu` of x."""
        return op.silu(x)


class GELU(Module):
    """x · Φ(x), Φ the normal distribution."""

    def forward(self, x: Tensor) -> Tensor:
        """Return `op.gelu` of x."""
        return op.gelu(x)


class Identity(Module):
    """x itself."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x."""
        return x


class Linear(Module):
    """x · weightᵀ + bias.

    `weight` is (out_features, in_features), `bias` (out_features), None without a bias. Features may be names of shape
    variables. With `out_dtype` the product is computed and the result given in it.
    """

    def __init__(
        self,
        in_features: DimLike,
        out_features: DimLike,
        bias: bool = True,
        dtype: str | None = None,
        out_dtype: str | None = None,
    ) -> None:
        self.in_features, self.out_features = in_features, out_features
        self.out_dtype = out_dtype
        self.weight = Parameter((out_features, in_features), dtype)
        self.bias = Parameter((out_features,), out_dtype or dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Return the product with x, (…, in_features): (…, out_features)."""
        y = op.matmul(x, op.permute_dims(self.weight), out_dtype=self.out_dtype)
        return y if self.bias is None else op.add(y, self.bias)

    def to(self, dtype: str | None = None) -> None:
        """Change the dtype of the weight, and of the bias unless `out_dtype` says it."""
        self.weight.to(dtype)
        if self.bias is not None and self.out_dtype is None:
            self.bias.to(dtype)
        if dtype is not None and isinstance(getattr(self, "dtype", None), str):
            self.dtype = dtype


class Embedding(Module):
    """Rows of a table: `weight` is (num, dim)."""

    def __init__(self, num: DimLike, dim: DimLike, dtype: str | None = None) -> None:
        self.num, self.dim = num, dim
        self.weight = Parameter((num, dim), dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Return the rows at integers x, of any shape: (…, dim)."""
        if x.ndim == 1:
            return op.take(self.weight, x, axis=0)
        rows = op.take(self.weight, op.reshape(x, [-1]), axis=0)
        return op.reshape(rows, [*x.shape, self.weight.shape[1]])


class _Conv(Module):
    """Base class of convolutions: attributes, weight and bias."""

    def __init__(
        self, weight: Sequence[int], out_channels: int, stride: Any, padding: Any, dilation: Any, groups: int,
        bias: bool, dtype: str | None,
    ) -> None:  # fmt: skip
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self.weight = Parameter(weight, dtype)
        self.bias = Parameter((out_channels,), dtype) if bias else None


def _kernel(size: int | Sequence[int], count: int) -> list[int]:
    return [size] * count if isinstance(size, int) else [*size]


class Conv1D(_Conv):
    """Convolution of sequences (n, in_channels, w): `op.conv1d`. `weight` is (out, in / groups, kernel_size)."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, stride: int = 1, padding: int | str = 0,
        dilation: int = 1, groups: int = 1, bias: bool = True, dtype: str | None = None,
    ) -> None:  # fmt: skip
        weight = (out_channels, in_channels // groups, *_kernel(kernel_size, 1))
        super().__init__(weight, out_channels, stride, padding, dilation, groups, bias, dtype)
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, kernel_size

    def forward(self, x: Tensor) -> Tensor:
        """Return the convolution of x."""
        return op.conv1d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv2D(_Conv):
    """Convolution of images: `op.conv2d`.

    `weight` is (out, in / groups, h, w); `data_layout`, that of the images, is "NCHW" or "NHWC".
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | str = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True,
        dtype: str | None = None, data_layout: str = "NCHW",
    ) -> None:  # fmt: skip
        weight = (out_channels, in_channels // groups, *_kernel(kernel_size, 2))
        super().__init__(weight, out_channels, stride, padding, dilation, groups, bias, dtype)
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, _kernel(kernel_size, 2)
        self.data_layout = data_layout

    def forward(self, x: Tensor) -> Tensor:
        """Return the convolution of x."""
        return op.conv2d(
            x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups, self.data_layout
        )


class Conv3D(_Conv):
    """Convolution of volumes: `op.conv3d`. `weight` is (out, in / groups, d, h, w)."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int | Sequence[int], stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | str = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True,
        dtype: str | None = None, data_layout: str = "NCDHW",
    ) -> None:  # fmt: skip
        weight = (out_channels, in_channels // groups, *_kernel(kernel_size, 3))
        super().__init__(weight, out_channels, stride, padding, dilation, groups, bias, dtype)
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, _kernel(kernel_size, 3)
        self.data_layout = data_layout

    def forward(self, x: Tensor) -> Tensor:
        """Return the convolution of x."""
        return op.conv3d(
            x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups, self.data_layout
        )


class ConvTranspose1D(_Conv):
    """Transposed convolution of sequences: `op.conv1d_transpose`. `weight` is (in, out / groups, kernel_size)."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, stride: int = 1, padding: int = 0,
        output_padding: int = 0, dilation: int = 1, groups: int = 1, bias: bool = True, dtype: str | None = None,
    ) -> None:  # fmt: skip
        weight = (in_channels, out_channels // groups, *_kernel(kernel_size, 1))
        super().__init__(weight, out_channels, stride, padding, dilation, groups, bias, dtype)
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, kernel_size
        self.output_padding = output_padding

    def forward(self, x: Tensor) -> Tensor:
        """Return the transposed convolution of x."""
        return op.conv1d_transpose(
            x, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.dilation, self.groups
        )


class LayerNorm(Module):
    """Normalisation over the last dimension: `op.layer_norm`, without parameters unless `elementwise_affine`."""

    def __init__(
        self, normalized_shape: int, eps: float | None = 1e-5, elementwise_affine: bool = True, dtype: str | None = None
    ) -> None:
        self.normalized_shape, self.eps = normalized_shape, 1e-5 if eps is None else eps
        self.elementwise_affine = elementwise_affine
        self.weight = Parameter((normalized_shape,), dtype) if elementwise_affine else None
        self.bias = Parameter((normalized_shape,), dtype) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        """Return x normalised."""
        return op.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """Division by the root of the mean square over `axes`: `op.rms_norm`, plus a bias."""

    def __init__(
        self,
        hidden_size: int,
        axes: int | list[int] = -1,
        epsilon: float = 1e-5,
        bias: bool = True,
        dtype: str | None = None,
    ) -> None:
        self.epsilon, self.axes = epsilon, axes
        self.weight = Parameter((hidden_size,), dtype)
        self.bias = Parameter((hidden_size,), dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Return x normalised."""
        y = op.rms_norm(x, self.weight, self.axes, self.epsilon)
        return y if self.bias is None else op.add(y, self.bias)


class GroupNorm(Module):
    """Normalisation over groups of channels: `op.group_norm`, without parameters unless `affine`."""

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, dtype: str | None = None
    ) -> None:
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = Parameter((num_channels,), dtype) if affine else None
        self.bias = Parameter((num_channels,), dtype) if affine else None

    def forward(self, x: Tensor, channel_axis: int = 1, axes: list[int] | None = None) -> Tensor:
        """Return x normalised."""
        return op.group_norm(x, self.num_groups, self.weight, self.bias, self.eps, channel_axis, axes)


class TimestepEmbedding(Module):
    """Two linear layers on embeddings of times, of diffusers."""

    def __init__(
        self,
        in_channels: int,
        time_embed_dim: int,
        act_fn: str = "silu",
        out_dim: int | None = None,
        post_act_fn: str | None = None,
        cond_proj_dim: int | None = None,
    ) -> None:
        self.linear_1 = Linear(in_channels, time_embed_dim)
        self.cond_proj = None if cond_proj_dim is None else Linear(cond_proj_dim, in_channels, bias=False)
        self.act = _activation(act_fn)
        self.linear_2 = Linear(time_embed_dim, out_dim or time_embed_dim)
        self.post_act = None if post_act_fn is None else _activation(post_act_fn)

    def forward(self, sample: Tensor, condition: Tensor | None = None) -> Tensor:
        """Return the embedding of `sample`, (n, in_channels), to which the projected `condition` is added."""
        if condition is not None and self.cond_proj is not None:
            sample = op.add(sample, self.cond_proj(condition))
        sample = self.linear_2(self.act(self.linear_1(sample)))
        return sample if self.post_act is None else self.post_act(sample)


def _activation(name: str) -> Module:
    activations: dict[str, type[Module]] = {"silu": SiLU, "gelu": GELU, "relu": ReLU}
    if name not in activations:
        raise ValueError(f"the activation must be one of {', '.join(activations)}, found {name!r}")
    return activations[name]()


class Timesteps(Module):
    """Sines and cosines of times: `op.get_timestep_embedding`."""

    def __init__(self, num_channels: int, flip_sin_to_cos: bool = False, downscale_freq_shift: float = 1) -> None:
        self.num_channels, self.flip_sin_to_cos = num_channels, flip_sin_to_cos
        self.downscale_freq_shift = downscale_freq_shift

    def forward(self, x: Tensor) -> Tensor:
        """Return the embeddings of times x, (n): (n, num_channels)."""
        return op.get_timestep_embedding(
            x,
            embedding_dim=self.num_channels,
            flip_sin_to_cos=self.flip_sin_to_cos,
            downscale_freq_shift=self.downscale_freq_shift,
        )


class Attention(Module):
    """Attention of diffusers: projections to heads, attention, and a projection of the result.

    Keys and values come from `encoder_hidden_states`, or from the hidden states themselves.
    """

    def __init__(
        self,
        query_dim: int,
        cross_attention_dim: int | None = None,
        heads: int = 8,
        dim_head: int = 64,
        bias: bool = False,
        norm_num_groups: int | None = None,
        out_bias: bool = True,
        scale_qk: bool = True,
    ) -> None:
        self.query_dim, self.cross_attention_dim = query_dim, cross_attention_dim or query_dim
        self.heads, self.dim_head = heads, dim_head
        self.scale = None if scale_qk else 1.0
        inner = dim_head * heads
        self.group_norm = None if norm_num_groups is None else GroupNorm(norm_num_groups, query_dim)
        self.to_q = Linear(query_dim, inner, bias=bias)
        self.to_k = Linear(self.cross_attention_dim, inner, bias=bias)
        self.to_v = Linear(self.cross_attention_dim, inner, bias=bias)
        self.to_out = ModuleList([Linear(inner, query_dim, bias=out_bias)])

    def forward(
        self,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        **cross_attention_kwargs: Any,
    ) -> Tensor:
        """Return the attention of `hidden_states`, (batch, m, query_dim). Raises TypeError for other arguments."""
        if cross_attention_kwargs:
            raise TypeError(f"Attention takes no argument {next(iter(cross_attention_kwargs))!r}")
        if self.group_norm is not None:
            hidden_states = self.group_norm(hidden_states, channel_axis=2, axes=[1])
        source = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        query = self._split_heads(self.to_q(hidden_states))
        key, value = self._split_heads(self.to_k(source)), self._split_heads(self.to_v(source))
        attended = op.scaled_dot_product_attention(query, key, value, attention_mask, scale=self.scale)
        batch, length = attended.shape[:2]
        return self.to_out[0](op.reshape(attended, [batch, length, self.heads * self.dim_head]))

    def _split_heads(self, x: Tensor) -> Tensor:
        sizes: list[Dim | PrimExpr] = [*x.shape[:2], self.heads, self.dim_head]
        return op.reshape(x, sizes)
