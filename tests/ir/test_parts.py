"""Where the parts of an expression stand, found by reading its text again."""

from __future__ import annotations

import pytest

from relax.ir import Source, Span
from relax.ir.parts import argument_span, condition_span


def text_of(span):
    """What a span of one line underlines."""
    assert span.line == span.end_line
    return span.line, span.source.line(span.line)[span.column - 1 : span.end_column - 1]


def whole(text, part):
    """The span of a part of a text."""
    before = text[: text.index(part)]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    end = text[: text.index(part) + len(part)]
    return Span(Source("p.py", text), line, column, end.count("\n") + 1, len(end) - end.rfind("\n"))


@pytest.mark.parametrize(
    "text, call, index, count, expected",
    [
        ("    y = f(x, w)\n", "f(x, w)", 1, 2, (1, "w")),
        ("f(x)", "f(x)", 0, 1, (1, "x")),
        ("y = Module.f(\n    x,\n  (a, b),\n)\n", "Module.f(\n    x,\n  (a, b),\n)", 1, 2, (3, "(a, b)")),
        ('π = "→"; y = f("ü", 日本)', 'f("ü", 日本)', 1, 2, (1, "日本")),
        ("\ty = f(x,\tw)", "f(x,\tw)", 1, 2, (1, "w")),
        ("a = 1\n  y = f(x)[0]", "f(x)", 0, 1, (2, "x")),
    ],
)
def test_an_argument(text, call, index, count, expected):
    assert text_of(argument_span(whole(text, call), index, count)) == expected


@pytest.mark.parametrize(
    "text, index, count",
    [
        ("f(x, y=w)", 0, 1),  # a name given to an argument
        ("f(*x)", 0, 1),
        ("f(x)", 0, 2),  # not the call whose arguments are counted
        ("x + w", 0, 2),
        ("f(x", 0, 1),
        ("f(x)\ng(x)", 0, 1),
        ("return f(x)", 0, 1),
    ],
)
def test_text_that_is_no_such_call(text, index, count):
    assert argument_span(whole(text, text), index, count) is None


def test_no_span():
    assert argument_span(None, 0, 1) is None
    assert condition_span(None) is None


@pytest.mark.parametrize(
    "text, expected",
    [
        ("if c:\n    y = x\nelse:\n    y = w", (1, "c")),
        ("def f():\n    if a and b:\n        y = x\n    else:\n        y = w", (2, "a and b")),
    ],
)
def test_a_condition(text, expected):
    assert text_of(condition_span(whole(text, text[text.index("if") :]))) == expected


def test_what_is_no_statement_with_a_condition():
    assert condition_span(whole("y = x if c else w", "x if c else w")) is None
