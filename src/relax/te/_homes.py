"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    "..prim": "Select cast const",
    "..prim.intrin": "abs acos acosh all any asin asinh atan atan2 atanh ceil ceildiv copysign cos cosh div erf erfc exp "
        "exp10 exp2 floor floordiv floormod fmod hypot if_then_else indexdiv indexmod infinity isfinite isinf "
        "isnan log log10 log1p log2 max_value min_value nearbyint popcount power reinterpret round rsqrt "
        "sigmoid sin sinh sqrt tan tanh trunc truncdiv truncmod",
    "..tir.reduction": "Reducer comm_reducer max min prod sum",
    ".adjoints": "NoGradientError adjoints",
    ".create_prim_func": "create_prim_func",
    ".operation": "compute extern placeholder reduce_axis size_var var",
    ".tensor": "ComputeOp ExternOp Operation PlaceholderOp ProducerLoad Tensor TensorSlice "
        "register_tensor_arithmetic",
}
