"""Models in the GGUF format: `read` maps a file, with metadata, tensors and the tokenizer's data.

Weights stay packed as the file has them; nothing is decoded here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from .cursor import StringArray
    from .file import GGUFFile, read
    from .tokenizer import Tokenizer
    from .types import GGML_TYPES, GGMLType

__all__ = ["GGML_TYPES", "GGMLType", "GGUFFile", "StringArray", "Tokenizer", "read"]

load_when_used(__name__, HOMES)
