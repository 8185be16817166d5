"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    ".blocks": "dequantize_blocks dynamic_quantize quantized_expert_matmul quantized_matmul quantized_take",
    ".broadcast": "add bitwise_and bitwise_or bitwise_xor broadcast_shape broadcast_size broadcast_to broadcast_with "
        "divide equal floor_divide floor_mod greater greater_equal left_shift less less_equal log_add_exp "
        "logical_and logical_or logical_xor maximum minimum mod multiply not_equal read_broadcast right_shift "
        "same_size subtract",
    ".collapse": "collapse_sum_like collapse_sum_to",
    ".contraction": "einsum outer",
    ".fast": "fast_tanh",
    ".grad": "nll_loss_backward take_backward",
    ".grid:": "grid",
    ".image:": "image",
    ".indexing": "gather_elements gather_nd index_tensor one_hot reverse_sequence",
    ".layout": "layout_transform",
    ".linalg": "matmul",
    ".math": "abs acos acosh asin asinh atan atanh bitwise_not cast ceil clip cos cosh erf erfc exp floor identity "
        "isfinite isinf isnan log logical_not negative reinterpret round rsqrt sigmoid sign sin sinh sqrt "
        "square tan tanh trunc",
    ".matrices": "as_size cosine_window eye tril triu",
    ".nn:": "nn",
    ".order": "bucketize median",
    ".powers": "power",
    ".qdq": "dequantize quantize",
    ".random": "normal uniform",
    ".recurrent:": "recurrent",
    ".reduction": "argmax argmin cummax cummin cumprod cumsum max mean min prod std sum variance",
    ".sampling": "multinomial_from_uniform",
    ".scatter": "index_put scatter_elements scatter_nd slice_scatter",
    ".sorting": "argsort sort topk",
    ".ternary": "ewise_fma",
    ".transform": "arange arange_size concatenate expand_dims flatten flip full full_like meshgrid repeat reshape split "
        "squeeze stack strided_slice take tile transpose where",
    ".vision:": "vision",
}
