"""PrimFuncs, executed from their TIR by an evaluator that checks every access to a buffer (`relax.tir.interpret`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm_ffi

from ..ir import IRModule
from ..runtime.heap import ShapeHeap
from ..runtime.registry import get_global_func
from ..runtime.tensor import numpy_view
from ..tir import PrimFunc
from ..tir.interpret import executable


class _PackedFunctions:
    """Mapping of the process's packed functions, for calls from TIR."""

    def get(self, name: str, /) -> Callable[..., Any] | None:
        """The function of that name, None if there is none."""
        return get_global_func(name, allow_missing=True)


class Kernels:
    """The PrimFuncs of a module; each is prepared when it is first called."""

    def __init__(self, mod: IRModule) -> None:
        self._mod = mod
        self._ready: dict[PrimFunc, Callable[[Sequence[Any]], None]] = {}

    def run(self, func: PrimFunc, args: Sequence[Any], name: str) -> None:
        """Run a PrimFunc on values; tensors are written in place. Messages begin with the name."""
        ready = self._ready.get(func)
        if ready is None:
            externs = _PackedFunctions()
            ready = self._ready[func] = executable(func, module=self._mod, externs=externs, name=name)
        try:
            ready([_argument(value) for value in args])
        except Exception as error:
            own = func.attrs.get("tir.is_host_func")  # shape arithmetic, which has no name to users
            if not own and len(error.args) == 1 and not str(error).startswith(f"{name}: "):
                error.args = (f"{name}: {error}",)
            raise


def _argument(value: Any) -> Any:
    if isinstance(value, ShapeHeap):
        value = value.tensor
    return numpy_view(value) if isinstance(value, tvm_ffi.Tensor) else value
