"""Formulas of the kernels of a paged KV cache: appending to pages, and attention to them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from pages import DTYPES, append_case, appended, attend, attended, attention_case, check_attended
from relax import tir
from relax.codegen import build_module
from relax.topi.paged_attention import PagedHeads, append_to_pages, attend_to_pages

HEADS = PagedHeads(query_heads=6, kv_heads=2, depth=12, columns=8, page_size=4)


def compiled(func):
    tir.verify_well_formed(func)
    return build_module(func)["main"]


@pytest.fixture(scope="module")
def kernel():
    return compiled(attend_to_pages(HEADS))


@pytest.mark.parametrize(
    ("queries", "keys"),
    [((), ()), ((1,), (1,)), ((3, 1, 4), (9, 5, 4)), ((0, 2), (0, 7)), ((2, 0, 1), (2, 3, 30))],
    ids=str,
)
def test_attention_to_sequences_of_pages(kernel, queries, keys):
    check_attended(kernel, HEADS, attention_case(HEADS, queries, keys))


def test_a_window_and_sinks(kernel):
    for windows in ([(4, 1), (3, 0)], [(1, 0), (0, 2)], [(30, 0), (2, 6)]):
        check_attended(kernel, HEADS, attention_case(HEADS, (3, 1), (9, 5), windows))


def test_the_interpreter_agrees(kernel):
    case = attention_case(HEADS, (2, 1), (6, 5), [(3, 1), (0, 0)])
    compiled_out, compiled_lse = attend(kernel, HEADS, case)
    out, lse = attend(lambda *args: tir.interpret(attend_to_pages(HEADS), *args), HEADS, case)
    np.testing.assert_allclose(out, compiled_out, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(lse, compiled_lse, rtol=1e-5, atol=1e-6)


def test_where_no_key_counts_the_result_is_0(kernel):
    case = attention_case(HEADS, (2,), (6,))
    case["query_positions"][0] = -1
    out, lse = attend(kernel, HEADS, case)
    assert not out[0].any()
    assert np.isneginf(lse[0]).all()
    assert np.isfinite(lse[1]).all()


def test_softcap_limits_scores():
    heads = PagedHeads(2, 1, 12, 8, page_size=4, softcap=2.0)
    case = attention_case(heads, (3,), (9,))
    case["scale"][0] = 3
    check_attended(compiled(attend_to_pages(heads)), heads, case)


@pytest.mark.parametrize(
    ("name", "index", "value", "message"),
    [
        ("page_ids", 1, 9, "page_ids: a page is not in the pool"),
        ("page_ids", 0, -1, "page_ids: a page is not in the pool"),
        ("query_indptr", 1, 2, "query_indptr: it must begin with 0, not decrease, and end with the number of queries"),
        ("page_indptr", 1, 5, "page_indptr: it must not be negative, decrease, or exceed the number of pages listed"),
    ],
)
def test_lists_are_checked(kernel, name, index, value, message):
    case = attention_case(HEADS, (3,), (9,))
    case[name][index] = value
    with pytest.raises(AssertionError, match=re.escape(message)):
        attend(kernel, HEADS, case)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtypes", ["float32 float32", "float32 bfloat16", "bfloat16 float16"])
def test_appending_rotates_and_stores(dtypes, interleaved):
    dtype, page_dtype = dtypes.split()
    heads = PagedHeads(6, 2, 12, 8, 4, dtype, page_dtype, rotated=5, interleaved=interleaved)
    func = append_to_pages(heads)
    for run in (compiled(func), lambda *args: tir.interpret(func, *args)):
        check_appended(run, heads, append_case(heads, 7, 4))


@pytest.mark.parametrize("rotated", [0, 6])
def test_appending_without_rotation_and_with_rotation_of_whole_heads(rotated):
    heads = PagedHeads(4, 2, 12, 12, page_size=4, rotated=rotated)
    run = compiled(append_to_pages(heads))
    for n in (0, 1, 12):
        check_appended(run, heads, append_case(heads, n, 4, seed=n))


def check_appended(run, heads, case):
    expected = appended(heads, case)
    queries = np.full((len(case["qkv"]), heads.query_heads, heads.depth), 5, DTYPES[heads.dtype])
    run(*case.values(), queries)
    for result, right in zip((queries, case["keys"], case["values"]), expected, strict=True):
        # products may be fused into sums, before they are rounded
        near = 1e-6 if result.dtype == np.float32 else 1e-2
        np.testing.assert_allclose(result.astype("float32"), right.astype("float32"), rtol=near, atol=near)


def test_a_slot_outside_of_the_pool_is_an_error():
    run = compiled(append_to_pages(HEADS))
    for slot in (16, -2):
        case = append_case(HEADS, 3, 4)
        case["slots"][2] = slot
        with pytest.raises(AssertionError, match="slots: a slot is neither -1 nor in the pool"):
            run(*case.values(), np.zeros((3, 6, 12), "float32"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"query_heads": 5}, "5 query heads cannot share 2 heads of keys evenly"),
        ({"rotated": 7}, "7 pairs cannot be rotated in heads of 12 elements"),
        ({"page_dtype": "int8"}, "page_dtype must be one of float32, bfloat16, float16, found int8"),
        ({"softcap": -1.0}, "softcap must be a finite number from 0 on, found -1.0"),
        ({"page_size": 0}, "page_size must be at least 1, found 0"),
    ],
)
def test_constants_that_do_not_fit(fields, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        PagedHeads(**{**HEADS.annotation, **fields})


def test_the_oracle_is_softmax_of_products():
    """One query, one head: the oracle of these tests is attention as its definition has it."""
    heads = PagedHeads(1, 1, 4, 4, page_size=4)
    case = attention_case(heads, (1,), (4,), in_order=True)
    scores = case["queries"][0, 0] @ case["keys"][0, 0] * case["scale"][0]
    weights = np.exp(scores) / np.exp(scores).sum()
    out, lse = attended(heads, case)
    np.testing.assert_allclose(out[0, 0], weights @ case["values"][0, 0], rtol=1e-5)
    np.testing.assert_allclose(lse[0, 0], np.log2(np.exp(scores).sum()), rtol=1e-5)
