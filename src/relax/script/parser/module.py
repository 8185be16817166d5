"""The module parser: a class under ``@I.ir_module`` becomes an IRModule.

First every function's name is declared, then its stated signature, so that functions can call each other in any order;
then the bodies are parsed, each by the dialect of its decorator; then each dialect completes the module.
"""

from __future__ import annotations

import ast
import contextlib
import sys
from typing import Any, cast

from ...ir import BaseFunc, DiagnosticContext, DiagnosticError, GlobalVar, IRModule, set_slot
from ...ir.python_source import caller_span
from ...runtime.collection import rarely_collected
from ...runtime.records import dataclass
from .core import (
    Evaluator,
    FunctionDecorator,
    FunctionTask,
    ModuleContext,
    Namespace,
    Scopes,
    ScriptSource,
    capture,
    is_docstring,
)
from .core.diagnostics import ATTRIBUTE, DECLARATION, KIND, POISON, Poisoned, close, error
from .core.dialect import Dialect
from .core.statements import StatementParser


class ModuleRef(Namespace):
    """Value of ``cls`` and of the class's name inside a module: ``cls.f`` is the global variable f."""

    def __init__(self, context: ModuleContext) -> None:
        self.__context = context

    def __dir__(self) -> list[str]:
        return list(self.__context.global_vars)

    def __getattr__(self, name: str) -> GlobalVar:
        if name.startswith("_"):
            raise AttributeError(name)
        global_var = self.__context.global_vars.get(name)
        if global_var is None:
            hint = close(name, self.__context.global_vars)
            raise error(ATTRIBUTE, f"the module has no function `{name}`", None, hint=hint)
        return global_var


@dataclass(frozen=True)
class ModuleDecorator:
    """``@I.ir_module``."""

    check_well_formed: bool = True

    def __call__(self, cls: type | None = None, *, check_well_formed: bool | None = None) -> Any:
        """Parse a Python class; or, given options only, return the decorator with these options."""
        check = self.check_well_formed if check_well_formed is None else check_well_formed
        if cls is None:
            return ModuleDecorator(check)
        if not isinstance(cls, type):  # pyright: ignore[reportUnnecessaryIsInstance]
            frame = cast(Any, sys)._getframe(1)
            span = caller_span(frame) if Evaluator.current() is None else None
            kind = "a function" if capture.is_python_function(cls) else f"a value of type {type(cls).__name__}"
            hint = "a function is decorated with @R.function or @T.prim_func"
            raise error(DECLARATION, f"ir_module decorates classes, found {kind}", span, hint=hint)
        frame = cast(Any, sys)._getframe(1)
        return parsed_class(cls, frame, check)


def parsed_class(cls: type, frame: Any, check_well_formed: bool = True) -> IRModule:
    """Parse a Python class whose decorator was called in a frame."""
    source, node = capture.class_source(cls, frame)
    scopes = Scopes(capture.class_environment(cls, frame))
    diagnostics = DiagnosticContext()
    parser = ModuleParser(source, scopes, diagnostics, trusted=True)
    module: IRModule | None = None
    with rarely_collected():
        with diagnostics.collect():
            module = parser.module(node)
        diagnostics.finish()
        assert module is not None
        return parser.finish(module, check_well_formed)


