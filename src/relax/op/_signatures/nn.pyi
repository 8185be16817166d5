"""The operators of `relax.op.nn`, as editors and type checkers see them. Written by tools/make_stubs.py."""

from collections.abc import Sequence
from relax.expr import Call
from relax.op.arguments import DTypeLike, ScalarLike, TensorLike, TupleLike
from typing import Literal

def adaptive_avg_pool1d(
    data: TensorLike,
    output_size: int | Sequence[int] | None = None,
    layout: str = 'NCW',
    out_layout: str | None = None,
) -> Call:
    """The mean of each of `output_size` adaptive windows of sequences, (N, C, W) in `layout`."""

def adaptive_avg_pool2d(
    data: TensorLike,
    output_size: int | Sequence[int] | None = None,
    layout: str = 'NCHW',
    out_layout: str | None = None,
) -> Call:
    """The mean of each of `output_size` (an int, or two) adaptive windows of (N, C, H, W) data in `layout`.

    Of m windows of n elements, window i covers those from ⌊i·n/m⌋ up to ⌈(i + 1)·n/m⌉; without elements the mean is
    NaN. None keeps the data's own size.
    """

def adaptive_avg_pool3d(
    data: TensorLike,
    output_size: int | Sequence[int] | None = None,
    layout: str = 'NCDHW',
    out_layout: str | None = None,
) -> Call:
    """The mean of each of `output_size` adaptive windows of volumes, (N, C, D, H, W) in `layout`."""

def attention(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    bias: TensorLike | None = None,
    scale: float | None = None,
    causal_mask: Literal['TopLeft', 'BottomRight'] | str | None = None,
    window_size: int | None = None,
) -> Call:
    """softmax(scale · Q Kᵀ + bias) V, head by head.

    query (batch, m, heads, d), key (batch, n, heads, d), value (batch, n, heads, dv), bias broadcasting to (batch,
    heads, m, n); result (batch, m, heads, dv). `scale` defaults to 1/√d. `causal_mask` "TopLeft" lets query i see the
    keys j ≤ i, "BottomRight" those j ≤ i + n - m; with `window_size` w only the last w of them. The result is 0 for a
    query that sees no key.
    """

def attention_bias(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    bias: TensorLike,
    scale: float | None = None,
    causal_mask: Literal['TopLeft', 'BottomRight'] | str | None = None,
    window_size: int | None = None,
) -> Call:
    """`attention` with a bias, which is a separate operand in TVM."""

def attention_var_len(
    queries: TensorLike,
    keys: TensorLike,
    values: TensorLike,
    seqstart_q: TensorLike,
    max_seqlen_q: TensorLike,
    seqstart_k: TensorLike | None = None,
    max_seqlen_k: TensorLike | None = None,
    scale: float | None = None,
    causal_mask: Literal['TopLeft', 'BottomRight'] | str | None = None,
    window_size: int | None = None,
) -> Call:
    """`attention` within each of several sequences of any lengths, concatenated in a batch of 1.

    queries (1, m, heads, d), keys (1, n, heads, d), values (1, n, heads, dv). Sequence s has the queries from
    seqstart_q[s] up to seqstart_q[s + 1], and the keys from seqstart_k[s] (by default those of the queries). The result
    is 0 for a query outside all sequences. max_seqlen_q and max_seqlen_k exist for compatibility with TVM and are not
    read.
    """

def avg_pool1d(
    data: TensorLike,
    pool_size: int | Sequence[int] = (1,),
    strides: int | Sequence[int] = (1,),
    padding: int | Sequence[int] = (0,),
    dilation: int | Sequence[int] = (1,),
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    layout: str = 'NCW',
    out_layout: str | None = None,
) -> Call:
    """The mean of each window of sequences, (N, C, W) in `layout`, as avg_pool2d."""

def avg_pool2d(
    data: TensorLike,
    pool_size: int | Sequence[int] = (1, 1),
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    layout: str = 'NCHW',
    out_layout: str | None = None,
) -> Call:
    """The mean of each window of (N, C, H, W) data in `layout`.

    Over the window's elements in the data; with `count_include_pad`, zeros of the padding count too.
    With `ceil_mode` the number of windows is rounded up, but none starts in the padding after the data.
    """

