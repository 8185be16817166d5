"""Capture of a decorated Python object: its text, its syntax tree, and the visible Python variables."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

from ....ir import Span
from ....ir.python_source import source_of
from .diagnostics import DECLARATION, NO_SOURCE, fail
from .source import Definition, ScriptSource, script_of

_SCRIPT: Final = str(Path(__file__).parents[2])
"""Folder of the package relax.script."""


def is_python_function(value: Any) -> bool:
    """True if a value is a function defined in Python."""
    return isinstance(value, types.FunctionType)


def function_source(function: Callable[..., Any]) -> tuple[ScriptSource, ast.FunctionDef]:
    """The source of a Python function and its ``def`` in the tree of the whole file.

    Raises DiagnosticError (E1007) if there is no source, as for code run by `exec`.
    """
    code: types.CodeType = function.__code__  # type: ignore[attr-defined]
    module_globals: dict[str, Any] = function.__globals__  # type: ignore[attr-defined]
    if code.co_name == "<lambda>" or code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        found = "a lambda" if code.co_name == "<lambda>" else "an async function"
        fail(DECLARATION, f"a program is a plain `def`, found {found}", _line(code, module_globals))
    found = _find(code, module_globals, ast.FunctionDef, code.co_name, code.co_firstlineno)
    if found is None:
        found = _from_inspect(function, ast.FunctionDef)
    if found is None:
        _no_source("function", function.__name__, code.co_filename)
    source, node = found
    assert isinstance(node, ast.FunctionDef)
    return source, node


def class_source(cls: type, frame: types.FrameType) -> tuple[ScriptSource, ast.ClassDef]:
    """The source of a class whose decorator is being called from `frame`, and its tree."""
    definition = _find(frame.f_code, frame.f_globals, ast.ClassDef, cls.__name__, frame.f_lineno)
    if definition is None:
        definition = _from_inspect(cls, ast.ClassDef)
    if definition is None:
        _no_source("class", cls.__name__, frame.f_code.co_filename)
    source, node = definition
    assert isinstance(node, ast.ClassDef)
    return source, node


def _line(code: types.CodeType, module_globals: dict[str, Any]) -> Span | None:
    """Line on which a function's definition starts."""
    source = source_of(code, module_globals)
    text = source.line(code.co_firstlineno) if source is not None else ""
    if source is None or not text:
        return None
    indent = len(text) - len(text.lstrip())
    return Span(source, code.co_firstlineno, indent + 1, code.co_firstlineno, len(text) + 1)


def _no_source(kind: str, name: str, filename: str) -> NoReturn:
    hint = "put it in a file or a notebook cell, or give its text to relax.script.from_source"
    if filename == "<stdin>":
        hint = (
            "Python does not keep what it reads from a pipe (but for the last 4096 bytes, without "
            f"PYTHONUNBUFFERED) or at a prompt without readline: {hint}"
        )
    fail(NO_SOURCE, f"the source of {kind} `{name}` cannot be found", None, hint=hint)


def _first_line(node: Definition) -> int:
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def _find(
    code: types.CodeType,
    module_globals: dict[str, Any],
    kind: type[ast.FunctionDef] | type[ast.ClassDef],
    name: str,
    line: int,
) -> tuple[ScriptSource, Definition] | None:
    """Find the definition of this name that starts at `line`, or else the innermost one around it."""
    source = script_of(code, module_globals)
    if source is None:
        return None
    around = [
        node
        for node in source.definitions().get(name, ())
        if isinstance(node, kind) and _first_line(node) <= line <= (node.end_lineno or node.lineno)
    ]
    return (source, max(around, key=_first_line)) if around else None


def _from_inspect(
    value: Any, kind: type[ast.FunctionDef] | type[ast.ClassDef]
) -> tuple[ScriptSource, Definition] | None:
    """Dedented source found by `inspect`, for files missing from linecache under their own name."""
    try:
        lines, first = inspect.getsourcelines(value)
        name = inspect.getsourcefile(value) or "<unknown>"
    except (OSError, TypeError):
        return None
    source = ScriptSource.parse("\n" * (first - 1) + textwrap.dedent("".join(lines)), name)
    for node in source.tree.body:
        if isinstance(node, kind):
            return source, node
    return None


def in_module_class(frame: types.FrameType) -> bool:
    """True if `frame` runs the body of a class decorated with `ir_module`, whose parser then reads the function."""
    if frame.f_code.co_flags & inspect.CO_NEWLOCALS or "__qualname__" not in frame.f_locals:
        return False
    code = frame.f_code
    definition = _find(code, frame.f_globals, ast.ClassDef, code.co_name, frame.f_lineno)
    if definition is None:
        return True
    return any(is_ir_module(decorator) for decorator in definition[1].decorator_list)


def is_ir_module(decorator: ast.expr) -> bool:
    """True if a decorator is a spelling of ``I.ir_module``."""
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    name = decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")
    return name == "ir_module"


def environment(function: Callable[..., Any], frame: types.FrameType) -> tuple[Mapping[str, Any], ...]:
    """Python variables visible to a decorated function, nearest first."""
    code: types.CodeType = function.__code__  # type: ignore[attr-defined]
    cells: Iterable[types.CellType] = function.__closure__ or ()  # type: ignore[attr-defined]
    closure: dict[str, Any] = {}
    for name, cell in zip(code.co_freevars, cells, strict=True):
        try:
            closure[name] = cell.cell_contents
        except ValueError:  # not assigned yet: the function's own name, say
            continue
    module_globals: dict[str, Any] = function.__globals__  # type: ignore[attr-defined]
    return (closure, *_enclosing(frame, function.__qualname__), module_globals, vars(builtins))


def class_environment(cls: type, frame: types.FrameType) -> tuple[Mapping[str, Any], ...]:
    """Python variables visible to a decorated class, nearest first."""
    return (*_enclosing(frame, cls.__qualname__), frame.f_globals, vars(builtins))


def caller_variables(frame: types.FrameType) -> Iterator[Mapping[str, Any]]:
    """Python variables of the code that called into this package, nearest first."""
    outer: types.FrameType | None = frame
    while outer is not None and outer.f_code.co_filename.startswith(_SCRIPT):
        outer = outer.f_back
    caller = outer
    while outer is not None and caller is not None:
        if outer.f_code.co_filename == caller.f_code.co_filename:
            yield dict(outer.f_locals)
        outer = outer.f_back
    if caller is not None:
        yield caller.f_globals


def _enclosing(frame: types.FrameType, qualname: str) -> Iterator[Mapping[str, Any]]:
    """Locals of the running functions that lexically enclose a definition, innermost first.

    A Python closure holds only variables used by the function's code, not those of annotations, so the frames are read.
    They are still running, because a decorator runs at the definition.
    """
    yield dict(frame.f_locals)
    names = [name for name in qualname.split(".")[:-1] if name != "<locals>"]
    if names and names[-1] == frame.f_code.co_name:
        names.pop()
    outer = frame.f_back
    while outer is not None and names:
        if outer.f_code.co_name == names[-1] and outer.f_code.co_filename == frame.f_code.co_filename:
            yield dict(outer.f_locals)
            names.pop()
        outer = outer.f_back
