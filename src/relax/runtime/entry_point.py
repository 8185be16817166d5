"""Entry points in machine code: calling them from Python with as little around them as can be.

Arrays are handed to tvm-ffi as they are: it takes tensors of this package, its own, and NumPy's by DLPack. Machine code
sees to it that they are compact and in host memory, and asks for what is needed. Only other values are converted here.
Whatever is not usual (keywords, a wrong number of arguments, values that cannot be converted, a read-only array, an
instrument) goes the way of every closure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

import numpy as np
import tvm_ffi

from .closure import Closure, FunctionCaller
from .compiled import machine_value, passed
from .dtypes import NUMPY_DTYPES
from .nd import NDArray
from .places import annotate
from .values import export_value, import_value

if TYPE_CHECKING:
    from .info import FuncInfo, Info
    from .places import CallSite


_EXPORTED: Final = frozenset(dtype for dtype in NUMPY_DTYPES.values() if dtype.isbuiltin == 1)
"""The dtypes, in native byte order, that NumPy exports by DLPack."""
_new_array: Final = object.__new__


class EntryMachine(FunctionCaller, Protocol):
    """The part of the virtual machine that its entry points use."""

    is_watched: bool

    def bind_arguments(self, closure: Closure, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments of a call, in order, as values of the machine. Raises TypeError and ValueError."""
        ...


class EntryPoint(Closure):
    """A function of a machine that has been compiled, as users call it."""

    __slots__ = ("_count", "_function", "_infos", "_vm")

    def __init__(self, machine: EntryMachine, name: str, target: Any, info: FuncInfo) -> None:
        super().__init__(machine, name, target, (), info)
        self._vm = machine
        self._function: tvm_ffi.Function = target.compiled.function
        self._infos: tuple[Info, ...] = info.params or ()
        self._count = len(self._infos)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function with Python values (arrays, numbers, tuples, …)."""
        if kwargs or len(args) != self._count or self._vm.is_watched:
            return self._vm.invoke_closure(self, *args, **kwargs)
        values: Sequence[Any] = args
        for value in args:
            kind: Any = value.__class__
            if kind is not NDArray and kind is not tvm_ffi.Tensor and not _exports(value):
                try:
                    values = [
                        value if _exports(value) else import_value(value, info)
                        for value, info in zip(args, self._infos, strict=True)
                    ]
                except Exception:  # noqa: BLE001
                    return self._vm.invoke_closure(self, *args)  # its error names the parameter
                break
        try:
            result = self._function(*values)
        except Exception as error:  # noqa: BLE001
            original, call_sites = passed(error)
            if isinstance(error, BufferError) and not call_sites:
                return self._vm.invoke_closure(self, *args)  # it copies what NumPy does not export: read-only arrays
            self._raise(error, original, call_sites, args)
        if type(result) is tvm_ffi.Tensor:
            array = _new_array(NDArray)
            array.tensor = result
            return array
        return export_value(machine_value(result))

    def exchange(self, *args: Any) -> Any:
        """Call the function with values as tvm-ffi takes them; return the result as tvm-ffi gives it.

        Tensors of a framework that implements tvm-ffi's exchange (torch) go in and come back without DLPack's capsules.
        """
        if self._vm.is_watched:
            return self._vm.invoke_closure(self, *args)
        try:
            return self._function(*args)
        except Exception as error:  # noqa: BLE001
            self._raise(error, *passed(error), args)

    def _raise(
        self, error: Exception, original: Exception, call_sites: list[CallSite], args: Sequence[Any]
    ) -> NoReturn:
        """Raise the error that a call ended with; the message of a refused argument says which it is."""
        if not call_sites:
            self._vm.bind_arguments(self, args, {})
        annotate(original, call_sites)
        if original is error:
            raise error
        raise original from None


def _exports(value: Any) -> bool:
    """True if tvm-ffi accepts an array by DLPack without conversion."""
    kind: Any = value.__class__
    return kind is NDArray or kind is tvm_ffi.Tensor or (kind is np.ndarray and value.dtype in _EXPORTED)
