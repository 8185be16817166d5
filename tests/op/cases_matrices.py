"""Cases of matrices with a diagonal, and of window functions."""

from __future__ import annotations

import numpy as np
from op_harness import FLOATS, Case, Random

rng = Random(11)

CASES = [
    Case("relax.eye", [n, m, k])
    for n, m, k in ((3, 3, 0), (2, 4, 0), (4, 2, 1), (3, 3, -2), (2, 2, 5), (0, 3, 0), (1, 1, 0))
]
CASES += [Case("relax.eye", [2, 3, 1], {"dtype": dtype}) for dtype in ("int8", "bool", "float16")]
CASES += [Case("relax.eye_like", [rng.array((2, 3), "float32"), k]) for k in (0, 1, -1, 7)]
CASES += [
    Case("relax.eye_like", [rng.array((2, 0), "int32"), 0], {"dtype": "uint8"}),
    Case("relax.eye_like", [rng.array((3, 3), "bool"), 0]),
]
for name in ("relax.tril", "relax.triu"):
    CASES += [Case(name, [rng.array((3, 4), "float32"), k]) for k in (-3, -1, 0, 1, 4, 100)]
    CASES += [Case(name, [rng.array((2, 3, 2), dtype), 0]) for dtype in ("int8", "bool", "bfloat16")]
    CASES += [Case(name, [rng.array((2, 0, 3), "float32"), 0]), Case(name, [np.full((2, 2), np.nan, "float32"), 0])]

for periodic in (0, 1):
    CASES += [Case("relax.hamming_window", [n, periodic, 0.54, 0.46]) for n in (0, 1, 2, 7, 10)]
    CASES += [Case("relax.blackman_window", [n, periodic]) for n in (1, 8)]
CASES += [Case("relax.hamming_window", [5, 1, 0.5, 0.5], {"dtype": dtype}) for dtype in FLOATS]
