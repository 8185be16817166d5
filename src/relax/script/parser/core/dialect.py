"""The interface of a dialect.

A dialect (Relax's `R`, TIR's `T`) is three things:

1. a parser: a subclass of `StatementParser` that turns one ``def`` into an IR function;
2. a `Dialect` object that runs the parser and completes its result;
3. a `FunctionDecorator`, the object behind ``@R.function`` / ``@T.prim_func``, which carries the dialect.

    class TirDialect(Dialect):
        name = "tir"
        options = frozenset({"private", "check_well_formed"})

        def parse(self, task: FunctionTask) -> BaseFunc:
            parser = TirParser(task.source, task.scopes, task.diagnostics, trusted=task.trusted)
            return parser.function(task.node, task.options)

    prim_func = FunctionDecorator("T.prim_func", TirDialect())

The same decorator object works in three ways: Python calls it on a function that stands alone (it finds the
source, parses, and raises all errors together); inside a class under ``@I.ir_module`` it returns the
function untouched, for the module's parser to read; and when a script's text is interpreted, evaluating
``@T.prim_func(private=True)`` gives the decorator with its options, whose dialect is then asked to `parse`.

The evaluator hands the parser values: plain Python ones, PrimExpr, Relax expressions, and whatever objects
the namespace's functions return (a loop frame, say: the parser recognises them in visit_For and visit_With).
A namespace is a Python module registered with `register_namespace(sys.modules[__name__])`: its ``__all__``
(and its module-level ``__getattr__``) is what scripts may use; nested groups (``T.axis.spatial``) are
objects of a subclass of `Namespace`. Functions that need the syntax of their arguments derive from
`SpecialForm`. Functions of a namespace that need the parser at work call `StatementParser.current()`.

The names of other functions evaluate to GlobalVar; so does ``cls.f``. A function object from the surrounding
Python program, used inside a module, is added to the module by `FunctionTask.module.adopt(function)`.
"""

from __future__ import annotations

import ast
import sys
import types
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import field
from typing import Any, cast

from ....ir import BaseFunc, DiagnosticContext, GlobalVar, IRModule, Span
from ....ir.python_source import caller_span
from ....runtime.records import dataclass
from . import capture
from .diagnostics import DECLARATION, close, fail
from .evaluator import Evaluator
from .scope import Scopes
from .source import ScriptSource


@dataclass(eq=False)
class ModuleContext:
    """The module being parsed, as seen by its functions."""

    name: str = ""
    global_vars: dict[str, GlobalVar] = field(default_factory=dict[str, GlobalVar])
    adopted: dict[str, BaseFunc] = field(default_factory=dict[str, BaseFunc])
    global_infos: dict[str, Any] = field(default_factory=dict[str, Any])
    _names: dict[int, tuple[BaseFunc, str]] = field(default_factory=dict[int, tuple[BaseFunc, str]])
    _originals: dict[int, tuple[BaseFunc, str]] = field(default_factory=dict[int, tuple[BaseFunc, str]])
    symbols: set[str] = field(default_factory=set[str])
    """Names of the global variables in the module, which may differ from their names in the text."""

    def declare(self, name: str, global_var: GlobalVar) -> GlobalVar:
        """Add a global variable to the module under the text's name `name`."""
        self.global_vars[name] = global_var
        self.symbols.add(global_var.name_hint)
        return global_var

    def suggest_name(self, function: BaseFunc, name: str) -> None:
        """Suggest a name for an adopted function without one: its variable in the surrounding program."""
        self._names.setdefault(id(function), (function, name))

    def adopt(self, function: BaseFunc, name: str = "") -> GlobalVar:
        """Add a function from outside to the module, once, and return its global variable."""
        original = self._originals.get(id(function))
        if original is not None:
            return self.global_vars[original[1]]
        _, suggested = self._names.get(id(function), (function, "func"))
        stem = name or str(function.attrs.get("global_symbol", suggested))
        unique, count = stem, 0
        while unique in self.global_vars:
            count += 1
            unique = f"{stem}_{count}"
        self._originals[id(function)] = function, unique
        if function.attrs.get("global_symbol", unique) != unique:
            function = function.with_attr("global_symbol", unique)
        self.adopted[unique] = function
        return self.declare(unique, GlobalVar(unique))


