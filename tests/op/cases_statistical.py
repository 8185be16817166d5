"""Cases of the operators that fold a tensor along axes."""

from __future__ import annotations

import numpy as np
from op_harness import FLOATS, INTS, NUMBERS, UINTS, Case, Random, special

rng = Random(2)

SHAPES = ((2, 3, 4), (1, 1, 1), (0, 3, 2), (2, 0, 3))
CASES: list[Case] = []
for name in ("sum", "prod", "max", "min", "mean", "variance", "std"):
    op = f"relax.{name}"
    for shape in SHAPES:
        CASES += [
            Case(op, [rng.array(shape, "float32", -2, 2)], {"axis": axis, "keepdims": keepdims})
            for axis in (None, 1, (0, 2), (-1, 0))
            for keepdims in (False, True)
        ]
    CASES += [Case(op, [rng.array((), "float32")])]
    CASES += [Case(op, [rng.array((3, 5), dtype, -2, 2)], {"axis": 1}) for dtype in FLOATS]
    if name not in ("mean", "variance", "std"):
        CASES += [Case(op, [special(dtype)]) for dtype in (*INTS, *UINTS)]
    CASES += [Case(op, [np.array([[1, np.nan, 3], [-np.inf, 2, np.inf], [-0.0, 0.0, -1]], "float32")], {"axis": 1})]

for name in ("argmax", "argmin"):
    op = f"relax.{name}"
    CASES += [
        Case(op, [rng.array(shape, "float32")], {"axis": axis, "keepdims": keepdims})
        for shape in ((2, 3, 4), (1, 1, 1), (0, 3, 2))
        for axis in (1, -1)
        for keepdims in (False, True)
    ]
    CASES += [Case(op, [rng.array((2, 3), dtype)]) for dtype in (*NUMBERS, "bool")]
    CASES += [Case(op, [rng.array((2, 3), "float32")], {"keepdims": True})]
    CASES += [Case(op, [np.array([2, 2, 1, 1, 2], "int8")])]
    CASES += [Case(op, [np.array([-np.inf, -np.inf], "float32")])]
    CASES += [Case(op, [np.array([1, np.nan, np.inf, np.nan], "float32")])]

RUNNING = [(op, exclusive) for op in ("relax.cumsum", "relax.cumprod") for exclusive in (False, True)]
for op, exclusive in RUNNING:
    CASES += [
        Case(op, [rng.array(shape, "float32")], {"axis": axis, "exclusive": exclusive})
        for shape in ((2, 3, 4), (1, 1, 1), (0, 3, 2), (2, 0, 3))
        for axis in (None, 0, 1, -1)
    ]
    CASES += [Case(op, [rng.array((5,), dtype)], {"axis": 0, "exclusive": exclusive}) for dtype in NUMBERS]
for op in ("relax.cumsum", "relax.cumprod"):
    CASES += [
        Case(op, [rng.array((6,), "int8", 60, 100)], {"axis": 0}),
        Case(op, [rng.array((6,), "int8", 60, 100)], {"axis": 0, "dtype": "int64"}),
        Case(op, [rng.array((6,), "bool")], {"axis": 0, "dtype": "int32"}),
    ]

MEDIAN = "relax.median"
CASES += [
    Case(MEDIAN, [rng.array((2, 3, 4), "float32")], {"axis": axis, "keepdims": keepdims})
    for axis in (None, 1, -1, (0, 2))
    for keepdims in (False, True)
]
CASES += [Case(MEDIAN, [rng.array((3, 6), dtype)], {"axis": 1}) for dtype in NUMBERS]
CASES += [Case(MEDIAN, [special(dtype)], {"axis": 0}) for dtype in ("int8", "uint64", "float64")]
CASES += [
    Case(MEDIAN, [np.array([[2, 2, 1, 1], [0.0, -0.0, -1, 1], [np.inf, 1, -np.inf, 3]], "float32")], {"axis": 1}),
    Case(MEDIAN, [np.array([[1, np.nan, 3], [np.nan, np.nan, 1], [4, 5, 3]], "float32")], {"axis": 1}),
    Case(MEDIAN, [rng.array((0, 3), "int32")], {"axis": 1}),
    Case(MEDIAN, [rng.array((), "float32")]),
]

for op in ("relax.cummax", "relax.cummin"):
    CASES += [
        Case(op, [rng.array(shape, "float32")], {"axis": axis})
        for shape, axis in (((2, 3, 4), 1), ((2, 3), -1), ((3, 2), 0), ((0, 3), 1), ((3, 0), 1), ((1, 4), 1))
    ]
    CASES += [Case(op, [rng.array((6,), dtype, -2, 2)], {"axis": 0}) for dtype in (*NUMBERS, "bool", "float8_e4m3fn")]
    CASES += [Case(op, [np.array([[1, 3, 3, 2, 3], [2, np.nan, 5, np.nan, -np.inf]], "float32")], {"axis": 1})]
