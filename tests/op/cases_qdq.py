"""Cases of quantize and dequantize."""

from __future__ import annotations

import numpy as np
from op_harness import FLOATS, FLOATS8, Case, Random, special

from relax.ir import DataType

rng = Random(12)
TARGETS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")


def scalar(value: float, dtype: str) -> np.ndarray:
    return np.array(value, dtype)


CASES: list[Case] = []
HALVES = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.4999, 1e30, -1e30], "float32")
for target in TARGETS:
    attrs = {"out_dtype": target}
    CASES += [
        Case("relax.quantize", [special("float32"), scalar(0.1, "float32"), scalar(3, target)], attrs),
        Case("relax.quantize", [HALVES, scalar(1, "float32"), scalar(0, target)], attrs),
        Case("relax.dequantize", [special(target), scalar(0.1, "float32"), scalar(3, target)]),
    ]
CASES += [
    Case("relax.quantize", [rng.array((3, 4), dtype, -20, 20), np.array([0.5], dtype), np.array([1], "int8")])
    for dtype in FLOATS
]
CASES += [
    Case("relax.dequantize", [rng.array((3, 4), "uint8"), np.array(0.3, dtype), np.array([2], "uint8")], attrs)
    for dtype in ("float16", "float32", "float64")
    for attrs in ({}, {"out_dtype": "float16"}, {"out_dtype": "bfloat16"})
]
for axis, size in ((0, 2), (1, 3), (-1, 4)):
    scale = rng.array((size,), "float32", 0.1, 2)
    zero = rng.array((size,), "int8")
    CASES += [
        Case("relax.quantize", [rng.array((2, 3, 4), "float32", -200, 200), scale, zero], {"axis": axis}),
        Case("relax.dequantize", [rng.array((2, 3, 4), "int8"), scale, zero], {"axis": axis}),
    ]
CASES += [
    Case("relax.quantize", [rng.array((2, 3), "float32"), rng.array((3,), "float32", 1, 2), scalar(0, "int8")]),
    Case("relax.quantize", [np.array([3, -4, 0], "float32"), scalar(0, "float32"), scalar(5, "uint8")],
         {"out_dtype": "uint8"}),
    Case("relax.quantize", [rng.array((), "float32"), scalar(0.5, "float32"), scalar(0, "int8")]),
    Case("relax.quantize", [rng.array((0, 3), "float32"), rng.array((3,), "float32"), rng.array((3,), "int8")]),
    Case("relax.dequantize", [rng.array((0, 3), "int8"), rng.array((3,), "float32"), rng.array((3,), "int8")]),
]  # fmt: skip
for target in ("int4", "uint4", "int2", "uint2"):
    kind = DataType(target)
    zero = np.array(1, kind.numpy())
    every = np.arange(kind.min_value, kind.max_value + 1).astype(kind.numpy())
    CASES += [
        Case("relax.quantize", [special("float32"), scalar(0.5, "float32"), zero], {"out_dtype": target}),
        Case("relax.dequantize", [every, scalar(0.5, "float32"), zero]),
    ]
for target in (*FLOATS8, "float4_e2m1fn"):
    zero = np.zeros((), DataType(target).numpy())
    CASES += [
        Case("relax.quantize", [special("float32"), scalar(0.5, "float32"), zero], {"out_dtype": target}),
        Case("relax.dequantize", [special(target), scalar(0.5, "float32"), zero]),
    ]
