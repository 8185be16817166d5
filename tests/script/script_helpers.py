"""Helpers of the script tests."""

from __future__ import annotations

import textwrap

import pytest

from relax.ir import DiagnosticError, assert_structural_equal
from relax.script import from_source


def parse(text, **options):
    return from_source(textwrap.dedent(text), **options)


def roundtrip(node, **options):
    """Print, parse, compare; printing again gives the same text. Returns the text."""
    text = node.script(show_meta=True)
    again = from_source(text, **options)
    assert_structural_equal(again, node)
    assert again.script(show_meta=True) == text
    return text


def check(text, expected=None, **options):
    """Parse a text and round-trip it; with `expected`, that is what it prints as (header aside)."""
    printed = roundtrip(parse(text, **options), **options)
    if expected is not None:
        assert body(printed) == textwrap.dedent(expected).strip()
    return printed


def body(printed):
    """The text below the import comments."""
    lines = printed.splitlines()
    while lines and (lines[0].startswith("# from relax.script") or not lines[0]):
        lines.pop(0)
    return "\n".join(lines)


def errors(text, **options):
    """The diagnostics of a text that does not parse."""
    with pytest.raises(DiagnosticError) as caught:
        parse(text, **options)
    return caught.value.diagnostics


def error(text, **options):
    """The only diagnostic, as (code, line, column, message); lines count from the first non-empty one."""
    found = errors(text, **options)
    assert len(found) == 1, "\n".join(d.render() for d in found)
    (d,) = found
    return d.code, d.span.line - 1 if text.startswith("\n") else d.span.line, d.span.column, d.message
