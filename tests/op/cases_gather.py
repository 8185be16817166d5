"""Cases of the operators that read and write at indices held by tensors."""

from __future__ import annotations

import numpy as np
from op_harness import NUMBERS, Case, Random

rng = Random(5)


def x(*shape: int, dtype: str = "float32") -> np.ndarray:
    return rng.array(shape, dtype)


def i(values: object, dtype: str = "int64") -> np.ndarray:
    return np.array(values, dtype)


OUT = (IndexError, "out")
LENGTHS = (AssertionError, "seq_lengths must be from 0 to the size of dimension 1 of data")
CASES: list[Case] = []

# ----------------------------------------------------------------------------------------- gather_elements
CASES += [
    Case("relax.gather_elements", [x(3, 4), i([[0, -1, 2, 1], [-3, 1, 1, 0]])]),
    Case("relax.gather_elements", [x(3, 4), i([[3, -1], [-4, 1]], "int32")], {"axis": 1}),
    Case("relax.gather_elements", [x(3, 4, dtype="int8"), i([[3, 0], [1, 1]], "uint64")], {"axis": -1}),
    Case("relax.gather_elements", [x(5), i([4, 0, 2, 2, 1, 3])]),
    Case("relax.gather_elements", [x(2, 0), np.zeros((0, 0), "int64")]),
    Case("relax.gather_elements", [x(1, 1), i([[0], [-1]])]),
    Case("relax.gather_elements", [x(3), i([0, 3])], raises=OUT),
    Case("relax.gather_elements", [x(3), i([-4, 0])], raises=OUT),
    Case("relax.gather_elements", [x(3), i([2**64 - 1], "uint64")], raises=OUT),
    Case("relax.gather_elements", [x(0), i([0])], raises=OUT),
]

# ----------------------------------------------------------------------------------------------- gather_nd
CASES += [
    Case("relax.gather_nd", [x(2, 2), i([[0, 0], [1, -1]])], fixed=(2,)),
    Case("relax.gather_nd", [x(3, 4), i([[2], [-3]])]),
    Case("relax.gather_nd", [x(2, 3, 4), i([[[0, 1]], [[1, -1]]], "int32")], fixed=(2,)),
    Case("relax.gather_nd", [x(2, 3, 4), i([[1], [0]])], {"batch_dims": 1}),
    Case("relax.gather_nd", [x(2, 3, 4), i([[[1, 2]], [[0, -1]]])], {"batch_dims": 1}, fixed=(2,)),
    Case("relax.gather_nd", [x(3, dtype="bool"), i([2])]),
    Case("relax.gather_nd", [x(3, 2), np.zeros((2, 0), "int64")], fixed=(0,)),
    Case("relax.gather_nd", [x(3, 2), np.zeros((0, 1), "int64")]),
    Case("relax.gather_nd", [x(3, 2), i([[3]])], raises=OUT),
    Case("relax.gather_nd", [x(3, 2), i([[0, -3]])], raises=OUT, fixed=(2,)),
]

# ------------------------------------------------------------------------------------------- index_tensor
CASES += [
    Case("relax.index_tensor", [x(3, 4), [i([0, -1, 2])]]),
    Case("relax.index_tensor", [x(3, 4, 2), [i([[0], [2]], "int32"), i([1, -1, 3])]]),
    Case("relax.index_tensor", [x(3, 4), [i(1), i([[0, 1]])]]),
    Case("relax.index_tensor", [x(3, 4), [np.zeros((0,), "int64"), i([1])]]),
    Case("relax.index_tensor", [x(3), [i([3])]], raises=OUT),
]

# ---------------------------------------------------------------------------------------- scatter_elements
REDUCTIONS = ("update", "add", "mul", "mean", "min", "max")
TWICE = i([[0, 1, 0], [-1, 1, 0]])
CASES += [
    Case("relax.scatter_elements", [x(3, 4), TWICE, x(2, 3)], {"axis": axis, "reduction": reduction})
    for axis, reduction in zip((0, 1, -1, 0, 1, 0), REDUCTIONS, strict=True)
]
CASES += [
    Case(
        "relax.scatter_elements", [x(3, 4, dtype=dtype), TWICE, x(2, 3, dtype=dtype)], {"reduction": REDUCTIONS[k % 6]}
    )
    for k, dtype in enumerate((*NUMBERS, "int8", "float16", "float8_e4m3fn"))
]
CASES += [
    Case("relax.scatter_elements", [x(3, dtype="bool"), i([1]), np.array([True])]),
    Case("relax.scatter_elements", [x(3), i([0, -1], "int32"), x(2)]),
    Case("relax.scatter_elements", [x(3), np.zeros((0,), "int64"), x(0)]),
    Case("relax.scatter_elements", [x(0, 2), np.zeros((0, 2), "int64"), x(0, 2)]),
    Case(
        "relax.scatter_elements",
        [i([1, 2], "float32"), i([0, 0, 1]), np.array([np.nan, 0, np.inf], "float32")],
        {"reduction": "max"},
    ),
    Case("relax.scatter_elements", [x(3), i([0, -1, 0]), x(3)], {"reduction": "add"}),
    Case("relax.scatter_elements", [x(3), i([3]), x(1)], raises=OUT),
    Case("relax.scatter_elements", [x(3), i([-4]), x(1)], raises=OUT),
]

