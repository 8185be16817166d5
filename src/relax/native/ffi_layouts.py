"""Layouts of tvm-ffi's structs in LLVM's terms (others: `relax.target.c_structs`), and tvm-ffi's type indices."""

from __future__ import annotations

POINTER_BITS = 64
"""Pointer size of the structures that generated code reads; `relax.farm.host` rejects targets with another one."""
ANY_TYPE = "{ i32, i32, i64 }"
OBJECT_HEADER = 24


#: TVMFFITypeIndex
NONE, INT, BOOL, FLOAT, POINTER, DTYPE, DEVICE, TENSOR_POINTER, RAW_STRING, RAW_BYTES = range(10)
SMALL_STRING, SMALL_BYTES = 11, 12
OBJECT = 64
"""The least type index of an object, which counts references."""
STRING, BYTES, ERROR, FUNCTION, SHAPE, TENSOR, ARRAY, MAP, MODULE = range(65, 74)
OPAQUE_OBJECT, LIST = 74, 75
