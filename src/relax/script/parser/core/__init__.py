"""Framework shared by the parsers of all dialects; `dialect` documents how to add one."""

from __future__ import annotations

from .dialect import Dialect, FunctionDecorator, FunctionTask, ModuleContext
from .evaluator import Evaluator, SpecialForm
from .macro import Macro, MacroDecorator
from .safety import Namespace, register_namespace
from .scope import MISSING, Scopes
from .source import ScriptSource
from .statements import StatementParser, is_docstring

__all__ = [
    "MISSING", "Dialect", "Evaluator", "FunctionDecorator", "FunctionTask", "Macro", "MacroDecorator",
    "ModuleContext", "Namespace", "Scopes", "ScriptSource", "SpecialForm", "StatementParser", "is_docstring",
    "register_namespace",
]  # fmt: skip