def avg_pool3d(
    data: TensorLike,
    pool_size: int | Sequence[int] = (1, 1, 1),
    strides: int | Sequence[int] = (1, 1, 1),
    padding: int | Sequence[int] = (0, 0, 0),
    dilation: int | Sequence[int] = (1, 1, 1),
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    layout: str = 'NCDHW',
    out_layout: str | None = None,
) -> Call:
    """The mean of each window of volumes, (N, C, D, H, W) in `layout`, as avg_pool2d."""

def batch_flatten(data: TensorLike) -> Call:
    """The elements of each sample in one dimension: (N, d1, d2, …) as (N, d1 · d2 · …)."""

def batch_norm(
    data: TensorLike,
    gamma: TensorLike,
    beta: TensorLike,
    moving_mean: TensorLike,
    moving_var: TensorLike,
    axis: int = 1,
    epsilon: float = 1e-05,
    center: bool = True,
    scale: bool = True,
    momentum: float = 0.1,
    training: bool = False,
) -> Call:
    """(y, moving_mean, moving_var): y = (x - mean) / √(variance + ε) · γ + β per channel of `axis`.

    Mean and variance are the moving statistics, which are returned unchanged; with `training` they are those of the
    batch (the variance biased), and the moving statistics are returned as (1 - momentum) · old + momentum · batch.
    """

def conv1d(
    data: TensorLike,
    weight: TensorLike,
    strides: int | Sequence[int] = (1,),
    padding: int | Sequence[int] = (0,),
    dilation: int | Sequence[int] = (1,),
    groups: int = 1,
    data_layout: str = 'NCW',
    kernel_layout: str = 'OIW',
    out_layout: str | None = None,
    out_dtype: DTypeLike = '',
) -> Call:
    """Cross-correlation of sequences with kernels, as conv2d: data (N, C, W), weight (O, C / groups, KW)."""

def conv1d_transpose(
    data: TensorLike,
    weight: TensorLike,
    strides: int | Sequence[int] = (1,),
    padding: int | Sequence[int] = (0,),
    output_padding: int | Sequence[int] = (0,),
    dilation: int | Sequence[int] = (1,),
    groups: int = 1,
    data_layout: str = 'NCW',
    kernel_layout: str = 'IOW',
    out_layout: str | None = None,
    out_dtype: DTypeLike = '',
) -> Call:
    """The transpose of conv1d, as conv2d_transpose: data (N, C, W), weight (C, O / groups, KW)."""

def conv2d(
    data: TensorLike,
    weight: TensorLike,
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    groups: int = 1,
    data_layout: str = 'NCHW',
    kernel_layout: str = 'OIHW',
    out_layout: str | None = None,
    out_dtype: DTypeLike = '',
) -> Call:
    """Cross-correlation of images with kernels.

    data (N, C, H, W), weight (O, C / groups, KH, KW) in the given layouts; result (N, O, H', W') with
    H' = ⌊(H + pads - dilation · (KH - 1) - 1) / stride⌋ + 1. `padding` (zeros) is one number, (H, W), or (top, left,
    bottom, right). Narrow floats are accumulated in float32; `out_dtype` "" keeps the input's dtype. Layouts may be
    packed (NCHW16c, OIHW16i16o); channels of the result that only fill up its last part are 0.
    """

def conv2d_transpose(
    data: TensorLike,
    weight: TensorLike,
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    output_padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    groups: int = 1,
    data_layout: str = 'NCHW',
    kernel_layout: str = 'IOHW',
    out_layout: str | None = None,
    out_dtype: DTypeLike = '',
) -> Call:
    """The transpose of conv2d: each element of the data, times the kernel, is added to the result at its position.

    data (N, C, H, W), weight (C, O / groups, KH, KW) in the given layouts; result (N, O, H', W') with
    H' = (H - 1) · stride + dilation · (KH - 1) + 1 - pads + output_padding. `padding` cuts the result, in the forms of
    conv2d; `output_padding` adds to its ends.
    """

def conv3d(
    data: TensorLike,
    weight: TensorLike,
    strides: int | Sequence[int] = (1, 1, 1),
    padding: int | Sequence[int] = (0, 0, 0),
    dilation: int | Sequence[int] = (1, 1, 1),
    groups: int = 1,
    data_layout: str = 'NCDHW',
    kernel_layout: str = 'OIDHW',
    out_layout: str | None = None,
    out_dtype: DTypeLike = '',
) -> Call:
    """Cross-correlation of volumes with kernels, as conv2d: data (N, C, D, H, W), weight (O, C / groups, KD, KH, …)."""

