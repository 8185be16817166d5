"""Attention in one kernel: the rule's result computes what the nests computed, whatever the sizes and masks."""

from __future__ import annotations

import numpy as np
import pytest

from relax import te, tir, topi
from relax.codegen import build_module, resolve
from relax.ir import DataType
from relax.schedules import schedule
from relax.schedules.cpu import StreamedAttention
from relax.tir.attention import attention_of
from support import PLAIN_LOOPS

m, n = te.var("m", "int64"), te.var("n", "int64")
DTYPES = {"bfloat16": DataType("bfloat16").numpy(), "float16": np.float16, "float32": np.float32, "float64": np.float64}


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
    """0, 1, primes, one less and more than a tile of 6 keys, a block of keys, a vector and a block of 64 queries."""
    functions = arranged(attention(m, n))
    sizes = [
        (0, 3),
        (3, 0),
        (1, 1),
        (2, 5),
        (7, 6),
        (16, 9),
        (17, 8),
        (63, 7),
        (64, 13),
        (65, 85),
        (31, 121),
        (130, 250),
    ]
    for queries, keys in sizes:
        operands = arrays(shapes(queries, keys))
        check(functions, operands, expected(*operands), interpreted=queries * keys < 50)


def slow(*values):
    """Parameters of a test that takes long."""
    return pytest.param(*values, marks=pytest.mark.slow)


CAUSAL = [{"causal_mask": "BottomRight", "window_size": 5}, slow({"causal_mask": "TopLeft"})]


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
        te.placeholder(s, "float32", x) for s, x in (((2, queries, 8), "Q"), ((2, n, 8), "K"), ((2, n, 16), "V"))
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


def test_sums_are_divided_by_a_sum_that_stands_behind_them(arranged):
    """Formulas are written where they are first used: of O / T, the sum of the weights comes after that of values."""
    q, k, v = (te.placeholder(s, "float32", x) for s, x in (((m, 20), "Q"), ((n, 20), "K"), ((n, 19), "V")))
    depth, most, others, total = (te.reduce_axis((0, size), x) for size, x in ((20, "k"), *((n, x) for x in "abc")))
    s = te.compute((m, n), lambda i, j: te.sum(q[i, depth] * k[j, depth], axis=depth))
    greatest = te.compute((m,), lambda i: te.max(s[i, most], axis=most))
    w = te.compute((m, n), lambda i, j: te.exp(s[i, j] - greatest[i]))
    o = te.compute((m, 19), lambda i, d: te.sum(w[i, others] * v[others, d], axis=others))
    t = te.compute((m,), lambda i: te.sum(w[i, total], axis=total))
    func = te.create_prim_func([q, k, v, te.compute((m, 19), lambda i, d: o[i, d] / t[i])])
    assert attention_of(func) is not None
    functions = arranged(func)
    for queries, keys in ((0, 3), (1, 1), (5, 7), (5, 61), (65, 7)):
        operands = arrays([(queries, 20), (keys, 20), (keys, 19)])
        result = np.full((queries, 19), 77, "float32")
        tir.interpret(func, *operands, result)
        check(functions, operands, result.astype("float64"), 1e-5, interpreted=queries * keys < 50)


def rounded_attention(queries, keys, narrow="bfloat16", b=1, h=2, d=20, dv=19, bias=None):
    """Attention whose weights are rounded before they are multiplied, as ToMixedPrecision has it, with float32 results."""
    bias = bias or (b, 1, 1, keys)
    q, k, v = (
        te.placeholder(s, narrow, x)
        for s, x in (((b, queries, h, d), "Q"), ((b, keys, h, d), "K"), ((b, keys, h, dv), "V"))
    )
    mask = te.placeholder(bias, "float32", "B")
    products = topi.matmul(topi.transpose(q, (0, 2, 1, 3)), topi.transpose(k, (0, 2, 3, 1)), out_dtype="float32")
    weights = topi.cast(topi.nn.softmax(topi.add(topi.multiply(products, 0.25), mask)), narrow)
    mixed = topi.matmul(weights, topi.transpose(v, (0, 2, 1, 3)), out_dtype="float32")
    return te.create_prim_func([q, k, v, mask, topi.transpose(mixed, (0, 2, 1, 3))])


