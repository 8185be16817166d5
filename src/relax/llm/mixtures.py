"""Types of the tensors of a GGUF file by its type, such as "q4_k_m": mixtures that keep sensitive weights in more bits.

The last product and the embeddings are rounded to 6 bits or more, and in mixtures some products of values and some last
products of feed-forward layers, of the layers at both ends and of every third one between. Vectors stay float32.

Source: llama.cpp, `llama-quantize`, whose types and numbers of types these are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ..runtime.records import dataclass
from ..topi.block_formats import block_format


@dataclass(frozen=True, slots=True)
class FileType:
    """Type of a file: its number in metadata, and the layout of most matrices."""

    number: int
    layout: str


FILE_TYPES: Final[Mapping[str, FileType]] = {
    "float32": FileType(0, "float32"),
    "float16": FileType(1, "float16"),
    "bfloat16": FileType(32, "bfloat16"),
    "q8_0": FileType(7, "q8_0"),
    "q6_k": FileType(18, "q6_k"),
    "q5_k_m": FileType(17, "q5_k"),
    "q5_k_s": FileType(16, "q5_k"),
    "q5_1": FileType(9, "q5_1"),
    "q5_0": FileType(8, "q5_0"),
    "q4_k_m": FileType(15, "q4_k"),
    "q4_k_s": FileType(14, "q4_k"),
    "q4_1": FileType(3, "q4_1"),
    "q4_0": FileType(2, "q4_0"),
    "q3_k_l": FileType(13, "q3_k"),
    "q3_k_m": FileType(12, "q3_k"),
    "q3_k_s": FileType(11, "q3_k"),
    "q2_k": FileType(10, "q2_k"),
}
"""Types of files by name, the largest first."""
ALIASES: Final[Mapping[str, str]] = {
    "f32": "float32", "f16": "float16", "bf16": "bfloat16", "q5_k": "q5_k_m", "q4_k": "q4_k_m", "q3_k": "q3_k_m",
}  # fmt: skip
"""Further names of types."""

_NUMBERS: Final = ("float32", "float16", "bfloat16")
_SMALLER_BLOCKS: Final[Mapping[str, str]] = {
    "q2_k": "iq4_nl", "q3_k": "iq4_nl", "q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0",
}  # fmt: skip
"""Layouts with blocks of 32 in the place of those with blocks of 256, where rows are no multiple of 256."""
_ALWAYS_FLOAT32: Final = re.compile(
    r"position_embd\.weight|token_types\.weight|.*_norm\..*|.*\.ffn_gate_inp(?:_shexp)?\..*"
)
"""Matrices that stay float32: positions, and the choice of experts."""
_MIDDLE: Final[Mapping[str, Mapping[str, str]]] = {
    "q2_k": {"ffn_down": "q3_k", "attn_output": "q3_k"},
    "q3_k_m": {"ffn_down": "q4_k", "attn_v": "q4_k", "attn_output": "q4_k", "attn_qkv": "q4_k"},
    "q3_k_l": {"ffn_down": "q5_k", "attn_v": "q5_k", "attn_output": "q5_k", "attn_qkv": "q4_k"},
    "q4_k_m": {"attn_qkv": "q5_k"},
    "q5_k_m": {"attn_qkv": "q6_k"},
}
"""Layouts of a layer's matrices by the type of the file, where they have another one than most in all layers."""


@dataclass(frozen=True, slots=True)
class Outline:
    """Facts about a model on which the types of its tensors depend."""

    layers: int
    shared_heads: int
    """Heads of queries for each head of keys."""
    has_output: bool
    """True if the last product has other weights than the embeddings."""


def file_type(name: str) -> str:
    """Return the name in `FILE_TYPES` of a type that a user names. Raises ValueError for an unknown one."""
    lower = name.lower()
    found = ALIASES.get(lower, lower)
    if found not in FILE_TYPES:
        raise ValueError(f"there is no type {name!r}; there are {', '.join(FILE_TYPES)}")
    return found


def layouts_of(kind: str, tensors: Mapping[str, Sequence[int]], outline: Outline) -> dict[str, str]:
    """Return the layout of each tensor of a file of the type `kind`, by names and shapes of tensors."""
    return {name: layout_of(kind, name, shape, outline) for name, shape in tensors.items()}


def layout_of(kind: str, name: str, shape: Sequence[int], outline: Outline) -> str:
    """Return the layout of a tensor: a block format, or a dtype of numbers."""
    if len(shape) < 2 or not name.endswith(".weight") or _ALWAYS_FLOAT32.fullmatch(name):
        return "float32"
    wanted = _wanted(kind, name, outline)
    if wanted in _NUMBERS:
        return wanted
    for layout in (wanted, _SMALLER_BLOCKS.get(wanted)):
        held = None if layout is None else block_format(layout)
        if held is not None and shape[-1] % held.elements == 0:
            return held.name
    return "float16"


def _wanted(kind: str, name: str, outline: Outline) -> str:
    """Return the layout of a matrix if its rows were long enough for every one."""
    most = FILE_TYPES[kind].layout
    if most in (*_NUMBERS, "q8_0"):
        return most
    if name == ("output.weight" if outline.has_output else "token_embd.weight"):
        return "q6_k"
    match = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", name)
    if match is None:
        return most
    index, part = int(match[1]), match[2].removesuffix("_exps").removesuffix("_shexp")
    return _in_ends(kind, part, index, outline) or _MIDDLE.get(kind, {}).get(part, most)


def _in_ends(kind: str, part: str, index: int, outline: Outline) -> str | None:
    """Return the layout of a matrix that is another one in some layers only; None for other matrices."""
    layers = outline.layers
    if kind in ("q4_k_m", "q5_k_m") and part in ("attn_v", "ffn_down") and _takes_more(index, layers):
        return "q6_k"
    if kind == "q4_k_s" and ((part == "attn_v" and index < 4) or (part == "ffn_down" and index < layers // 8)):
        return "q5_k"
    if kind == "q3_k_m" and ((part == "attn_v" and index < 2) or (part == "ffn_down" and index < layers // 16)):
        return "q5_k"
    if kind == "q2_k" and part == "attn_v":
        return "q4_k" if outline.shared_heads >= 4 else "q3_k"
    return None


def _takes_more(index: int, layers: int) -> bool:
    """True for the layers of the first and the last eighth, and every third one between."""
    eighth = layers // 8
    return index < eighth or index >= 7 * layers // 8 or (index - eighth) % 3 == 2


def sizes_by_layout(stored: Iterable[tuple[str, int]]) -> dict[str, tuple[int, int]]:
    """Return number and bytes of the tensors of each layout, given as (layout, bytes), the largest first."""
    found: dict[str, tuple[int, int]] = {}
    for layout, nbytes in stored:
        count, size = found.get(layout, (0, 0))
        found[layout] = count + 1, size + nbytes
    return dict(sorted(found.items(), key=lambda item: -item[1][1]))


__all__ = ["ALIASES", "FILE_TYPES", "Outline", "file_type", "layout_of", "layouts_of", "sizes_by_layout"]
