"""Cases of weights in block formats, of activations in blocks of bytes, and of their products."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_harness import Case, Random, special

from relax.topi.packed_blocks import PackedBlocks
from weights_in_blocks import NAMES, format_named, rows

rng = Random(40)


def product(name: str, shape: tuple[int, ...], columns: int, blocks: int, lanes: int = 0) -> Case:
    """Product of activations (shape, depth) and `columns` rows of weights, packed for `lanes` lanes."""
    held = format_named(name)
    weights = rows(name, (columns,), blocks)
    attrs: dict[str, Any] = {"format": name}
    if lanes:
        attrs |= {"lanes": lanes, "signed": lanes == 4, "columns": columns}
        weights = PackedBlocks(name, lanes, lanes == 4).pack(weights)
    x = rng.array((*shape, blocks * held.elements), "int8")
    scales = rng.array((*shape, blocks), "float32", 0.5, 1.5)
    fixed = (weights.shape[0], weights.shape[1], blocks, blocks * held.elements)
    return Case("relax.nn.quantized_matmul", [x, scales, weights], attrs, fixed=fixed, tolerance=1e-4)


def of_experts(name: str, experts: list[int], columns: int, blocks: int, lanes: int = 0, **attrs: Any) -> Case:
    """Products of rows and the weights of their experts, of which there are three."""
    held = format_named(name)
    weights = rows(name, (3, columns), blocks)
    if lanes:
        packed = PackedBlocks(name, lanes, lanes == 4)
        weights = np.stack([packed.pack(matrix) for matrix in weights])
        attrs |= {"lanes": lanes, "signed": lanes == 4, "columns": columns}
    x = rng.array((len(experts), blocks * held.elements), "int8")
    scales = rng.array((len(experts), blocks), "float32", 0.5, 1.5)
    raises = None if set(experts) <= {0, 1, 2} else (IndexError, "out")
    return Case(
        "relax.nn.quantized_expert_matmul", [x, scales, weights, np.array(experts, "int32")], {"format": name, **attrs},
        fixed=(*weights.shape, blocks, blocks * held.elements), tolerance=1e-4, raises=raises,
    )  # fmt: skip


CASES: list[Case] = []
for format_name in NAMES:
    fixed = (2 * format_named(format_name).bytes,)
    CASES += [
        Case("relax.dequantize_blocks", [rows(format_name, (3,), 2)], {"format": format_name}, fixed=fixed),
        product(format_name, (2,), 5, 2),
        product(format_name, (1,), 17, 1, lanes=16),
        of_experts(format_name, [2, 0, 0], 17, 1, lanes=16),
    ]
CASES += [
    Case("relax.dequantize_blocks", [rows("q4_0", (), 3)], {"format": "q4_0"}, fixed=(54,)),
    Case("relax.dequantize_blocks", [rows("q6_k", (2, 3), 1)], {"format": "q6_k", "out_dtype": "bfloat16"},
         fixed=(210,)),
    Case("relax.dequantize_blocks", [rows("q8_0", (0,), 1)], {"format": "q8_0", "out_dtype": "float16"}, fixed=(34,)),
    Case("relax.dequantize_blocks", [rng.array((4, 36), "uint8")], {"format": "q4_0"}, fixed=(36,)),
    product("q4_0", (), 6, 2),
    product("q4_1", (2, 3), 6, 2, lanes=4),
    product("q5_k", (2, 3), 6, 1, lanes=8),
    product("q8_0", (0,), 6, 2),
    of_experts("q4_0", [1, 1, 0, 2], 5, 2),
    of_experts("q6_k", [2, 1], 9, 1, lanes=4),
    of_experts("q4_1", [], 5, 2, lanes=8),
    of_experts("q4_0", [0, 3], 5, 2),
    of_experts("q4_0", [0, -1], 5, 2),
    of_experts("q8_0", [3], 20, 1, lanes=16),
    of_experts("q8_0", [2, 2, -1], 20, 1, lanes=16),
]  # fmt: skip
for format_name, lanes in (("q4_0", 0), ("q6_k", 8), ("q5_1", 16), ("q8_0", 4), ("int4_g64_zero", 16), ("mxfp4", 8)):
    table = rows(format_name, (21,), 1)
    attrs = {"format": format_name}
    if lanes:
        attrs |= {"lanes": lanes, "signed": lanes == 4, "columns": 21}
        table = PackedBlocks(format_name, lanes, lanes == 4).pack(table)
    for indices in (np.array([0, 20, -1, -21, 7], "int64"), np.array([[3, 4]], "int32"), np.zeros((0, 2), "uint8")):
        CASES.append(Case("relax.nn.quantized_take", [table, indices], attrs, fixed=table.shape))
    CASES.append(
        Case("relax.nn.quantized_take", [table, np.array([0, 21], "int64")], attrs, fixed=table.shape,
             raises=(IndexError, "out"))
    )  # fmt: skip
CASES += [
    Case("relax.nn.dynamic_quantize", [rng.array(shape, dtype, -4, 4)], {"block_size": size})
    for dtype in ("float16", "bfloat16", "float32")
    for shape, size in (((2, 64), 32), ((3, 70), 32), ((2, 3, 5), 2), ((0, 8), 4), ((2, 0), 4), ((7,), 8))
]
CASES += [
    Case("relax.nn.dynamic_quantize", [special("float32")], {"block_size": size}) for size in (1, 2, 3, 64)
]  # fmt: skip
