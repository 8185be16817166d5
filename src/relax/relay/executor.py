"""create_executor: programs evaluated.

executor = relay.create_executor("debug", mod)
y = executor.evaluate()(x)              # main
z = executor.evaluate(relay.add(a, b))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir import IRModule
from .evaluator import Evaluator
from .expr import Expr, Function

_KINDS = ("debug",)


class Executor:
    """An executor over a module; see `create_executor`."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod

    def evaluate(self, expr: Expr | None = None) -> Any:
        """The value of an expression; without one, the main function as a Python function.

        A function gives a Python function. Raises DiagnosticError for what fails; types are not checked.
        """
        evaluator = Evaluator(self.mod)
        if expr is None:
            return self._called(evaluator, self.mod.get_global_var("main"))
        return evaluator.evaluate(expr) if not isinstance(expr, Function) else self._called(evaluator, expr)

    @staticmethod
    def _called(evaluator: Evaluator, expr: Any) -> Callable[..., Any]:
        closure: Callable[..., Any] = evaluator.evaluate(expr)
        return closure


def create_executor(
    kind: str = "debug", mod: IRModule | None = None, device: Any = None, target: Any = None
) -> Executor:
    """An executor: "debug" evaluates by the definition of the language.

    `device` and `target` are taken for compatibility. Raises ValueError for other kinds.
    """
    del device, target
    if kind not in _KINDS:
        raise ValueError(f"create_executor: the kind is one of {', '.join(_KINDS)}, found {kind!r}")
    return Executor(IRModule() if mod is None else mod)


__all__ = ["Executor", "create_executor"]
