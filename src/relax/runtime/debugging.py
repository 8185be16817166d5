"""Builtins for output of programs under construction: `op.print_` and `op.debug_func` of relax.frontend.nn.

    vm.builtin.invoke_debug_func(state, name, place, *args) -> state    calls a packed function: name(place, *args)
    vm.builtin.debug_print(place, tensor)                               one such function

The state orders the calls: each takes that of the one before. The function is given copies of tensors, whose memory
the program uses again.
"""

from __future__ import annotations

import sys
from typing import Any

import tvm_ffi

from .builtin_table import BUILTINS, Effects, builtin
from .carried import ffi_function
from .registry import find_packed
from .tensor import copy_tensor
from .values import export_value, is_tuple, kind_of


@builtin("vm.builtin.invoke_debug_func", Effects(aliases=(0,)), pure=False)
def invoke_debug_func(state: Any, name: str, place: str, *args: Any) -> Any:
    """Call the packed function `name` with the place and the arguments, and return the state.

    Raises ValueError if no such function is registered.
    """
    function = find_packed(name)
    if function is None and name in BUILTINS:
        function = ffi_function(BUILTINS[name].function)
    if function is None:
        raise ValueError(f"debug_func: no packed function {name!r} is registered; relax.register_func does it")
    function(place, *map(_copied, args))
    return state


def _copied(value: Any) -> Any:
    if isinstance(value, tvm_ffi.Tensor):
        return copy_tensor(value)
    return tuple(map(_copied, value)) if is_tuple(value) else value


@builtin("vm.builtin.debug_print", pure=False)
def debug_print(place: str, tensor: Any) -> None:
    """Print the shape, dtype and elements of a tensor after a place. Raises TypeError for another value."""
    if not isinstance(tensor, tvm_ffi.Tensor):
        raise TypeError(f"print_: expected a tensor, found {kind_of(tensor)}")
    array = export_value(tensor)
    sys.stdout.write(f"{place}: shape = {array.shape}, dtype = {array.dtype}, data =\n{array.numpy()}\n")
    sys.stdout.flush()
