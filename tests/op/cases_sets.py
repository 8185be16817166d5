"""Cases of the operators whose result's size depends on the data."""

from __future__ import annotations

import numpy as np
from op_harness import NUMBERS, Case, Random

rng = Random(3)

ASKED = [
    {"return_index": index, "return_inverse": inverse, "return_counts": counts}
    for index in (False, True)
    for inverse in (False, True)
    for counts in (False, True)
]
CASES = [Case("relax.unique", [np.array([[3, 1], [3, 2]], "int32")], asked) for asked in ASKED]
CASES += [Case("relax.unique", [rng.array((4, 2), "int8", 0, 1)], {"axis": axis}) for axis in (0, 1, -1)]
CASES += [Case("relax.unique", [rng.array((7,), dtype, 0, 3)]) for dtype in (*NUMBERS, "bool")]
CASES += [
    Case("relax.unique", [np.array([1, np.nan, np.nan, -0.0, 0.0], "float32")]),
    Case("relax.unique", [rng.array((0,), "float32")], {"return_index": True}),
]
CASES += [Case("relax.unique", [np.array([3, 1, 3, 2, 1], "int32")], {"sorted": False, **asked}) for asked in ASKED]
CASES += [
    Case("relax.unique", [np.array([[2, 0, 2], [1, 5, 1], [2, 0, 2]], "int8")], {"sorted": False, "axis": axis})
    for axis in (0, 1, -1)
]
CASES += [
    Case("relax.unique", [np.array([np.nan, 1, np.nan, 0.0, -0.0], "float32")], {"sorted": False}),
    Case("relax.unique", [rng.array((0,), "float32")], {"sorted": False, "return_inverse": True}),
]
CASES += [Case("relax.nonzero", [rng.array((2, 3, 2), dtype, -1, 1)]) for dtype in (*NUMBERS, "bool")]
CASES += [Case("relax.nonzero", [rng.array(shape, "int32", 0, 1)]) for shape in ((), (1,), (0,), (3, 0), (4, 5))]
CASES += [Case("relax.nonzero", [np.array([0.0, -0.0, np.nan], "float32")])]
