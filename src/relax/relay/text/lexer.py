"""From text to tokens.

The lexer is one regular expression with a named group per kind of token: the whole lexical grammar is the table
`_GRAMMAR`. Only block comments, which nest, and the metadata section, which is JSON, need more. A generator of lexers
would add a dependency and a second language for fifteen lines.

Every token has a span. A character that begins no token is reported (E9001) and skipped. Brackets are matched here too,
so that the parser can skip a broken statement and look ahead past a body.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any, Final, NamedTuple

from ...ir import Diagnostic, DiagnosticContext, Source, Span

_GRAMMAR: Final = (
    ("space", r"[ \t\r\n\f]+"),
    ("comment", r"//[^\n]*"),
    ("block", r"/\*"),
    ("version", r'\#\[\s*version\s*=\s*"(?:[^"\n]*)"\s*\]'),
    ("metadata", r"\#\[\s*metadata\s*\]"),
    ("number", r"(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)(?:(?:bfloat|float|uint|int|bf|f|i|u)(?:\d\w*)?)?"),
    ("graph", r"%\d+"),
    ("local", r'%(?:[A-Za-z_]\w*|"(?:[^"\\\n]|\\.)*")'),
    ("global", r'@(?:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*|"(?:[^"\\\n]|\\.)*")'),
    ("name", r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"),
    ("string", r'"(?:[^"\\\n]|\\.)*"'),
    ("symbol", r"->|=>|==|!=|<=|>=|&&|\|\||:=|[-+*/%<>=(){}\[\],;:.?!^]"),
)
_TOKEN: Final = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _GRAMMAR), re.ASCII)
_INDEX: Final = re.compile(r"[ \t]*\d+")
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")
_OPEN: Final = {"(": ")", "[": "]", "{": "}"}
_CLOSE: Final = frozenset(_OPEN.values())
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "0": "\0"}


class Token(NamedTuple):
    """Token: kind (a name of `_GRAMMAR`; for symbols their text; ``end``), text and position."""

    kind: str
    text: str
    start: int
    end: int


class Tokens:
    """Tokens of a text.

    `metadata` is the text of the metadata section, or None.
    """

    def __init__(self, source: Source, diagnostics: DiagnosticContext) -> None:
        self.source = source
        self.diagnostics = diagnostics
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", source.text))]
        self.version: Token | None = None
        self.has_unmatched = False
        self.metadata: str | None = None
        self.items: list[Token] = []
        self._scan()
        end = len(source.text)
        self.items.append(Token("end", "", end, end))
        self.partner = self._match_brackets()
        """Index of the closing bracket for each opening one; empty if `has_unmatched`."""

    def span(self, start: int, end: int) -> Span:
        """Span between two offsets of the text."""
        first, last = self._line(start), self._line(max(start, end - 1))
        first_line = self.source.first_line
        return Span(
            self.source,
            first + first_line,
            start - self._line_starts[first] + 1,
            last + first_line,
            max(end, start + 1) - self._line_starts[last] + 1,
        )

    def _line(self, offset: int) -> int:
        return bisect_right(self._line_starts, offset) - 1

    def complain(self, code: str, message: str, start: int, end: int, hint: str = "") -> None:
        """Report a diagnostic at a range of the text."""
        self.diagnostics.emit(Diagnostic(code, message, self.span(start, end), hint=hint))

    def _scan(self) -> None:
        text, position, items = self.source.text, 0, self.items
        while position < len(text):
            # Digits after a dot are an index: `%t.0.1` is two projections, not the number 0.1.
            pattern: Any = _INDEX if items and items[-1].kind == "." else _TOKEN
            match = pattern.match(text, position) or _TOKEN.match(text, position)
            if match is None:
                position = self._unreadable(position)
                continue
            kind, start, position = match.lastgroup or "number", position, match.end()
            if kind == "block":
                position = self._block_comment(start)
            elif kind == "version":
                self.version = Token(kind, match.group(), start, position)
            elif kind == "metadata":
                self.metadata = text[position:]
                return
            elif kind == "symbol":
                items.append(Token(match.group(), match.group(), start, position))
            elif kind not in ("space", "comment"):
                items.append(Token(kind, match.group().strip(), start, position))

    def _unreadable(self, start: int) -> int:
        text = self.source.text
        character = text[start]
        if character == '"' or text[start : start + 2] in ('%"', '@"'):
            end = text.find("\n", start)
            end = len(text) if end < 0 else end
            self.complain("E9001", "the string has no end on its line", start, end, 'close it with `"`')
            return end
        end = start + 1
        while end < len(text) and text[end] == character:
            end += 1
        self.complain("E9001", f"the character {character!r} begins nothing in Relay", start, end)
        return end

    def _block_comment(self, start: int) -> int:
        depth, position, text = 1, start + 2, self.source.text
        while depth:
            edge = _COMMENT_EDGE.search(text, position)
            if edge is None:
                self.complain("E9001", "the comment has no end", start, start + 2, "close it with `*/`")
                return len(text)
            depth += 1 if edge.group() == "/*" else -1
            position = edge.end()
        return position

    def _match_brackets(self) -> dict[int, int]:
        partner: dict[int, int] = {}
        open_brackets: list[int] = []
        for index, token in enumerate(self.items):
            if token.kind in _OPEN:
                open_brackets.append(index)
            elif token.kind in _CLOSE:
                opening = self.items[open_brackets[-1]] if open_brackets else None
                if opening is None or _OPEN[opening.kind] != token.kind:
                    return self._unmatched(token, opening)
                partner[open_brackets.pop()] = index
        if open_brackets:
            return self._unmatched(self.items[open_brackets[-1]], None)
        return partner

    def _unmatched(self, token: Token, opening: Token | None) -> dict[int, int]:
        self.has_unmatched = True
        if opening is not None:
            line = self.span(opening.start, opening.end).line
            message = f"`{token.text}` does not close the `{opening.text}` of line {line}"
        elif token.kind in _CLOSE:
            message = f"`{token.text}` closes nothing"
        else:
            message = f"`{token.text}` is not closed"
        self.complain("E9002", message, token.start, token.end)
        return {}


def unquote(text: str) -> str:
    """Value of a string token."""
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match.group(1), match.group(1)), text[1:-1])


def quote(text: str) -> str:
    """String token for a value."""
    escaped = "".join(_QUOTED.get(character, character) for character in text)
    return f'"{escaped}"'


_QUOTED: Final = {character: f"\\{escape}" for escape, character in _ESCAPES.items()}
