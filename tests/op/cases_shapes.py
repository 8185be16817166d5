"""Cases of the operators that rearrange elements, choose them, and make tensors; and of matmul."""

from __future__ import annotations

import numpy as np
from op_harness import FLOATS, INTS, NUMBERS, Case, Random, Sizes

from relax import tir

rng = Random(3)
EVERY = (*NUMBERS, "bool", "float8_e4m3fn", "int4", "float4_e2m1fn")


def x(*shape: int, dtype: str = "float32") -> np.ndarray:
    return rng.array(shape, dtype)


CASES: list[Case] = []

# ------------------------------------------------------------------------------------------- permute_dims
CASES += [Case("relax.permute_dims", [x(2, 3, dtype=dtype)]) for dtype in EVERY]
CASES += [Case("relax.permute_dims", [x(2, 3, 4)], {"axes": axes}) for axes in ([0, 2, 1], [2, 0, 1], [-1, 1, 0], None)]
CASES += [Case("relax.permute_dims", [x(*shape)]) for shape in ((), (5,), (0, 3), (1, 0, 2))]

# ------------------------------------------------------------------------------------------------ reshape
RESHAPES = [
    ((2, 3), (3, 2)),
    ((2, 3), (6,)),
    ((6,), (2, 3)),
    ((2, 3, 4), (2, 12)),
    ((2, 3, 4), (6, 4)),
    ((2, 3, 4), (4, 3, 2)),
    ((2, 3, 4), (2, 2, 3, 2)),
    ((), (1, 1)),
    ((1, 1), ()),
    ((0, 3), (3, 0)),
    ((2, 0, 5), (0,)),
    ((4,), (4,)),
    ((1, 6), (2, 3, 1)),
]
CASES += [Case("relax.reshape", [x(*a), Sizes(b)]) for a, b in RESHAPES]
CASES += [Case("relax.reshape", [x(2, 3, dtype=dtype), Sizes((3, 2))]) for dtype in EVERY]
CASES += [Case("relax.flatten", [x(*shape)]) for shape in ((2, 3), (), (4,), (0, 3), (1, 1, 2))]

# ------------------------------------------------------------------------------------ expand_dims, squeeze
CASES += [
    Case("relax.expand_dims", [x(*shape)], {"axis": axis})
    for shape, axis in (((2, 3), 0), ((2, 3), 2), ((2, 3), -1), ((2, 3), [0, 3]), ((2, 3), [-1, 1]), ((), 0), ((0,), 1))
]
CASES += [
    Case("relax.squeeze", [x(*shape)], {"axis": axis})
    for shape, axis in (
        ((1, 3), 0),
        ((2, 1, 3, 1), None),
        ((2, 1, 3, 1), -1),
        ((2, 1, 3, 1), [1, 3]),
        ((), None),
        ((1, 1), None),
        ((0, 1), 1),
    )
]

# ------------------------------------------------------------------------------------------- broadcast_to
CASES += [
    Case("relax.broadcast_to", [x(*a), Sizes(b)])
    for a, b in (
        ((3,), (2, 3)),
        ((2, 1), (2, 4)),
        ((), (2, 3)),
        ((1,), (0,)),
        ((2, 3), (2, 3)),
        ((1, 0), (3, 0)),
        ((), ()),
    )
]

# --------------------------------------------------------------------------------------- concat and stack
CASES += [Case("relax.concat", [[x(2, 3, dtype=dtype), x(1, 3, dtype=dtype)]]) for dtype in EVERY]
CASES += [Case("relax.concat", [[x(2, 3), x(2, 1), x(2, 0), x(2, 2)]], {"axis": axis}) for axis in (1, -1)]
CASES += [
    Case("relax.concat", [[x(2, 3)]], {"axis": 1}),
    Case("relax.concat", [[x(0), x(0)]]),
    Case("relax.concat", [[x(2, 3, 4), x(2, 5, 4)]], {"axis": 1}),
    Case("relax.stack", [[x(2, 3), x(2, 3)]]),
    Case("relax.stack", [[x(2, 3), x(2, 3), x(2, 3)]], {"axis": -1}),
    Case("relax.stack", [[x(), x()]]),
    Case("relax.stack", [[x(0, 2)]], {"axis": 1}),
]

