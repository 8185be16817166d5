"""create_executor: run programs by the reference evaluator or compiled.

executor = relay.create_executor("debug", mod)
y = executor.evaluate()(x)              # main
z = executor.evaluate(relay.add(a, b))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from ..ir import Diagnostic, DiagnosticError, GlobalVar, IRModule
from ..runtime import Executable, VirtualMachine
from ..runtime.tagged import MatchError
from ..runtime.values import export_value
from ..target import Target
from ..vm import build as build_relax
from .evaluator import MATCH_FAILED, Evaluator
from .expr import Expr, Function
from .machine_values import MachineValues
from .to_relax import to_relax
from .values import described

_COMPILED: Final = ("vm", "graph", "aot")


def build(
    mod: IRModule | Function, target: str | Target | None = None, params: Mapping[str, Any] | None = None
) -> Executable:
    """Compile a Relay module through Relax (see `to_relax`). Run it with ``relax.VirtualMachine``.

    `params` are values of parameters of main, by name, which become constants. Raises DiagnosticError.
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
        """Evaluate a closed expression; without one, return the main function as a Python function.

        Function values become Python functions. Raises DiagnosticError.
        """
        if self.kind in _COMPILED:
            return self._compiled(expr)
        evaluator = Evaluator(self.mod)
        return evaluator.evaluate(cast(Any, self.mod.get_global_var("main")) if expr is None else expr)

    def _compiled(self, expr: Expr | None) -> Any:
        if expr is None:
            return self._function(self.mod, "main")
        if isinstance(expr, GlobalVar):
            return self._function(self.mod, expr.name_hint)
        name = "expression"
        while name in self.mod:
            name += "_"
        function = expr if isinstance(expr, Function) else Function([], expr)
        functions: dict[Any, Any] = {**self.mod.functions, name: function}
        call = self._function(IRModule(functions, type_definitions=self.mod.type_definitions), name)
        return call if isinstance(expr, Function) else call()

    def _function(self, mod: IRModule, name: str) -> Callable[..., Any]:
        """Compile a function of a module for Relay values."""
        exec_mode = "compiled" if self.kind == "aot" else "bytecode"
        main = VirtualMachine(build_relax(to_relax(mod, entry=name), self.target, exec_mode=exec_mode))[name]
        values = MachineValues(mod)
        function = values.function(main)

        def call(*args: Any) -> Any:
            try:
                return function(*args)
            except MatchError as error:
                value = values.value(export_value(error.value))
                message = f"no clause of the match takes {described(value)}"
                raise DiagnosticError(Diagnostic(MATCH_FAILED, message)) from error

        return call


def create_executor(
    kind: str = "debug", mod: IRModule | None = None, device: Any = None, target: str | Target | None = None
) -> Executor:
    """Return an executor: "debug" runs the reference evaluator; other kinds translate to Relax and compile.

    "vm" and "graph" are the same: VM bytecode that calls kernels. "aot" compiles first-order functions to machine code.

    `device` is accepted for compatibility. Raises ValueError for other kinds.
    """
    del device
    if kind not in ("debug", *_COMPILED):
        raise ValueError(f"create_executor: the kind is debug, {', '.join(_COMPILED)}; found {kind!r}")
    return Executor(IRModule() if mod is None else mod, kind, target)
