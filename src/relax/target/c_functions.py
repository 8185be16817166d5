"""C functions that support code calls, with their types.

``size`` stands for size_t, ``long`` for C's long: both are as wide as a pointer on the systems that are described. In
TIR, both are int64, ``int`` is int32, ``ptr`` a handle.
"""

from __future__ import annotations

import re
from typing import Final

from ..ir import DataType
from ..runtime.records import dataclass

_DTYPES: Final = {
    "void": "", "int": "int32", "long": "int64", "size": "int64", "i64": "int64", "i8": "int8", "ptr": "handle",
    "double": "float64",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CFunction:
    """A C function: its name, and its types as words of this file."""

    name: str
    result: str
    parameters: tuple[str, ...]
    variadic: bool = False

    @property
    def dtype(self) -> DataType:
        """Dtype of the result."""
        return DataType(_DTYPES[self.result])

    def types(self, pointer_bits: int) -> tuple[str, tuple[str, ...]]:
        """LLVM types of the result and of the parameters."""
        words = {"int": "i32", "long": f"i{pointer_bits}", "size": f"i{pointer_bits}"}
        return words.get(self.result, self.result), tuple(words.get(word, word) for word in self.parameters)


def _parsed(text: str) -> dict[str, CFunction]:
    functions: dict[str, CFunction] = {}
    for result, name, words in re.findall(r"(\w+) (\w+)\((.*)\)", text):
        parameters = tuple(str(word) for word in words.split(", ") if word)
        variadic = parameters[-1:] == ("...",)
        functions[name] = CFunction(name, result, parameters[:-1] if variadic else parameters, variadic)
    return functions


C_FUNCTIONS: Final = _parsed("""
    ptr aligned_alloc(size, size)
    void free(ptr)
    ptr getenv(ptr)
    int madvise(ptr, size, int)
    ptr malloc(size)
    void memcpy(ptr, ptr, size)
    void memset(ptr, int, size)
    int pthread_create(ptr, ptr, ptr, ptr)
    int pthread_detach(long)
    int pthread_sigmask(int, ptr, ptr)
    void qsort(ptr, size, size, ptr)
    int sched_getaffinity(int, size, ptr)
    int sched_getcpu()
    int sched_setaffinity(int, size, ptr)
    int snprintf(ptr, size, ptr, ...)
    int strcmp(ptr, ptr)
    size strlen(ptr)
    ptr strpbrk(ptr, ptr)
    ptr strstr(ptr, ptr)
    long strtol(ptr, ptr, int)
    long syscall(long, ...)
    int TVMFFIAnyViewToOwnedAny(ptr, ptr)
    int TVMFFIDataTypeToString(ptr, ptr)
    void TVMFFIErrorMoveFromRaised(ptr)
    void TVMFFIErrorSetRaised(ptr)
    void TVMFFIErrorSetRaisedFromCStr(ptr, ptr)
    int TVMFFIFunctionCall(ptr, ptr, int, ptr)
    int TVMFFIFunctionCreate(ptr, ptr, ptr, ptr)
    int TVMFFIFunctionGetGlobal(ptr, ptr)
    int TVMFFIObjectDecRef(ptr)
    int TVMFFIStringFromByteArray(ptr, ptr)
""")
"""Functions by name. `memcpy` and `memset` are declared without their results, which repeat an argument."""
