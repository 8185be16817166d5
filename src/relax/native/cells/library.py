"""Support code of shared libraries: replaces the VM in processes without Python.

A library exported from an executable (`relax.runtime.export`) contains this object beside its kernels. On the first
call of a function, it builds the table of the program from records in the library. It has native forms of the builtins
that compiled functions call when a check fails, with the same messages.

    relax.program.v1     number of cells; address of the records
    record               kind, address, number, second address (8 bytes each):
        0  a value: its bits, its type index           1  a string: bytes, length
        2  a tensor: elements, dtype and rank, sizes   3  a shape: -, rank, sizes
        4  a packed function of the process: name      5  a function of this object: code, -, its context

The loader of archives omits this object: there, the VM builds tables.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from ...runtime.export import BUILTIN_FORMS, LIBRARY, PROGRAM
from ...runtime.limits import DIMENSION_LIMIT
from ...runtime.native import CELLS
from ...runtime.threads import LIMIT, MOST_THREADS, STATE, VARIABLE
from ..builder import ModuleBuilder
from ..ffi_layouts import ANY_TYPE, OBJECT_HEADER, TENSOR_TYPE
from .library_builtins import BUILTINS
from .library_checks import FORMS, shape_refusal
from .library_text import TEXTS
from .matching import checks_text
from .support_code import FUNCTIONS, TABLE_MARK

_TABLE: Final = """
@<L>table_made = internal global ptr null
@<STATE> = hidden global [4096 x i8] zeroinitializer, align 4096
@<LIMIT> = hidden global i32 0
@<PROGRAM> = external hidden constant [2 x i64]
define hidden ptr @<P>program() nounwind {
entry:
  %ready = load atomic ptr, ptr @<L>table_made acquire, align 8
  %there = icmp ne ptr %ready, null
  br i1 %there, label %give, label %make
give:
  ret ptr %ready
make:
  call void @<L>threads()
  %made = call ptr @<L>build()
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %no, label %publish
publish:
  %pair = cmpxchg ptr @<L>table_made, ptr null, ptr %made acq_rel acquire
  %first = extractvalue { ptr, i1 } %pair, 1
  br i1 %first, label %done, label %second
second:
  %theirs = extractvalue { ptr, i1 } %pair, 0
  call void @<P>drop(ptr %made)
  ret ptr %theirs
done:
  ret ptr %made
no:
  ret ptr inttoptr (i64 1 to ptr)
}
define internal void @<L>threads() nounwind {
entry:
  ; the number of threads of parallel loops: as the environment says, or one for each processor
  %mask = alloca [128 x i8], align 8
  %text = call ptr @getenv(ptr <VARIABLE>)
  %stated = icmp ne ptr %text, null
  br i1 %stated, label %read, label %count
read:
  %number = call i64 @strtol(ptr %text, ptr null, i32 10)
  %some = icmp sgt i64 %number, 0
  br i1 %some, label %set, label %count
count:
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 128, i1 false)
  %asked = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mask)
  br label %test
test:
  %i = phi i64 [ 0, %count ], [ %next, %word ]
  %sum = phi i64 [ 0, %count ], [ %more, %word ]
  %end = icmp eq i64 %i, 16
  br i1 %end, label %set, label %word
word:
  %at = getelementptr i64, ptr %mask, i64 %i
  %bits = load i64, ptr %at
  %ones = call i64 @llvm.ctpop.i64(i64 %bits)
  %more = add i64 %sum, %ones
  %next = add i64 %i, 1
  br label %test
