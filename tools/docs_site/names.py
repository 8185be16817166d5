"""Names of operators elsewhere: those of TVM's Relax, and the ONNX operators that become one operator of this package."""

from __future__ import annotations

TVM = frozenset(
    """
    add bitwise_and bitwise_or bitwise_xor divide equal floor_divide floor_mod greater greater_equal left_shift less
    less_equal log_add_exp logical_and logical_or logical_xor maximum minimum mod multiply not_equal power right_shift
    subtract
    abs acos acosh asin asinh atan atanh bitwise_not ceil clip cos cosh erf exp floor isfinite isinf isnan log
    logical_not negative round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc
    arange eye eye_like full full_like hamming_window ones ones_like tril triu zeros zeros_like astype wrap_param
    dynamic_strided_slice strided_slice take einsum linear matmul outer
    broadcast_to collapse_sum_like collapse_sum_to concat expand_dims flatten flip gather_elements gather_nd index_put
    index_tensor layout_transform meshgrid one_hot permute_dims repeat reshape scatter_elements scatter_nd
    slice_scatter split squeeze stack tile masked_fill quantize dequantize multinomial_from_uniform
    argmax argmin where bucketize nonzero unique argsort sort topk
    cumprod cumsum max mean median min prod std sum variance ewise_fma
    assert_op call_builtin_with_ctx call_dps_packed call_inplace_packed call_packed call_pure_packed call_tir
    call_tir_inplace call_tir_with_grad hint_on_device invoke_closure invoke_pure_closure make_closure null_value print
    register_gradient shape_of shape_to_tensor tensor_to_shape to_vdevice
    nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d nn.adaptive_avg_pool3d nn.attention nn.attention_bias
    nn.attention_var_len nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d nn.batch_flatten nn.batch_norm nn.conv1d
    nn.conv1d_transpose nn.conv2d nn.conv2d_transpose nn.conv3d nn.conv3d_transpose nn.cross_entropy_with_logits
    nn.dropout nn.gelu nn.gelu_tanh nn.group_norm nn.instance_norm nn.layer_norm nn.leakyrelu nn.log_softmax
    nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.nll_loss nn.pad nn.pixel_shuffle nn.prelu nn.relu nn.relu6
    nn.rms_norm nn.selu nn.silu nn.softmax nn.softplus
    image.affine_grid image.grid_sample image.resize2d image.resize3d
    vision.all_class_non_max_suppression vision.get_valid_counts vision.multibox_transform_loc
    vision.non_max_suppression vision.roi_align vision.roi_pool
    grad.avg_pool2d_backward grad.end_checkpoint grad.max_pool2d_backward grad.nll_loss_backward grad.no_grad
    grad.start_checkpoint grad.take_backward
    builtin.alloc_tensor builtin.stop_lift_params
    memory.alloc_storage memory.alloc_tensor memory.ensure_zero_copy memory.kill_storage memory.kill_tensor memory.view
    vm.alloc_storage vm.alloc_tensor vm.call_tir_dyn vm.kill_object
    ccl.allgather ccl.allreduce ccl.broadcast_from_worker0 ccl.scatter_from_worker0
    dist.annotate_sharding dist.call_tir_local_view dist.redistribute dist.redistribute_replica_to_shard
    inspect.tensor_byte_offset inspect.tensor_dtype_bits inspect.tensor_dtype_code inspect.tensor_dtype_lanes
    inspect.tensor_elem_offset inspect.tensor_ndim inspect.tensor_shape_i inspect.tensor_stride_i
    """.split()
)
"""The operators of tvm.relax.op, under its names."""

ONNX = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Add": "add", "AffineGrid": "image.affine_grid", "And": "logical_and",
    "ArgMax": "argmax", "ArgMin": "argmin", "Asin": "asin", "Asinh": "asinh", "Atan": "atan", "Atanh": "atanh",
    "BatchNormalization": "nn.batch_norm", "BitwiseAnd": "bitwise_and", "BitwiseNot": "bitwise_not",
    "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor", "BlackmanWindow": "blackman_window", "Cast": "astype",
    "CastLike": "astype", "Ceil": "ceil", "Clip": "clip", "Col2Im": "vision.col2im", "Concat": "concat",
    "ConstantOfShape": "full", "Cos": "cos", "Cosh": "cosh", "CumProd": "cumprod", "CumSum": "cumsum",
    "DeformConv": "vision.deform_conv2d", "DequantizeLinear": "dequantize", "Div": "divide", "Einsum": "einsum",
    "Equal": "equal", "Erf": "erf", "Exp": "exp", "Expand": "broadcast_to", "EyeLike": "eye_like", "Flatten": "reshape",
    "Floor": "floor", "GRU": "nn.gru", "Gather": "take", "GatherElements": "gather_elements", "GatherND": "gather_nd",
    "Gelu": "nn.gelu", "Greater": "greater", "GreaterOrEqual": "greater_equal", "GridSample": "image.grid_sample",
    "GroupNormalization": "nn.group_norm", "HammingWindow": "hamming_window", "HannWindow": "hann_window",
    "InstanceNormalization": "nn.instance_norm", "IsInf": "isinf", "IsNaN": "isnan", "LRN": "nn.lrn", "LSTM": "nn.lstm",
    "LayerNormalization": "nn.layer_norm", "LeakyRelu": "nn.leakyrelu", "Less": "less", "LessOrEqual": "less_equal",
    "Log": "log", "LogSoftmax": "nn.log_softmax", "MatMul": "matmul", "Max": "maximum", "Min": "minimum",
    "Mul": "multiply", "Neg": "negative", "NonZero": "nonzero", "Not": "logical_not", "OneHot": "one_hot",
    "Or": "logical_or", "PRelu": "nn.prelu", "Pad": "nn.pad", "Pow": "power", "QuantizeLinear": "quantize",
    "RMSNormalization": "nn.rms_norm", "RNN": "nn.rnn", "Range": "arange", "ReduceMax": "max", "ReduceMean": "mean",
    "ReduceMin": "min", "ReduceProd": "prod", "ReduceSum": "sum", "Relu": "nn.relu", "Reshape": "reshape",
    "Resize": "image.resize", "ReverseSequence": "reverse_sequence", "RoiAlign": "vision.roi_align", "Round": "round",
    "ScatterElements": "scatter_elements", "ScatterND": "scatter_nd", "Selu": "nn.selu", "Sigmoid": "sigmoid",
    "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Softmax": "nn.softmax", "Softplus": "nn.softplus", "Split": "split",
    "Sqrt": "sqrt", "Squeeze": "squeeze", "Sub": "subtract", "Tan": "tan", "Tanh": "tanh", "Tile": "tile",
    "TopK": "topk", "Transpose": "permute_dims", "Unique": "unique", "Unsqueeze": "expand_dims", "Where": "where",
    "Xor": "logical_xor",
}  # fmt: skip
"""ONNX operators, and the one operator that each becomes in its usual form."""
