"""The fusion pattern of each operator of Relay, `Op.get_attr("TOpPattern")`, as TVM registers it.

ELEMWISE: an element of the result depends on the same element of the operand. BROADCAST: of operands that broadcast.
INJECTIVE: on one element somewhere else. COMM_REDUCE: on many, added up. OUT_ELEMWISE_FUSABLE: element-wise operators
may follow in the same kernel. An operator without a pattern is OPAQUE: it is never fused.
"""

from __future__ import annotations

from typing import Final

from ...ir import Op
from ...tir.op_pattern import OpPatternKind

PATTERN: Final = "TOpPattern"

_NAMES: Final[dict[OpPatternKind, str]] = {
    OpPatternKind.ELEMWISE: (
        "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp floor isfinite isinf isnan log log2 log10 "
        "logical_not negative round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc bitwise_not zeros_like ones_like "
        "fast_exp fast_erf fast_tanh copy cast cast_like clip full zeros ones full_like nn.relu nn.leaky_relu "
        "nn.batch_flatten"
    ),
    OpPatternKind.BROADCAST: (
        "add bitwise_and bitwise_or bitwise_xor divide equal floor_divide floor_mod greater greater_equal left_shift "
        "less less_equal logical_and logical_or logical_xor maximum minimum mod multiply not_equal power right_shift "
        "subtract where broadcast_to broadcast_to_like expand_dims nn.bias_add nn.prelu"
    ),
    OpPatternKind.INJECTIVE: (
        "reshape reshape_like transpose squeeze concatenate stack split reverse repeat tile take strided_slice "
        "gather gather_nd one_hot layout_transform nn.pad nn.mirror_pad nn.depth_to_space nn.space_to_depth "
        "nn.upsampling image.resize2d arange meshgrid"
    ),
    OpPatternKind.COMM_REDUCE: "sum max min mean prod all any argmax argmin variance",
    OpPatternKind.OUT_ELEMWISE_FUSABLE: (
        "nn.dense nn.matmul nn.batch_matmul nn.conv1d nn.conv2d nn.conv3d nn.conv1d_transpose nn.conv2d_transpose "
        "nn.conv3d_transpose nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d "
        "nn.global_max_pool1d nn.global_max_pool2d nn.global_max_pool3d nn.global_avg_pool1d nn.global_avg_pool2d "
        "nn.global_avg_pool3d nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d nn.adaptive_avg_pool3d"
    ),
}

for _kind, _names in _NAMES.items():
    for _name in _names.split():
        if Op.exists(_name) and not Op.get(_name).has_attr(PATTERN):
            Op.get(_name).set_attr(PATTERN, _kind)


def pattern_of(op: Op) -> OpPatternKind:
    """The fusion pattern of an operator."""
    pattern = op.get_attr(PATTERN)
    return OpPatternKind.OPAQUE if pattern is None else OpPatternKind(pattern)


__all__ = ["PATTERN", "pattern_of"]