def conv3d_transpose(
    data: TensorLike,
    weight: TensorLike,
    strides: int | Sequence[int] = (1, 1, 1),
    padding: int | Sequence[int] = (0, 0, 0),
    output_padding: int | Sequence[int] = (0, 0, 0),
    dilation: int | Sequence[int] = (1, 1, 1),
    groups: int = 1,
    data_layout: str = 'NCDHW',
    kernel_layout: str = 'IODHW',
    out_layout: str | None = None,
    out_dtype: DTypeLike = '',
) -> Call:
    """The transpose of conv3d, as conv2d_transpose: data (N, C, D, H, W), weight (C, O / groups, KD, KH, KW)."""

def cross_entropy_with_logits(predictions: TensorLike, labels: TensorLike) -> Call:
    """-Σ predictions · labels, divided by the size of the batch (dimension 0) for two or more dimensions.

    Both have one shape; predictions are log probabilities, as returned by log_softmax.
    """

def dropout(data: TensorLike, rate: float = 0.5) -> Call:
    """(x, mask): outside training, x itself and a mask of ones. `rate` is the fraction dropped in training."""

def dynamic_quantize(data: TensorLike, block_size: int = 32) -> Call:
    """Bytes and scales of blocks of the last dimension: (int8 (…, n), float32 (…, ⌈n / block_size⌉)).

    Numbers are converted to float32.
    The scale of a block is its greatest magnitude / 127; a byte is the number times 127 / that magnitude, rounded to
    the nearest integer, halves to even. A block of zeros has scale 0. A block with NaN has scale NaN, one with an
    infinity an infinite scale, and bytes 0.
    """

def gelu(data: TensorLike) -> Call:
    """x · Φ(x), Φ the normal distribution function; -0 at -∞."""

def gelu_tanh(data: TensorLike) -> Call:
    """The tanh approximation of gelu; -0 at -∞."""

def group_norm(
    data: TensorLike,
    gamma: TensorLike,
    beta: TensorLike,
    num_groups: int,
    channel_axis: int,
    axes: int | Sequence[int],
    epsilon: float = 1e-05,
    center: bool = True,
    scale: bool = True,
) -> Call:
    """(x - mean) / √(variance + ε) · γ + β, over `axes` and the channels of each of `num_groups` groups.

    γ and β have one element per channel. `axes` does not name the `channel_axis`.
    """

def gru(
    data: TensorLike,
    weight: TensorLike,
    recurrence: TensorLike,
    bias: TensorLike | None = None,
    sequence_lens: TensorLike | None = None,
    initial_h: TensorLike | None = None,
    direction: Literal['forward', 'reverse', 'bidirectional'] | str = 'forward',
    activations: str | Sequence[str] | None = None,
    activation_alpha: float | Sequence[float] = (),
    activation_beta: float | Sequence[float] = (),
    clip: float | None = None,
    layout: int = 0,
    linear_before_reset: bool = False,
) -> Call:
    """(Y, Y_h) of a gated recurrent unit; its gates are update z, reset r and hidden h, in this order.

    z, r = f(W x + R h + b), by default sigmoids; n = g(W x + Wb + R (r h) + Rb), by default tanh, or with
    `linear_before_reset` g(W x + Wb + r (R h + Rb)); the state becomes (1 - z) n + z h. Otherwise like `nn.rnn`, with
    two activations (f, g) for each direction.
    """

def instance_norm(
    data: TensorLike,
    gamma: TensorLike,
    beta: TensorLike,
    channel_axis: int,
    axes: int | Sequence[int],
    epsilon: float = 1e-05,
    center: bool = True,
    scale: bool = True,
) -> Call:
    """(x - mean) / √(variance + ε) · γ + β over `axes`, per channel. γ and β have one element per channel.

    `axes` does not name the `channel_axis`.
    """

def layer_norm(
    data: TensorLike,
    gamma: TensorLike,
    beta: TensorLike,
    axes: int | Sequence[int] = (-1,),
    epsilon: float = 1e-05,
    center: bool = True,
    scale: bool = True,
) -> Call:
    """(x - mean) / √(variance + ε) · γ + β over `axes`; γ and β have the sizes of those axes.

    γ is applied only with `scale`, β only with `center`. Mean and variance are accumulated in at least float32.
    """

