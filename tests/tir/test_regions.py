"""What blocks read and write, inferred from their bodies."""

from __future__ import annotations

import re

import pytest

from relax.tir import Block
from support import nodes

FRAME = """
@T.prim_func
def f(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32"), IX: T.Buffer((64,), "int64"), n: T.int64):
    for i, j in T.grid(T.int64(16), T.int64(16)):
        with T.block("b"):
            v, w = T.axis.remap("SS", [i, j])
            {declared}
            {body}
"""


@pytest.mark.parametrize(
    "body, reads, writes",
    [
        ("A[v, w] = B[w, v]", "B[w, v]", "A[v, w]"),
        ("A[v, w] = A[v, w] + B[v, w + 1] + B[v, w]", "A[v, w], B[v, w:w + 2]", "A[v, w]"),
        ("A[v, w] = B[v, 3 * w + 2] - B[v, 3 * w]", "B[v, 3 * w:3 * w + 3]", "A[v, w]"),
        ("for k in range(T.int64(4)): A[v, w * 4 + k] = T.float32(0)", "", "A[v, w * 4:w * 4 + 4]"),
        ("for k in range(n): A[v, w + k] = T.float32(0)", "", "A[v, w:w + n]"),
        ("for k in range(T.int64(8)): A[v, w + k // 2] = B[v, k % 4]", "B[v, 0:4]", "A[v, w:w + 4]"),
        ("for k in range(T.int64(4)): A[v, 40 - k] = B[v, T.min(k, w)]", "B[v, 0:T.min(3, w) + 1]", "A[v, 37:41]"),
        ("A[IX[v], w] = B[v, v * w]", "B[v, v * w], IX[v]", "A[IX[v], w]"),
        ("A[v, w] = B[v, w] * B[w, v]", "B[0:64, 0:64]", "A[v, w]"),
        ("A[v, T.Ramp(w * 4, T.int64(1), 4)] = T.Broadcast(T.float32(0), 4)", "", "A[v, w * 4:w * 4 + 4]"),
        ("T.evaluate(T.call_extern('int32', 'g', A.data))", "A[0:64, 0:64]", "A[0:64, 0:64]"),
        ("if v < 3: A[v, w] = T.float32(1)", "", "A[v, w]"),
    ],
)
def test_regions(parse, body, reads, writes):
    text = re.sub(r"T\.int64\((\d+)\)", r"\1", parse(FRAME.format(declared="", body=body)).script())
    assert f"T.reads({reads})\n" in text
    assert f"T.writes({writes})\n" in text


def test_what_is_reduced_into_is_not_read(parse):
    body = "with T.init(): A[v, v] = T.float32(0)\n            A[v, v] = A[v, v] + B[v, w]"
    assert [r.buffer.name for r in block(parse(FRAME.format(declared="", body=body))).reads] == ["B"]


def test_what_a_block_allocates_is_its_own(parse):
    body = "t = T.alloc_buffer((4,)); t[0] = B[v, w]; A[v, w] = t[0]"
    found = block(parse(FRAME.format(declared="", body=body)))
    assert [r.buffer.name for r in found.reads] == ["B"]
    assert [r.buffer.name for r in found.writes] == ["A"]


def block(func):
    return next(found for found in nodes(func, Block) if found.name_hint == "b")
