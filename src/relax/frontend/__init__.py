"""Importers: `relax.frontend.onnx` for ONNX models, `relax.frontend.torch` for programs of torch.export.

`relax.frontend.nn` exports modules that are written in Python.
`relax.frontend.gguf` and `relax.frontend.safetensors` read files of weights; `relax.frontend.grouped_weights` makes
rows of block formats of those of AWQ, GPTQ and compressed-tensors.
"""

from __future__ import annotations

from .. import script as script  # imported programs print as text
from ..ir.tvm_names import answer_missing
from .params import detach_params

__all__ = ["detach_params"]

answer_missing(__name__)