def leakyrelu(data: TensorLike, alpha: float = 0.01) -> Call:
    """x where it is positive, alpha · x elsewhere."""

def linear(
    data: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    out_dtype: DTypeLike = None,
) -> Call:
    """data · weightᵀ + bias: ``matmul(data, permute_dims(weight))``, and an add."""

def log_softmax(data: TensorLike, axis: int = -1) -> Call:
    """(x - max x) - log Σ exp(x - max x) along one axis."""

def lp_pool1d(
    data: TensorLike,
    p: int = 2,
    pool_size: int | Sequence[int] = (1,),
    strides: int | Sequence[int] = (1,),
    padding: int | Sequence[int] = (0,),
    dilation: int | Sequence[int] = (1,),
    ceil_mode: bool = False,
    layout: str = 'NCW',
    out_layout: str | None = None,
) -> Call:
    """(Σ |x|ᵖ)^(1/p) over each window of sequences, (N, C, W) in `layout`, as lp_pool2d."""

def lp_pool2d(
    data: TensorLike,
    p: int = 2,
    pool_size: int | Sequence[int] = (1, 1),
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    ceil_mode: bool = False,
    layout: str = 'NCHW',
    out_layout: str | None = None,
) -> Call:
    """(Σ |x|ᵖ)^(1/p) over each window of (N, C, H, W) data in `layout`; padding adds nothing.

    With `ceil_mode` the number of windows is rounded up, but none starts in the padding after the data.
    """

def lp_pool3d(
    data: TensorLike,
    p: int = 2,
    pool_size: int | Sequence[int] = (1, 1, 1),
    strides: int | Sequence[int] = (1, 1, 1),
    padding: int | Sequence[int] = (0, 0, 0),
    dilation: int | Sequence[int] = (1, 1, 1),
    ceil_mode: bool = False,
    layout: str = 'NCDHW',
    out_layout: str | None = None,
) -> Call:
    """(Σ |x|ᵖ)^(1/p) over each window of volumes, (N, C, D, H, W) in `layout`, as lp_pool2d."""

def lrn(
    data: TensorLike,
    size: int = 5,
    axis: int = 1,
    alpha: float = 0.0001,
    beta: float = 0.75,
    bias: float = 2.0,
) -> Call:
    """x / (bias + alpha/size · Σ x²)^beta: the sum over the `size` elements around each one along `axis`.

    ⌊(size - 1)/2⌋ of them come before it, and ⌈(size - 1)/2⌉ after; outside of the data they are 0.
    """

def lstm(
    data: TensorLike,
    weight: TensorLike,
    recurrence: TensorLike,
    bias: TensorLike | None = None,
    sequence_lens: TensorLike | None = None,
    initial_h: TensorLike | None = None,
    initial_c: TensorLike | None = None,
    peepholes: TensorLike | None = None,
    direction: Literal['forward', 'reverse', 'bidirectional'] | str = 'forward',
    activations: str | Sequence[str] | None = None,
    activation_alpha: float | Sequence[float] = (),
    activation_beta: float | Sequence[float] = (),
    clip: float | None = None,
    layout: int = 0,
    input_forget: bool = False,
) -> Call:
    """(Y, Y_h, Y_c) of a long short-term memory; its gates are input i, output o, forget f and cell c, in this order.

    i, o, f = f(W x + R h + b), by default sigmoids; the cell becomes f c + i g(W x + R h + b) and the state o h(c), g
    and h by default tanh. `peepholes` (directions, 3 · hidden), for i, o and f, times the cell (for o the new one) are
    added to the gates. With `input_forget` f is 1 - i. Otherwise like `nn.rnn`, with three activations (f, g, h) for
    each direction.
    """

def max_pool1d(
    data: TensorLike,
    pool_size: int | Sequence[int] = (1,),
    strides: int | Sequence[int] = (1,),
    padding: int | Sequence[int] = (0,),
    dilation: int | Sequence[int] = (1,),
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    layout: str = 'NCW',
    out_layout: str | None = None,
) -> Call:
    """The maximum of each window of sequences, (N, C, W) in `layout`, as max_pool2d."""

