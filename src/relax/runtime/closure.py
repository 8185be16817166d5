"""Closures: a function of an executable with the values it captured.

Inside the machine a closure is this object. A packed function of any language that is given one sees an
ordinary ``tvm_ffi.Function``; when that comes back, ``closure_of`` finds the closure again, so that nothing
is lost on the way: neither what it knows of its structure, nor that calling it needs no foreign call.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Protocol

import tvm_ffi

from .carried import ffi_function
from .info import FuncInfo

if TYPE_CHECKING:
    from collections.abc import Sequence


class FunctionCaller(Protocol):
    """The part of the virtual machine that its closures use."""

    def invoke_closure(self, closure: Closure, *args: Any, **kwargs: Any) -> Any:
        """Call with Python values, for Python values."""
        ...

    def call_raw(self, closure: Closure, args: Sequence[Any]) -> Any:
        """Call with the values tvm-ffi hands over, for one it takes."""
        ...


class Closure:
    """A Relax function as a value: call it, pass it to others, give it back to the machine."""

    __slots__ = ("__weakref__", "captured", "info", "machine", "name", "target")

    def __init__(
        self, machine: FunctionCaller, name: str, target: Any, captured: tuple[Any, ...], info: FuncInfo | None
    ) -> None:
        self.machine = machine
        self.name = name
        self.target = target
        self.captured = captured
        """Values for the last parameters of the target."""
        self.info = info
        """The function's parameters and result, as far as they are known."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function with Python values (arrays, numbers, tuples, …)."""
        return self.machine.invoke_closure(self, *args, **kwargs)

    def __tvm_ffi_object__(self) -> tvm_ffi.Function:
        # Made anew each time: kept here, it would keep itself alive by way of the C++ side.
        callback = _Callback(self)
        function = ffi_function(callback)
        _callbacks[function.__chandle__()] = callback
        return function

    def __repr__(self) -> str:
        return f"<relax function {self.name}>"


class _Callback:
    """The callback of a ``tvm_ffi.Function`` made from a closure; it lives exactly as long as that function."""

    __slots__ = ("__weakref__", "closure")

    def __init__(self, closure: Closure) -> None:
        self.closure = closure

    def __call__(self, *args: Any) -> Any:
        return self.closure.machine.call_raw(self.closure, args)


_callbacks: weakref.WeakValueDictionary[int, _Callback] = weakref.WeakValueDictionary()


def closure_of(function: tvm_ffi.Function) -> Closure | None:
    """The closure a function object was made from; None if it is a packed function."""
    callback = _callbacks.get(function.__chandle__())
    return None if callback is None else callback.closure
