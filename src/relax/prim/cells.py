"""Intrinsics of compiled Relax functions: cells, which hold values of Relax, and calls of functions on them.

A cell holds a value of any kind (a TVMFFIAny of tvm-ffi's C ABI), which it owns. A compiled function has its cells in
lists: `r`, its registers, and `c`, the table of what the program names. A cell is given as
`anylist_getitem(list, index)`. The names that begin with `anylist` are those of TVM's compiled mode.

    anylist_getitem(list, i)                                  the cell; as an argument, its value
    anylist_resetitem(list, i)                                let go of the value
    anylist_keep_apart(list, arguments, results)              let go of the memory given for results, behind the
                                                              arguments and the result, where it overlaps others
    anylist_setitem(list, i, value)                           hold another value
    anylist_setitem_call_packed(list, i, f, "name", *args)    call the function in the cell f; i = -1: drop the result
    anylist_setitem_call_cpacked(list, i, c, "name", *args)   call a function of the compiled program
    anylist_setitem_call_last(list, i, c, "name", *args)      the same at the end of a function: it is no deeper
    kernel_call("name", *args)                                call a kernel of the program, which checks nothing: its
                                                              arguments are addresses, numbers, then the sizes it binds
    cell_value(kind, payload)                                 a scalar as an argument: type index and bits

    cell_payload(x)                                           the bits of a scalar
    cell_data(x)                                              the address of a tensor's first element
    cell_fits("check", x, heap, other, *numbers)              true if x passes a check of `codegen.support.cells`, such
                                                              as "tensor", with the numbers of its builtin.
                                                              Variables are stored in the heap; 0 for none, and for
                                                              no other cell
    cell_plain(x)                                             a value that kernels can take as it is
    cell_dim(x, axis)                                         of a tensor or shape; -1 if there is none
    cell_truth(x)                                             0 or 1; 2 if it is no condition

    cell_field(to, x, index)                                  make a field of a tuple the value of a cell; false, and
                                                              nothing changes, if there is none

These make a value into a cell, or have the builtin in the cell f do so: it does what is rare, and raises errors.

    cell_alloc(to, f, device, dtype, *dims)                   a fresh tensor
    cell_storage(to, f, device, counts, bytes)                memory for tensors; the tensor `counts` counts it
    cell_view(to, f, storage, offset, dtype, *dims)           a tensor in a storage, `offset` bytes from its start
    cell_reshape(to, f, x, *dims)                             a view under another shape
    cell_copy(to, f, x)                                       a fresh tensor with the contents of one
    cell_shape(to, f, *dims)                                  a shape value
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..ir import DataType, Op, register_op
from .expr import Call, PrimExpr, convert

#: names and dtypes of the results
_RESULTS: Final = {
    "anylist_getitem": "handle", "anylist_resetitem": "int32", "anylist_setitem": "int32",
    "anylist_keep_apart": "int32",
    "anylist_setitem_call_packed": "int32", "anylist_setitem_call_cpacked": "int32",
    "anylist_setitem_call_last": "int32", "kernel_call": "int32", "cell_value": "handle", "cell_payload": "int64",
    "cell_data": "handle", "cell_fits": "bool", "cell_plain": "bool", "cell_dim": "int64", "cell_truth": "int32",
    "cell_field": "bool", "cell_alloc": "int32", "cell_storage": "int32", "cell_view": "int32", "cell_reshape": "int32",
    "cell_copy": "int32", "cell_shape": "int32",
}  # fmt: skip

for _name in _RESULTS:
    register_op(f"tir.{_name}", effect="opaque", total=False, numpy=None)


_OPS: Final = {name: (DataType(dtype), Op.get(f"tir.{name}")) for name, dtype in _RESULTS.items()}


def cell_call(name: str, *args: Any) -> PrimExpr:
    """Call one of these intrinsics."""
    dtype, op = _OPS[name]
    return Call(dtype, op, tuple([arg if isinstance(arg, PrimExpr) else convert(arg) for arg in args]))


def _builder(name: str) -> Callable[..., PrimExpr]:
    def build(*args: Any) -> PrimExpr:
        return cell_call(name, *args)

    build.__name__ = build.__qualname__ = name
    return build


MEMBERS: Final = {name: _builder(name) for name in _RESULTS}
"""Builders by name, for the namespace ``T``."""

REGISTERS: Final = "relax.registers"
"""Attribute of a PrimFunc that is a compiled Relax function: the number of registers. It takes `r` and `c`."""
PARAMETERS: Final = "relax.parameters"
"""Attribute: the names of the Relax function's parameters, which arrive in the first registers. The result leaves in
the next one."""
OUTPUTS: Final = "relax.outputs"
"""Attribute: the number of results for which a caller may give memory: tensors after the arguments. They arrive in the
registers behind that of the result, and are used where they fit."""
DEEPER: Final = "relax.deeper"
"""Attribute: the cell of the function that is called instead where calls are nested too deeply."""
PLACE: Final = "relax.place"
"""Attribute of statements: the place, for notes in errors, of the calls in them (see `relax.runtime.compiled`)."""
