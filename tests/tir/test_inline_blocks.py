"""inline_blocks: nests go into those that read them, where no work is repeated and no error is lost."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import relax
from relax import te, tir, topi
from relax.ir import assert_structural_equal
from relax.tir.inline_blocks import inline_blocks
from support import calls, nodes

HEADER = "from relax.script import ir as I, tir as T\n\n@I.ir_module\nclass Module:\n    @T.prim_func\n"


def parse(text):
    """A function from its text, which is indented as in a module."""
    return relax.script.from_source(HEADER + text, allow_extern=["f"])["main"]


def blocks(func):
    return [block.name_hint for block in nodes(func.body, tir.Block) if block.name_hint != "root"]


def same(before, after, *shapes, dtype="float32", out=-1):
    """Both functions write the same, bit for bit."""
    values = [np.random.default_rng(i).normal(size=shape).astype(dtype) for i, shape in enumerate(shapes)]
    copies = [value.copy() for value in values]
    tir.interpret(before, *values)
    tir.interpret(after, *copies)
    assert values[out].tobytes() == copies[out].tobytes()


CHAIN = """
    def main(a: T.handle, c: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 4), "float32")
        C = T.match_buffer(c, (4, n), "float32")
        B = T.alloc_buffer((n, 4), "float32")
        for i, j in T.grid(n, T.int64(4)):
            with T.block("B"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                B[v_i, v_j] = T.exp(A[v_i, v_j])
        for i, j in T.grid(T.int64(4), n):
            with T.block("C"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                C[v_i, v_j] = B[v_j, v_i] + T.float32(1)
"""

INLINED = """
    def main(a: T.handle, c: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 4), "float32")
        C = T.match_buffer(c, (4, n), "float32")
        for i, j in T.grid(T.int64(4), n):
            with T.block("C"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                C[v_i, v_j] = T.exp(A[v_j, v_i]) + T.float32(1)
"""


def test_a_chain():
    before = parse(CHAIN)
    after = inline_blocks(before)
    assert_structural_equal(after, parse(INLINED))
    assert inline_blocks(after) is after
    for n in (0, 1, 3):
        same(before, after, (n, 4), (4, n))


def test_what_is_read_twice_is_computed_once():
    before = parse(CHAIN.replace("B[v_j, v_i] + T.float32(1)", "B[v_j, v_i] * B[v_j, v_i]"))
    after = inline_blocks(before)
    assert blocks(after) == ["C"]
    assert after.script().count("T.exp(") == 1
    same(before, after, (3, 4), (4, 3))


STAYS = {
    "read at two places": ("B[v_j, v_i] + T.float32(1)", "B[v_j, v_i] + B[v_j, 0]"),
    "read many times": ("B[v_j, v_i] + T.float32(1)", "B[v_j, 0] + T.float32(1)"),
    "read where data tells": ("B[v_j, v_i] + T.float32(1)", "B[v_j, T.Cast('int64', A[v_j, v_i])]"),
    "a predicate": ("                B[v_i, v_j] =", "                T.where(j < 3)\n                B[v_i, v_j] ="),
    "half of it": ("for i, j in T.grid(n, T.int64(4))", "for i, j in T.grid(n, T.int64(2))"),
    "a view": (
        "                C[v_i, v_j] = B[v_j, v_i]",
        "                D = T.match_buffer(B[v_j, v_i], ())\n                C[v_i, v_j] = D[()]",
    ),
    "effects": ("T.exp(A[v_i, v_j])", 'T.call_extern("float32", "f", A[v_i, v_j])'),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_stays(name):
    old, new = STAYS[name]
    assert old in CHAIN
    func = parse(CHAIN.replace(old, new))
    assert inline_blocks(func) is func


def test_what_is_overwritten_in_between_stays():
    text = CHAIN.replace(
        "        for i, j in T.grid(T.int64(4), n):",
        """        for i in range(n):
            with T.block("A"):
                v_i = T.axis.spatial(n, i)
                A[v_i, 0] = T.float32(0)
        for i, j in T.grid(T.int64(4), n):""",
    )
    func = parse(text)
    assert inline_blocks(func) is func


X, Y, W = (te.placeholder(shape, "float32", name) for name, shape in [("X", (3, 4)), ("Y", (3, 4)), ("W", (4, 5))])

FORMULAS = {
    # name: (inputs, output, the blocks that stay)
    "copies go into all readers": (
        [X],
        (lambda t: topi.add(t, topi.multiply(t, topi.add(t, t))))(topi.transpose(X)),
        ["T_add_1"],
    ),
    "a sum of converted elements": ([X], topi.sum(topi.exp(X), axis=1), ["sum"]),
    "a sum of products": ([X, Y], topi.sum(topi.multiply(X, Y), axis=1), ["T_multiply", "sum"]),
    "an operand of a product is not repeated": ([X, W], topi.matmul(topi.exp(X), W), ["T_exp", "matmul"]),
    "what follows a reduction": ([X, W], topi.exp(topi.negative(topi.matmul(X, W))), ["matmul", "T_exp"]),
    "padding": ([X], topi.nn.pad(topi.exp(X), (1, 1), (1, 1)), ["PadInput"]),
    "both parts of a concatenation": ([X, Y], topi.concatenate([topi.exp(X), topi.negative(Y)], axis=0), ["T_concat"]),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name):
    inputs, output, expected = FORMULAS[name]
    before = te.create_prim_func([*inputs, output])
    after = inline_blocks(before)
    assert blocks(after) == expected
    assert inline_blocks(after) is after
    shapes = [[int(size.value) for size in tensor.shape] for tensor in (*inputs, output)]
    same(before, after, *shapes)


def test_chains_of_kernels_that_read_the_one_before_several_times_stay_small():
    """Each step chooses by its input among elements that its input says: nothing is repeated, and values stay."""

    def steps(count):
        lines = ["A = T.match_buffer(a, (n,), 'int64')", "C = T.match_buffer(c, (n,), 'int64')"]
        lines += [f"B{i} = T.alloc_buffer((n,), 'int64')" for i in range(count - 1)]
        names = ["A", *(f"B{i}" for i in range(count - 1)), "C"]
        for source, result in pairwise(names):
            read = f"{source}[v]"
            lines += [
                "for i in range(n):",
                f"    with T.block('{result}'):",
                "        v = T.axis.spatial(n, i)",
                f"        {result}[v] = T.Select({read} > 3, W[{read} % 5], {read} + W[({read} + 1) % 5])",
            ]
        head = ["    def main(a: T.handle, w: T.handle, c: T.handle):", "        n = T.int64()"]
        body = ["W = T.match_buffer(w, (5,), 'int64')", *lines]
        return parse("\n".join([*head, *(f"        {line}" for line in body)]))

    sizes = []
    for count in (2, 4, 8):
        before = steps(count)
        after = inline_blocks(before)
        assert blocks(after) == ["C"]
        sizes.append(len(after.script()))
        values = [np.arange(9), np.array([3, 1, 4, 1, 5]), np.zeros(9, np.int64)]
        copies = [value.copy() for value in values]
        tir.interpret(before, *values)
        tir.interpret(after, *copies)
        assert values[-1].tolist() == copies[-1].tolist()
    assert sizes[2] - sizes[1] < 2.5 * (sizes[1] - sizes[0])


WRITTEN_TWICE = """
    def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        B = T.alloc_buffer((4,), "float32")
        for i in range(2):
            with T.block("half"):
                v = T.axis.spatial(2, i)
                B[v] = A[v]
        for i in range(4):
            with T.block("B"):
                v = T.axis.spatial(4, i)
                B[v] = T.exp(A[v])
        for i in range(4):
            with T.block("C"):
                v = T.axis.spatial(4, i)
                C[v] = B[v] + T.float32(1)
"""


def test_a_buffer_with_another_writer_stays():
    """Without its allocation, the first loop would write a buffer that is defined nowhere."""
    before = parse(WRITTEN_TWICE)
    after = inline_blocks(before)
    assert after is before
    tir.analysis.verify_well_formed(after)


WRITTEN_BETWEEN = """
    def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32"), D: T.Buffer((4,), "float32")):
        B = T.alloc_buffer((4,), "float32")
        E = T.alloc_buffer((4,), "float32")
        for i in range(4):
            with T.block("B"):
                v = T.axis.spatial(4, i)
                B[v] = T.exp(C[v])
        for i in range(4):
            with T.block("E"):
                v = T.axis.spatial(4, i)
                E[v] = T.exp(A[v])
        for i in range(4):
            with T.block("C"):
                v = T.axis.spatial(4, i)
                C[v] = A[v]
        for i in range(4):
            with T.block("D"):
                v = T.axis.spatial(4, i)
                D[v] = B[v] + E[v]
"""


def test_producers_of_one_reader_are_judged_each():
    """Between B and its reader, the buffer is written that B was computed from; E is inlined into the same reader."""
    before = parse(WRITTEN_BETWEEN)
    after = inline_blocks(before)
    assert blocks(after) == ["B", "C", "D"]
    same(before, after, (4,), (4,), (4,))


def test_work_is_proportional_to_the_producers_of_a_reader():
    def work(count):
        tensors = [te.placeholder((2,), "float32", f"X{i}") for i in range(count)]
        func = te.create_prim_func([*tensors, topi.concatenate([topi.exp(tensor) for tensor in tensors], axis=0)])
        assert blocks(inline_blocks(func)) == ["T_concat"]
        return calls(lambda: inline_blocks(func))

    assert work(80) <= 2.3 * work(40)
