"""Aliases as they are when a program runs, compared with the answers of `relax.analysis.alias`.

The interpreter passes values by reference, so that the memory of a tensor says which values share it, and the elements
before and after a binding say what a call has changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tvm_ffi

import relax
from relax.analysis.alias import Aliases
from relax.expr import Call, Function, Var, VarBinding
from relax.interpreter import Interpreter
from relax.interpreter.scope import Environment
from relax.ir import IRModule, walk
from relax.runtime.tensor import numpy_view


class AliasingChecker(Interpreter):
    """Interpreter that notes, in `wrong`, every answer of `Aliases` that the run contradicts.

    Values are kept until their function returns, so that memory is not given out twice.
    """

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.wrong: list[str] = []
        self.compared = 0
        """Pairs of values that did share memory."""
        self.aliases: dict[Var, Aliases] = {}
        self.bindings: dict[Var, VarBinding] = {}
        for function in self.mod.functions.values():
            if isinstance(function, Function):
                answers = Aliases(function, self.mod)
                self.aliases.update(dict.fromkeys([*answers.variables, *function.params], answers))
                walk(function, self._visit)
        self._values: dict[int, tuple[Environment, dict[Var, Any]]] = {}
        self._elements: dict[int, dict[Var, list[bytes]]] = {}

    def _visit(self, item: Any) -> None:
        if isinstance(item, VarBinding):
            self.bindings[item.var] = item

    def bound(self, var: Var, value: Any, scope: Environment) -> None:
        answers = self.aliases.get(var)
        if answers is None:  # of a local function
            return
        key = id(scope.activation)
        _, values = self._values.setdefault(key, (scope, {}))
        if not values:
            values.update((v, held) for v, held in scope.activation.variables.items() if v in self.aliases)
        before = self._elements.get(key, {})
        call = self.bindings[var].value if var in self.bindings else None
        for other, held in values.items():
            if other in before and elements(held) != before[other]:
                told = isinstance(call, Call) and answers.may_write(call, other)
                self.check(told, f"{var.name_hint} = {call} changed {other.name_hint}")
            if overlap(value, held):
                self.compared += 1
                self.check(answers.may_share(var, other), f"{var.name_hint} shares memory with {other.name_hint}")
        values[var] = value
        self._elements[key] = {v: elements(held) for v, held in values.items()}

    def check(self, answer: bool, text: str) -> None:
        if not answer:
            self.wrong.append(text)

    def run(self, name: str, arguments: Sequence[Any]) -> Any:
        """Run an entry point; no result may share memory with a value that was said to be dead before."""
        function = self.mod[name]
        assert isinstance(function, Function)
        closure = self[name]
        result = self.invoke_closure(closure, *arguments)
        answers = Aliases(function, self.mod)
        ranges = answers.live_ranges()
        for scope, values in self._values.values():
            if scope.function == name:
                for var, held in values.items():
                    own = answers.storages(var) == {var} and var in ranges and ranges[var].last is not None
                    self.check(not (own and overlap(result, held)), f"{var.name_hint} outlives the function")
        return result


def tensors(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    """The tensors in a value, each once: tuples may share their fields."""
    pending, seen = [value], set[int]()
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, tvm_ffi.Tensor):
            yield numpy_view(part)
        elif isinstance(part, relax.NDArray):
            yield numpy_view(part.tensor)
        elif isinstance(part, (tuple, list)):
            pending += part


def overlap(a: Any, b: Any) -> bool:
    """True if some tensor of one value shares memory with one of the other."""
    return any(np.may_share_memory(x, y) for x in tensors(a) for y in tensors(b) if x.size and y.size)


def elements(value: Any) -> list[bytes]:
    """The elements of the tensors in a value."""
    return [array.tobytes() for array in tensors(value)]
