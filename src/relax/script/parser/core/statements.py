"""Statement parser: walks a function's body and reports every failed statement, not only the first."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from ....ir import DiagnosticError
from .diagnostics import KIND, POISON, SYNTAX, Poisoned, error
from .evaluator import Evaluator
from .macro import Macro
from .scope import MISSING, Scopes


class StatementParser(Evaluator):
    """Base class of the dialects' parsers: `visit` dispatches to ``visit_<kind of statement>``.

    A dialect defines visit_Assign, visit_AnnAssign, visit_AugAssign, visit_For, visit_While, visit_With, visit_If,
    visit_Return, visit_FunctionDef, visit_Expr … for the statements it supports; others are reported as errors. A
    statement that fails is reported and skipped; the names it would have defined are poisoned, so that their uses are
    not reported again.
    """

    instead: ClassVar[Mapping[type[ast.AST], str]] = {}
    """Hints for unsupported statements: their replacement."""

    def visit_body(self, body: Sequence[ast.stmt]) -> None:
        """Visit statements in order, collecting the errors of each."""
        for statement in body:
            self.visit(statement)

    def visit(self, node: ast.stmt) -> None:
        """Visit one statement; its errors go to `self.diagnostics`."""
        try:
            self.dispatch(node)
        except DiagnosticError as problem:
            self.diagnostics.diagnostics.extend(self.placed(problem, node).diagnostics)
            self.poison(node)
        except Poisoned:
            self.poison(node)
        except RecursionError:
            problem = error(SYNTAX, "this statement is nested too deeply", self.span(node))
            self.diagnostics.diagnostics.extend(problem.diagnostics)
            self.poison(node)

    def dispatch(self, node: ast.stmt) -> None:
        """Visit one statement; errors are raised."""
        method: Callable[[Any], None] | None = getattr(self, f"visit_{type(node).__name__}", None)
        if method is None:
            name = _STATEMENTS.get(type(node), type(node).__name__)
            hint = self.instead.get(type(node), "")
            self.fail(SYNTAX, f"{name} cannot be used here", node, hint=hint)
        method(node)

    def poison(self, node: ast.stmt) -> None:
        """Mark the names a failed statement would have defined."""
        for name in _assigned(node):
            self.scopes.define(name, POISON)

    macros: ClassVar[str] = ""
    """Namespace whose macros may be called here."""

    def invoke(self, function: Any, args: list[Any], keywords: dict[str, Any], node: ast.Call) -> Any:
        if isinstance(function, Macro):
            return self.expand(function, args, keywords, node)
        return super().invoke(function, args, keywords, node)

    def expand(self, macro: Macro, args: list[Any], keywords: dict[str, Any], node: ast.Call) -> Any:
        """Expand a macro here; returns the value of its final return, if any."""
        if macro.label != self.macros:
            self.fail(KIND, f"{macro.name} is a macro of {macro.label}, which cannot be called here", node)
        if any(macro is outer for outer in self._expanding):
            self.fail(KIND, f"the macro {macro.name} calls itself", node)
        self.count_step(node)
        scopes = Scopes(macro.environment) if macro.hygienic else self.scopes
        saved = self.source, self.scopes
        self._expanding.append(macro)
        try:
            values = self.guard(node, "", macro.bind, args, keywords, self.eval)
            self.source, self.scopes = macro.source, scopes
            with self.scopes.frame() as frame:
                frame.update(values)
                *body, last = macro.node.body
                self.visit_body(body)
                if isinstance(last, ast.Return):
                    return None if last.value is None else self.eval(last.value)
                self.visit(last)
        finally:
            self._expanding.pop()
            self.source, self.scopes = saved
        return None

    def visit_Nonlocal(self, node: ast.Nonlocal | ast.Global) -> None:
        """Accept a nonlocal declaration, which scripts do not need. Its names must exist."""
        for name in node.names:
            if self.scopes.lookup(name) is MISSING:
                self.fail(SYNTAX, f"`{name}` is not defined around this function", node)

    visit_Global = visit_Nonlocal

    def visit_Pass(self, node: ast.Pass) -> None:
        """Ignore a ``pass``."""


def is_docstring(node: ast.stmt) -> bool:
    """True if a statement is a bare string."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _assigned(node: ast.stmt) -> Iterable[str]:
    match node:
        case ast.Assign(targets=targets):
            for target in targets:
                yield from _names(target)
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            yield from _names(target)
        case ast.FunctionDef(name=name):
            yield name
        case ast.If(body=body, orelse=orelse):
            for inner in (*body, *orelse):
                yield from _assigned(inner)
        case ast.With(body=body, items=items):
            for item in items:
                if item.optional_vars is not None:
                    yield from _names(item.optional_vars)
            for inner in body:
                yield from _assigned(inner)
        case ast.For(target=target, body=body):
            yield from _names(target)
            for inner in body:
                yield from _assigned(inner)
        case _:
            pass


def _names(target: ast.expr) -> Iterable[str]:
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, (ast.Tuple, ast.List)):
        for item in target.elts:
            yield from _names(item)


_STATEMENTS: dict[type[ast.AST], str] = {
    ast.ClassDef: "a class",
    ast.AsyncFunctionDef: "an async function",
    ast.Delete: "del",
    ast.Raise: "raise",
    ast.Try: "try",
    ast.Import: "import",
    ast.ImportFrom: "import",
    ast.Global: "global",
    ast.Nonlocal: "nonlocal",
    ast.Match: "match",
    ast.Assert: "assert",
    ast.For: "for",
    ast.While: "while",
    ast.If: "if",
    ast.With: "with",
    ast.Return: "return",
    ast.FunctionDef: "a function definition",
    ast.AugAssign: "an augmented assignment",
    ast.Break: "break",
    ast.Continue: "continue",
}
