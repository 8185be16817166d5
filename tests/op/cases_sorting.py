"""Cases of the operators that sort."""

from __future__ import annotations

import numpy as np
from op_harness import NUMBERS, Case, Random, special

rng = Random(7)


def x(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Few different values, so that many are equal."""
    return rng.array(shape, dtype, -2, 2).round() if dtype.startswith("float") else rng.array(shape, dtype)


CASES: list[Case] = []
for descending in (False, True):
    asked = {"descending": descending}
    CASES += [Case("relax.sort", [special(dtype)], asked) for dtype in ("float32", "int64", "uint8", "bfloat16")]
    CASES += [Case("relax.argsort", [special("float32")], asked), Case("relax.argsort", [x(33)], asked)]
CASES += [Case("relax.sort", [rng.array((9,), dtype)]) for dtype in (*NUMBERS, "bool", "float8_e4m3fn")]
CASES += [
    Case("relax.sort", [x(*shape)], {"axis": axis})
    for shape, axis in (((5, 3), 0), ((2, 7, 3), 1), ((2, 5), -1), ((0,), 0), ((1,), 0), ((3, 0), 1), ((0, 3), 1))
]
CASES += [
    Case("relax.argsort", [x(4, 6)], {"axis": 0, "dtype": "int64"}),
    Case("relax.argsort", [x(4, 6)], {"axis": 1, "dtype": "uint8", "descending": True}),
    Case("relax.topk", [x(9), 4]),
    Case("relax.topk", [x(9)]),
    Case("relax.topk", [x(3, 6, dtype="int8"), -1], {"largest": False, "dtype": "int64"}),
    Case("relax.topk", [x(6, 2), 5], {"axis": 0, "ret_type": "values"}),
    Case("relax.topk", [x(2, 7), 3], {"ret_type": "indices", "largest": False}),
    Case("relax.topk", [special("float32"), 6]),
    Case("relax.topk", [x(2, 0), 0]),
    Case("relax.topk", [rng.array((2, 5), "int8"), 0]),
]