# -------------------------------------------------------------------------------------------------- split
CASES += [
    Case("relax.split", [x(*shape)], {"indices_or_sections": cut, "axis": axis})
    for shape, cut, axis in (
        ((6, 2), 3, 0),
        ((2, 6), 2, 1),
        ((2, 6), 2, -1),
        ((7,), 2, 0),
        ((7,), 3, 0),
        ((5,), 4, 0),
        ((2,), 5, 0),
        ((0,), 2, 0),
        ((6,), 1, 0),
        ((8, 2), [3, 5], 0),
        ((8,), [3], 0),
        ((8,), [], 0),
        ((8,), [-2], 0),
        ((8,), [3, 20], 0),
        ((8,), [5, 3], 0),
        ((2, 5), [0, 2, 5], 1),
    )
]

# ------------------------------------------------------------------------------------------ strided_slice
SLICES = [
    ((8,), [0], [1], [5], None),
    ((8,), [0], [1], [8], [2]),
    ((8,), [0], [-3], [20], None),
    ((8,), [0], [-20], [-2], [3]),
    ((8,), [0], [7], [1], [-2]),
    ((8,), [0], [20], [-20], [-1]),
    ((8,), [0], [-1], [-9], [-1]),
    ((8,), [0], [5], [2], None),
    ((8,), [0], [2**63 - 1], [-(2**63)], [-3]),
    ((8,), [0], [0], [2**63 - 1], [3]),
    ((0,), [0], [0], [5], None),
    ((0,), [0], [-1], [-5], [-1]),
    ((1,), [0], [0], [1], None),
    ((4, 6), [0, 1], [1, 2], [3, 6], [1, 2]),
    ((4, 6), [1], [1], [-1], None),
    ((4, 6), [-1, 0], [4, 0], [1, 4], [-1, 3]),
    ((2, 3), [], [], [], None),
]
CASES += [
    Case("relax.strided_slice", [x(*shape), axes, begin, end, strides]) for shape, axes, begin, end, strides in SLICES
]
CASES += [
    Case("relax.strided_slice", [x(8), [0], [begin], [end], [stride]], {"assume_inbound": True})
    for begin, end, stride in ((1, 5, 1), (0, 8, 3), (-4, -1, 1), (6, 1, -2))
]


def bounds(*values: int, dtype: str = "int64") -> np.ndarray:
    return np.array(values, dtype)


CASES += [
    Case("relax.dynamic_strided_slice", [x(4, 6), bounds(1, -9), bounds(9, 5), bounds(1, 2)]),
    Case("relax.dynamic_strided_slice", [x(4, 6), bounds(-1, 4), bounds(-9, 1), bounds(-1, -3)]),
    Case("relax.dynamic_strided_slice", [x(8), *(bounds(v, dtype="uint8") for v in (2, 200, 3))]),
    Case("relax.dynamic_strided_slice", [x(), *[np.zeros((0,), "int64")] * 3]),
]

# ------------------------------------------------------------------------------------- flip, repeat, tile
CASES += [Case("relax.flip", [x(2, 3)], {"axis": axis}) for axis in (0, 1, -1, [0, 1])]
CASES += [Case("relax.flip", [x(0, 3)], {"axis": 0})]
CASES += [
    Case("relax.repeat", [x(*shape), count], {"axis": axis})
    for shape, count, axis in (
        ((2, 3), 2, 0),
        ((2, 3), 3, -1),
        ((2, 3), 2, None),
        ((2, 3), 0, 1),
        ((0,), 2, 0),
        ((), 3, None),
    )
]
CASES += [
    Case("relax.tile", [x(*shape), Sizes(counts)])
    for shape, counts in (((2, 3), (2, 1)), ((2, 3), (2,)), ((3,), (2, 2)), ((2, 0), (2, 3)), ((2,), (0,)), ((), (3,)))
]

