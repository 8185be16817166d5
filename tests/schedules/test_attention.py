"""Attention in one kernel: the rule's result computes what the nests computed, whatever the sizes and masks."""

from __future__ import annotations

import numpy as np
import pytest

from relax import te, tir, topi
from relax.codegen import build_module, resolve
from relax.schedules import schedule
from relax.schedules.cpu import StreamedAttention
from relax.tir.attention import attention_of

m, n = te.var("m", "int64"), te.var("n", "int64")
DTYPES = {"float16": np.float16, "float32": np.float32, "float64": np.float64}


def attention(queries, keys, bias=None, b=1, h=2, d=20, dv=19, dtype="float32", **attributes):
    """Attention as the operator computes it, as a PrimFunc."""
    shapes = ((b, queries, h, d), (b, keys, h, d), (b, keys, h, dv))
    operands = [te.placeholder(shape, dtype, name) for shape, name in zip(shapes, "QKV", strict=True)]
    if bias is not None:
        operands.append(te.placeholder(bias, dtype, "B"))
    return te.create_prim_func([*operands, topi.nn.attention(*operands, **attributes)])


def arrays(shapes, dtype="float32", seed=0):
    generator = np.random.default_rng(seed)
    return [generator.uniform(-2, 2, shape).astype(DTYPES[dtype]) for shape in shapes]


def expected(q, k, v, bias=None, causal=None, window=None):
    """The definition, in float64; rows that see no key are 0."""
    q, k, v = (x.astype("float64").transpose(0, 2, 1, 3) for x in (q, k, v))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3])
    if bias is not None:
        scores = scores + bias.astype("float64")
    i, j = np.indices(scores.shape[2:])
    last = i + (k.shape[2] - q.shape[2] if causal == "BottomRight" else 0)
    if causal is not None:
        scores = np.where((j <= last) & (j > last - (window or 10**6)), scores, -np.inf)
    most = scores.max(-1, keepdims=True, initial=-np.inf)
    weights = np.where(np.isneginf(scores), 0, np.exp(scores - np.where(np.isinf(most), 0, most)))
    total = weights.sum(-1, keepdims=True)
    return (weights @ v / np.where(total == 0, 1, total)).transpose(0, 2, 1, 3)


@pytest.fixture(scope="module")
def arranged(target):
    """``arranged(func)``: the function as the rule arranges it for a machine, and compiled for this one."""

    def run(func):
        result = schedule(func, target, [StreamedAttention()])
        assert result is not func
        assert not [b for b in result.body.block.alloc_buffers if b.ndim == 4]  # no scores in memory
        tir.verify_well_formed(result)
        return result, build_module(schedule(func, resolve("llvm"), [StreamedAttention()]))["main"]

    return run


def check(functions, operands, reference, tolerance=2e-6, dtype="float32", interpreted=True):
    function, compiled = functions
    runs = [compiled]
    if interpreted:
        runs.append(lambda *args: tir.interpret(function, *args, reverse_parallel=True))
    for run in runs:
        result = np.full(reference.shape, 77, DTYPES[dtype])
        run(*operands, result)
        np.testing.assert_allclose(result.astype("float64"), reference, rtol=tolerance, atol=tolerance)


def shapes(queries, keys, b=1, h=2, d=20, dv=19):
    return (b, queries, h, d), (b, keys, h, d), (b, keys, h, dv)


def test_any_number_of_queries_and_keys(arranged):
    """0, 1, primes, one less and more than a tile of 6 keys, a block of keys, and a block of 64 queries."""
    functions = arranged(attention(m, n))
    sizes = [(0, 3), (3, 0), (1, 1), (2, 5), (7, 6), (63, 7), (64, 13), (65, 85), (31, 121), (130, 250)]
    for queries, keys in sizes:
        operands = arrays(shapes(queries, keys))
        check(functions, operands, expected(*operands), interpreted=queries * keys < 50)


def slow(*values):
    """Parameters of a test that takes long."""
    return pytest.param(*values, marks=pytest.mark.slow)


CAUSAL = [
    {"causal_mask": "BottomRight", "window_size": 5},
    slow({"causal_mask": "TopLeft"}),
]


@pytest.mark.parametrize("attributes", CAUSAL)
def test_causal_masks(arranged, attributes):
    """Some queries see no key: they give 0. Keys that no query of a block sees are skipped."""
    functions = arranged(attention(m, n, h=1, d=4, dv=4, **attributes))
    for queries, keys in [(5, 3), (3, 5), (70, 140), (140, 70)]:
        operands = arrays(shapes(queries, keys, 1, 1, 4, 4))
        reference = expected(*operands, None, attributes["causal_mask"], attributes.get("window_size"))
        check(functions, operands, reference, interpreted=queries * keys < 20)


@pytest.mark.parametrize("bias", [(2, 1, 1, n), slow((2, 2, m, n)), slow((m, 1))])
def test_a_bias_of_any_form(arranged, bias):
    functions = arranged(attention(m, n, bias, 2, 2, 4, 3))
    for queries, keys in [(3, 4), (66, 33)]:
        sizes = tuple(queries if size is m else keys if size is n else size for size in bias)
        operands = arrays([*shapes(queries, keys, 2, 2, 4, 3), sizes])
        if operands[3].size > 4:
            operands[3].flat[:3] = -np.inf
        check(functions, operands, expected(*operands), interpreted=queries < 5)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 1e-3), slow("float64", 1e-13)])
def test_other_floats(arranged, dtype, tolerance):
    """Sums of 16-bit floats are of float32."""
    functions = arranged(attention(m, n, None, 1, 1, 17, 18, dtype))
    for queries, keys in [(2, 20), (5, 7), (66, 23)]:
        operands = arrays(shapes(queries, keys, 1, 1, 17, 18), dtype)
        check(functions, operands, expected(*operands), tolerance, dtype, interpreted=queries < 6)


@pytest.mark.parametrize("queries", [slow(4), 5])
def test_softmax_spelled_out(arranged, queries):
    """Rows of which all scores are -inf are NaN, as in the nests; without keys, the sum is 0."""
    q, k, v = (
        te.placeholder(s, "float32", x)
        for s, x in (((2, queries, 8), "Q"), ((2, n, 8), "K"), ((2, n, 16), "V"))
    )
    mask = te.placeholder((queries, n), "float32", "B")
    scores = topi.add(topi.matmul(q, topi.transpose(k, (0, 2, 1))), mask)
    func = te.create_prim_func([q, k, v, mask, topi.matmul(topi.nn.softmax(scores), v)])
    found = attention_of(func)
    assert found is not None
    assert str(found.score) == "product + B[v_i, v_k]"
    functions = arranged(func)
    for keys in (0, 7, 40):
        operands = arrays([(2, queries, 8), (2, keys, 8), (2, keys, 16), (queries, keys)])
        operands[3][0, :4] = -np.inf
        operands[3][2] = -np.inf
        result = np.full((2, queries, 16), 77, "float32")
        tir.interpret(func, *operands, result)
        check(functions, operands, result.astype("float64"), 1e-5)


def test_special_values(arranged):
    """NaN and infinities of scores and values come out as the nests say."""
    for queries in (2, 6):
        functions, operands = (
            arranged(attention(queries, n, None, 1, 1, 4, 4)),
            arrays(shapes(queries, 9, 1, 1, 4, 4)),
        )
        operands[0][0, 1, 0, 0] = np.nan
        operands[2][0, 3, 0, :2] = np.inf, -np.inf
        with np.errstate(invalid="ignore"):
            check(functions, operands, expected(*operands))
