"""Run-time scopes: values of variables and shape variables (language.md §3).

A scope knows its own bindings and the scope around it. A closure keeps the scope it was made in, by reference;
so a function bound to a local variable sees that variable, and shape variables are captured like all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from ..expr import Var
from ..info.text import prim_text
from ..prim import PrimExpr, evaluate, free_vars
from ..prim import Var as ShapeVar

Number: TypeAlias = "int | float | bool"


class Environment:
    """The bindings of one function activation or one SeqExpr, inside of another scope."""

    __slots__ = ("activation", "function", "origins", "outer", "own", "sizes", "variables")

    def __init__(
        self,
        function: str,
        outer: Environment | None = None,
        activation: Environment | None = None,
        own: frozenset[ShapeVar] = frozenset(),
    ) -> None:
        self.function = function
        """The name of the function this belongs to, for messages."""
        self.outer = outer
        self.activation = activation or self
        """The scope of the function's parameters: one for each time the function is entered."""
        self.own = own
        """Shape variables bound by the function's parameters; later bindings in outer scopes do not affect them."""
        self.variables: dict[Var, Any] = {}
        self.sizes: dict[ShapeVar, Number] = {}
        self.origins: dict[ShapeVar, str] = {}
        """For messages: what bound a shape variable (``x, dimension 1``)."""

    def inner(self) -> Environment:
        """A scope inside this one, of the same function."""
        return Environment(self.function, self, self.activation)

    # ------------------------------------------------------------------------------- variables

    def define(self, var: Var, value: Any) -> None:
        """Bind a variable."""
        self.variables[var] = value

    def forget(self, variables: Iterable[Var]) -> None:
        """End the life of variables: those of a dataflow block die with it."""
        for var in variables:
            self.variables.pop(var, None)

    def __getitem__(self, var: Var) -> Any:
        scope: Environment | None = self
        while scope is not None:
            if var in scope.variables:
                return scope.variables[var]
            scope = scope.outer
        raise KeyError(f"the variable {var.name_hint} has no value here")

    # ------------------------------------------------------------------------- shape variables

    def define_size(self, var: ShapeVar, value: Number, origin: str) -> None:
        """Bind a shape variable."""
        self.sizes[var] = value
        self.origins[var] = origin

    def _holder(self, var: ShapeVar) -> Environment | None:
        scope: Environment | None = self
        while scope is not None and var not in scope.sizes:
            scope = None if var in scope.own else scope.outer
        return scope

    def knows(self, var: ShapeVar) -> bool:
        """True if a shape variable has a value here."""
        return self._holder(var) is not None

    def known(self, variables: Iterable[ShapeVar]) -> Mapping[ShapeVar, Number]:
        """The values of those of the variables that have one."""
        holders = ((var, self._holder(var)) for var in variables)
        return {var: holder.sizes[var] for var, holder in holders if holder is not None}

    def evaluate(self, expr: PrimExpr) -> Number:
        """The value of an expression over shape variables. Raises ZeroDivisionError and OverflowError."""
        return evaluate(expr, self.known(free_vars(expr)), checked=True)

    def explain(self, expr: PrimExpr) -> str:
        """An expected dimension, for messages: ``n = 784 (n was bound by x, dimension 1)``."""
        value = self.evaluate(expr)
        if isinstance(expr, ShapeVar):
            return f"{expr.name} = {value} ({expr.name} was bound by {self._origin(expr)})"
        reasons = [
            f"{var.name} = {size} was bound by {self._origin(var)}" for var, size in self.known(free_vars(expr)).items()
        ]
        if not reasons:
            return str(value)
        return f"{prim_text(expr)} = {value} ({'; '.join(reasons)})"

    def _origin(self, var: ShapeVar) -> str:
        holder = self._holder(var)
        return "nothing" if holder is None else holder.origins[var]
