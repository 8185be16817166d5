"""Support code of compiled Relax functions: cells, which hold values, and the objects of tvm-ffi in them.

A cell is a TVMFFIAny that owns the object in it. The registers of a running function are an array of cells, as is the
table of its constants, packed functions and devices. Code accesses them by the functions here. Functions that may
decline return false without a change: the caller, or a function `make_…` around them, then calls the builtin of the
same purpose, which raises the error or handles the rare case.

The code is one object, which a process loads once and never unloads, since tensors created here are freed by it: see
`relax.runtime.native`. The number in the prefix changes with the meaning of a function.

    object of a tensor   header of tvm-ffi (24 bytes), DLTensor (48), the object whose memory it views, or null (8),
                         sizes, strides; for a storage, its tensor in the pool (8); the size of the object in bytes if
                         its memory will be reused (`freed_memory`), or 0 (8); at a multiple of 64, the elements
    object of a shape    header, pointer to the sizes, their number; the sizes
    table                number of references, number of cells and `TABLE_MARK`; the cells. Functions hold references
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from ...runtime.allocator import SMALL_STORAGE
from ...runtime.compiled import MOST_CALLS, STACK_LIMIT
from ...runtime.limits import DIMENSION_LIMIT
from ...runtime.native import CELLS
from ...runtime.tensor import LARGE_PAGE
from ..builder import ModuleBuilder
from ..ffi_layouts import ANY_TYPE, OBJECT_HEADER, TENSOR_TYPE
from ..support import MADV_HUGEPAGE
from .freed_memory import KEPT, LEAST_KEPT
from .makers import MAKERS
from .matching import CHECKS, checks_text
from .objects import OBJECTS
from .overlaps import OVERLAPS
from .questions import QUESTIONS
from .tables import TABLES
from .values import INNER_CALL, VALUES, Passed, Refused

TABLE_MARK: Final = 0x52454C58
"""Upper half of a table's second word; it distinguishes tables from objects of tvm-ffi."""
_RAW: Final = 8
_OWNER: Final = 72
_DIMS: Final = 80
_MOST_BYTES: Final = 1 << 47

#: functions, by name: the result's type and those of the parameters
FUNCTIONS: Final[dict[str, tuple[str, str]]] = {
    "reset": ("void", "ptr"),
    "set": ("void", "ptr, ptr"),
    "call": ("i32", "ptr, ptr, i32, ptr"),
    "call_with": ("i32", "ptr, ptr, ptr, ptr, ptr, ptr"),
    "run": ("i32", "ptr, ptr, i32, ptr, ptr, ptr"),
    "keep": ("void", "ptr, ptr"),
    "plain": ("i1", "ptr"),
    **{f"fits_{check}": ("i1", "ptr, ptr, ptr, ptr") for check in CHECKS},
    "keep_apart": ("void", "ptr, i64, i64"),
    "rank": ("i32", "ptr"),
    "dim": ("i64", "ptr, i64"),
    "count": ("i64", "ptr"),
    "field": ("i1", "ptr, ptr, i64"),
    "truth": ("i32", "ptr"),
    "alloc": ("i1", "ptr, ptr, i32, i32, ptr"),
    "view": ("i1", "ptr, ptr, i64, i32, i32, ptr"),
    "reshape": ("i1", "ptr, ptr, i32, ptr"),
    "copy": ("i1", "ptr, ptr, ptr"),
    "shape": ("i1", "ptr, i32, ptr"),
    "make_tensor": ("i32", "ptr, ptr, ptr, i32, i32, ptr"),
    "make_storage": ("i32", "ptr, ptr, ptr, ptr, i64"),
    "make_view": ("i32", "ptr, ptr, ptr, i64, i32, i32, ptr"),
    "make_reshaped": ("i32", "ptr, ptr, ptr, i32, ptr"),
    "make_copy": ("i32", "ptr, ptr, ptr"),
    "make_shape": ("i32", "ptr, ptr, i32, ptr"),
    "locate": ("void", "ptr, ptr, i32"),
}


