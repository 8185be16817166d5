"""Kernels whose last nest replaces what the first one reads: all results are computed from the elements as they were.

Their variables are int32, as users write them.
"""

from __future__ import annotations

import numpy as np
import pytest
from applied import whole

from relax import tir
from relax.schedules import schedule
from relax.schedules.cpu import RULES
from relax.script import from_source

HEAD = "from relax.script import tir as T\n@T.prim_func\n"

PADDED = """
    P = T.alloc_buffer((1, 8, 18, 18), "float32")
    for n, c, y, x in T.grid(1, 8, 18, 18):
        with T.block("P"):
            vn, vc, vy, vx = T.axis.remap("SSSS", [n, c, y, x])
            P[vn, vc, vy, vx] = T.if_then_else(
                vy >= 1 and vy < 17 and vx >= 1 and vx < 17, X[vn, vc, vy - 1, vx - 1], T.float32(0))
"""

REPLACED = """
    for n, o, y, x in T.grid(1, 8, 16, 16):
        with T.block("D"):
            vn, vo, vy, vx = T.axis.remap("SSSS", [n, o, y, x])
            X[vn, vo, vy, vx] = C[vn, vo, vy, vx] + B[vo]
"""

CONVOLUTION = """
    C = T.alloc_buffer((1, 8, 16, 16), "float32")
    for n, o, y, x, c, r, s in T.grid(1, 8, 16, 16, 8, TAPS, TAPS):
        with T.block("C"):
            vn, vo, vy, vx, vc, vr, vs = T.axis.remap("SSSSRRR", [n, o, y, x, c, r, s])
            with T.init():
                C[vn, vo, vy, vx] = T.float32(0)
            C[vn, vo, vy, vx] = C[vn, vo, vy, vx] + DATA[vn, vc, vy + vr, vx + vs] * K[vo, vc, vr, vs]
"""

DEPTHWISE = """
    C = T.alloc_buffer((1, 8, 16, 16), "float32")
    for n, o, y, x, r, s in T.grid(1, 8, 16, 16, 3, 3):
        with T.block("C"):
            vn, vo, vy, vx, vr, vs = T.axis.remap("SSSSRR", [n, o, y, x, r, s])
            with T.init():
                C[vn, vo, vy, vx] = T.float32(0)
            C[vn, vo, vy, vx] = C[vn, vo, vy, vx] + P[vn, vo, vy + vr, vx + vs] * K[vo, 0, vr, vs]
"""

POOLING = DEPTHWISE.replace("T.float32(0)", 'T.float32("-inf")').replace(
    "C[vn, vo, vy, vx] + P[vn, vo, vy + vr, vx + vs] * K[vo, 0, vr, vs]",
    "T.max(C[vn, vo, vy, vx], P[vn, vo, vy + vr, vx + vs])",
)

KERNELS = {
    "1 x 1": (CONVOLUTION.replace("TAPS", "1").replace("DATA", "X"), (8, 8, 1, 1)),
    "3 x 3": (PADDED + CONVOLUTION.replace("TAPS", "3").replace("DATA", "P"), (8, 8, 3, 3)),
    "depthwise": (PADDED + DEPTHWISE, (8, 1, 3, 3)),
    "pooling": (PADDED + POOLING, (1,)),
}


@pytest.mark.parametrize("name", KERNELS)
def test_data_of_windows(target, name):
    body, weights = KERNELS[name]
    shapes = (1, 8, 16, 16), weights, (8,)
    params = ", ".join(f'{p}: T.Buffer({s}, "float32")' for p, s in zip("XKB", shapes, strict=True))
    func = from_source(f'{HEAD}def main({params}):\n    T.func_attr({{"tir.noalias": True}}){body}{REPLACED}')
    arranged = schedule(func, target, RULES)
    assert arranged is not func
    expected, found = ([whole(*shape, seed=i) for i, shape in enumerate(shapes)] for _ in range(2))
    tir.interpret(func, *expected)
    tir.interpret(arranged, *found)
    np.testing.assert_array_equal(found[0], expected[0])


ATTENTION = """
    S, W = T.alloc_buffer((70, 70), "float32"), T.alloc_buffer((70, 70), "float32")
    M, L = T.alloc_buffer((70,), "float32"), T.alloc_buffer((70,), "float32")
    O = T.alloc_buffer((70, 32), "float32")
    for i, j, k in T.grid(70, 70, 32):
        with T.block("S"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                S[vi, vj] = T.float32(0)
            S[vi, vj] = S[vi, vj] + Q[vi, vk] * K[vj, vk]
    for i, j in T.grid(70, 70):
        with T.block("M"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                M[vi] = T.float32("-inf")
            M[vi] = T.max(M[vi], S[vi, vj])
    for i, j in T.grid(70, 70):
        with T.block("W"):
            vi, vj = T.axis.remap("SS", [i, j])
            W[vi, vj] = T.exp(S[vi, vj] - M[vi])
    for i, j in T.grid(70, 70):
        with T.block("L"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                L[vi] = T.float32(0)
            L[vi] = L[vi] + W[vi, vj]
    for i, k, j in T.grid(70, 32, 70):
        with T.block("O"):
            vi, vk, vj = T.axis.remap("SSR", [i, k, j])
            with T.init():
                O[vi, vk] = T.float32(0)
            O[vi, vk] = O[vi, vk] + W[vi, vj] * V[vj, vk]
    for i, k in T.grid(70, 32):
        with T.block("R"):
            vi, vk = T.axis.remap("SS", [i, k])
            REPLACED[vi, vk] = O[vi, vk] / L[vi]
"""


@pytest.mark.parametrize("replaced", ["Q", "K", "V"])
def test_operands_of_attention(target, replaced):
    params = ", ".join(f'{name}: T.Buffer((70, 32), "float32")' for name in "QKV")
    body = ATTENTION.replace("REPLACED", replaced)
    arranged = schedule(
        from_source(f'{HEAD}def main({params}):\n    T.func_attr({{"tir.noalias": True}}){body}'), target, RULES
    )
    q, k, v = (np.random.default_rng(i).uniform(-1, 1, (70, 32)).astype("float32") for i in range(3))
    scores = np.exp(q @ k.T)
    expected = scores @ v / scores.sum(axis=1, keepdims=True)
    tir.interpret(arranged, q, k, v)
    np.testing.assert_allclose({"Q": q, "K": k, "V": v}[replaced], expected, 1e-4, 1e-5)
