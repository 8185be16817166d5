"""Modules in Python, exported as programs: TVM's `relax.frontend.nn`.

    from relax.frontend import nn
    from relax.frontend.nn import Module, Tensor, op, spec

    class Net(nn.Module):
        def __init__(self):
            self.fc = nn.Linear(4, 2)

        def forward(self, x: Tensor):
            return op.relu(self.fc(x))

    mod, params = Net().export_tvm({"forward": {"x": spec.Tensor(["n", 4], "float32")}})

A method runs once, on tensors that are variables of the program. Parameters stay inputs of its functions.
"""

from __future__ import annotations

from ...ir.tvm_names import answer_missing
from . import op, spec
from .core import Module, ModuleDict, ModuleList, ParameterDict, ParameterList
from .effect import Effect, IOEffect, KVCache
from .exporter import add_extern
from .extern import ExternModule, ObjectModule, SourceModule, attach_extern_modules
from .modules import (
    GELU,
    Attention,
    Conv1D,
    Conv2D,
    Conv3D,
    ConvTranspose1D,
    Embedding,
    GroupNorm,
    Identity,
    LayerNorm,
    Linear,
    ReLU,
    RMSNorm,
    SiLU,
    TimestepEmbedding,
    Timesteps,
)
from .op import *  # noqa: F403
from .parameter import Parameter
from .quantized import QuantizedEmbedding, QuantizedLinear, QuantizedParameter, QuantizeModules, pack_weights
from .subroutine import SubroutineMixin
from .tensor import Object, Tensor, get_default_dtype, set_default_dtype
from .visitor import Mutator

__all__ = [
    "GELU", "Attention", "Conv1D", "Conv2D", "Conv3D", "ConvTranspose1D", "Effect", "Embedding", "ExternModule",
    "GroupNorm", "IOEffect", "Identity", "KVCache", "LayerNorm", "Linear", "Module", "ModuleDict", "ModuleList",
    "Mutator", "Object", "ObjectModule", "Parameter", "ParameterDict", "ParameterList", "QuantizeModules",
    "QuantizedEmbedding", "QuantizedLinear", "QuantizedParameter", "RMSNorm", "ReLU", "SiLU", "SourceModule",
    "SubroutineMixin", "Tensor", "TimestepEmbedding", "Timesteps", "add_extern", "attach_extern_modules",
    "get_default_dtype", "op", "pack_weights", "set_default_dtype", "spec",
]  # fmt: skip
__all__ += op.__all__

answer_missing(__name__)
