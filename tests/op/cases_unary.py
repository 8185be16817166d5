"""Cases of the element-wise operators of one tensor."""

from __future__ import annotations

import numpy as np
from op_harness import FLOATS, FLOATS8, INTS, NUMBERS, PADDED, UINTS, Case, Random, special

rng = Random(1)

REAL = {
    "exp": (-4, 4),
    "log": (0.1, 9),
    "sqrt": (0, 9),
    "rsqrt": (0.1, 9),
    "sigmoid": (-6, 6),
    "erf": (-3, 3),
    "erfc": (-3, 9),
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
#: Where results are tiny or huge, or operands are: the tails, and beside the zeros and poles.
TAILS = {
    "exp": (-103, -88, -20, 88, 1e-30),
    "log": (1e-44, 1e-38, 0.999, 1.001, 3e38),
    "sqrt": (1e-44, 1e-38, 3e38),
    "rsqrt": (1e-44, 1e-38, 3e38),
    "sigmoid": (-103, -88, -20, 20, 90),
    "erf": (-4, -1e-30, 1e-44, 3.9, 30),
    "erfc": (-6, -1e-30, 1e-44, 5, 30),
    "sin": (1e-30, 3.1415927, 6.2831855, 1e5, 3e38),
    "cos": (1.5707964, 4.712389, 1e5, 3e38),
    "tan": (1e-30, 1.5707964, 3.1415927, 1e5, 3e38),
    "asin": (1e-30, 0.9999999, -1, 1),
    "acos": (1e-30, 0.9999999, -1, 1),
    "atan": (1e-30, 1e5, -3e38),
    "sinh": (-88, 88, 1e-30),
    "cosh": (-88, 88, 1e-30),
    "tanh": (-20, -9, 1e-30, 9),
    "asinh": (-3e38, 1e-30, 3e38),
    "acosh": (1, 1.0000001, 3e38),
    "atanh": (-0.9999999, 1e-30, 0.9999999),
}
WHOLE = ("floor", "ceil", "trunc", "round")
NUMBER = ("abs", "negative", "sign", "square", "isnan", "isinf", "isfinite")

CASES: list[Case] = []
for name, (low, high) in REAL.items():
    CASES += [Case(f"relax.{name}", [rng.array((2, 3), dtype, low, high)]) for dtype in (*FLOATS, FLOATS8[0])]
    CASES += [Case(f"relax.{name}", [special("float32")])]
    CASES += [Case(f"relax.{name}", [rng.array(shape, "float32", low, high)]) for shape in ((), (0, 3), (1,))]
    CASES += [Case(f"relax.{name}", [np.array(TAILS[name], dtype)], tails=True) for dtype in ("float32", "float64")]
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
NARROW = (*PADDED, *FLOATS8, "float8_e4m3fnuz", "float8_e8m0fnu")
CASES += [
    Case("relax.astype", [special(narrow)], {"dtype": target})
    for narrow in NARROW
    for target in ("bool", "int8", "uint64", "float16", "float32", "int4", "uint2", "float4_e2m1fn", "float8_e5m2")
]
CASES += [
    Case("relax.astype", [special(source)], {"dtype": narrow})
    for narrow in NARROW
    for source in ("int8", "uint64", "float16", "bfloat16", "float32", "float64")
]
for dtype in PADDED[:4]:
    CASES += [Case(f"relax.{name}", [special(dtype)]) for name in ("abs", "bitwise_not", "negative")]
    CASES += [Case("relax.clip", [special(dtype), *bounds]) for bounds in ((-1, 1), (-100, 100), (20, 30))]
CASES += [
    Case("relax.reinterpret", [rng.array((2, 3, 8), source)], {"dtype": target})
    for source, target in (
        ("float32", "uint32"), ("int32", "float32"), ("float32", "uint8"), ("uint8", "float64"), ("int64", "bfloat16"),
        ("int16", "float16"), ("bool", "int8"), ("uint8", "bool"), ("bool", "int32"), ("float64", "float8_e4m3fn"),
    )
]  # fmt: skip
CASES += [
    Case("relax.reinterpret", [np.array(-1.5, "float32")], {"dtype": "int32"}),
    Case("relax.reinterpret", [rng.array((3, 0), "float32")], {"dtype": "float64"}),
]
