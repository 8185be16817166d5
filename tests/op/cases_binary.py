"""Cases of the element-wise operators of two tensors."""

from __future__ import annotations

import numpy as np
from op_harness import FLOATS, FLOATS8, INTS, NUMBERS, PADDED, UINTS, Case, Random, special

from relax.ir import DataType

rng = Random(2)

ARITHMETIC = ("add", "subtract", "multiply", "maximum", "minimum")
DIVISION = ("divide", "floor_divide", "mod", "floor_mod")
COMPARISON = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor")
LOGIC = ("logical_and", "logical_or", "logical_xor")

SHAPES = [
    ((2, 3), (3,)),
    ((2, 1), (1, 3)),
    ((), (4,)),
    ((3,), ()),
    ((), ()),
    ((0, 2), (2,)),
    ((0, 1), (1, 3)),
    ((1, 1), (1,)),
    ((2, 1, 3), (4, 1)),
]


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of special values."""
    values = special(dtype)
    return np.repeat(values, len(values)), np.tile(values, len(values))


def nonzero(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    a, b = pairs(dtype)
    keep = b.astype(np.float64) != 0
    return a[keep], b[keep]


CASES: list[Case] = []
for name in (*ARITHMETIC, *COMPARISON):
    CASES += [Case(f"relax.{name}", list(pairs(dtype))) for dtype in (*NUMBERS, FLOATS8[0], *PADDED)]
    CASES += [Case(f"relax.{name}", [rng.array(a, "float32"), rng.array(b, "float32")]) for a, b in SHAPES]
CASES += [Case(f"relax.{name}", [rng.array((4,), "bool"), rng.array((4,), "bool")]) for name in COMPARISON]

for name in DIVISION:
    CASES += [Case(f"relax.{name}", list(nonzero(dtype))) for dtype in (*INTS, *UINTS, *PADDED[:4])]
    CASES += [Case(f"relax.{name}", [rng.array((20,), dtype), rng.array((20,), dtype)]) for dtype in FLOATS]
    CASES += [Case(f"relax.{name}", [rng.array(a, "float32"), rng.array(b, "float32")]) for a, b in SHAPES[:4]]
    CASES += [
        Case(
            f"relax.{name}",
            [np.array([1, 2], dtype), np.array([1, 0], dtype)],
            raises=(ZeroDivisionError, "division by zero"),
        )
        for dtype in ("int32", "uint8", "int64")
    ]
CASES += [Case("relax.divide", list(pairs(dtype))) for dtype in FLOATS]

EXPONENTS = {
    "int8": [-3, -1, 0, 1, 2, 5, 8, 127],
    "int32": [-2, 0, 1, 3, 30, 33, 70],
    "int64": [0, 1, 2, 39, 40, 64],
    "uint8": [0, 1, 3, 9, 255],
    "uint32": [0, 1, 20, 33],
}
for dtype, exponents in EXPONENTS.items():
    bases = [1, 2, 3, DataType(dtype).min_value or 7]
    base = np.repeat(np.array(bases, dtype), len(exponents))
    CASES.append(Case("relax.power", [base, np.tile(np.array(exponents, dtype), len(bases))]))
CASES += [
    Case("relax.power", [np.array([-1, -1, -2, 0, 5], "int32"), np.array([-3, -4, -1, 0, -1], "int32")]),
    Case(
        "relax.power",
        [np.array([2, 0], "int32"), np.array([1, -1], "int32")],
        raises=(ZeroDivisionError, "division by zero"),
    ),
]
CASES += [
    Case(
        "relax.power",
        [np.array([2, 0.5, 3e38, 1e-38, 1.0000001], d), np.array([-126, 148, -1, 0.5, 1e6], d)],
        tails=True,
    )
    for d in ("float32", "float64")
]
CASES += [Case("relax.power", [rng.array((9,), dtype, 0.1, 3), rng.array((9,), dtype, -2, 2)]) for dtype in FLOATS]
CASES += [Case("relax.power", [rng.array(a, "float32", 0.5, 2), rng.array(b, "float32")]) for a, b in SHAPES[:6]]

for name in BITWISE:
    CASES += [Case(f"relax.{name}", list(pairs(dtype))) for dtype in (*INTS, *UINTS, "int4", "uint2")]
    CASES += [Case(f"relax.{name}", [rng.array((2, 4), "bool"), rng.array((4,), "bool")])]
for name in LOGIC:
    CASES += [Case(f"relax.{name}", [rng.array(a, "bool"), rng.array(b, "bool")]) for a, b in SHAPES]
for name in ("left_shift", "right_shift"):
    for dtype in (*INTS, *UINTS, "int4", "uint2"):
        bits = DataType(dtype).bits
        amounts = [0, 1, bits - 1, bits, min(2 * bits, DataType(dtype).max_value)]
        if dtype in INTS:
            amounts.append(-1)
        values = special(dtype)
        shifts = np.tile(np.array(amounts, dtype), len(values))
        CASES.append(Case(f"relax.{name}", [np.repeat(values, len(amounts)), shifts]))

# Scalars of the program beside tensors.
CASES += [
    Case("relax.add", [rng.array((2, 3), "int64"), 5]),
    Case("relax.subtract", [5, rng.array((3,), "int64")]),
    Case("relax.multiply", [rng.array((0,), "float64"), 2.5]),
    Case("relax.less", [rng.array((3,), "int64"), 0]),
]
