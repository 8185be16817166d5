"""Python syntax trees of text nested deeper than Python's parser supports (200 brackets, 100 indents).

The printer emits such text for deep programs. Every 50 levels, the inner text is cut out, parsed separately, and its
tree substituted for a placeholder name:

    f(… g(… h(x) …) …)        ->   f(… g(_      ) …)  and  _(… h(x) …)
    if a:                     ->   if a:              and  if 1:
        if b:                          _                       if b:
            c                                                      c

Lines and columns are those of the whole text. This is only tried after Python has refused a text.
"""

from __future__ import annotations

import ast
import keyword
import re
from dataclasses import field
from typing import Any, Final, cast

from ....runtime.records import dataclass

LIMIT: Final = 1000
"""Maximum nesting depth of brackets and of blocks, as the parsers that read the tree are recursive."""

_STEP: Final = 50
_REFUSED: Final = ("too many nested parentheses", "too many levels of indentation")
_TOKEN: Final = re.compile(
    r"""
    (?P<string> [rRbBuUfF]{0,2} (?: \"{3} (?:[^\\]|\\.)*? \"{3} | '{3} (?:[^\\]|\\.)*? '{3}
                                | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' ))
    | (?P<skip> \#[^\n]* | \\\n | [\ \t\f]+ )
    | (?P<newline> \n )
    | (?P<word> \w+ )
    | (?P<open> [(\[{] )
    | (?P<close> [)\]}] )
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_OPERATORS: Final = frozenset(keyword.kwlist) - {"None", "True", "False"}
"""Keywords after which a bracket opens a group rather than a call."""


def is_too_deep(problem: Exception) -> bool:
    """True if Python rejects a text only for its nesting depth."""
    return problem.msg in _REFUSED if isinstance(problem, SyntaxError) else True


def parse_deep(text: str) -> ast.Module:
    """Parse a text that `ast.parse` rejects for its depth. Raises SyntaxError for invalid text or excessive depth.

    Raises SyntaxError if something is wrong with the text, or with its depth here too.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    root = _Scanner(text).scan()
    tree = _parse(text, root)
    assert isinstance(tree, ast.Module)
    return tree


@dataclass(eq=False)
class _Cut:
    """A part of the text that is parsed separately."""

    kind: str
    """``block``, ``group`` (a bracketed expression), ``call`` or ``index`` (brackets after a value)."""
    start: int
    """Offset of the opening bracket; for a block, of the start of its first line."""
    hidden: int
    """Offset of the placeholder."""
    line: int
    column: int
    """Column of the placeholder, in bytes, from 0."""
    end: int = -1
    inner: list[_Cut] = field(default_factory=list["_Cut"])


class _Scanner:
    """Scanner that finds the parts to cut out: brackets and blocks at every 50th level."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.root = _Cut("text", 0, 0, 1, 0, len(text))
        self.cuts = [self.root]
        """Stack of cuts around the current offset."""
        self.brackets: list[_Cut | None] = []
        """Stack of open brackets: the cut of each, or None."""
        self.blocks: list[tuple[int, _Cut | None]] = [(0, None)]
        """Stack of open blocks: the indentation of each, and its cut or None."""
        self.line, self.line_start = 1, 0

    def scan(self) -> _Cut:
        fresh = True
        before, after_value = "", False
        for match in _TOKEN.finditer(self.text):
            kind, token = match.lastgroup or "", match.group()
            if kind == "newline" or (kind in ("string", "skip") and "\n" in token):
                fresh = (fresh or not self.brackets) if kind == "newline" else fresh
                self._count(match.start(), token)
            if kind in ("newline", "skip"):
                continue
            if fresh:
                self._indent(match.start())
                fresh, after_value = False, False
            if kind == "open":
                self._open(match.start(), token, after_value)
            elif kind == "close":
                self._close(match.end())
            before = token
            after_value = kind in ("string", "close") or (kind == "word" and before not in _OPERATORS)
        while len(self.blocks) > 1:
            self._dedent(len(self.text))
        return self.root

    def _count(self, start: int, token: str) -> None:
        self.line += token.count("\n")
        self.line_start = start + token.rindex("\n") + 1

    def _line_and_column(self, at: int) -> tuple[int, int]:
        return self.line, _size(self.text[self.line_start : at])

    def _indent(self, at: int) -> None:
        """Update the open blocks at the beginning of a statement."""
        width = len(self.text[self.line_start : at].expandtabs(8))
        while width < self.blocks[-1][0]:
            self._dedent(self.line_start)
        if width > self.blocks[-1][0]:
            depth = len(self.blocks)
            self._check(depth, at)
            cut = self._cut("block", self.line_start, at) if depth % _STEP == 0 else None
            self.blocks.append((width, cut))

    def _dedent(self, at: int) -> None:
        _, cut = self.blocks.pop()
        if cut is not None:
            cut.end = at
            self.cuts.pop()

    def _open(self, at: int, token: str, after_value: bool) -> None:
        depth = len(self.brackets)
        self._check(depth, at)
        cut = None
        if depth and depth % _STEP == 0:
            kinds = {"(": "call", "[": "index", "{": "group"}
            kind = kinds[token] if after_value else "group"
            cut = self._cut(kind, at, at if kind == "group" else at + 1)
        self.brackets.append(cut)

    def _close(self, end: int) -> None:
        cut = self.brackets.pop() if self.brackets else None
        if cut is not None:
            cut.end = end
            self.cuts.pop()

    def _cut(self, kind: str, start: int, placeholder: int) -> _Cut:
        cut = _Cut(kind, start, placeholder, *self._line_and_column(placeholder))
        self.cuts[-1].inner.append(cut)
        self.cuts.append(cut)
        return cut

    def _check(self, depth: int, at: int) -> None:
        if depth > LIMIT:
            line, column = self.line, at - self.line_start + 1
            message = f"nested more than {LIMIT} levels deep"
            raise SyntaxError(message, ("<string>", line, column, None, line, column + 1))


def _size(text: str) -> int:
    """Length in UTF-8 bytes, in which Python counts columns."""
    return len(text.encode(errors="surrogatepass"))


def _blank(text: str) -> str:
    """White space with the text's lines and their lengths in bytes."""
    return "\n".join(" " * _size(line) for line in text.split("\n"))


def _shell(text: str, cut: _Cut, start: int, end: int) -> str:
    """Text of a cut from `start` to `end`, with placeholders for its inner cuts."""
    pieces: list[str] = []
    at = start
    for inner in cut.inner:
        if inner.end < 0:
            raise SyntaxError("a bracket is not closed", ("<string>", inner.line, inner.column + 1, None))
        last = inner.end - (inner.kind in ("call", "index"))  # the closing bracket stays
        hidden = _blank(text[inner.hidden : last])
        pieces += [text[at : inner.hidden], "_", hidden.removeprefix(" ")]
        at = last
    return "".join([*pieces, text[at:end]])


def _parse(text: str, cut: _Cut) -> ast.AST:
    """Syntax tree of a part: a module for the whole text, otherwise the node that holds the inner text."""
    shell = _shell(text, cut, cut.start, cut.end)
    column = cut.column - (cut.kind in ("call", "index"))
    match cut.kind:
        case "text":
            head, tail, skipped = "", "", 0
        case "block":
            head, tail, skipped = "if 1:\n", "", 1
        case "group":
            head, tail, skipped = "(\n" + " " * column, "\n)", 1
        case _:
            head, tail, skipped = "(_\n" + " " * column, "\n)", 1
    moved = cut.line - 1 - skipped
    try:
        tree = ast.parse(head + shell + tail)
    except SyntaxError as problem:
        problem.lineno = (problem.lineno or 1) + moved
        problem.end_lineno = (problem.end_lineno or problem.lineno - moved) + moved
        raise
    if moved:
        ast.increment_lineno(tree, moved)
    if cut.inner:
        _put_back(tree, {(inner.line, inner.column): (inner, _parse(text, inner)) for inner in cut.inner})
    if cut.kind == "text":
        return tree
    statement = tree.body[0]
    return statement.value if isinstance(statement, ast.Expr) else statement


def _put_back(tree: ast.AST, placeholders: dict[tuple[int, int], tuple[_Cut, ast.AST]]) -> None:
    """Replace the placeholders in a tree. Raises SyntaxError if one is not at its expected position."""
    for node in list(ast.walk(tree)):
        for name, value in list(ast.iter_fields(node)):
            items = cast("list[Any]", value) if isinstance(value, list) else [value]
            for i, item in enumerate(items):
                held = item.value if isinstance(item, ast.Expr) else item
                if isinstance(held, ast.Name) and (held.lineno, held.col_offset) in placeholders:
                    cut, parsed = placeholders.pop((held.lineno, held.col_offset))
                    _replace(node, name, i, cut, parsed)
    for cut, _ in placeholders.values():
        raise SyntaxError("this is nested too deeply", ("<string>", cut.line, cut.column + 1, None))


def _replace(node: ast.AST, name: str, index: int, cut: _Cut, parsed: ast.AST) -> None:
    """Store a parsed cut into a field of a node, at `index` if the field is a list."""
    match cut.kind, node, parsed:
        case "call", ast.Call(), ast.Call():
            node.args, node.keywords = parsed.args, parsed.keywords
        case "index", ast.Subscript(), ast.Subscript():
            node.slice = parsed.slice
        case "block", _, ast.If():
            setattr(node, name, parsed.body)
        case _:
            value = getattr(node, name)
            if isinstance(value, list):
                value[index] = parsed
            else:
                setattr(node, name, parsed)


__all__ = ["LIMIT", "is_too_deep", "parse_deep"]
