"""Text that is broken, or deep: a result or diagnostics with places, never another error, and no time without bound."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relay_programs import EXPRESSIONS, MODULES

from differential.mutate_relay import mutants, read, tokens_of
from relax import relay
from relax.ir import DiagnosticError, Op

MUTATIONS = int(os.environ.get("RELAX_RELAY_MUTATIONS", "400"))
TEXTS = [*EXPRESSIONS.values(), *MODULES.values()]
DEEP = 1_500
"""More brackets within each other than Python's stack of the main thread takes."""


def test_mutations_of_programs_are_read_or_refused():
    sorts = mutants(7, MUTATIONS, TEXTS)
    assert sorts["typed"] > MUTATIONS // 50
    assert sorts["refused by inference"] > MUTATIONS // 50


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text):
    read(text)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(sorted({t for text in TEXTS for t in tokens_of(text)})), max_size=25))
def test_any_tokens_are_read_or_refused(tokens):
    read(" ".join(tokens))


@pytest.mark.parametrize(
    ("opening", "middle", "closing"),
    [
        ("(", "1", ")"),
        ("-(", "1", ")"),
        ("1 + (", "1", ")"),
        ("add(1, ", "1", ")"),
        ("fn() { ", "1", " }"),
        ("{ let %x = ", "1", "; %x }"),
        ("if (True) { 1 } else { ", "1", " }"),
        ("if (", "True", ") { 1 } else { 2 }"),
        ("match (1) { _ => ", "1", " }"),
        ("ref_read(", "1", ")"),
    ],
)
def test_deep_nesting_is_read_and_printed(opening, middle, closing):
    program = read(opening * DEEP + middle + closing * DEEP)
    assert program is not None
    relay.assert_alpha_equal(relay.parse_expr(relay.astext(program)), program)


def test_there_is_a_limit_of_nesting():
    assert read("(" * 10_000 + "1" + ")" * 10_000) is not None
    for opening, closing in (("(", ")"), ("if (True) { 1 } else { ", " }")):
        with pytest.raises(DiagnosticError, match="E9006.*more than 10000 brackets within each other"):
            relay.fromtext(opening * 10_001 + "1" + closing * 10_001)


@pytest.mark.parametrize(
    ("before", "opening", "middle", "closing", "after"),
    [
        ("fn(%x: ", "(", "int8", ",)", ") { 1 }"),
        ("fn(%x: ", "ref(", "int8", ")", ") { 1 }"),
        ("fn(%x: ", "fn() -> ", "int8", "", ") { 1 }"),
        ("match (1) { ", "(", "_", ")", " => 1 }"),
    ],
)
def test_types_and_patterns_nest_to_a_lower_limit(before, opening, middle, closing, after):
    program = read(before + opening * 400 + middle + closing * 400 + after)
    assert program is not None
    relay.assert_alpha_equal(relay.parse_expr(relay.astext(program)), program)
    with pytest.raises(DiagnosticError, match="E9006.*has more than 500 .* within each other"):
        relay.fromtext(before + opening * 10_000 + middle + closing * 10_000 + after)


def test_unmatched_brackets_are_one_diagnostic():
    for text in ("(" * 10_000, ")" * 10_000, "(" * 5_000 + "]" * 5_000, "{" * 10_000 + "}" * 9_999):
        with pytest.raises(DiagnosticError) as error:
            relay.fromtext(text)
        assert len(error.value.diagnostics) == 1


@pytest.mark.parametrize(
    "text",
    [
        "1" * 5000,
        "1e" + "9" * 5000,
        "%a" + ".0" * 5000,
        "-" * 10_000 + "1",
        "!" * 10_001 + "True",
        "1" + " + 1" * 10_000,
    ],
)
def test_long_runs_are_read_or_refused(text):
    read("free_var %a; " + text)


def test_a_chain_of_lets_and_a_deep_graph_are_printed_and_read():
    chain = "".join(f"let %x{i} = {f'%x{i - 1}' if i else '1'} + 1;\n" for i in range(5_000)) + "%x4999"
    program = relay.parse_expr(chain)
    relay.assert_alpha_equal(relay.parse_expr(relay.astext(program)), program)
    graph: relay.Expr = relay.var("x")
    for _ in range(5_000):
        graph = relay.Call(Op.get("add"), (graph, graph))
    relay.assert_alpha_equal(relay.parse_expr(relay.astext(graph)), graph, map_free_vars=True)
