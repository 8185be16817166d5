"""Cases of the element-wise operators of one tensor."""

from __future__ import annotations

import numpy as np
from op_harness import FLOATS, FLOATS8, INTS, NUMBERS, UINTS, Case, Random, special

rng = Random(1)

REAL = {
    "exp": (-4, 4),
    "log": (0.1, 9),
    "sqrt": (0, 9),
    "rsqrt": (0.1, 9),
    "sigmoid": (-6, 6),
    "erf": (-3, 3),
    "sin": (-4, 4),
    "cos": (-4, 4),
    "tan": (-1.4, 1.4),
    "asin": (-1, 1),
    "acos": (-1, 1),
    "atan": (-4, 4),
    "sinh": (-3, 3),
    "cosh": (-3, 3),
    "tanh": (-3, 3),
    "asinh": (-4, 4),
    "acosh": (1, 6),
    "atanh": (-0.9, 0.9),
}
WHOLE = ("floor", "ceil", "trunc", "round")
NUMBER = ("abs", "negative", "sign", "square", "isnan", "isinf", "isfinite")

CASES: list[Case] = []
for name, (low, high) in REAL.items():
    CASES += [Case(f"relax.{name}", [rng.array((2, 3), dtype, low, high)]) for dtype in (*FLOATS, FLOATS8[0])]
    CASES += [Case(f"relax.{name}", [special("float32")])]
    CASES += [Case(f"relax.{name}", [rng.array(shape, "float32", low, high)]) for shape in ((), (0, 3), (1,))]
for name in WHOLE + NUMBER:
    CASES += [Case(f"relax.{name}", [special(dtype)]) for dtype in (*NUMBERS, *FLOATS8)]
    CASES += [Case(f"relax.{name}", [rng.array(shape, "float32")]) for shape in ((), (2, 0), (1, 2))]

CASES += [Case("relax.logical_not", [rng.array(shape, "bool")]) for shape in ((5,), (), (0,))]
CASES += [Case("relax.bitwise_not", [special(dtype)]) for dtype in (*INTS, *UINTS)]
CASES += [Case("relax.bitwise_not", [rng.array((4,), "bool")])]

CASES += [Case("relax.clip", [special(dtype), 1, 2]) for dtype in NUMBERS]
CASES += [Case("relax.clip", [special(dtype), -(2**40), 2**40]) for dtype in INTS]
CASES += [Case("relax.clip", [special(dtype), -np.inf, np.inf]) for dtype in (*INTS, *UINTS, "float32")]
CASES += [
    Case("relax.clip", [special("float32"), -0.5, 1.25]),
    Case("relax.clip", [rng.array((2, 3), "float32"), 2, 1]),
    Case("relax.clip", [rng.array((0,), "int32"), 0, 1]),
]

DTYPES = (*NUMBERS, "bool")
CASES += [
    Case("relax.astype", [special(source)], {"dtype": target})
    for source in NUMBERS
    for target in DTYPES
    if "loat" in source or "loat" not in target or source in ("int8", "int32", "uint64")
]
CASES += [Case("relax.astype", [rng.array((4,), "bool")], {"dtype": target}) for target in DTYPES]
CASES += [
    Case("relax.astype", [rng.array((), "float32")], {"dtype": "int8"}),
    Case("relax.astype", [rng.array((0, 2), "int64")], {"dtype": "bool"}),
]
