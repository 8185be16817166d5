"""PyTorch as a library: operators of floats as functions of torch, on tensors that DLPack shares.

mod = partition_for_torch(mod)            pip install relax[torch]
"""

from __future__ import annotations

from ..dpl import is_op, wildcard
from ..expr import Call
from ..ir import IRModule
from ..op.base import operator_of
from ..runtime.libraries.torch import BINARY, TorchRuntime
from ..struct_info import TensorStructInfo
from ..transform.fusion.fuse_ops_by_pattern import FusionPattern, PatternCheckContext
from .codegen import register_codegen
from .json_serializer import json_codegen
from .partition import partition

_DTYPES = ("float32", "float64")
_COMPARISONS = frozenset(("greater", "greater_equal", "less", "less_equal", "equal", "not_equal"))
_OPERANDS = {"nn.layer_norm": 3, "nn.conv2d": 2, **dict.fromkeys(BINARY, 2)}
"""Number of operands of operators that have not one."""


def _is_float(context: PatternCheckContext) -> bool:
    """True for the call of an operator on tensors of one dtype of torch's, with a result of the same dtype or bool."""
    call = context.matched_expr
    operator = operator_of(call) if isinstance(call, Call) else None
    if operator is None or not isinstance(call, Call):
        return False
    infos = [arg.struct_info_ for arg in call.args]
    tensors = [info for info in infos if isinstance(info, TensorStructInfo) and info.ndim >= 0]
    result = call.struct_info_
    if len(tensors) < len(infos) or not isinstance(result, TensorStructInfo):
        return False
    dtypes = {str(info.dtype) for info in tensors} | {str(result.dtype)}
    if operator.short_name in _COMPARISONS:
        dtypes.discard("bool")
    return len(dtypes) == 1 and dtypes <= {*_DTYPES} and _has_form(operator, tensors)


def _has_form(operator: object, tensors: list[TensorStructInfo]) -> bool:
    """True for the attributes that torch's function has."""
    name = getattr(operator, "short_name", "")
    if name == "nn.conv2d":
        layouts = [str(getattr(operator, key) or "NCHW") for key in ("data_layout", "kernel_layout", "out_layout")]
        padding = tuple(getattr(operator, "padding", ()))
        half = len(padding) // 2
        return layouts == ["NCHW", "OIHW", "NCHW"] and (len(padding) <= 2 or padding[:half] == padding[half:])
    if name == "nn.layer_norm":
        axes = [axis % tensors[0].ndim for axis in getattr(operator, "axes", ())]
        last = list(range(tensors[0].ndim - len(axes), tensors[0].ndim))
        return axes == last and getattr(operator, "center", True) and getattr(operator, "scale", True) and all(
            info.ndim == len(axes) for info in tensors[1:]
        )  # fmt: skip
    return True


def _patterns() -> list[FusionPattern]:
    prefix = "torch."
    names = [name.removeprefix(prefix) for name in TorchRuntime.operators]
    return [
        FusionPattern(
            prefix + name, is_op(f"relax.{name}")(*(wildcard() for _ in range(_OPERANDS.get(name, 1)))), check=_is_float
        )
        for name in names
    ]


register_codegen("torch", patterns=_patterns(), codegen=json_codegen("torch"), override=True)


def partition_for_torch(mod: IRModule) -> IRModule:
    """Return a module whose operators of float32 and float64 are torch's where torch has the same; see `partition`."""
    return partition(mod, "torch")
