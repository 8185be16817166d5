"""CompiledKernels: PrimFuncs compiled and run at compile time (FoldConstant)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..farm.host import resolve
from ..ir import structural_equal, structural_hash
from ..ir.transform import PassContext
from ..target import Target
from ..tir import PrimFunc
from .build import CompiledFunction, build_module

FAILURES = (ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError)
"""Errors of compiling or running a kernel; a DiagnosticError is a ValueError."""


class CompiledKernels:
    """Compile PrimFuncs for a target that this CPU executes (`host.executes`), and run them.

    Equal PrimFuncs are compiled once. Arguments are arrays, written in place, and numbers.
    """

    def __init__(self, target: Target | None = None) -> None:
        self.target = resolve(target)
        self._compiled: dict[int, list[tuple[PrimFunc, CompiledFunction | None]]] = {}

    def __call__(self, func: PrimFunc, args: Sequence[Any]) -> bool:
        """Run a PrimFunc; return False if compiling or running it fails."""
        compiled = self._function(func)
        if compiled is None:
            return False
        try:
            compiled(*args)
        except FAILURES:
            return False
        return True

    def _function(self, func: PrimFunc) -> CompiledFunction | None:
        """The compiled function; None if it cannot be compiled."""
        alike = self._compiled.setdefault(structural_hash(func), [])
        for known, compiled in alike:
            if structural_equal(known, func):
                return compiled
        try:
            with PassContext():  # lowering a kernel to run it is no step of the pipeline that folds constants
                compiled = build_module({"main": func}, self.target)["main"]
        except FAILURES:
            compiled = None
        alike.append((func, compiled))
        return compiled
