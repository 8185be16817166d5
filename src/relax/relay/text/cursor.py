"""Token cursor of the parser: lookahead, diagnostics, error recovery, and the names in scope."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, Generic, NoReturn, TypeVar

from ...ir import Diagnostic, DiagnosticContext, GlobalVar, Node, Span
from ...prim import expr as prim
from ..adt import Constructor
from ..expr import Expr, Var
from ..types import GlobalTypeVar
from ..types import TypeVar as RelayTypeVar
from .lexer import Token, Tokens

MAX_NESTING: Final = 10_000
"""Most nested brackets that the parser accepts."""
MAX_ERRORS: Final = 100
DEFINITION_WORDS: Final = frozenset(("def", "type", "extern", "import"))
"""Keywords that begin a definition and are reserved elsewhere."""

T = TypeVar("T")


class Abort(Exception):
    """Raised after a diagnostic if the statement cannot be parsed further."""


class Scopes(Generic[T]):
    """Objects by name; inner bindings hide outer ones."""

    def __init__(self) -> None:
        self._bound: dict[str, list[T]] = {}

    def push(self, name: str, value: T) -> None:
        self._bound.setdefault(name, []).append(value)

    def pop(self, name: str) -> None:
        self._bound[name].pop()

    def get(self, name: str) -> T | None:
        """Return the innermost object of a name, or None."""
        bound = self._bound.get(name)
        return bound[-1] if bound else None

    def names(self) -> list[str]:
        """Names in scope."""
        return [name for name, bound in self._bound.items() if bound]


class Cursor:
    """Tokens, diagnostics and names. Subclasses implement the grammar."""

    def __init__(self, tokens: Tokens, diagnostics: DiagnosticContext) -> None:
        self.tokens = tokens
        self.items = tokens.items
        self.diagnostics = diagnostics
        self.index = 0
        self.depth = 0
        self.variables: Scopes[Var] = Scopes()
        self.type_vars: Scopes[RelayTypeVar] = Scopes()
        self.graph: dict[str, Expr] = {}
        self.dims: dict[str, prim.Var] = {}
        """Symbolic dimensions by name; a dimension is one variable within a definition."""
        self.global_vars: dict[str, GlobalVar] = {}
        self.global_type_vars: dict[str, GlobalTypeVar] = {}
        self.constructors: dict[str, Constructor] = {}
        self.metadata: dict[str, tuple[Node, ...]] = {}
        self.is_module = False
        """True while a module is parsed: global names must then be defined in it."""

    # ------------------------------------------------------------------------------------------ tokens

    @property
    def token(self) -> Token:
        """Next token."""
        return self.items[self.index]

    def kind(self, ahead: int = 0) -> str:
        """Kind of the token `ahead` positions ahead."""
        index = min(self.index + ahead, len(self.items) - 1)
        return self.items[index].kind

    def at_word(self, word: str) -> bool:
        """True if the next token is this word."""
        token = self.items[self.index]
        return token.kind == "name" and token.text == word

    def advance(self) -> Token:
        """Consume and return the next token."""
        token = self.items[self.index]
        if token.kind != "end":
            self.index += 1
        return token

    def accept(self, kind: str) -> bool:
        """Consume the next token if it is of this kind."""
        if self.items[self.index].kind != kind:
            return False
        self.index += 1
        return True

    def accept_word(self, word: str) -> bool:
        """Consume the next token if it is this word."""
        if not self.at_word(word):
            return False
        self.index += 1
        return True

    def expect(self, kind: str, where: str) -> Token:
        """Consume the next token, which must be of this kind."""
        if self.items[self.index].kind == kind:
            return self.advance()
        self.unexpected(f"expected {_DESCRIPTIONS.get(kind, f'`{kind}`')} {where}")

    def expect_word(self, word: str, where: str) -> Token:
        """Consume the next token, which must be this word."""
        if self.at_word(word):
            return self.advance()
        self.unexpected(f"expected `{word}` {where}")

    def span_from(self, start: int) -> Span:
        """Span from the token at index `start` to the last consumed one."""
        last = max(start, self.index - 1)
        return self.tokens.span(self.items[start].start, self.items[last].end)

    # ------------------------------------------------------------------------------------- complaints

    def complain(self, code: str, message: str, token: Token | None = None, hint: str = "") -> None:
        """Report a diagnostic at a token, by default the next one."""
        token = self.token if token is None else token
        self.complain_at(code, message, self.tokens.span(token.start, token.end), hint)

    def complain_at(self, code: str, message: str, span: Span | None, hint: str = "") -> None:
        """Report a diagnostic at a span."""
        self.emit(Diagnostic(code, message, span, hint=hint))

    def emit(self, diagnostic: Diagnostic) -> None:
        """Report a diagnostic; of very many, only the first are kept."""
        self.diagnostics.emit(diagnostic)
        if len(self.diagnostics.diagnostics) >= MAX_ERRORS:
            self.index = len(self.items) - 1
            raise Abort

    def abort(self, code: str, message: str, token: Token | None = None, hint: str = "") -> NoReturn:
        """Report a diagnostic and abort the statement."""
        self.complain(code, message, token, hint)
        raise Abort

    def unexpected(self, message: str, hint: str = "") -> NoReturn:
        """Report the next token as unexpected and abort the statement."""
        token = self.token
        text = "the end of the text" if token.kind == "end" else f"`{_short(token.text)}`"
        self.abort("E9002", f"{message}, found {text}", token, hint)

    @contextmanager
    def nested(self) -> Generator[None]:
        """Context manager: enter a bracket; too deep nesting is reported."""
        self.depth += 1
        try:
            if self.depth > MAX_NESTING:
                hint = "bind parts of it: `%1 = …;`"
                self.abort("E9006", f"more than {MAX_NESTING} brackets within each other", hint=hint)
            yield
        finally:
            self.depth -= 1

    # --------------------------------------------------------------------------------------- recovery

    def skip_statement(self, start: int, end: int) -> bool:
        """Skip the statement that began at `start`: True after its `;`, False at `end` or before a definition.

        `end` is the index of the closing bracket of the block.
        """
        reached, index = self.index, start
        while index < end:
            token = self.items[index]
            if token.kind == ";" and index >= reached:
                self.index = index + 1
                return True
            if token.kind == "name" and token.text in DEFINITION_WORDS and index > start:
                break
            partner = self.tokens.partner.get(index, index)
            index = max(partner, index) + 1
        self.index = min(index, end)
        return False

    def block_end(self, opening: int) -> int:
        """Index of the bracket that closes the one at `opening`, or of the end of the text."""
        return self.tokens.partner.get(opening, len(self.items) - 1)


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"


def list_names(names: Any) -> str:
    """Format names for a hint, limited in number."""
    names = sorted(names)
    return ", ".join(names[:12]) + (", …" if len(names) > 12 else "")


_DESCRIPTIONS: Final = {
    "name": "a name",
    "local": "a variable `%name`",
    "global": "a global name `@name`",
    "number": "a number",
    "string": "a string",
    "end": "the end of the text",
}