set:
  %wanted = phi i64 [ %number, %read ], [ %sum, %test ]
  %least = call i64 @llvm.umax.i64(i64 %wanted, i64 1)
  %most = call i64 @llvm.umin.i64(i64 %least, i64 <MOST_THREADS>)
  %limit = trunc i64 %most to i32
  store atomic i32 %limit, ptr @<LIMIT> monotonic, align 4
  ret void
}
define internal ptr @<L>build() nounwind {
entry:
  %n = load i64, ptr @<PROGRAM>
  %records_at = getelementptr i8, ptr @<PROGRAM>, i64 8
  %records = load ptr, ptr %records_at
  %bytes = shl i64 %n, 4
  %total = add i64 %bytes, 16
  %table = call ptr @malloc(i64 %total)
  %none = icmp eq ptr %table, null
  br i1 %none, label %memory, label %fill
fill:
  store i64 1, ptr %table
  %count = trunc i64 %n to i32
  %count_at = getelementptr i8, ptr %table, i64 8
  store i32 %count, ptr %count_at
  %mark_at = getelementptr i8, ptr %table, i64 12
  store i32 <MARK>, ptr %mark_at
  %cells = getelementptr i8, ptr %table, i64 16
  call void @llvm.memset.p0.i64(ptr align 8 %cells, i8 0, i64 %bytes, i1 false)
  br label %test
test:
  %i = phi i64 [ 0, %fill ], [ %next, %made ]
  %end = icmp eq i64 %i, %n
  br i1 %end, label %done, label %one
one:
  %offset = shl i64 %i, 5
  %record = getelementptr i8, ptr %records, i64 %offset
  %cell = getelementptr <ANY>, ptr %cells, i64 %i
  %fine = call i1 @<L>make(ptr %record, ptr %cell)
  %next = add i64 %i, 1
  br i1 %fine, label %made, label %failed
made:
  br label %test
failed:
  call void @<P>drop(ptr %table)
  ret ptr null
memory:
  call void @TVMFFIErrorSetRaisedFromCStr(ptr <MEMORY_ERROR>, ptr <NO_MEMORY>)
  ret ptr null
done:
  ret ptr %table
}
define internal i1 @<L>make(ptr %record, ptr %cell) nounwind {
entry:
  %slot = alloca ptr, align 8
  %text = alloca [1040 x i8], align 8
  store ptr null, ptr %slot
  %kind = load i64, ptr %record
  %first = getelementptr i8, ptr %record, i64 8
  %address = load ptr, ptr %first
  %number_at = getelementptr i8, ptr %record, i64 16
  %number = load i64, ptr %number_at
  %second_at = getelementptr i8, ptr %record, i64 24
  %second = load ptr, ptr %second_at
  %payload = getelementptr i8, ptr %cell, i64 8
  switch i64 %kind, label %native [ i64 0, label %value i64 1, label %string i64 2, label %tensor
                                    i64 3, label %shape i64 4, label %global ]
value:
  store i64 %number, ptr %cell
  store ptr %address, ptr %payload
  ret i1 true
string:
  %made = call i32 @TVMFFIStringFromByteArray(ptr %first, ptr %cell)
  %string_fine = icmp eq i32 %made, 0
  ret i1 %string_fine
tensor:
  %dtype = trunc i64 %number to i32
  %rank64 = lshr i64 %number, 32
  %rank = trunc i64 %rank64 to i32
  %object = call ptr @<P>tensor(i64 1, i32 %dtype, i32 %rank, ptr %second, ptr %address, i64 0)
  %no_object = icmp eq ptr %object, null
  br i1 %no_object, label %memory, label %keep
keep:
  call void @<P>own(ptr %cell, ptr %object, i32 70)
  ret i1 true
shape:
  %ndim = trunc i64 %number to i32
  %shaped = call i1 @<P>shape(ptr %cell, i32 %ndim, ptr %second)
  br i1 %shaped, label %fine, label %memory
global:
  %asked = call i32 @TVMFFIFunctionGetGlobal(ptr %first, ptr %slot)
  %answered = icmp eq i32 %asked, 0
  br i1 %answered, label %look, label %no
look:
  %function = load ptr, ptr %slot
  %missing = icmp eq ptr %function, null
  br i1 %missing, label %absent, label %callable
native:
  %created = call i32 @TVMFFIFunctionCreate(ptr %second, ptr %address, ptr null, ptr %slot)
  %is_created = icmp eq i32 %created, 0
  br i1 %is_created, label %new, label %no
new:
  %native_function = load ptr, ptr %slot
  br label %callable
callable:
  %callee = phi ptr [ %function, %look ], [ %native_function, %new ]
  store i64 68, ptr %cell
  store ptr %callee, ptr %payload
  br label %fine
absent:
  store i64 0, ptr %text
  call void @<L>put(ptr %text, ptr <ABSENT_BEFORE>)
  call void @<L>put_bytes(ptr %text, ptr %address, i64 %number)
  call void @<L>put(ptr %text, ptr <ABSENT_AFTER>)
  %chars = getelementptr i8, ptr %text, i64 8
  call void @TVMFFIErrorSetRaisedFromCStr(ptr <VALUE_ERROR>, ptr %chars)
  ret i1 false
memory:
  call void @TVMFFIErrorSetRaisedFromCStr(ptr <MEMORY_ERROR>, ptr <NO_MEMORY>)
  ret i1 false
fine:
  ret i1 true
no:
  ret i1 false
}
"""

_OUTSIDE: Final = {
    "TVMFFIErrorSetRaisedFromCStr": ("void", "ptr, ptr"),
    "TVMFFIObjectDecRef": ("i32", "ptr"),
    "TVMFFIFunctionCreate": ("i32", "ptr, ptr, ptr, ptr"),
    "TVMFFIFunctionGetGlobal": ("i32", "ptr, ptr"),
    "TVMFFIStringFromByteArray": ("i32", "ptr, ptr"),
    "TVMFFIDataTypeToString": ("i32", "ptr, ptr"),
    "TVMFFIAnyViewToOwnedAny": ("i32", "ptr, ptr"),
    "malloc": ("ptr", "i64"),
    "getenv": ("ptr", "ptr"),
    "strtol": ("i64", "ptr, ptr, i32"),
    "strlen": ("i64", "ptr"),
    "strcmp": ("i32", "ptr, ptr"),
    "strstr": ("ptr", "ptr, ptr"),
    "strpbrk": ("ptr", "ptr, ptr"),
    "sched_getaffinity": ("i32", "i32, i64, ptr"),
    f"{CELLS}drop": ("void", "ptr"),
    f"{CELLS}tensor": ("ptr", "i64, i32, i32, ptr, ptr, i64"),
    f"{CELLS}bytes": ("i64", "i32, i32, ptr"),
    f"{CELLS}own": ("void", "ptr, ptr, i32"),
}
_CALLED: Final = ("shape", "dim", "rank", "count", "field", "alloc", "view", "reshape", "copy", "truth")


@lru_cache(maxsize=1)
def library_text() -> str:
    """LLVM IR of the support code of libraries, without a target triple."""
    module = ModuleBuilder()
    for name, (result, parameters) in _OUTSIDE.items():
        module.declare(name, result, parameters)
    for name in _CALLED:
        module.declare(f"{CELLS}{name}", *FUNCTIONS[name])
    for name, parameters in (("umin", 2), ("umax", 2), ("smin", 2), ("ctpop", 1)):
        module.intrinsic(f"llvm.{name}.i64", "i64", *["i64"] * parameters)
    module.intrinsic("llvm.smul.with.overflow.i64", "{ i64, i1 }", "i64", "i64")
    module.intrinsic("llvm.memset.p0.i64", "void", "ptr", "i8", "i64", "i1")
    module.intrinsic("llvm.memcpy.p0.p0.i64", "void", "ptr", "ptr", "i64", "i1")
    module.add_text("declare i32 @snprintf(ptr, i64, ptr, ...) nounwind")
    values = {
        "P": CELLS, "L": LIBRARY, "PROGRAM": PROGRAM, "STATE": STATE, "LIMIT": LIMIT, "MARK": str(TABLE_MARK),
        "ANY": ANY_TYPE, "TENSOR": TENSOR_TYPE, "HEADER": str(OBJECT_HEADER), "MOST_THREADS": str(MOST_THREADS),
        "DIMENSIONS": str(DIMENSION_LIMIT),
    }  # fmt: skip
    strings = {
        "VARIABLE": VARIABLE, "VALUE_ERROR": "ValueError", "TYPE_ERROR": "TypeError", "MEMORY_ERROR": "MemoryError",
        "INDEX_ERROR": "IndexError", "NO_MEMORY": "out of memory: cannot make the table of a program",
        "ABSENT_BEFORE": "the library calls the packed function ",
        "ABSENT_AFTER": ", which this process has not; register it before the first call",
    }  # fmt: skip
    values |= {name: module.string(text) for name, text in strings.items()}
    for text in (_TABLE, TEXTS, checks_text(module, raises=True), shape_refusal(module), FORMS, BUILTINS):
        module.add_text(_filled(module, text, values).strip())
    defined = module.text()
    assert all(f"@{LIBRARY}{form}(" in defined for form in BUILTIN_FORMS.values())
    return defined


def _filled(module: ModuleBuilder, text: str, values: dict[str, str]) -> str:
    """Replace words in angle brackets by values, and quoted ones by constant strings."""
    for name, value in values.items():
        text = text.replace(f"<{name}>", value)
    parts = text.split('<"')
    rest = [part.split('">', 1) for part in parts[1:]]
    return parts[0] + "".join(module.string(string) + after for string, after in rest)