@dataclass(eq=False)
class FunctionTask:
    """One function to parse."""

    node: ast.FunctionDef
    source: ScriptSource
    scopes: Scopes
    """Names visible around the function; the parser pushes its own scopes."""
    diagnostics: DiagnosticContext
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    """The decorator's keyword arguments, e.g. private=True."""
    trusted: bool = False
    """True for a program decorated in Python by the user, False for text given to from_source."""
    module: ModuleContext | None = None
    """Module of the function; None for a stand-alone function."""


class Dialect(ABC):
    """A language level of the script."""

    name: str
    options: frozenset[str] = frozenset({"check_well_formed"})
    """Keyword arguments of the dialect's decorator."""
    texts: frozenset[str] = frozenset({"name"})
    """Those of `options` that are strings; the others are True or False."""

    @abstractmethod
    def parse(self, task: FunctionTask) -> BaseFunc | None:
        """Parse a function. Errors go to task.diagnostics or are raised; after errors the result is unused."""

    def declare(self, task: FunctionTask, global_var: GlobalVar) -> None:  # noqa: B027 (most have nothing to note)
        """Record a function's signature before any body is parsed, for calls that precede it in the text.

        Errors only end the reading here; they are reported when the function is parsed.
        """

    def finish(self, function: BaseFunc, options: dict[str, Any]) -> BaseFunc:
        """Complete a stand-alone function (derive struct info, check)."""
        return function

    def finish_module(self, module: IRModule, check_well_formed: bool) -> IRModule:
        """Complete a module that has functions of this dialect."""
        return module


@dataclass(frozen=True, repr=False)
class FunctionDecorator:
    """``@R.function``, ``@T.prim_func``: see the module's docstring."""

    script_name: str
    dialect: Dialect
    preset: dict[str, Any] = field(default_factory=dict[str, Any])

    def __call__(self, function: Callable[..., Any] | None = None, **options: Any) -> Any:
        """Parse a Python function; or, given keyword arguments only, return the decorator with these options."""
        frame = cast(Any, sys)._getframe(1)
        unknown = [key for key in options if key not in self.dialect.options]
        if unknown:
            hint = close(unknown[0], self.dialect.options)
            span = _caller(frame)
            fail(DECLARATION, f"{self.script_name} has no option `{unknown[0]}`", span, hint=hint)
        for key, value in options.items():
            is_text = key in self.dialect.texts
            if not isinstance(value, str if is_text else bool) and value is not None:
                wanted = f"the option `{key}` is a string" if is_text else f"the option `{key}` is True or False"
                wanted = "a function's name is a string" if key == "name" else wanted
                fail(DECLARATION, f"{self.script_name}: {wanted}, found {value!r}", _caller(frame))
        decorator = FunctionDecorator(self.script_name, self.dialect, {**self.preset, **options})
        if function is None:
            return decorator
        return decorator.parse_python(function, frame)

    def __repr__(self) -> str:
        options = ", ".join(f"{key}={value!r}" for key, value in self.preset.items())
        return f"@{self.script_name}({options})" if options else f"@{self.script_name}"

    def parse_python(self, function: Callable[..., Any], frame: Any) -> Any:
        """Parse a function object defined by the code running in `frame`."""
        if not capture.is_python_function(function):
            kind = "a class" if isinstance(function, type) else f"a value of type {type(function).__name__}"
            message = f"{self.script_name} decorates functions, found {kind}"
            hint = "a class is decorated with @I.ir_module" if isinstance(function, type) else ""
            fail(DECLARATION, message, _caller(frame), hint=hint)
        if capture.in_module_class(frame):
            return function
        source, node = capture.function_source(function)
        diagnostics = DiagnosticContext()
        scopes = Scopes(capture.environment(function, frame))
        task = FunctionTask(node, source, scopes, diagnostics, dict(self.preset), trusted=True)
        result: BaseFunc | None = None
        with diagnostics.collect():
            result = self.dialect.parse(task)
        diagnostics.finish()
        if result is None:
            fail(DECLARATION, f"{self.script_name}: nothing was parsed", source.span(node))
        return self.dialect.finish(result, dict(self.preset))


def _caller(frame: types.FrameType) -> Span | None:
    """Source location where Python calls a decorator; None during script parsing, where the evaluator knows it."""
    return caller_span(frame) if Evaluator.current() is None else None
