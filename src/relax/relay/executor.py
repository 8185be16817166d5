"""create_executor: programs evaluated by the definition of the language, or compiled.

executor = relay.create_executor("debug", mod)
y = executor.evaluate()(x)              # main
z = executor.evaluate(relay.add(a, b))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from ..ir import IRModule
from ..runtime import Executable, VirtualMachine
from ..target import Target
from ..vm import build as build_relax
from .evaluator import Evaluator
from .expr import Expr, Function
from .to_relax import to_relax
from .values import exported, imported

_COMPILED: Final = ("vm", "graph", "aot")


def build(
    mod: IRModule | Function, target: str | Target | None = None, params: Mapping[str, Any] | None = None
) -> Executable:
    """Compile a Relay module, through Relax: see `to_relax`. Run it with ``relax.VirtualMachine``.

    `params` are values for parameters of main, by name, that become constants. Raises DiagnosticError.
    """
    module = IRModule.from_expr(mod) if isinstance(mod, Function) else mod
    return build_relax(to_relax(module, params), target)


class Executor:
    """An executor over a module; see `create_executor`."""

    def __init__(self, mod: IRModule, kind: str, target: str | Target | None) -> None:
        self.mod = mod
        self.kind = kind
        self.target = target

    def evaluate(self, expr: Expr | None = None) -> Any:
        """The value of an expression without free variables; without one, the main function as a Python function.

        A function gives a Python function. Raises DiagnosticError for what fails.
        """
        if self.kind in _COMPILED:
            return self._compiled(expr)
        evaluator = Evaluator(self.mod)
        return evaluator.evaluate(cast(Any, self.mod.get_global_var("main")) if expr is None else expr)

    def _compiled(self, expr: Expr | None) -> Any:
        if expr is None:
            return _taking_numbers(VirtualMachine(build(self.mod, self.target))["main"])
        function = expr if isinstance(expr, Function) else Function([], expr)
        functions = {g: f for g, f in self.mod.functions.items() if g.name_hint != "main"}
        mod = IRModule({**functions, "main": function}, type_definitions=self.mod.type_definitions)  # type: ignore[arg-type]
        main = _taking_numbers(VirtualMachine(build(mod, self.target))["main"])
        return main if isinstance(expr, Function) else main()


def _taking_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled function that takes Python's numbers for scalar tensors, as the evaluator does."""
    return lambda *args: function(*(exported(imported(arg)) for arg in args))


def create_executor(
    kind: str = "debug", mod: IRModule | None = None, device: Any = None, target: str | Target | None = None
) -> Executor:
    """An executor: "debug" evaluates by the definition of the language; "vm", "graph" and "aot" compile, all alike.

    `device` is taken for compatibility. Raises ValueError for other kinds.
    """
    del device
    if kind not in ("debug", *_COMPILED):
        raise ValueError(f"create_executor: the kind is debug, {', '.join(_COMPILED)}; found {kind!r}")
    return Executor(IRModule() if mod is None else mod, kind, target)


__all__ = ["Executor", "build", "create_executor"]
