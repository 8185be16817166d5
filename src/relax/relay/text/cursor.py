"""The parser's place in the text: tokens ahead, complaints, recovery, and the names in scope."""

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
"""The number of brackets within brackets that the parser enters."""
MAX_ERRORS: Final = 100
DEFINITION_WORDS: Final = frozenset(("def", "type", "extern", "import"))
"""The words that begin a definition, and can stand nowhere else."""

T = TypeVar("T")


class Abort(Exception):
    """The statement cannot be read further; the complaint has been made."""


class Scopes(Generic[T]):
    """The objects that names stand for; an inner binding of a name hides the outer one."""

    def __init__(self) -> None:
        self._bound: dict[str, list[T]] = {}

    def push(self, name: str, value: T) -> None:
        self._bound.setdefault(name, []).append(value)

    def pop(self, name: str) -> None:
        self._bound[name].pop()

    def get(self, name: str) -> T | None:
        """The innermost object of a name, None if there is none."""
        bound = self._bound.get(name)
        return bound[-1] if bound else None

    def names(self) -> list[str]:
        """The names in scope."""
        return [name for name, bound in self._bound.items() if bound]


class Cursor:
    """Tokens, complaints and names. The grammar is in the classes built on this one."""

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
        """Symbolic dimensions by name; those of one definition are one variable."""
        self.global_vars: dict[str, GlobalVar] = {}
        self.global_type_vars: dict[str, GlobalTypeVar] = {}
        self.constructors: dict[str, Constructor] = {}
        self.metadata: dict[str, tuple[Node, ...]] = {}
        self.is_module = False
        """True while a module is read: then a global name must be defined in it."""

    # ------------------------------------------------------------------------------------------ tokens

    @property
    def token(self) -> Token:
        """The token ahead."""
        return self.items[self.index]

    def kind(self, ahead: int = 0) -> str:
        """The kind of a token ahead."""
        index = min(self.index + ahead, len(self.items) - 1)
        return self.items[index].kind

    def at_word(self, word: str) -> bool:
        """True if this word is ahead."""
        token = self.items[self.index]
        return token.kind == "name" and token.text == word

    def advance(self) -> Token:
        """The token ahead, which is passed."""
        token = self.items[self.index]
        if token.kind != "end":
            self.index += 1
        return token

    def accept(self, kind: str) -> bool:
        """Pass the token ahead if it is of this kind."""
        if self.items[self.index].kind != kind:
            return False
        self.index += 1
        return True

    def accept_word(self, word: str) -> bool:
        """Pass the token ahead if it is this word."""
        if not self.at_word(word):
            return False
        self.index += 1
        return True

    def expect(self, kind: str, where: str) -> Token:
        """Pass the token ahead, which must be of this kind."""
        if self.items[self.index].kind == kind:
            return self.advance()
        self.unexpected(f"expected {_DESCRIPTIONS.get(kind, f'`{kind}`')} {where}")

    def expect_word(self, word: str, where: str) -> Token:
        """Pass the token ahead, which must be this word."""
        if self.at_word(word):
            return self.advance()
        self.unexpected(f"expected `{word}` {where}")

    def span_from(self, start: int) -> Span:
        """The span from a token, by its index, to the last one passed."""
        last = max(start, self.index - 1)
        return self.tokens.span(self.items[start].start, self.items[last].end)

    # ------------------------------------------------------------------------------------- complaints

    def complain(self, code: str, message: str, token: Token | None = None, hint: str = "") -> None:
        """Report a problem of a token, of the one ahead if none is given."""
        token = self.token if token is None else token
        self.complain_at(code, message, self.tokens.span(token.start, token.end), hint)

    def complain_at(self, code: str, message: str, span: Span | None, hint: str = "") -> None:
        """Report a problem of a stretch of the text."""
        self.emit(Diagnostic(code, message, span, hint=hint))

    def emit(self, diagnostic: Diagnostic) -> None:
        """Report a problem; of very many, the first."""
        self.diagnostics.emit(diagnostic)
        if len(self.diagnostics.diagnostics) >= MAX_ERRORS:
            self.index = len(self.items) - 1
            raise Abort

    def abort(self, code: str, message: str, token: Token | None = None, hint: str = "") -> NoReturn:
        """Report a problem after which the statement cannot be read further."""
        self.complain(code, message, token, hint)
        raise Abort

    def unexpected(self, message: str, hint: str = "") -> NoReturn:
        """Report the token ahead as another than expected."""
        token = self.token
        text = "the end of the text" if token.kind == "end" else f"`{_short(token.text)}`"
        self.abort("E9002", f"{message}, found {text}", token, hint)

    @contextmanager
    def nested(self) -> Generator[None]:
        """Enter a bracket; too many within each other are a diagnostic."""
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
        """Go on behind the statement that began at `start`: True behind its `;`, False at `end` or before a definition.

        `end` is the index of the bracket that closes the block.
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
        """The index of the bracket that closes the one at `opening`, or of the end of the text."""
        return self.tokens.partner.get(opening, len(self.items) - 1)


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"


def list_names(names: Any) -> str:
    """Names for a hint, not too many."""
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
