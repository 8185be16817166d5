"""Cases of operators on booleans, and of numbers where a truth value is meant."""

from __future__ import annotations

import numpy as np
from op_harness import FLOATS8, Case, Random, Sizes

rng = Random(31)


def bools(*shape: int) -> np.ndarray:
    return rng.array(shape, "bool")


def small(dtype: str, *shape: int) -> np.ndarray:
    """Numbers of which many are 0."""
    return rng.array(shape, dtype, -1, 1.9)


TRUTHS = ("float32", "bfloat16", *FLOATS8, "int8", "uint64", "int4")

CASES: list[Case] = []
CASES += [
    Case(f"relax.{name}", [bools(2, 3)])
    for name in ("abs", "sign", "floor", "ceil", "trunc", "isnan", "isinf", "isfinite")
]
CASES += [Case(f"relax.{name}", [bools(2, 3), bools(3)]) for name in ("add", "multiply", "maximum", "minimum")]
CASES += [Case("relax.logical_not", [small(dtype, 2, 3)]) for dtype in TRUTHS]
CASES += [Case("relax.logical_not", [np.array([0.0, -0.0, np.nan, np.inf, 2.0], "float32")])]
for word in ("and", "or", "xor"):
    CASES += [Case(f"relax.logical_{word}", [small(dtype, 2, 3), small(dtype, 3)]) for dtype in TRUTHS]
CASES += [Case("relax.where", [small(dtype, 2, 3), small("float32", 3), small("float32", 2, 1)]) for dtype in TRUTHS]

for name in ("sum", "prod", "max", "min"):
    CASES += [Case(f"relax.{name}", [bools(2, 3, 4)], {"axis": axis}) for axis in (None, 1)]
    CASES += [Case(f"relax.{name}", [bools(2, 0)], {"axis": 1})]
for name in ("cumsum", "cumprod"):
    CASES += [Case(f"relax.{name}", [bools(2, 3)], {"axis": 1, "exclusive": exclusive}) for exclusive in (False, True)]
CASES += [Case("relax.collapse_sum_to", [bools(2, 3), Sizes((1, 3))])]
CASES += [Case("relax.collapse_sum_like", [bools(2, 3), bools(3)])]

CASES += [Case("relax.clip", [bools(2, 3), low, high]) for low, high in ((0, 1), (0, 0), (1, 1), (-5, 7), (1, 0))]
CASES += [
    Case("relax.matmul", [bools(2, 3), bools(3, 4)]),
    Case("relax.matmul", [bools(2, 3), bools(3, 4)], {"out_dtype": "int32"}),
    Case("relax.outer", [bools(3), bools(4)]),
    Case("relax.einsum", [[bools(2, 3), bools(3, 4)]], {"subscripts": "ij,jk->ik"}),
    Case("relax.einsum", [[bools(2, 3)]], {"subscripts": "ij->j"}),
    Case("relax.vision.col2im", [bools(1, 2, 2), Sizes((1, 3)), Sizes((1, 2))]),
]
CASES += [Case("relax.bucketize", [bools(4), np.array([False, True])], {"right": right}) for right in (False, True)]
for reduction in ("add", "mul", "min", "max"):
    asked = {"reduction": reduction}
    indices = np.array([[0, 3, 1], [0, 1, 1]])
    CASES += [Case("relax.scatter_elements", [bools(4, 3), indices, bools(2, 3)], {"axis": 0, **asked})]
    CASES += [Case("relax.scatter_nd", [bools(4, 3), np.array([[0], [3], [0]]), bools(3, 3)], asked)]
CASES += [Case("relax.index_put", [bools(4), [np.array([0, 3, 0])], bools(3)], {"accumulate": True})]
