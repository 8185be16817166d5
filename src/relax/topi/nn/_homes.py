"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    "..activation": "gelu gelu_tanh leaky_relu prelu relu relu6 selu silu softplus",
    "..linalg": "matmul",
    "..transform": "flatten",
    ".attention": "attention attention_var_len",
    ".convolution": "conv conv2d conv_transpose",
    ".dense": "bias_add dense dropout",
    ".loss": "cross_entropy_with_logits nll_loss",
    ".normalization": "batch_norm group_norm instance_norm layer_norm lrn rms_norm",
    ".padding": "pad pad_by_mode pixel_shuffle pixel_unshuffle",
    ".pooling": "Pooling adaptive_avg_pool avg_pool avg_pool_backward lp_pool max_pool max_pool_backward "
        "max_pool_with_indices",
    ".softmax": "log_softmax softmax",
    ".windows": "conv_extent conv_transpose_extent pad_pairs per_axis pool_extent relaid spatial_axes",
}