CASES += [
    Case("relax.meshgrid", [[x(size) for size in sizes]], {"indexing": indexing})
    for sizes, indexing in (((3,), "xy"), ((2, 3), "ij"), ((2, 3), "xy"), ((2, 1, 4), "xy"), ((2, 0), "ij"))
]
CASES += [Case("relax.meshgrid", [[x(2), x(dtype="int8")]])]

# ----------------------------------------------------------------------------------------- layout_transform
MAPS = [
    ((2, 8), lambda i, j: (j, i)),
    ((2, 8), lambda i, j: (i, j // 4, j % 4)),
    ((2, 6), lambda i, j: (j // 4, i, j % 4)),
    ((2, 3), lambda i, j: (i * 3 + j,)),
    ((7,), lambda i: (i // 6, i % 6 // 2, i % 2)),
    ((3,), lambda i: (0, i)),
    ((5,), lambda i: (i % 4 * 2 + i // 4,)),
    ((0, 3), lambda i, j: (i // 2, j, i % 2)),
    ((6,), lambda i: ((i + 1) // 4, (i + 1) % 4)),
    ((4, 3), lambda i, j: ((i * 3 + j) // 6, (i * 3 + j) % 6)),
]
CASES += [
    Case("relax.layout_transform", [x(*shape)], {"index_map": index_map, "pad_value": pad}, fixed=(3, 5))
    for (shape, index_map), pad in zip(MAPS, (None, 7, -1.5, None, 0, 2, 1, None, 3, None), strict=True)
]
BLOCKED = tir.bijective_layout("NCHW", "NCHW4c").to_index_map()
CASES += [Case("relax.layout_transform", [x(1, 6, 2, 2)], {"index_map": BLOCKED})]
CASES += [Case("relax.layout_transform", [x(3, dtype="bool")], {"index_map": lambda i: (i // 2, i % 2)})]

# --------------------------------------------------------------------------------------------- collapse_sum
COLLAPSES = [
    ((2, 3), (3,)),
    ((2, 3), (2, 1)),
    ((4, 2, 3), (1, 3)),
    ((2, 3), ()),
    ((2, 3), (2, 3)),
    ((0, 3), (1, 3)),
    ((2, 0), (0,)),
    ((), ()),
]
CASES += [Case("relax.collapse_sum_to", [x(*a), Sizes(b)]) for a, b in COLLAPSES]
CASES += [Case("relax.collapse_sum_like", [x(*a), x(*b)]) for a, b in COLLAPSES[:3]]
CASES += [Case("relax.collapse_sum_like", [x(2, 3, dtype=d), x(1, 3, dtype=d)]) for d in ("float16", "int8")]
CASES += [Case("relax.collapse_sum_to", [x(2, 3, dtype="int8"), Sizes((2, 1))])]

# -------------------------------------------------------------------------------------------- take, where
INDICES = np.array([[0, 2, -1], [1, 1, -3]])
for dtype in (*INTS, "uint8", "uint64"):
    values = INDICES.astype(dtype) if "u" not in dtype else np.array([2, 0], dtype)
    CASES.append(Case("relax.take", [x(3, 2), values], {"axis": 0}))
CASES += [Case("relax.take", [x(3, dtype=dtype), INDICES], {"axis": 0}) for dtype in EVERY]
CASES += [
    Case("relax.take", [x(2, 3), INDICES], {"axis": 1}),
    Case("relax.take", [x(2, 3, 2), np.array(1)], {"axis": -2}),
    Case("relax.take", [x(4), np.array([3, 0])]),
    Case("relax.take", [x(2, 3), np.array([5, -6])]),
    Case("relax.take", [x(2, 3), 1], {"axis": 1}),
    Case("relax.take", [x(2, 3), np.zeros((0,), "int32")], {"axis": 0}),
    Case("relax.take", [x(2, 0), np.array([1])], {"axis": 0}),
    *(Case("relax.take", [x(0, 0), np.array([1])], {"axis": 0, "mode": m}) for m in ("fast", "wrap", "clip")),
    Case("relax.take", [x(3), np.array([-9, -1, 2, 3, 9])], {"axis": 0, "mode": "clip"}),
    Case("relax.take", [x(3), np.array([-9, -1, 2, 3, 9])], {"axis": 0, "mode": "wrap"}),
    Case("relax.take", [x(2, 3), np.array([-9, -1, 2, 3, 9])], {"axis": 1, "mode": "nan"}),
]
CASES += [
    Case("relax.take", [x(3), np.array([0, bad], dtype)], {"axis": 0}, raises=(IndexError, ""))
    for bad, dtype in ((3, "int64"), (-4, "int32"), (200, "uint8"), (2**31 - 1, "int32"))
]
CASES += [
    Case("relax.take", [x(0, 2), np.array([0])], {"axis": 0, "mode": mode}, raises=(IndexError, ""))
    for mode in ("fast", "wrap", "clip")
]
CASES += [Case("relax.where", [x(2, 3, dtype="bool"), x(2, 3, dtype=dtype), x(2, 3, dtype=dtype)]) for dtype in EVERY]
CASES += [
    Case("relax.where", [x(*a, dtype="bool"), x(*b), x(*c)])
    for a, b, c in (
        ((2, 1), (3,), ()),
        ((), (2, 3), (3,)),
        ((4, 1, 1), (2, 1), (3,)),
        ((0,), (1,), ()),
        ((), (), ()),
        ((3,), (1,), (1,)),
    )
]
CASES += [Case("relax.where", [x(4, dtype="bool"), x(4, dtype="int64"), 7])]

# ----------------------------------------------------------------------------------------------- creation
for op in ("zeros", "ones"):
    CASES += [Case(f"relax.{op}", [Sizes((2, 3))], {"dtype": dtype}) for dtype in EVERY]
    CASES += [Case(f"relax.{op}", [Sizes(shape)], {"dtype": "float32"}) for shape in ((), (0, 2), (1,))]
    CASES += [Case(f"relax.{op}_like", [x(2, 3, dtype=dtype)]) for dtype in EVERY]
    CASES += [Case(f"relax.{op}_like", [x(0)], {"dtype": "int8"}), Case(f"relax.{op}_like", [x()])]
CASES += [Case("relax.full", [Sizes((2, 3)), np.array(3.5, "float32")], {"dtype": dtype}) for dtype in NUMBERS]
CASES += [
    Case("relax.full", [Sizes(()), np.array(True)]),
    Case("relax.full", [Sizes((0, 4)), np.array(7, "int64")]),
    Case("relax.full", [Sizes((3,)), 7], {"dtype": "float16"}),
    Case("relax.full_like", [x(2, 3), np.array(7, "int64")]),
    Case("relax.full_like", [x(2), np.array(-1.5, "float32")], {"dtype": "int8"}),
]
CASES += [Case("relax.arange", [0, 5, 1], {"dtype": dtype}) for dtype in NUMBERS]
CASES += [
    Case("relax.arange", bounds)
    for bounds in (
        [2, 9, 3],
        [9, 2, -3],
        [5, 5, 1],
        [5, 2, 1],
        [-3, 4, 2],
        [0.0, 1.0, 0.25],
        [1.0, 0.0, -0.3],
        [0, 2.5, 1],
    )
]

# ------------------------------------------------------------------------------------------------- matmul
MATMULS = [
    ((2, 3), (3, 4)),
    ((3,), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((5, 2, 3), (3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (6, 3, 4)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((1, 2, 3), (5, 3, 1)),
    ((0, 3), (3, 4)),
    ((2, 0), (0, 4)),
    ((2, 3), (3, 0)),
    ((0,), (0,)),
    ((1, 1), (1, 1)),
    ((0, 2, 3), (3, 4)),
]
CASES += [Case("relax.matmul", [x(*a), x(*b)]) for a, b in MATMULS]
CASES += [Case("relax.matmul", [x(2, 3, dtype=d), x(3, 4, dtype=d)]) for d in (*NUMBERS, "float8_e5m2")]
CASES += [
    Case("relax.matmul", [x(2, 3, dtype=source), x(3, 4, dtype=source)], {"out_dtype": target})
    for source, target in (("int8", "int32"), ("uint8", "int32"), ("float16", "float32"), ("float32", "float64"))
]
assert FLOATS