@lru_cache(maxsize=1)
def cells_text() -> str:
    """LLVM IR of the support code, without a target triple."""
    module = ModuleBuilder()
    _declare_functions(module)
    values = _placeholders(module)
    for text in (VALUES, QUESTIONS, checks_text(module, raises=False), KEPT, OBJECTS, OVERLAPS, MAKERS, TABLES):
        for name, value in values.items():
            text = text.replace(f"<{name}>", value)
        module.add_text(text.strip())
    return module.text()


def _declare_functions(module: ModuleBuilder) -> None:
    """Declare external functions of the support code: tvm-ffi, the C library and LLVM's intrinsics."""
    module.declare("TVMFFIErrorSetRaisedFromCStr", "void", "ptr, ptr")
    module.declare("TVMFFIErrorMoveFromRaised", "void", "ptr")
    module.declare("TVMFFIErrorSetRaised", "void", "ptr")
    module.declare("TVMFFIObjectDecRef", "i32", "ptr")
    module.declare("TVMFFIFunctionCall", "i32", "ptr, ptr, i32, ptr")
    module.declare("TVMFFIFunctionCreate", "i32", "ptr, ptr, ptr, ptr")
    module.declare("TVMFFIAnyViewToOwnedAny", "i32", "ptr, ptr")
    module.declare("malloc", "ptr", "i64")
    module.declare("madvise", "i32", "ptr, i64, i32")
    module.declare("free", "void", "ptr")
    module.declare("qsort", "void", "ptr, i64, i64, ptr")
    module.declare("strlen", "i64", "ptr")
    module.intrinsic("llvm.umin.i64", "i64", "i64", "i64")
    module.intrinsic("llvm.umax.i64", "i64", "i64", "i64")
    module.intrinsic("llvm.smax.i64", "i64", "i64", "i64")
    module.intrinsic("llvm.ctlz.i64", "i64", "i64", "i1")
    module.intrinsic("llvm.umul.with.overflow.i64", "{ i64, i1 }", "i64", "i64")
    module.intrinsic("llvm.ptrmask.p0.i64", "ptr", "ptr", "i64")
    module.intrinsic("llvm.memset.p0.i64", "void", "ptr", "i8", "i64", "i1")
    module.intrinsic("llvm.memcpy.p0.p0.i64", "void", "ptr", "ptr", "i64", "i1")


def _placeholders(module: ModuleBuilder) -> dict[str, str]:
    """Values of the placeholders in angle brackets in the texts of the support code."""
    return {
        "P": CELLS,
        "ANY": ANY_TYPE,
        "TENSOR": TENSOR_TYPE,
        "HEADER": str(OBJECT_HEADER),
        "OWNER": str(_OWNER),
        "DIMS": str(_DIMS),
        "SECOND_OWNER": str(_DIMS + 16),
        "HEAD": str(_DIMS + 16),
        "CAPACITY": str(_DIMS + 8),
        "LEAST_KEPT": str(LEAST_KEPT),
        "LIMIT": str(DIMENSION_LIMIT),
        "MOST": str(_MOST_BYTES),
        "MARK": str(TABLE_MARK),
        "INNER_CALL": str(INNER_CALL),
        "MOST_CALLS": str(16 * MOST_CALLS + 8),
        "STACK_LIMIT": str(16 * STACK_LIMIT + 8),
        **{answer.name: str(answer.value) for answer in Refused},
        **{passed.name: str(passed.value) for passed in Passed},
        "RAW": str(_RAW),
        "SMALL": str(SMALL_STORAGE),
        "LARGE_PAGE": str(LARGE_PAGE),
        "IN_PAGE": str(LARGE_PAGE - 1),
        "ADVICE": str(MADV_HUGEPAGE),
        "VALUE_ERROR": module.string("ValueError"),
        "MEMORY_ERROR": module.string("MemoryError"),
        "NOT_PLAIN": module.string("an argument is no compact tensor in host memory; pass a compact copy"),
        "NO_MEMORY": module.string("out of memory: cannot make the table of a program"),
        "NO_SHAPE": module.string("out of memory: cannot make a shape"),
    }


def cell_function(module: ModuleBuilder, name: str) -> tuple[str, str]:
    """Result type and symbol of a function of the support code."""
    result, parameters = FUNCTIONS[name]
    return result, module.declare(f"{CELLS}{name}", result, parameters)
