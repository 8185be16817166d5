"""Source text, its Python syntax tree, and the mapping from tree positions to spans.

Spans hold lines and columns of the file: a decorated function is found in the tree of its whole file, so nothing has to
be dedented or renumbered.
"""

from __future__ import annotations

import ast
import types
import warnings
from dataclasses import field
from typing import Any, TypeAlias

from ....ir import Diagnostic, DiagnosticError, Source, Span
from ....ir.python_source import source_of
from ....ir.span import split_lines
from ....runtime.records import dataclass
from .deep import is_too_deep, parse_deep
from .diagnostics import SYNTAX

Definition: TypeAlias = "ast.FunctionDef | ast.ClassDef"


@dataclass(eq=False)
class ScriptSource:
    """A text and its tree. `span` turns a tree's node into a Span."""

    source: Source
    tree: ast.Module
    _lines: list[str] = field(default_factory=list[str])
    _plain: bool = True
    _definitions: dict[str, list[Definition]] | None = None

    def __post_init__(self) -> None:
        self._plain = self.source.text.isascii()
        self._lines = split_lines(self.source.text)

    @staticmethod
    def parse(text: str, name: str = "<string>") -> ScriptSource:
        """Parse a text. Raises DiagnosticError (E1001) when it is not Python syntax."""
        source = Source(name, text)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # e.g. SyntaxWarning: invalid escape sequence
                tree = _tree(text)
        except SyntaxError as problem:
            line = problem.lineno or 1
            column = problem.offset or 1
            end_line = problem.end_lineno or line
            end = problem.end_offset or 0
            stop = end if end_line == line and end > column else column + 1
            span = Span(source, line, column, line, stop)
            raise DiagnosticError(Diagnostic(SYNTAX, problem.msg, span)) from None
        except (RecursionError, MemoryError):
            span = Span(source, 1, 1, 1, 2)
            raise DiagnosticError(Diagnostic(SYNTAX, "the program is nested too deeply", span)) from None
        except ValueError as problem:  # null bytes
            raise DiagnosticError(Diagnostic(SYNTAX, str(problem), Span(source, 1, 1, 1, 2))) from None
        result = ScriptSource(source, tree)
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.Lambda)):
                result._check_parameters(node.args)
        return result

    def _check_parameters(self, args: ast.arguments) -> None:
        """Python finds parameters of one name only when it compiles."""
        names: set[str] = set()
        for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs):
            if arg.arg in names:
                message, hint = f"two parameters are called `{arg.arg}`", "give one of them another name"
                raise DiagnosticError(Diagnostic(SYNTAX, message, self.span(arg), hint=hint))
            names.add(arg.arg)

    def definitions(self) -> dict[str, list[Definition]]:
        """Every function and class of the text, nested ones included, by name."""
        if self._definitions is None:
            table: dict[str, list[Definition]] = {}
            for node in ast.walk(self.tree):
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    table.setdefault(node.name, []).append(node)
            self._definitions = table
        return self._definitions

    def span(self, node: ast.AST) -> Span:
        """Span of a node of the tree."""
        located: Any = node
        line: int = located.lineno
        end_line: int = located.end_lineno or line
        start: int = located.col_offset
        end: int = located.end_col_offset or start
        if not self._plain:
            start = self._column(line, start)
            end = self._column(end_line, end)
        return Span(self.source, line, start + 1, end_line, end + 1)

    def _column(self, line: int, offset: int) -> int:
        """Convert Python's column in UTF-8 bytes to one in characters."""
        if line > len(self._lines):
            return offset
        return len(self._lines[line - 1].encode()[:offset].decode(errors="replace"))


def _tree(text: str) -> ast.Module:
    """Parse a text, also beyond the nesting limits of Python's parser, which printed programs may exceed."""
    try:
        return ast.parse(text)
    except (SyntaxError, RecursionError, MemoryError) as problem:
        if not is_too_deep(problem):
            raise
    return parse_deep(text)


_FILES: dict[str, ScriptSource] = {}


def script_of(code: types.CodeType, module_globals: dict[str, Any] | None = None) -> ScriptSource | None:
    """Parsed text of the file (or notebook cell, command line, …) that contains a code object; None if there is
    none.
    """
    source = source_of(code, module_globals)
    if source is None:
        return None
    parsed = _FILES.get(source.name)
    if parsed is None or parsed.source.text != source.text:
        parsed = _FILES[source.name] = ScriptSource.parse(source.text, source.name)
    return parsed
