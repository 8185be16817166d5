"""Importers: `relax.frontend.onnx` for ONNX models, `relax.frontend.torch` for programs of torch.export."""

from __future__ import annotations

from .. import script as script  # imported programs print as text
from ..ir.tvm_names import answer_missing
from .params import detach_params

__all__ = ["detach_params"]

answer_missing(__name__)
