"""The operators, by the module that declares them. Written by tools/make_homes.py."""

from __future__ import annotations

OPERATORS = {
    "relax.op.binary": "relax.add relax.bitwise_and relax.bitwise_or relax.bitwise_xor relax.divide relax.equal "
        "relax.floor_divide relax.floor_mod relax.greater relax.greater_equal relax.left_shift relax.less "
        "relax.less_equal relax.log_add_exp relax.logical_and relax.logical_or relax.logical_xor "
        "relax.maximum relax.minimum relax.mod relax.multiply relax.not_equal relax.power relax.right_shift "
        "relax.subtract",
    "relax.op.bit_views": "relax.reinterpret",
    "relax.op.blocks": "relax.dequantize_blocks relax.nn.dynamic_quantize relax.nn.quantized_expert_matmul "
        "relax.nn.quantized_matmul relax.nn.quantized_take",
    "relax.op.ccl": "relax.ccl.allgather relax.ccl.allreduce relax.ccl.broadcast_from_worker0 "
        "relax.ccl.scatter_collective relax.ccl.scatter_from_worker0",
    "relax.op.collapse": "relax.collapse_sum_like relax.collapse_sum_to",
    "relax.op.contraction": "relax.einsum relax.outer",
    "relax.op.creation": "relax.arange relax.full relax.full_like relax.ones relax.ones_like relax.zeros relax.zeros_like",
    "relax.op.distributed": "relax.dist.redistribute_replica_to_shard",
    "relax.op.gather": "relax.gather_elements relax.gather_nd relax.index_tensor relax.one_hot relax.reverse_sequence",
    "relax.op.grad": "relax.grad.end_checkpoint relax.grad.nll_loss_backward relax.grad.no_grad "
        "relax.grad.start_checkpoint relax.grad.take_backward",
    "relax.op.image.grid": "relax.image.affine_grid relax.image.grid_sample",
    "relax.op.image.resizing": "relax.image.resize relax.image.resize2d",
    "relax.op.inspect": "relax.inspect.tensor_byte_offset relax.inspect.tensor_dtype_bits relax.inspect.tensor_dtype_code "
        "relax.inspect.tensor_dtype_lanes relax.inspect.tensor_elem_offset relax.inspect.tensor_ndim "
        "relax.inspect.tensor_shape_i relax.inspect.tensor_stride_i",
    "relax.op.intrinsics": "relax.assert_op relax.call_builtin_with_ctx relax.call_dps_packed relax.call_inplace_packed "
        "relax.call_packed relax.call_pure_packed relax.call_tir relax.call_tir_inplace relax.hint_on_device "
        "relax.invoke_closure relax.invoke_pure_closure relax.make_closure relax.null_value relax.print "
        "relax.shape_of relax.shape_to_tensor relax.tensor_to_shape relax.to_vdevice",
    "relax.op.layout": "relax.layout_transform",
    "relax.op.linear_algebra": "relax.linear relax.matmul relax.nn.linear",
    "relax.op.matrices": "relax.blackman_window relax.eye relax.eye_like relax.hamming_window relax.hann_window relax.tril "
        "relax.triu",
    "relax.op.memory_view": "relax.memory.view",
    "relax.op.nn.activation": "relax.nn.dropout relax.nn.gelu relax.nn.gelu_tanh relax.nn.leakyrelu relax.nn.log_softmax "
        "relax.nn.prelu relax.nn.relu relax.nn.relu6 relax.nn.selu relax.nn.silu relax.nn.softmax "
        "relax.nn.softplus",
    "relax.op.nn.convolution": "relax.nn.conv1d relax.nn.conv1d_transpose relax.nn.conv2d relax.nn.conv2d_transpose relax.nn.conv3d "
        "relax.nn.conv3d_transpose",
    "relax.op.nn.loss": "relax.nn.cross_entropy_with_logits relax.nn.nll_loss",
    "relax.op.nn.normalization": "relax.nn.batch_norm relax.nn.group_norm relax.nn.instance_norm relax.nn.layer_norm relax.nn.lrn "
        "relax.nn.rms_norm",
    "relax.op.nn.padding": "relax.nn.batch_flatten relax.nn.pad relax.nn.pixel_shuffle relax.nn.pixel_unshuffle",
    "relax.op.nn.pooling": "relax.nn.adaptive_avg_pool1d relax.nn.adaptive_avg_pool2d relax.nn.adaptive_avg_pool3d "
        "relax.nn.avg_pool1d relax.nn.avg_pool2d relax.nn.avg_pool3d relax.nn.lp_pool1d relax.nn.lp_pool2d "
        "relax.nn.lp_pool3d relax.nn.max_pool1d relax.nn.max_pool1d_with_indices relax.nn.max_pool2d "
        "relax.nn.max_pool2d_with_indices relax.nn.max_pool3d relax.nn.max_pool3d_with_indices",
    "relax.op.nn.scaled_dot_product": "relax.nn.attention relax.nn.attention_bias relax.nn.attention_var_len",
    "relax.op.pieces": "relax.concat relax.dynamic_strided_slice relax.flip relax.meshgrid relax.repeat relax.split "
        "relax.stack relax.strided_slice relax.tile",
    "relax.op.pool_grad": "relax.grad.avg_pool2d_backward relax.grad.max_pool2d_backward",
    "relax.op.qdq": "relax.dequantize relax.quantize",
    "relax.op.random": "relax.random.normal relax.random.seed relax.random.uniform",
    "relax.op.recurrent": "relax.nn.gru relax.nn.lstm relax.nn.rnn",
    "relax.op.sampling": "relax.multinomial_from_uniform",
    "relax.op.saturating": "relax.saturating_astype",
    "relax.op.scatter": "relax.index_put relax.scatter_elements relax.scatter_nd relax.slice_scatter",
    "relax.op.selection": "relax.bucketize relax.masked_fill relax.take relax.where",
    "relax.op.sets": "relax.nonzero relax.read_tensor_from_file relax.unique",
    "relax.op.shapes": "relax.broadcast_to relax.expand_dims relax.flatten relax.permute_dims relax.reshape relax.squeeze",
    "relax.op.sorting": "relax.argsort relax.sort relax.topk",
    "relax.op.statistical": "relax.argmax relax.argmin relax.cummax relax.cummin relax.cumprod relax.cumsum relax.max relax.mean "
        "relax.median relax.min relax.prod relax.std relax.sum relax.variance",
    "relax.op.storage": "relax.builtin.alloc_tensor relax.builtin.stop_lift_params relax.memory.alloc_storage "
        "relax.memory.alloc_tensor relax.memory.kill_storage relax.memory.kill_tensor relax.vm.alloc_storage "
        "relax.vm.alloc_tensor relax.vm.call_tir_dyn relax.vm.kill_object",
    "relax.op.te_gradients": "relax.call_tir_with_grad",
    "relax.op.ternary": "relax.ewise_fma",
    "relax.op.unary": "relax.abs relax.acos relax.acosh relax.asin relax.asinh relax.astype relax.atan relax.atanh "
        "relax.bitwise_not relax.ceil relax.clip relax.cos relax.cosh relax.erf relax.erfc relax.exp "
        "relax.floor relax.isfinite relax.isinf relax.isnan relax.log relax.logical_not relax.negative "
        "relax.round relax.rsqrt relax.sigmoid relax.sign relax.sin relax.sinh relax.sqrt relax.square "
        "relax.tan relax.tanh relax.trunc relax.wrap_param",
    "relax.op.vision.blocks": "relax.vision.col2im relax.vision.deform_conv2d",
    "relax.op.vision.regions": "relax.vision.roi_align",
    "relax.op.vision.suppression": "relax.vision.all_class_non_max_suppression relax.vision.leading_rows "
        "relax.vision.padded_non_max_suppression",
}
