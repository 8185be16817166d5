"""Text that is broken, or deep: a result or diagnostics with places, never another error, and no time without bound."""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relay_programs import EXPRESSIONS, MODULES

from relax import relay
from relax.ir import DiagnosticContext, DiagnosticError, Op, Source
from relax.relay.text.lexer import Tokens

MUTATIONS = int(os.environ.get("RELAX_RELAY_MUTATIONS", "600"))
TEXTS = [*EXPRESSIONS.values(), *MODULES.values()]
DEEP = 1_500
"""More brackets within each other than Python's stack of the main thread takes."""


def read(text: str) -> relay.Expr | None:
    """The program, None if diagnostics say what is wrong with the text, and where."""
    try:
        return relay.fromtext(text)
    except DiagnosticError as error:
        diagnostics = error.diagnostics
    assert diagnostics
    assert all(d.span is not None for d in diagnostics)
    return None


def tokens_of(text: str) -> list[str]:
    return [token.text for token in Tokens(Source("<test>", text), DiagnosticContext()).items]


def mutated_tokens(rng: random.Random, pool: list[str]) -> str:
    words = tokens_of(rng.choice(TEXTS))
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(words) + 1)
        other = rng.randrange(len(words) + 1)
        first, last = min(at, other), max(at, other)
        match rng.randrange(4):
            case 0:
                words[at : at + 1] = []
            case 1:
                words.insert(at, rng.choice(pool))
            case 2:
                words[at : at + 1] = [rng.choice(pool)]
            case _:
                words[first:last] = words[first:last] * 2
    return " ".join(words)


def mutated_characters(rng: random.Random) -> str:
    text = rng.choice(TEXTS)
    for _ in range(rng.randint(1, 4)):
        at, other = rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)
        match rng.randrange(3):
            case 0:
                text = text[:at] + text[at + 1 :]
            case 1:
                text = (
                    text[:at]
                    + chr(rng.choice((10, rng.randrange(32, 127), rng.randrange(0x3000))))
                    + text[at:]
                )
            case _:
                text = text[: min(at, other)] + text[max(at, other) :]
    return text


def test_mutations_of_programs_are_read_or_refused():
    rng = random.Random(7)
    pool = [token for text in TEXTS for token in tokens_of(text)]
    accepted = 0
    for i in range(MUTATIONS):
        program = read(mutated_tokens(rng, pool) if i % 2 else mutated_characters(rng))
        if program is not None and relay.analysis.well_formed(program):
            accepted += 1
            relay.assert_alpha_equal(relay.fromtext(relay.astext(program)), program)
    assert accepted > MUTATIONS // 50


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
