"""Tensor expressions: operators defined by formulas, and PrimFuncs created from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.tvm_names import answer_missing
from ..runtime.rooms import load_when_used
from ..tir.index_map import IndexMap
from ._homes import HOMES

if TYPE_CHECKING:
    from ..prim import Select, cast, const
    from ..prim.intrin import (
        abs,
        acos,
        acosh,
        all,
        any,
        asin,
        asinh,
        atan,
        atan2,
        atanh,
        ceil,
        ceildiv,
        copysign,
        cos,
        cosh,
        div,
        erf,
        erfc,
        exp,
        exp2,
        exp10,
        floor,
        floordiv,
        floormod,
        fmod,
        hypot,
        if_then_else,
        indexdiv,
        indexmod,
        infinity,
        isfinite,
        isinf,
        isnan,
        log,
        log1p,
        log2,
        log10,
        max_value,
        min_value,
        nearbyint,
        popcount,
        power,
        reinterpret,
        round,
        rsqrt,
        sigmoid,
        sin,
        sinh,
        sqrt,
        tan,
        tanh,
        trunc,
        truncdiv,
        truncmod,
    )
    from ..tir.reduction import Reducer, comm_reducer, max, min, prod, sum
    from .adjoints import NoGradientError, adjoints
    from .create_prim_func import create_prim_func
    from .operation import compute, extern, placeholder, reduce_axis, size_var, var
    from .tensor import (
        ComputeOp,
        ExternOp,
        Operation,
        PlaceholderOp,
        ProducerLoad,
        Tensor,
        TensorSlice,
        register_tensor_arithmetic,
    )

AXIS_SEPARATOR = IndexMap.AXIS_SEPARATOR

__all__ = [
    "AXIS_SEPARATOR", "ComputeOp", "ExternOp", "NoGradientError", "Operation", "PlaceholderOp", "ProducerLoad",
    "Reducer", "Select", "Tensor", "TensorSlice", "abs", "acos", "acosh", "adjoints", "all", "any", "asin", "asinh",
    "atan", "atan2", "atanh", "cast", "ceil", "ceildiv", "comm_reducer", "compute", "const", "copysign", "cos",
    "cosh", "create_prim_func", "div", "erf", "erfc", "exp", "exp2", "exp10", "extern", "floor", "floordiv",
    "floormod", "fmod", "hypot", "if_then_else", "indexdiv", "indexmod", "infinity", "isfinite", "isinf", "isnan",
    "log", "log1p", "log2", "log10", "max", "max_value", "min", "min_value", "nearbyint", "placeholder", "popcount",
    "power", "prod", "reduce_axis", "register_tensor_arithmetic", "reinterpret", "round", "rsqrt", "sigmoid", "sin",
    "sinh", "size_var", "sqrt", "sum", "tan", "tanh", "trunc", "truncdiv", "truncmod", "var",
]  # fmt: skip

load_when_used(__name__, HOMES)
answer_missing(__name__)
