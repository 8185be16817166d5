"""SinkAllocations: a buffer that each iteration fills before it reads it is allocated in the loop."""

from __future__ import annotations

import numpy as np
import pytest

from relax import tir
from relax.ir import IRModule, assert_structural_equal
from relax.tir.transform import SinkAllocations
from support import interpreted, same

HEAD = "@T.prim_func\ndef main(A: T.Buffer((16, 8), 'float32'), B: T.Buffer((16, 8), 'float32')):\n"
TWO_STAGES = (
    HEAD
    + """
    t = T.alloc_buffer((16, 8))
    for i in range(16):
        for j in range(8):
            with T.block("t"):
                vi, vj = T.axis.remap("SS", [i, j])
                t[vi, vj] = A[vi, vj] * T.float32(2)
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = t[vi, 7 - vj]
"""
)


def arrays():
    return [np.arange(128, dtype="float32").reshape(16, 8), np.zeros((16, 8), "float32")]


def run(func):
    once = SinkAllocations()(IRModule({"main": func}))
    assert SinkAllocations()(once) is once
    after = once["main"]
    tir.verify_well_formed(after)
    if after is not func:
        expected = interpreted(func, *arrays())
        for other in (after, tir.lower(func)):
            same(interpreted(other, *arrays()), expected)
    return after


def test_a_buffer_for_each_iteration(parse):
    after = run(parse(TWO_STAGES))
    assert_structural_equal(
        after,
        parse(
            HEAD
            + """
    with T.block("root"):
        T.reads()
        T.writes()
        for i in range(16):
            t = T.allocate((16, 8))
            for j in range(8):
                with T.block("t"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    t[vi, vj] = A[vi, vj] * T.float32(2)
            for j in range(8):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = t[vi, 7 - vj]
"""
        ),
    )


def test_lowering_keeps_a_row_of_it(parse):
    lowered = tir.lower(parse(TWO_STAGES)).script()
    assert "t = T.allocate((1, 8))" in lowered


def test_a_sum_is_finished_where_it_is_read(parse):
    after = run(
        parse(
            HEAD
            + """
    s = T.alloc_buffer((16,))
    for i in range(16):
        for k in range(8):
            with T.block("s"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    s[vi] = T.float32(0)
                s[vi] = s[vi] + A[vi, vk]
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = s[vi]
"""
        )
    )
    assert "for i in range(16):\n        s = T.allocate((16,))" in after.script()


@pytest.mark.parametrize(
    "body",
    [
        # an iteration reads what the one before it wrote
        "B[vi, vj] = t[T.max(vi - 1, 0), vj]",
        # and what none wrote
        "B[vi, vj] = T.if_then_else(vi < 15, t[vi + 1, vj], T.float32(0))",
    ],
)
def test_what_another_iteration_wrote_must_last(parse, body):
    func = parse(TWO_STAGES.replace("B[vi, vj] = t[vi, 7 - vj]", body))
    assert run(func) is func


def test_loops_of_their_own_share_the_buffer(parse):
    func = parse(
        HEAD
        + """
    t = T.alloc_buffer((16, 8))
    for i, j in T.grid(16, 8):
        with T.block("t"):
            vi, vj = T.axis.remap("SS", [i, j])
            t[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(16, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = t[vi, vj]
"""
    )
    assert run(func) is func


def test_a_condition_on_the_writer_is_none_on_the_reader(parse):
    func = parse(
        TWO_STAGES.replace(
            "                t[vi, vj] = A", "                T.where(j < 4)\n                t[vi, vj] = A"
        )
    )
    assert run(func) is func


FILLED = """
    t = T.alloc_buffer((16, 8))
    for i, j in T.grid(16, 8):
        with T.block("t"):
            vi, vj = T.axis.remap("SS", [i, j])
            t[vi, vj] = A[vi, vj] * T.float32(2)
"""


def test_a_view_outside_of_blocks_uses_the_buffer(parse):
    func = parse(
        HEAD
        + FILLED
        + """
    view = T.decl_buffer((128,), data=t.data)
    for i, j in T.grid(16, 8):
        B[i, j] = view[i * 8 + 7 - j]
"""
    )
    assert run(func) is func


@pytest.mark.parametrize("pointer", ["t.data", "T.address_of(t[0, 0])"])
def test_a_pointer_handed_on_outside_of_blocks_uses_the_buffer(parse, pointer):
    func = parse(HEAD + FILLED + f'    T.evaluate(T.call_extern("int32", "reverse", {pointer}, B.data))')
    assert SinkAllocations()(IRModule({"main": func}))["main"] is func


def test_a_read_that_a_block_inside_hides_is_a_use(parse):
    """The block around it does not say that it reads the buffer either."""
    func = parse(
        HEAD
        + """
    t = T.alloc_buffer((16, 8))
    for i, j in T.grid(16, 8):
        with T.block("t"):
            vi, vj = T.axis.remap("SS", [i, j])
            t[vi, vj] = A[vi, vj] * T.float32(2)
    for i in range(16):
        with T.block("rows"):
            vi = T.axis.spatial(16, i)
            for j in range(8):
                with T.block("B"):
                    wi = T.axis.spatial(16, vi)
                    wj = T.axis.spatial(8, j)
                    T.reads()
                    T.writes(B[wi, wj])
                    B[wi, wj] = t[wi, 7 - wj]
"""
    )
    assert run(func) is func
    data, result = arrays()
    tir.interpret(tir.lower(func), data, result)
    np.testing.assert_array_equal(result, data[:, ::-1] * 2)
