"""Models in the GGUF format: `read` maps a file, with metadata, tensors and the tokenizer's data; `write` makes one.

Weights stay packed as files have them; nothing is decoded or rounded here.
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
    from .writer import Stored, write

__all__ = ["GGML_TYPES", "GGMLType", "GGUFFile", "Stored", "StringArray", "Tokenizer", "read", "write"]

load_when_used(__name__, HOMES)