def max_pool1d_with_indices(
    data: TensorLike,
    pool_size: int | Sequence[int] = (1,),
    strides: int | Sequence[int] = (1,),
    padding: int | Sequence[int] = (0,),
    dilation: int | Sequence[int] = (1,),
    ceil_mode: bool = False,
    layout: str = 'NCW',
    out_layout: str | None = None,
) -> Call:
    """max_pool1d, and the int64 index of each maximum in the flattened data."""

def max_pool2d(
    data: TensorLike,
    pool_size: int | Sequence[int] = (1, 1),
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    layout: str = 'NCHW',
    out_layout: str | None = None,
) -> Call:
    """The maximum of each window of (N, C, H, W) data in `layout`; padding is ignored, NaN propagates.

    With `ceil_mode` the number of windows is rounded up, but none starts in the padding after the data.
    `count_include_pad` is there as in avg_pool2d, and changes nothing.
    """

def max_pool2d_with_indices(
    data: TensorLike,
    pool_size: int | Sequence[int] = (1, 1),
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0),
    dilation: int | Sequence[int] = (1, 1),
    ceil_mode: bool = False,
    layout: str = 'NCHW',
    out_layout: str | None = None,
) -> Call:
    """max_pool2d, and the int64 index of each maximum in the flattened data."""

def max_pool3d(
    data: TensorLike,
    pool_size: int | Sequence[int] = (1, 1, 1),
    strides: int | Sequence[int] = (1, 1, 1),
    padding: int | Sequence[int] = (0, 0, 0),
    dilation: int | Sequence[int] = (1, 1, 1),
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    layout: str = 'NCDHW',
    out_layout: str | None = None,
) -> Call:
    """The maximum of each window of volumes, (N, C, D, H, W) in `layout`, as max_pool2d."""

def max_pool3d_with_indices(
    data: TensorLike,
    pool_size: int | Sequence[int] = (1, 1, 1),
    strides: int | Sequence[int] = (1, 1, 1),
    padding: int | Sequence[int] = (0, 0, 0),
    dilation: int | Sequence[int] = (1, 1, 1),
    ceil_mode: bool = False,
    layout: str = 'NCDHW',
    out_layout: str | None = None,
) -> Call:
    """max_pool3d, and the int64 index of each maximum in the flattened data."""

def nll_loss(
    predictions: TensorLike,
    targets: TensorLike,
    weights: TensorLike | None = None,
    reduction: Literal['none', 'sum', 'mean'] | str = 'mean',
    ignore_index: int = -100,
) -> Call:
    """-weight · log probability of each target's class, and their sum or mean.

    predictions (N, C, d1, …) or (C), targets (N, d1, …) or () of integers, weights (C), 1 by default. A target of
    `ignore_index` has weight 0; any other target that is not a class is an error at run time. The "mean" divides the
    sum by that of the weights.
    """

def pad(
    data: TensorLike,
    pad_width: TupleLike,
    pad_mode: Literal['constant', 'reflect', 'replicate', 'circular', 'edge', 'wrap'] | str = 'constant',
    pad_value: int | float = 0.0,
) -> Call:
    """The data with pad_width[2d] elements added before and pad_width[2d + 1] after it in dimension d; negative widths
    crop.

    Added elements are `pad_value` (mode "constant"), or elements of the data: mirrored at the first and last one
    ("reflect"), the first or last one ("replicate", or "edge"), or as if the data repeated ("circular", or "wrap").
    """

def pixel_shuffle(data: TensorLike, upscale_factor: int) -> Call:
    """(…, C·r², H, W) as (…, C, H·r, W·r) with r the upscale_factor: pixels taken from channels (Shi et al. 2016)."""

def pixel_unshuffle(data: TensorLike, downscale_factor: int) -> Call:
    """(…, C, H·r, W·r) as (…, C·r², H, W) with r the downscale_factor: the inverse of pixel_shuffle."""

def prelu(data: TensorLike, alpha: TensorLike, axis: int = 1) -> Call:
    """x where it is positive, alpha · x elsewhere.

    An alpha of one dimension has one element per index along `axis`, or one for all; any other broadcasts to x.
    """

