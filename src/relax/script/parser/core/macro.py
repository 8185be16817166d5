"""``@T.macro`` and ``@R.macro``: statements that are expanded at their calls.

    @T.macro
    def fill(A, n, value):
        for i in range(n):
            A[i] = value

    @T.prim_func
    def main(B: T.Buffer((8,), "float32")):
        fill(B, 8, T.float32(1))            the statements of `fill`, with A for B

A macro leaves no trace in the program. Names other than its parameters are resolved at its definition; with
``hygienic=False``, at its call.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from ....runtime.records import dataclass
from . import capture
from .diagnostics import DECLARATION, fail
from .source import ScriptSource


@dataclass(frozen=True, eq=False)
class Macro:
    """A macro: its ``def`` and its environment."""

    label: str
    """Namespace of the macro: ``T`` or ``R``."""
    node: ast.FunctionDef
    source: ScriptSource
    environment: tuple[Mapping[str, Any], ...]
    hygienic: bool = True

    @property
    def name(self) -> str:
        return self.node.name

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        raise TypeError(f"the macro {self.name} is called inside a function of {self.label}")

    def bind(
        self, args: Sequence[Any], keywords: Mapping[str, Any], default: Callable[[ast.expr], Any]
    ) -> dict[str, Any]:
        """Bind arguments to parameters; `default` evaluates omitted ones. Raises TypeError if they do not fit."""
        spec = self.node.args
        names = [arg.arg for arg in (*spec.posonlyargs, *spec.args)]
        values: dict[str, Any] = dict(zip(names, args, strict=False))
        rest = tuple(args[len(names) :])
        if spec.vararg is not None:
            values[spec.vararg.arg] = rest
        elif rest:
            raise TypeError(f"macro {self.name}: expected {len(names)} arguments, found {len(args)}")
        for name, value in keywords.items():
            if name in values or name not in {*names, *(arg.arg for arg in spec.kwonlyargs)}:
                raise TypeError(f"macro {self.name}: no parameter for the argument `{name}`")
            values[name] = value
        for name, expr in self._defaults(names):
            if name not in values:
                if expr is None:
                    raise TypeError(f"macro {self.name}: argument `{name}` is missing")
                values[name] = default(expr)
        return values

    def _defaults(self, names: list[str]) -> Iterator[tuple[str, ast.expr | None]]:
        """Parameters with their default values."""
        spec = self.node.args
        yield from zip(names, [None] * (len(names) - len(spec.defaults)) + spec.defaults, strict=True)
        yield from zip((arg.arg for arg in spec.kwonlyargs), spec.kw_defaults, strict=True)


@dataclass(frozen=True)
class MacroDecorator:
    """The object behind ``@T.macro``: applied to a function, or to options first."""

    label: str
    hygienic: bool = True

    def __call__(self, function: Callable[..., Any] | None = None, *, hygienic: bool | None = None) -> Any:
        """Create the macro of a Python function; or, given options only, return the decorator with these options."""
        keeps = self.hygienic if hygienic is None else hygienic
        if function is None:
            return MacroDecorator(self.label, keeps)
        if not capture.is_python_function(function):
            fail(DECLARATION, f"{self.label}.macro decorates functions", None)
        source, node = capture.function_source(function)
        frame = cast(Any, sys)._getframe(1)
        return Macro(self.label, node, source, capture.environment(function, frame), keeps)

    def of(self, node: ast.FunctionDef, source: ScriptSource, environment: tuple[Mapping[str, Any], ...]) -> Macro:
        """Create the macro of a ``def`` in a text."""
        return Macro(self.label, node, source, environment, self.hygienic)


__all__ = ["Macro", "MacroDecorator"]