class ModuleParser(StatementParser):
    """Parser of one class."""

    def __init__(
        self, source: ScriptSource, scopes: Scopes, diagnostics: DiagnosticContext, *, trusted: bool = False
    ) -> None:
        super().__init__(source, scopes, diagnostics, trusted=trusted)
        self.context = ModuleContext()
        self.attrs: dict[str, Any] = {}
        self.tasks: list[tuple[FunctionDecorator, ast.FunctionDef]] = []
        self.dialects: dict[str, Dialect] = {}

    def module(self, node: ast.ClassDef) -> IRModule:
        """Parse a class to a module. Errors go to the diagnostics."""
        self.context.name = node.name
        reference = ModuleRef(self.context)
        for base in node.bases:
            self.diagnostics.emit(error(DECLARATION, "a module has no base class", self.span(base)).diagnostics[0])
        for keyword in node.keywords:
            problem = (
                "a module has no metaclass" if keyword.arg == "metaclass" else "a module's class takes no arguments"
            )
            self.diagnostics.emit(error(DECLARATION, problem, self.span(keyword)).diagnostics[0])
        with self.active(), self.scopes.frame() as frame:
            frame["cls"] = frame[node.name] = reference
            self.visit_body(node.body)
            functions = self.parse_functions()
        result = IRModule(functions, self.attrs, self.context.global_infos)
        set_slot(result, "span", self.span(node))
        return result

    def finish(self, module: IRModule, check_well_formed: bool) -> IRModule:
        """Let the dialects complete the module: TIR before Relax, which calls it."""
        for name in sorted(self.dialects, reverse=True):
            module = self.dialects[name].finish_module(module, check_well_formed)
        return module

    def parse_functions(self) -> dict[GlobalVar, BaseFunc]:
        functions: dict[GlobalVar, BaseFunc] = {}
        for decorator, node in self.tasks:
            with contextlib.suppress(DiagnosticError, Poisoned):
                task = self._task(decorator, node, DiagnosticContext())
                decorator.dialect.declare(task, self.context.global_vars[node.name])
        for decorator, node in self.tasks:
            self.dialects[decorator.dialect.name] = decorator.dialect
            with self.diagnostics.collect():
                function = decorator.dialect.parse(self._task(decorator, node, self.diagnostics))
                if function is not None:
                    functions[self.context.global_vars[node.name]] = function
        for name, function in self.context.adopted.items():
            functions[self.context.global_vars[name]] = function
        return functions

    def _task(
        self, decorator: FunctionDecorator, node: ast.FunctionDef, diagnostics: DiagnosticContext
    ) -> FunctionTask:
        scopes = self.scopes.child(self.context.global_vars)
        options = dict(decorator.preset)
        return FunctionTask(node, self.source, scopes, diagnostics, options, self.trusted, self.context)

    # ------------------------------------------------------------------ members

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        decorator = function_decorator(self, node)
        self._declare(node.name, decorator.preset.get("name", node.name), node)
        self.tasks.append((decorator, node))

    def _declare(self, name: str, symbol: Any, node: ast.AST) -> None:
        """Declare a function; `name` is its name in the text, `symbol` that in the module."""
        if not isinstance(symbol, str):
            self.fail(KIND, "a function's name is a string", node)
        if name in self.context.global_vars or symbol in self.context.symbols:
            self.fail(DECLARATION, f"the module already has a function `{symbol}`", node)
        self.context.declare(name, GlobalVar(symbol))

    def visit_Assign(self, node: ast.Assign) -> None:
        """``name = function`` adds a function; other values are visible to the functions' expressions."""
        value = self.eval(node.value)
        for target in node.targets:
            self.bind_pattern(target, value, self._member)

    def _member(self, name: ast.Name, value: Any) -> None:
        if isinstance(value, BaseFunc):
            if name.id in self.context.global_vars:
                self.fail(DECLARATION, f"the module already has a function `{name.id}`", name)
            self.context.adopt(value, name.id)
        else:
            self.scopes.define(name.id, value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.bind_pattern(node.target, self.eval(node.value), self._member)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not is_docstring(node):
            self.eval(node.value)

    def poison(self, node: ast.stmt) -> None:
        super().poison(node)
        if isinstance(node, ast.FunctionDef):
            self.scopes.define(node.name, POISON)


def function_decorator(evaluator: Evaluator, node: ast.FunctionDef) -> FunctionDecorator:
    """Script decorator of a ``def``."""
    hint = "decorate it with @R.function or @T.prim_func"
    if not node.decorator_list:
        evaluator.fail(DECLARATION, f"function `{node.name}` has no decorator", node, hint=hint)
    if len(node.decorator_list) > 1:
        evaluator.fail(DECLARATION, "a function has one decorator here", node.decorator_list[1])
    value = evaluator.eval(node.decorator_list[0])
    if not isinstance(value, FunctionDecorator):
        evaluator.fail(KIND, "this decorator is none of the script's", node.decorator_list[0], hint=hint)
    return value
