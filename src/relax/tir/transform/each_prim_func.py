"""Passes over a module's PrimFuncs, created from rewrites of a single PrimFunc."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...ir import BaseFunc, Diagnostic, DiagnosticError, GlobalVar, IRModule
from ...ir.transform import Pass, module_pass
from ..stmt import PrimFunc


def each_prim_func(rewrite: Callable[..., PrimFunc], name: str) -> Callable[..., Pass]:
    """Create a pass factory that runs `rewrite` on every PrimFunc; errors of all functions are raised together.

    The parameters of `rewrite` after the function are the pass's options.
    """

    def run(mod: IRModule, **options: Any) -> IRModule:
        functions: dict[GlobalVar, BaseFunc] = {}
        diagnostics: list[Diagnostic] = []
        for global_var, func in mod.functions.items():
            functions[global_var] = func
            if isinstance(func, PrimFunc):
                try:
                    functions[global_var] = rewrite(func, **options)
                except DiagnosticError as error:
                    diagnostics += (_placed(d, global_var.name_hint, func) for d in error.diagnostics)
        if diagnostics:
            raise DiagnosticError(diagnostics)
        return mod.with_functions(functions)

    signature = inspect.signature(rewrite)
    mod = inspect.Parameter("mod", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    options = list(signature.parameters.values())[1:]
    run.__signature__ = signature.replace(parameters=[mod, *options])  # type: ignore[attr-defined]
    run.__doc__ = rewrite.__doc__
    run.__module__ = rewrite.__module__
    factory: Callable[..., Pass] = module_pass(run, name=name)
    return factory


def _placed(diagnostic: Diagnostic, name: str, func: PrimFunc) -> Diagnostic:
    """Add the function's span and name to a diagnostic that has none."""
    label = diagnostic.label or f"in PrimFunc {name}"
    return replace(diagnostic, span=diagnostic.span or func.span, label=label)
