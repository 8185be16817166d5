"""Layouts of tvm-ffi's and DLPack's C headers, and tvm-ffi's numbers of kinds of values."""

from __future__ import annotations

ANY_TYPE = "{ i32, i32, i64 }"
TENSOR_TYPE = "{ ptr, i32, i32, i32, i8, i8, i16, ptr, ptr, i64 }"
OBJECT_HEADER = 24

#: TVMFFITypeIndex
NONE, INT, BOOL, FLOAT, POINTER, TENSOR_POINTER, TENSOR = 0, 1, 2, 3, 4, 7, 70
