"""A record of the operators a program evaluates, with their operands."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import tvm_ffi

from ..expr import Call
from ..ir import IRModule, Op
from ..runtime.records import dataclass
from ..runtime.tensor import copy_tensor
from .evaluator import Interpreter
from .scope import Environment


@dataclass(frozen=True)
class Evaluated:
    """An operator's call, and its operands as they were."""

    call: Call
    args: tuple[Any, ...]

    @property
    def name(self) -> str:
        """The operator."""
        assert isinstance(self.call.op, Op)
        return self.call.op.name


class _Recorder(Interpreter):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.evaluated: list[Evaluated] = []

    def operator(self, call: Call, args: Sequence[Any], scope: Environment) -> Any:
        self.evaluated.append(Evaluated(call, tuple(_copy(arg) for arg in args)))
        return super().operator(call, args, scope)


def _copy(value: Any) -> Any:
    return copy_tensor(value) if isinstance(value, tvm_ffi.Tensor) else value


def evaluated_operators(mod: IRModule, func_name: str, args: Sequence[Any]) -> list[Evaluated]:
    """The operators (no intrinsics) that a function evaluates, in order; up to where it fails, if it does."""
    recorder = _Recorder(mod)
    with contextlib.suppress(Exception):  # what came before is what was asked for
        recorder[func_name](*args)
    return recorder.evaluated
