"""`from_source`: a program given as text, interpreted."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Collection, Mapping
from typing import Any, Final

from ...ir import BaseFunc, DiagnosticContext, DiagnosticError, IRModule, Node, Span, walk
from ...prim import expr as prim
from ...runtime.collection import rarely_collected
from .core import MISSING, FunctionTask, MacroDecorator, Scopes, ScriptSource, is_docstring
from .core.diagnostics import DECLARATION, FORBIDDEN, POISON, SYNTAX, error
from .core.safety import BUILTINS, member
from .core.statements import StatementParser
from .libraries import library_namespaces
from .module import ModuleDecorator, ModuleParser, function_decorator


def from_source(
    program: str,
    extra_vars: Mapping[str, Any] | None = None,
    check_well_formed: bool = True,
    *,
    name: str = "<string>",
    allow_extern: bool | Collection[str] = False,
) -> Any:
    """Parse TVMScript given as text: an IRModule for a class, a function for a ``def``.

    The text is interpreted, never executed: it sees R, T, I (under these names and those its own import lines give
    them), a few Python builtins, and `extra_vars`. The last of several definitions is returned; it may use the earlier
    ones. `allow_extern` lists the C functions that its loops may call (T.call_extern), which are not checked: none, the
    named ones, or all (True). Packed functions (R.call_packed) are only named by a text; they are looked up in the
    process's registry when the program runs. Raises DiagnosticError with all errors, and TypeError for a value that is
    not text.
    """
    if not isinstance(program, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"from_source takes text, found {type(program).__name__}; decorate classes and functions")
    with rarely_collected():
        return _parsed(program, extra_vars, check_well_formed, name, allow_extern)


def _parsed(
    program: str,
    extra_vars: Mapping[str, Any] | None,
    check_well_formed: bool,
    name: str,
    allow_extern: bool | Collection[str],
) -> IRModule | BaseFunc:
    source = ScriptSource.parse(_dedent(program), name)
    diagnostics = DiagnosticContext()
    scopes = Scopes((dict(extra_vars or {}), library_namespaces(), BUILTINS))
    parser = TextParser(source, scopes, diagnostics, check_well_formed)
    with parser.active():
        parser.visit_body(source.tree.body)
    diagnostics.finish()
    if parser.result is None:
        span = Span(source.source, 1, 1, 1, 1)
        raise error(DECLARATION, f"{name} defines no function and no module", span)
    if allow_extern is not True:
        _check_extern(parser.result, allow_extern or (), Span(source.source, 1, 1, 1, 1))
    return parser.result


_EXTERN: Final = frozenset({"call_extern", "call_pure_extern"})


def _check_extern(program: IRModule | BaseFunc, allowed: Collection[str], start: Span) -> None:
    """Raise an error for calls of C functions that are not allowed, even inside nodes given as JSON."""
    allowed = (allowed,) if isinstance(allowed, str) else allowed
    refused: list[DiagnosticError] = []
    span = start

    def visit(node: Node) -> None:
        if not isinstance(node, prim.Call) or node.intrinsic not in _EXTERN:
            return
        callee = node.args[0] if node.args else None
        if isinstance(callee, prim.StringImm) and callee.value in allowed:
            return
        shown = f"`{callee.value[:100]}`" if isinstance(callee, prim.StringImm) else "a C function"
        message = f"text given to from_source may not call {shown}, a function outside of the program"
        hint = "allow_extern= of from_source takes the names of C functions that may be called"
        refused.append(error(FORBIDDEN, message, node.span or span, hint=hint))

    for function in program.functions.values() if isinstance(program, IRModule) else (program,):
        span = function.span or start
        walk(function, visit)
    if refused:
        raise DiagnosticError(diagnostic for problem in refused for diagnostic in problem.diagnostics)


def _dedent(program: str) -> str:
    """Remove the common indentation of a text whose first line is indented."""
    first = next((line for line in program.splitlines() if line.strip()), "")
    return textwrap.dedent(program) if first[:1].isspace() else program


class TextParser(StatementParser):
    """Parser of a text's top level: imports, values, functions, modules."""

    def __init__(
        self, source: ScriptSource, scopes: Scopes, diagnostics: DiagnosticContext, check_well_formed: bool
    ) -> None:
        super().__init__(source, scopes, diagnostics)
        self.check_well_formed = check_well_formed
        self.result: IRModule | BaseFunc | None = None

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        made_by = self.eval(node.decorator_list[0]) if node.decorator_list else None
        if isinstance(made_by, MacroDecorator):
            around = self.scopes.child()
            self.scopes.define(node.name, made_by.of(node, self.source, around.environment))
            return
        decorator = function_decorator(self, node)
        options = {"check_well_formed": self.check_well_formed, **decorator.preset}
        task = FunctionTask(node, self.source, self.scopes.child(), self.diagnostics, options)
        before = len(self.diagnostics.errors)
        function = decorator.dialect.parse(task)
        if function is not None and len(self.diagnostics.errors) == before:
            function = decorator.dialect.finish(function, options)
        self._define(node.name, function, before)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if len(node.decorator_list) != 1:
            self.fail(DECLARATION, f"class `{node.name}` needs the decorator @I.ir_module", node)
        decorator = self.eval(node.decorator_list[0])
        if not isinstance(decorator, ModuleDecorator):
            self.fail(DECLARATION, "a class in a script is decorated with @I.ir_module", node.decorator_list[0])
        parser = ModuleParser(self.source, self.scopes.child(), self.diagnostics)
        before = len(self.diagnostics.errors)
        module = parser.module(node)
        if len(self.diagnostics.errors) == before:
            module = parser.finish(module, self.check_well_formed and decorator.check_well_formed)
        self._define(node.name, module, before)

    def _define(self, name: str, program: IRModule | BaseFunc | None, before: int) -> None:
        failed = program is None or len(self.diagnostics.errors) > before
        self.result = None if failed else program
        self.scopes.define(name, POISON if failed else program)

    def visit_Assign(self, node: ast.Assign) -> None:
        value = self.eval(node.value)
        for target in node.targets:
            self.bind_pattern(target, value, lambda name, item: self.scopes.define(name.id, item))

    def visit_Expr(self, node: ast.Expr) -> None:
        if not is_docstring(node):
            self.fail(SYNTAX, "a script defines functions and modules; this statement does nothing", node)

    def visit_Import(self, node: ast.Import) -> None:
        """Bind names to namespaces; an unknown module is an error only when its name is used."""
        for alias in node.names:
            root, *rest = alias.name.split(".")
            value = library_namespaces().get(root, MISSING)
            for name in rest if alias.asname is not None else ():
                value = member(value, name)
            if value is not MISSING:
                self.scopes.define(alias.asname or root, value)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        root, *rest = (node.module or "").split(".")
        value = library_namespaces().get(root, MISSING)
        for name in rest:
            value = member(value, name)
        for alias in node.names:
            attribute = member(value, alias.name)
            if attribute is not MISSING:
                self.scopes.define(alias.asname or alias.name, attribute)