def check_rounded(func, functions, operands, rows, interpreted=False):
    """The results are those of the nests, of which each rounds each weight.

    Sums in another order may move a weight across the middle between two narrow numbers, which changes a result by at
    most 2⁻⁸ of the greatest value; without the rounding, most results differ by more than the bound of the others.
    """
    *_, v, _ = operands
    shape = (*rows, v.shape[3])
    result, reference = np.full(shape, 77, "float32"), np.full(shape, 77, "float32")
    build_module(func, PLAIN_LOOPS)["main"](*operands, reference)
    for run in [functions[1], *([lambda *a: tir.interpret(functions[0], *a)] if interpreted else [])]:
        result[:] = 77
        run(*operands, result)
        np.testing.assert_allclose(result, reference, rtol=2**-8, atol=2**-8)
        close = np.isclose(result, reference, rtol=1e-5, atol=1e-6, equal_nan=True)
        # One weight changes the whole row of results that it is a part of.
        assert np.count_nonzero(~close) <= max(shape[-1], 0.02 * close.size)


@pytest.mark.parametrize("narrow", ["bfloat16", slow("float16")])
def test_rounded_weights(arranged, narrow):
    """0, 1, primes; an odd number of keys; more keys than a block of them, and more queries than one of those."""
    func = rounded_attention(m, n, narrow)
    found = attention_of(func)
    assert found is not None
    assert found.rounded == narrow
    functions = arranged(func)
    sizes = [(0, 3), (3, 0), (9, 0), (1, 1), (2, 5), (7, 6), (5, 1), (63, 7), (64, 120), (65, 121), (6, 130), (2, 600)]
    for queries, keys in sizes:
        operands = [*arrays(shapes(queries, keys), narrow), *arrays([(1, 1, 1, keys)])]
        check_rounded(func, functions, operands, (1, queries, 2), interpreted=queries * keys < 20)


def test_dot_products_of_rounded_weights():
    """Queries and keys, weights and values are multiplied as words where the machine has dot products of bfloat16."""
    func = rounded_attention(m, n, h=1, d=2, dv=2)
    cooper_lake = resolve("llvm -mtriple=x86_64-linux-gnu -mcpu=cooperlake")
    arranged = schedule(func, cooper_lake, [StreamedAttention()])
    assert arranged.script().count("T.dot_bf16") >= 4
    for queries, keys in [(5, 3), (17, 2)]:
        operands = [*arrays(shapes(queries, keys, 1, 1, 2, 2), "bfloat16"), *arrays([(1, 1, 1, keys)])]
        result, reference = (np.full((1, queries, 1, 2), 77, "float32") for _ in range(2))
        tir.interpret(func, *operands, reference)
        tir.interpret(arranged, *operands, result)
        np.testing.assert_allclose(result, reference, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("d", "dv"), [(7, 3), slow(64, 64), slow(2, 33)])
def test_rounded_weights_of_heads_of_any_length(arranged, d, dv):
    """Heads of an odd length are no words."""
    func = rounded_attention(m, n, d=d, dv=dv, bias=(m, n))
    functions = arranged(func)
    for queries, keys in [(5, 9), (70, 33), (3, 40)]:
        operands = [*arrays(shapes(queries, keys, 1, 2, d, dv), "bfloat16"), *arrays([(queries, keys)])]
        check_rounded(func, functions, operands, (1, queries, 2))


def test_special_values_of_rounded_weights(arranged):
    """Rows of which all scores are -inf are NaN; NaN and infinities come out as the nests say."""
    func = rounded_attention(m, n, h=1, d=4, dv=4, bias=(m, n))
    functions = arranged(func)
    for queries in (2, 6):
        operands = [*arrays(shapes(queries, 9, 1, 1, 4, 4), "bfloat16"), *arrays([(queries, 9)])]
        operands[0][0, 1, 0, 0] = np.nan
        operands[1][0, 4, 0, 2] = np.inf
        operands[2][0, 3, 0, :2] = np.inf, -np.inf
        operands[3][0, :5] = -np.inf
        operands[3][1] = -np.inf
        check_rounded(func, functions, operands, (1, queries, 1), interpreted=True)


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
