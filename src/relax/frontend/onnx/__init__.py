"""Models in the ONNX format: `from_onnx`, `to_onnx`, `save_onnx`.

`converter` and `writer` are for operators of one's own. Needs the package ``onnx``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from .emitter import Emitter
    from .export import save_onnx, to_onnx, writer
    from .importer import from_onnx
    from .registry import converter
    from .values import Array, Dims, Ints, Tensor, Value

__all__ = [
    "Array", "Dims", "Emitter", "Ints", "Tensor", "Value", "converter", "from_onnx", "save_onnx", "to_onnx", "writer",
]  # fmt: skip

load_when_used(__name__, HOMES)
