"""Entry points in machine code: calling them from Python with as little around them as can be.

Machine code itself sees to it that tensors are compact and in host memory, and asks for what is needed. So arrays of
this package and of tvm-ffi are passed on as they are; only other values are converted here. Whatever is not usual
(keywords, a wrong number of arguments, values that cannot be converted, an instrument) goes the way of every closure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tvm_ffi

from .closure import Closure
from .compiled import machine_value, passed
from .nd import NDArray
from .places import annotate
from .values import export_value, import_value

if TYPE_CHECKING:
    from .info import FuncInfo, Info
    from .vm import VirtualMachine


class EntryPoint(Closure):
    """A function of a machine that has been compiled, as users call it."""

    __slots__ = ("_function", "_infos", "_vm")

    def __init__(self, machine: VirtualMachine, name: str, target: Any, info: FuncInfo) -> None:
        super().__init__(machine, name, target, (), info)
        self._vm = machine
        self._function: tvm_ffi.Function = target.compiled.function
        self._infos: tuple[Info, ...] = info.params or ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function with Python values (arrays, numbers, tuples, …)."""
        if kwargs or len(args) != len(self._infos) or self._vm.is_watched:
            return self._vm.invoke_closure(self, *args, **kwargs)
        try:
            values = [
                value.tensor
                if type(value) is NDArray
                else value
                if type(value) is tvm_ffi.Tensor
                else import_value(value, info)
                for value, info in zip(args, self._infos, strict=False)
            ]
        except (TypeError, ValueError):
            return self._vm.invoke_closure(self, *args)  # its error names the parameter
        try:
            result = self._function(*values)
        except Exception as error:
            original, places = passed(error)
            if not places:  # an argument was refused: say which
                self._vm.bind_arguments(self, args, {})
            annotate(original, places)
            if original is error:
                raise
            raise original from None
        return NDArray(result) if type(result) is tvm_ffi.Tensor else export_value(machine_value(result))


__all__ = ["EntryPoint"]
