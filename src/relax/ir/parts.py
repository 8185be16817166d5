"""Spans of parts: the argument of a call, the condition of an ``if``.

All uses of a variable share its node, which has no position of a single use. A diagnostic about one use re-parses the
text of the enclosing expression to find it. The result is None if that text is not Python of the expected form (a
manually created span, a call replaced by a pass).
"""

from __future__ import annotations

import ast

from .span import Span


def argument_span(call: Span | None, index: int, count: int) -> Span | None:
    """Span of argument `index` of a call; None unless the text is a call of `count` plain positional arguments."""
    node = _statement(call)
    value = node.value if isinstance(node, ast.Expr) else None
    if call is None or not isinstance(value, ast.Call):
        return None
    if value.keywords or len(value.args) != count or any(isinstance(a, ast.Starred) for a in value.args):
        return None
    return _span_of(value.args[index], call)


def condition_span(statement: Span | None) -> Span | None:
    """Span of the condition of an ``if``."""
    node = _statement(statement)
    return _span_of(node.test, statement) if isinstance(node, ast.If) and statement is not None else None


def _statement(span: Span | None) -> ast.stmt | None:
    """Syntax tree of a span's text, with its original columns, beginning in line 2."""
    if span is None:
        return None
    lines = [span.source.line(number) for number in range(span.line, span.end_line + 1)]
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = " " * (span.column - 1) + lines[0][span.column - 1 :]
    try:
        # In parentheses, or in a block, text may begin at any column.
        head = "if 1:\n" if span.column > 1 else "\n"
        tree = ast.parse(head + "\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    body = tree.body[0].body if isinstance(tree.body[0], ast.If) and span.column > 1 else tree.body
    return body[0] if len(body) == 1 else None


def _span_of(node: ast.expr, around: Span) -> Span:
    first, last = around.line - 2 + node.lineno, around.line - 2 + (node.end_lineno or node.lineno)
    return Span(
        around.source,
        first,
        _column(around, first, node.col_offset),
        last,
        _column(around, last, node.end_col_offset or node.col_offset),
    )


def _column(around: Span, line: int, offset: int) -> int:
    """Convert Python's UTF-8 byte offset to a column; the first line is padded with spaces up to the span."""
    text = around.source.line(line)
    lead = around.column - 1 if line == around.line else 0
    return lead + len(text[lead:].encode()[: offset - lead].decode(errors="replace")) + 1