# ---------------------------------------------------------------------------------------------- scatter_nd
CASES += [
    Case("relax.scatter_nd", [x(4, 3), i([[1], [-1], [1]]), x(3, 3)], {"reduction": reduction})
    for reduction in REDUCTIONS
]
CASES += [
    Case("relax.scatter_nd", [x(4, 3), i([[1, -1], [0, 0]], "int32"), x(2)], fixed=(2,)),
    Case("relax.scatter_nd", [x(4), i([[1], [-1], [1]]), x(3)], {"reduction": "add"}),
    Case("relax.scatter_nd", [x(4, 3), np.zeros((0, 1), "int64"), x(0, 3)]),
    Case("relax.scatter_nd", [x(2), np.zeros((3, 0), "int64"), x(3, 2)], {"reduction": "add"}, fixed=(0,)),
    Case("relax.scatter_nd", [x(4), i([[4]]), x(1)], raises=OUT),
    Case("relax.scatter_nd", [x(4), i([[-5]]), x(1)], raises=OUT),
]

# ----------------------------------------------------------------------------------------------- index_put
CASES += [
    Case("relax.index_put", [x(3, 4), [i([0, -1, 0])], x(3, 4)], {"accumulate": accumulate})
    for accumulate in (False, True)
]
CASES += [
    Case("relax.index_put", [x(3, 4, 2), [i([[0], [2]]), i([1, -1, 3], "int32")], x(2)]),
    Case("relax.index_put", [x(3, dtype="float16"), [i([1, 1, 1])], x(dtype="float16")], {"accumulate": True}),
    Case("relax.index_put", [x(3, 4), [np.zeros((0,), "int64")], x(1, 4)]),
    Case("relax.index_put", [x(3), [i([-4])], x(1)], raises=OUT),
]

# ------------------------------------------------------------------------------------------- slice_scatter
CASES += [
    Case("relax.slice_scatter", [x(8, 2), x(3, 2), 2, 5, 1]),
    Case("relax.slice_scatter", [x(2, 8), x(2, 4), 1, 8, 2], {"axis": 1}),
    Case("relax.slice_scatter", [x(2, 8), x(2, 3), -6, -1, 2], {"axis": -1}, fixed=(8, 3)),
    Case("relax.slice_scatter", [x(8), x(6), -20, 6, 1]),
    Case("relax.slice_scatter", [x(8, dtype="bool"), x(0, dtype="bool"), 5, 2, 1]),
    Case("relax.slice_scatter", [x(0), x(0), 0, 9, 1]),
]

# ---------------------------------------------------------------------------------- one_hot, sequences
CASES += [
    Case("relax.one_hot", [i([0, 3, 1, -1, 9]), 1, 0, 4]),
    Case("relax.one_hot", [i([[0, 3], [1, 1]], "uint8"), 2.5, -1.0, 4], {"axis": 0}),
    Case("relax.one_hot", [i([[0, 3], [1, 1]], "int32"), 1, 0, 3], {"axis": 1}),
    Case("relax.one_hot", [i(2), 1, 0, 3]),
    Case("relax.one_hot", [np.zeros((0,), "int64"), 1, 0, 3]),
    Case("relax.one_hot", [i([0, 2**64 - 1], "uint64"), 1, 0, 0]),
    Case("relax.reverse_sequence", [x(2, 4, 3), i([2, 4])]),
    Case("relax.reverse_sequence", [x(4, 3), i([0, 1, 3], "int32")], {"seq_axis": 0, "batch_axis": 1}),
    Case("relax.reverse_sequence", [x(0, 3), np.zeros((0,), "int64")]),
    Case("relax.reverse_sequence", [x(2, 3, 0), i([3, 0], "uint64")]),
    Case("relax.reverse_sequence", [x(1, 3), i([4])], raises=LENGTHS),
    Case("relax.reverse_sequence", [x(1, 3), i([-1], "int8")], raises=LENGTHS),
    Case("relax.reverse_sequence", [x(2, 3, 0), i([3, 4])], raises=LENGTHS),
    Case("relax.reverse_sequence", [x(1, 3), i([2**64 - 1], "uint64")], raises=LENGTHS),
    Case(
        "relax.reverse_sequence",
        [x(4, 2), i([4, 5])],
        {"seq_axis": -2, "batch_axis": -1},
        raises=(AssertionError, "dimension 0"),
    ),
]
