"""Types of GGUF: the element types of tensors with the sizes of their blocks, and the types of metadata values.

Decoding of packed blocks is not defined here: `layout` names a layout of `relax.topi`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...runtime.records import dataclass
from ..tensor_files import PLAIN


@dataclass(frozen=True, slots=True)
class GGMLType:
    """Element type of a tensor: number in files, name, elements of a block, bytes of a block, dtype of the array."""

    id: int
    name: str
    elements: int
    nbytes: int
    dtype: str = "uint8"

    @property
    def layout(self) -> str:
        """Name of the packed layout; "plain" for types whose blocks are single elements."""
        return PLAIN if self.elements == 1 else self.name


_ROWS: Final = (
    GGMLType(0, "f32", 1, 4, "float32"),
    GGMLType(1, "f16", 1, 2, "float16"),
    GGMLType(2, "q4_0", 32, 18),
    GGMLType(3, "q4_1", 32, 20),
    GGMLType(6, "q5_0", 32, 22),
    GGMLType(7, "q5_1", 32, 24),
    GGMLType(8, "q8_0", 32, 34),
    GGMLType(9, "q8_1", 32, 40),
    GGMLType(10, "q2_k", 256, 84),
    GGMLType(11, "q3_k", 256, 110),
    GGMLType(12, "q4_k", 256, 144),
    GGMLType(13, "q5_k", 256, 176),
    GGMLType(14, "q6_k", 256, 210),
    GGMLType(15, "q8_k", 256, 292),
    GGMLType(16, "iq2_xxs", 256, 66),
    GGMLType(17, "iq2_xs", 256, 74),
    GGMLType(18, "iq3_xxs", 256, 98),
    GGMLType(19, "iq1_s", 256, 50),
    GGMLType(20, "iq4_nl", 32, 18),
    GGMLType(21, "iq3_s", 256, 110),
    GGMLType(22, "iq2_s", 256, 82),
    GGMLType(23, "iq4_xs", 256, 136),
    GGMLType(24, "i8", 1, 1, "int8"),
    GGMLType(25, "i16", 1, 2, "int16"),
    GGMLType(26, "i32", 1, 4, "int32"),
    GGMLType(27, "i64", 1, 8, "int64"),
    GGMLType(28, "f64", 1, 8, "float64"),
    GGMLType(29, "iq1_m", 256, 56),
    GGMLType(30, "bf16", 1, 2, "bfloat16"),
    GGMLType(34, "tq1_0", 256, 54),
    GGMLType(35, "tq2_0", 256, 66),
    GGMLType(39, "mxfp4", 32, 17),
    GGMLType(40, "nvfp4", 64, 36),
    GGMLType(41, "q1_0", 128, 18),
)

GGML_TYPES: Final[Mapping[int, GGMLType]] = {row.id: row for row in _ROWS}
"""Element types of tensors, by their numbers in files."""

REMOVED: Final[Mapping[int, str]] = {
    4: "q4_2", 5: "q4_3", 31: "q4_0_4_4", 32: "q4_0_4_8", 33: "q4_0_8_8", 36: "iq4_nl_4_4", 37: "iq4_nl_4_8",
    38: "iq4_nl_8_8",
}  # fmt: skip
"""Numbers of element types that GGML no longer has."""

SCALARS: Final[Mapping[int, tuple[str, str, int]]] = {
    0: ("uint8", "B", 1),
    1: ("int8", "b", 1),
    2: ("uint16", "H", 2),
    3: ("int16", "h", 2),
    4: ("uint32", "I", 4),
    5: ("int32", "i", 4),
    6: ("float32", "f", 4),
    7: ("bool", "B", 1),
    10: ("uint64", "Q", 8),
    11: ("int64", "q", 8),
    12: ("float64", "d", 8),
}
"""Fixed-size types of metadata values by number: NumPy's name, format of the module struct, size in bytes."""

STRING: Final = 8
"""Number of the metadata type string: a length in 64 bits, and UTF-8."""
ARRAY: Final = 9
"""Number of the metadata type array: element type in 32 bits, length in 64 bits, and elements."""
