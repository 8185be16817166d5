"""PagedAttention: attention to keys and values in pages, a lane per token for scores and per column for values."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from applied import X86

from pages import attend, attended, attention_case, check_attended
from relax import tir
from relax.codegen import build_module, resolve
from relax.schedules import Refusal, schedule
from relax.schedules.cpu import RULES, PagedAttention
from relax.schedules.cpu.attention.paged import PagedParameters
from relax.script import from_source
from relax.topi.paged_attention import PagedHeads, append_to_pages, attend_to_pages

HEADS = PagedHeads(query_heads=6, kv_heads=2, depth=64, columns=64)
TARGETS = {
    "512 bits": f"{X86} -mcpu=x86-64-v4",
    "256 bits": f"{X86} -mcpu=x86-64-v3",
    "128 bits": f"{X86} -mcpu=x86-64",
    "32 registers of 128 bits": "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76",
}


def written(heads, target="llvm", **parameters):
    func = schedule(attend_to_pages(heads), resolve(target), [PagedAttention().at(PagedParameters(**parameters))])
    assert func.attrs["tir.is_scheduled"]
    tir.verify_well_formed(func)
    return func


@cache
def kernel(heads=HEADS, target="llvm", **parameters):
    return build_module(written(heads, target, **parameters))["main"]


@pytest.mark.parametrize(
    ("queries", "keys"),
    [
        ((), ()), ((0,), (20,)), ((1,), (1,)), ((1,), (600,)), ((3,), (3,)), ((17,), (40,)), ((70,), (70,)),
        ((1, 1, 1), (5, 700, 16)), ((70, 1, 3), (90, 300, 3)), ((0, 2, 17), (33, 34, 17)),
    ],
    ids=str,
)  # fmt: skip
def test_lengths_of_sequences(queries, keys):
    """A query is decoded in runs of 256 keys or more; more queries are processed in blocks of 16."""
    check_attended(kernel(), HEADS, attention_case(HEADS, queries, keys))


@pytest.mark.parametrize(
    "heads",
    [
        PagedHeads(2, 2, 80, 64),
        PagedHeads(4, 1, 96, 128, page_dtype="bfloat16", softcap=5.0),
        PagedHeads(8, 1, 128, 32, page_dtype="float16", dtype="bfloat16"),
        PagedHeads(12, 12, 32, 16, page_size=32, dtype="float16", page_dtype="bfloat16"),
    ],
    ids=str,
)
def test_heads_and_dtypes(heads):
    check_attended(kernel(heads), heads, attention_case(heads, (1, 20, 2), (50, 30, 400)))


@pytest.mark.parametrize("machine", TARGETS)
def test_machines(machine):
    heads = PagedHeads(3, 1, 20, 48, page_size=16)
    cases = [attention_case(heads, (1, 18), (40, 50), [(9, 2), (0, 0)]), attention_case(heads, (2, 1), (40, 300))]
    for case in cases:
        check_attended(kernel(heads, TARGETS[machine]), heads, case)


def test_the_interpreter_runs_the_loops():
    heads = PagedHeads(2, 1, 4, 8, page_size=8)
    case = attention_case(heads, (1, 3), (9, 12), [(0, 0), (5, 1)])
    func = written(heads, TARGETS["256 bits"])
    check_attended(lambda *args: tir.interpret(func, *args, reverse_parallel=True), heads, case)


@pytest.mark.parametrize("parameters", [{"tile": (4, 2), "rows": 24, "keys": 64}], ids=str)
def test_parameters(parameters):
    heads = PagedHeads(4, 2, 16, 32)
    check_attended(kernel(heads, **parameters), heads, attention_case(heads, (1, 60), (200, 300)))


@pytest.mark.parametrize("window", [1, 5, 16, 40, 1000])
def test_windows_and_sinks(window):
    for sinks in (0, 3, 20):
        windows = [(window, sinks), (window, 0)]
        check_attended(kernel(), HEADS, attention_case(HEADS, (1, 40), (300, 90), windows))


def test_where_no_key_counts_the_result_is_0():
    case = attention_case(HEADS, (1, 2), (20, 20))
    case["query_positions"][:2] = -1
    out, lse = attend(kernel(), HEADS, case)
    assert not out[:2].any()
    assert np.isneginf(lse[:2]).all()
    assert np.isfinite(lse[2]).all()


def test_a_sequence_without_pages():
    for queries in (1, 3):
        case = attention_case(HEADS, (queries,), (16,))
        case["page_indptr"][:] = 0
        out, lse = attend(kernel(), HEADS, case)
        assert not out.any()
        assert np.isneginf(lse).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["keys", "values"])
def test_infinities_and_nan(name, value):
    """A query is affected by the keys and values that count for it, and by no others."""
    queries, keys = (20, 1), (60, 70)
    case = attention_case(HEADS, queries, keys, [(30, 0), (0, 0)])
    for sequence, position in ((0, 50), (0, 12), (1, 69)):
        page = case["page_ids"][case["page_indptr"][sequence] + position // 16]
        at = (slice(None), position % 16) if name == "keys" else (position % 16, slice(None))
        case[name][page, 1][at] = value
    out, lse = attend(kernel(), HEADS, case)
    expected, expected_lse = attended(HEADS, case)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=2e-6)
    if name == "values":
        np.testing.assert_allclose(lse, expected_lse, rtol=1e-5, atol=2e-6)
    assert np.isfinite(out[:, :3]).all()  # the other head of keys
    assert np.isfinite(out[2:10]).all()  # positions 42 to 49
    assert not np.isfinite(out[[0, 19, 20], 3:]).all(axis=(1, 2)).any() or (name, value) == ("keys", -np.inf)


def test_the_order_of_pages_does_not_matter():
    results = [
        attend(kernel(), HEADS, attention_case(HEADS, (17, 1), (60, 300), in_order=in_order))
        for in_order in (False, True)
    ]
    cases = [attention_case(HEADS, (17, 1), (60, 300), in_order=in_order) for in_order in (False, True)]
    for case, (out, lse) in zip(cases, results, strict=True):
        expected, expected_lse = attended(HEADS, case)
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=2e-6)
        np.testing.assert_allclose(lse, expected_lse, rtol=1e-5, atol=2e-6)


def alone(case, i):
    """The case of one sequence of a case."""
    (begin, end), (first, last) = (case[name][i : i + 2] for name in ("query_indptr", "page_indptr"))
    rows, pages = slice(begin, end), slice(first, last)
    return {
        **case, "queries": case["queries"][rows], "query_positions": case["query_positions"][rows],
        "query_indptr": np.array([0, end - begin], "int32"), "page_indptr": np.array([0, last - first], "int32"),
        "page_ids": case["page_ids"][pages], "page_positions": case["page_positions"][pages],
        "windows": case["windows"][i : i + 1],
    }  # fmt: skip


def test_a_sequence_is_not_changed_by_others_nor_by_threads(monkeypatch):
    case = attention_case(HEADS, (1, 30, 1, 4), (700, 90, 20, 33))
    monkeypatch.setenv("RELAX_NUM_THREADS", "1")
    together, lse = attend(kernel(), HEADS, case)
    monkeypatch.setenv("RELAX_NUM_THREADS", "2")
    for i in range(4):
        rows = slice(*case["query_indptr"][i : i + 2])
        out, own = attend(kernel(), HEADS, alone(case, i))
        np.testing.assert_array_equal(out, together[rows])
        np.testing.assert_array_equal(own, lse[rows])


def fed(kernel, heads, case, lengths, shift=0):
    """Results of one sequence, whose tokens are fed in chunks of these lengths, as bytes; `shift` moves its pages."""
    results, begin = [], 0
    for length in lengths:
        end = begin + length
        pages = -(-end // heads.page_size)
        part = {
            **case, "queries": case["queries"][begin:end], "query_positions": case["query_positions"][begin:end],
            "query_indptr": np.array([0, length], "int32"), "page_indptr": np.array([0, pages], "int32"),
            "keys": np.roll(case["keys"], shift, 0), "values": np.roll(case["values"], shift, 0),
            "page_ids": (case["page_ids"][:pages] + shift) % len(case["keys"]),
            "page_positions": case["page_positions"][:pages],
        }  # fmt: skip
        results.append(attend(kernel, heads, part))
        begin = end
    assert begin == len(case["queries"])
    return [np.concatenate(each).tobytes() for each in zip(*results, strict=True)]


CHUNKS = [[599, 1], [2, 598], [1] * 300 + [9] * 33 + [3], [255, 1, 1, 1, 30, 1, 223, 1, 1, 86], [590, 5, 1, 4]]


@pytest.mark.parametrize(
    ("heads", "window", "machine"),
    [
        (PagedHeads(9, 3, 64, 64), (0, 0), "llvm"),
        (PagedHeads(6, 2, 32, 32, softcap=5.0, page_dtype="float16"), (300, 20), TARGETS["256 bits"]),
        (PagedHeads(4, 1, 64, 128, page_dtype="bfloat16", dtype="bfloat16"), (50, 0), "llvm"),
        (PagedHeads(3, 1, 10, 40, page_size=24), (1, 3), TARGETS["128 bits"]),
    ],
    ids=str,
)
def test_results_have_the_same_bits_however_tokens_are_fed(heads, window, machine):
    case = attention_case(heads, (600,), (600,), [window])
    case["queries"] = (case["queries"] * np.float32(4)).astype(case["queries"].dtype)
    attention = kernel(heads, machine)
    whole = fed(attention, heads, case, [600])
    for number, chunks in enumerate(CHUNKS):
        assert fed(attention, heads, case, chunks, shift=number) == whole


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_infinite_value_leaves_the_bits_of_queries_that_do_not_see_it(value):
    case = attention_case(HEADS, (400,), (400,), [(100, 0)])
    for position in (120, 300):
        case["values"][case["page_ids"][position // 16], 1, position % 16] = value
    whole = fed(kernel(), HEADS, case, [400])
    assert fed(kernel(), HEADS, case, [1] * 400) == fed(kernel(), HEADS, case, [119, 3, 178, 1, 99]) == whole


def test_runs_of_pages_beyond_those_of_parts_are_one_run():
    """Pages listed against the order of positions would make more runs than there is memory for."""
    case = attention_case(HEADS, (1,), (2400,))
    ids, positions = case["page_ids"], case["page_positions"]
    order = np.arange(150).reshape(10, 15).T.reshape(-1)
    case["page_ids"], case["page_positions"] = ids[order], positions[order]
    check_attended(kernel(), HEADS, case)


@pytest.mark.parametrize(
    ("name", "index", "value", "message"),
    [
        ("page_ids", 1, 10, "page_ids: a page is not in the pool"),
        ("page_ids", 3, -1, "page_ids: a page is not in the pool"),
        ("query_indptr", 1, 7, "query_indptr: it must begin with 0"),
        ("query_indptr", 2, 5, "query_indptr: it must begin with 0"),
        ("page_indptr", 2, 9, "page_indptr: it must not be negative"),
    ],
)
def test_lists_are_checked(name, index, value, message):
    case = attention_case(HEADS, (5, 1), (50, 40))
    case[name][index] = value
    with pytest.raises(AssertionError, match=message):
        attend(kernel(), HEADS, case)


def test_other_functions_are_refused():
    rule, target = PagedAttention(), resolve(TARGETS["512 bits"])
    assert rule.accepts(attend_to_pages(HEADS), target)
    refusals = [
        rule.accepts(func, target)
        for func in (
            append_to_pages(HEADS),
            attend_to_pages(PagedHeads(2, 1, 64, 64, page_size=2)),
            attend_to_pages(PagedHeads(2, 1, 64, 30)),
        )
    ]
    assert all(isinstance(refusal, Refusal) for refusal in refusals)
    assert [str(refusal) for refusal in refusals] == [
        "the function is no kernel of a paged KV cache",
        "the size of a page, or of a value, is no multiple of 4 lanes of a vector",
        "the size of a page, or of a value, is no multiple of 4 lanes of a vector",
    ]


def test_short_pages_and_values_have_shorter_vectors():
    heads = PagedHeads(3, 1, 10, 40, page_size=24)
    check_attended(kernel(heads, TARGETS["512 bits"]), heads, attention_case(heads, (1, 5), (30, 40)))


def test_a_function_that_differs_from_the_formula_is_refused():
    script = attend_to_pages(PagedHeads(6, 2, 64, 64, softcap=2.0)).script()
    changed = from_source(script.replace('"softcap": 2.0', '"softcap": 3.0'))
    answer = PagedAttention().accepts(changed, None)
    assert str(answer) == "the function differs from the formula of attention to pages"
    assert PagedAttention().accepts(from_source(script), None)
    unknown = from_source(script.replace('"softcap": 2.0', '"softcap": -2.0'))
    assert "is not that of the formula: softcap must be a finite number" in str(PagedAttention().accepts(unknown, None))


def test_parameters_that_may_share_memory_are_refused():
    func = attend_to_pages(HEADS).without_attr("tir.noalias")
    assert "lacks tir.noalias" in str(PagedAttention().accepts(func, None))


def test_the_default_rules_write_the_loops():
    target = resolve("llvm")
    assert schedule(attend_to_pages(HEADS), target, RULES).attrs["tir.is_scheduled"]
