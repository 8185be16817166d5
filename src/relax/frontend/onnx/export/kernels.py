"""Element types that ONNX Runtime's kernels take, by ONNX operator: others are computed in a wider type.

Results are those of the language: narrow floats are computed in float32 (language.md §7.2.1), and narrow integers wrap
when the result is narrowed. An operator that is not listed takes all types.
"""

from __future__ import annotations

from typing import Final

from ....ir import DataType

_F32: Final = ("float32",)
_FLOATS: Final = ("float32", "float64")
_WIDE: Final = ("int32", "int64", *_FLOATS)
_INTS: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_NUMBERS: Final = (*_INTS, *_FLOATS)
_MOVED: Final = (*_NUMBERS, "bool", "float16")
_COPIED: Final = (*_MOVED, "bfloat16")

KERNELS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("Abs", "Add", "Sub", "Mul", "Div", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), _NUMBERS),
    **dict.fromkeys(("Mod", "Sign"), _NUMBERS),
    **dict.fromkeys(("Ceil", "Floor", "Round", "Exp", "Log", "Sqrt", "Sin", "Cos", "Sigmoid", "Tanh"), _FLOATS),
    **dict.fromkeys(("IsInf", "IsNaN", "Softmax", "LogSoftmax", "GridSample", "DeformConv", "AffineGrid"), _FLOATS),
    **dict.fromkeys(("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh", "Tan", "Erf", "Det"), _F32),
    **dict.fromkeys(("Conv", "ConvTranspose", "AveragePool", "LpPool", "LRN", "Col2Im", "RNN"), _F32),
    **dict.fromkeys(("LSTM", "GRU", "RoiAlign", "LayerNormalization"), _FLOATS),
    **dict.fromkeys(("CumSum", "CumProd", "ReduceProd", "ReduceSum", "ReduceMean", "Pow", "Einsum"), _WIDE),
    **dict.fromkeys(("Expand", "Tile"), _MOVED),
    **dict.fromkeys(("Concat", "Gather", "GatherElements", "GatherND", "Slice", "Split", "ReverseSequence"), _COPIED),
    **dict.fromkeys(("ScatterElements", "ScatterND", "Compress", "Squeeze", "Unsqueeze", "Flatten"), _COPIED),
    **dict.fromkeys(("BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"), _INTS),
    **dict.fromkeys(("Shape", "Size", "Reshape", "Transpose"), (*_COPIED, "float8_e4m3fn", "float8_e5m2")),
    "BitShift": ("uint8", "uint16", "uint32", "uint64"),
    "Equal": (*_NUMBERS, "bool"),
    "EyeLike": ("int32", "int64", *_FLOATS),
    "MatMul": _WIDE,
    "Max": (*_WIDE, "int8", "uint8", "uint32", "uint64"),
    "Min": (*_WIDE, "int8", "uint8", "uint32", "uint64"),
    "MaxPool": (*_FLOATS, "int8", "uint8"),
    "Neg": ("int8", "int16", *_WIDE),
    "NonZero": ("bool", "int32", "int64", "uint8", "float32"),
    "OneHot": ("int32", "int64", "float32"),
    "Pad": ("bool", "int8", "uint8", "uint32", "uint64", *_WIDE),
    "Range": ("int16", *_WIDE),
    "ReduceMax": ("int8", "uint8", *_WIDE),
    "ReduceMin": ("int8", "uint8", *_WIDE),
    "Resize": ("int8", "uint8", "int32", "float32"),
    "TopK": ("int8", "int16", "uint8", *_WIDE),
    "Trilu": ("bool", *_WIDE),
    "Unique": ("int8", "int64", *_FLOATS),
    "Where": ("int8", "uint8", "uint32", *_WIDE),
}  # fmt: skip

BROADCASTING: Final = frozenset({
    "Abs", "Add", "And", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "Ceil", "Cos",
    "CumSum", "Div", "Equal", "Erf", "Exp", "Floor", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less",
    "LessOrEqual", "Log", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Pow", "Round", "Sigmoid", "Sign", "Sin",
    "Sqrt", "Sub", "Tanh", "Where", "Xor",
})  # fmt: skip
"""Operators whose result has the rank of the operand of highest rank."""

INDICES: Final[dict[str, tuple[int, ...]]] = {
    "Compress": (1,), "CumProd": (1,), "CumSum": (1,), "Expand": (1,), "Gather": (1,), "GatherElements": (1,),
    "GatherND": (1,), "OneHot": (0, 1), "Pad": (1, 3), "ReduceMax": (1,), "ReduceMean": (1,), "ReduceMin": (1,),
    "ReduceProd": (1,), "ReduceSum": (1,), "Reshape": (1,), "ReverseSequence": (1,), "ScatterElements": (1,),
    "ScatterND": (1,), "Slice": (1, 2, 3, 4), "Split": (1,), "Squeeze": (1,), "Tile": (1,), "TopK": (1,), "Trilu": (1,),
    "Unsqueeze": (1,), "Where": (0,),
}  # fmt: skip
"""Inputs that hold indices, axes or sizes, and no elements of the data: they are not cast."""

_WIDER: Final[dict[str, tuple[str, ...]]] = {
    "bool": ("uint8", "int8", "int32", "int64", "float32"),
    "int2": ("int8", "int16", "int32", "int64"),
    "int4": ("int8", "int16", "int32", "int64"),
    "uint2": ("uint8", "int32", "int64"),
    "uint4": ("uint8", "int32", "int64"),
    "int8": ("int16", "int32", "int64", "float32"),
    "uint8": ("int16", "int32", "int64", "float32"),
    "int16": ("int32", "int64", "float32"),
    "uint16": ("int32", "int64", "float32"),
    "int32": ("int64", "float64"),
    "uint32": ("int64", "float64"),
    "uint64": ("int64",),
    "float16": ("float32", "float64"),
    "bfloat16": ("float32", "float64"),
}
"""Types that hold all values of a type, nearest first. (uint64 wraps: callers that compare its values do not ask.)"""


def kernel_dtype(op_type: str, dtype: str) -> str:
    """Return the element type in which an ONNX operator computes on `dtype`: itself, unless no kernel takes it."""
    taken = KERNELS.get(op_type)
    if taken is None or dtype in taken:
        return dtype
    narrow = dtype not in _WIDER and DataType(dtype).is_float and DataType(dtype).bits < 32
    candidates = ("float32",) if narrow else _WIDER.get(dtype, ())
    return next((wide for wide in candidates if wide in taken), dtype)


def wide_dtype(dtype: str) -> str:
    """Return the element type in which a formula of several nodes computes on `dtype`."""
    kind = DataType(dtype)
    if kind.is_float:
        return "float32" if kind.bits < 32 else dtype
    if dtype in ("int32", "int64", "uint64", "bool"):
        return dtype
    return "int64" if dtype == "uint32" else "int32"
