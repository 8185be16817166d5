"""Typed pointers to C structs in scripts.

Fields are attributes, and an array of structs is indexed, as in C:

    def rank(tensor: T.struct("DLTensor")) -> T.int32:   a parameter that points to a struct
    tensor = T.struct("DLTensor")(pointer)               a pointer that does
    tensor.ndim                                          T.tvm_struct_get(tensor, 0, "DLTensor.ndim")
    tensor.ndim = 2                                      T.tvm_struct_set(tensor, 0, "DLTensor.ndim", 2)
    cells[i].type_index                                  a field of an element
    cells = T.struct("TVMFFIAny").alloc(2)               an array on the stack
"""

from __future__ import annotations

from typing import Any

from ....prim import Call, PrimExpr, convert
from ....prim.pointers import struct_size, tvm_struct_get, tvm_struct_set
from ....target.c_structs import STRUCTS, Struct, field_of
from ....tir.buffer import decl_buffer
from ....tir.stmt import AllocBuffer
from .frames import EnclosingStmt
from .state import parser


class StructType:
    """``T.struct("DLTensor")``: a struct, as the annotation of a pointer, or applied to one."""

    def __init__(self, name: str) -> None:
        self.struct: Struct = field_of(name)[0]

    def __call__(self, pointer: Any) -> StructRef:
        """Return the struct that a pointer points to."""
        return StructRef(self.struct, convert(pointer))

    def alloc(self, count: Any = 1) -> EnclosingStmt:
        """Stack memory for `count` structs."""
        state = parser()
        (name,) = state.take_names(1)
        size = struct_size(self.struct.name)
        bytes_ = size if isinstance(count, int) and count == 1 else convert(count).astype("int64") * size
        buffer = state.declare(decl_buffer((bytes_,), "uint8", name or "structs", scope="local"))
        return EnclosingStmt(lambda body, span: AllocBuffer(buffer, body, span=span), self(buffer.data))

    def __repr__(self) -> str:
        return f'T.struct("{self.struct.name}")'


class StructRef:
    """The struct at an address; attributes are its fields."""

    __slots__ = ("_index", "_pointer", "_struct")

    def __init__(self, struct: Struct, pointer: PrimExpr, index: PrimExpr | int = 0) -> None:
        self._struct, self._pointer, self._index = struct, pointer, convert(index)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        field = self._struct.fields.get(name)
        value = tvm_struct_get(self._pointer, self._index, f"{self._struct.name}.{name}")
        if field is None or field.type not in STRUCTS:
            return value
        return StructRef(STRUCTS[field.type], value)

    def __getitem__(self, index: Any) -> StructRef:
        """Return an element, if the address is that of an array."""
        return StructRef(self._struct, self.asobject(), index)

    def store(self, name: str, value: Any) -> Call:
        """Set a field."""
        return tvm_struct_set(self._pointer, self._index, f"{self._struct.name}.{name}", value)

    def asobject(self) -> PrimExpr:
        """Return the address."""
        if getattr(self._index, "value", None) == 0:
            return self._pointer
        return tvm_struct_get(self._pointer, self._index, self._struct.name)

    def at(self, pointer: PrimExpr) -> StructRef:
        """Return a struct of this type at another address."""
        return StructRef(self._struct, pointer)


def struct(name: str) -> StructType:
    """A C struct (`relax.target.c_structs`). Raises ValueError if none has the name."""
    return StructType(name)


__all__ = ["StructRef", "StructType", "struct"]