def quantized_expert_matmul(
    x: TensorLike,
    scales: TensorLike,
    weights: TensorLike,
    experts: TensorLike,
    format: str = 'q4_0',
    lanes: int = 0,
    signed: bool = False,
    columns: int = 0,
) -> Call:
    """Product of each row of activations in blocks of bytes and the weights of its expert, in a block format.

    x: int8 (n, depth), scales: float32 (n, blocks), experts: integers (n,), weights: uint8 (experts, rows, bytes); the
    result is float32 (n, rows). Row i is that of `nn.quantized_matmul` with the matrix `weights[experts[i]]`. An expert
    that there is not is an error at run time, a negative one, too. Kernels read weights once for consecutive rows of
    the same expert: callers sort rows by their expert.

    With `lanes`, the matrix of each expert is packed in panels of `columns` rows, int32 (experts, panels, words), for
    kernels of that many lanes (`relax.topi.packed_blocks`).
    """

def quantized_matmul(
    x: TensorLike,
    scales: TensorLike,
    weights: TensorLike,
    format: str = 'q4_0',
    lanes: int = 0,
    signed: bool = False,
    columns: int = 0,
) -> Call:
    """Product of activations in blocks of bytes (`dynamic_quantize`) and the rows of weights in a block format.

    x: int8 (…, depth), scales: float32 (…, blocks), weights: uint8 (rows, bytes); the result is float32 (…, rows). The
    products of a block are summed exactly; the sum over blocks is one of float32, of terms scale of x · scale of the
    weights · sum. A block of x has as many numbers as one of the weights.

    With `lanes`, weights are packed in panels of `columns` rows, int32 (panels, words), for kernels of that many lanes:
    the compiler arranges constant weights so.
    """

def quantized_take(
    weights: TensorLike,
    indices: TensorLike | ScalarLike,
    format: str = 'q4_0',
    lanes: int = 0,
    signed: bool = False,
    columns: int = 0,
    out_dtype: DTypeLike = 'float32',
) -> Call:
    """Rows of weights in a block format at the indices, as numbers of out_dtype: (…, depth).

    A negative index counts from the end; an index out of range is an error at run time. Weights are as those of
    `nn.quantized_matmul`, so that the table of a look-up can be that of a product.
    """

def relu(data: TensorLike) -> Call:
    """max(x, 0); NaN stays NaN."""

def relu6(data: TensorLike) -> Call:
    """min(max(x, 0), 6); NaN stays NaN."""

def rms_norm(
    data: TensorLike,
    weight: TensorLike,
    axes: int | Sequence[int] = (-1,),
    epsilon: float = 1e-05,
) -> Call:
    """x / √(mean x² + ε) · weight over `axes`; the weight has the sizes of those axes.

    The squares are accumulated in at least float32.
    """

def rnn(
    data: TensorLike,
    weight: TensorLike,
    recurrence: TensorLike,
    bias: TensorLike | None = None,
    sequence_lens: TensorLike | None = None,
    initial_h: TensorLike | None = None,
    direction: Literal['forward', 'reverse', 'bidirectional'] | str = 'forward',
    activations: str | Sequence[str] | None = None,
    activation_alpha: float | Sequence[float] = (),
    activation_beta: float | Sequence[float] = (),
    clip: float | None = None,
    layout: int = 0,
) -> Call:
    """(Y, Y_h) of a recurrent layer: h = f(W x + Wb + R h + Rb), f by default tanh; operands as in `Recurrent`.

    `activations` has one name for each direction, in any case of letters: Affine, Elu, HardSigmoid, LeakyRelu, Relu,
    ScaledTanh, Sigmoid, Softplus, Softsign, Tanh, ThresholdedRelu. Functions with an alpha or a beta take the next one
    of the lists, or ONNX's default (Affine and ScaledTanh: 1 and 0, 1 and 1). `clip` bounds gates before activation.
    Steps beyond a sequence's length yield 0.
    """

def selu(data: TensorLike) -> Call:
    """scale · x where x is positive, scale · alpha · (e^x - 1) elsewhere; alpha 1.67326…, scale 1.0507…"""

def silu(data: TensorLike) -> Call:
    """x · σ(x); -0 at -∞."""

def softmax(data: TensorLike, axis: int = -1) -> Call:
    """exp(x - max x) / Σ exp(x - max x) along one axis."""

def softplus(data: TensorLike, beta: float = 1.0, threshold: float = 20.0) -> Call:
    """log(1 + e^(beta · x)) / beta; x itself where beta · x is above `threshold`."""
