"""Support code of compiled kernels: raising errors, and checking arguments.

It is one object for all kernels, which the loader links to them. The loader resolves its external symbols:
``snprintf``, ``aligned_alloc``, ``madvise``, ``free`` and libm in the C library, errors in tvm-ffi.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from ..runtime.tensor import LARGE_PAGE
from .argument_checks import argument_checks
from .builder import ModuleBuilder, Operand
from .types import DTYPE_FORMATS

MADV_HUGEPAGE: Final = 14
"""Linux's number of this advice."""

MESSAGES: Final = "@relax.messages"
"""Messages of a kernel, bound by the loader."""

#: how messages call the kinds of arguments, by type index
_KINDS = {
    0: "None", 1: "an int", 2: "a bool", 3: "a float", 4: "a pointer", 5: "a dtype", 6: "a device", 7: "a tensor",
    8: "a string", 9: "bytes", 11: "a string", 12: "bytes", 65: "a string", 66: "bytes", 67: "an error",
    68: "a function", 69: "a shape", 70: "a tensor", 71: "a tuple", 72: "a dict", 73: "a module",
}  # fmt: skip

# None of these is worth optimising: they are short, and would take longer to compile than the kernels.

RAISE = """define hidden void @relax.raise(ptr %messages, i32 %index, i64 %a, i64 %b, i64 %c, i64 %d)
    cold noinline optnone {
  %double = mul i32 %index, 2
  %kind = call ptr @relax.message(ptr %messages, i32 %double)
  %next = add i32 %double, 1
  %format = call ptr @relax.message(ptr %messages, i32 %next)
  call void @relax.set_error(ptr %kind, ptr %format, i64 %a, i64 %b, i64 %c, i64 %d)
  ret void
}
define internal void @relax.set_error(ptr %kind, ptr %format, i64 %a, i64 %b, i64 %c, i64 %d)
    cold noinline optnone {
  %text = alloca [1024 x i8], align 16
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr %text, i64 1024, ptr %format, i64 %a, i64 %b, i64 %c, i64 %d)
  call void @TVMFFIErrorSetRaisedFromCStr(ptr %kind, ptr %text)
  ret void
}
define internal ptr @relax.message(ptr %messages, i32 %count) cold noinline optnone {
entry:
  br label %test
test:
  %at = phi ptr [ %messages, %entry ], [ %behind, %next ]
  %left = phi i32 [ %count, %entry ], [ %fewer, %next ]
  %found = icmp eq i32 %left, 0
  br i1 %found, label %done, label %next
next:
  %length = call i64 @strlen(ptr %at)
  %size = add i64 %length, 1
  %behind = getelementptr i8, ptr %at, i64 %size
  %fewer = sub i32 %left, 1
  br label %test
done:
  ret ptr %at
}
define internal i64 @relax.who(ptr %messages, i32 %index) cold noinline optnone {
  %double = mul i32 %index, 2
  %name = call ptr @relax.message(ptr %messages, i32 %double)
  %address = ptrtoint ptr %name to i64
  ret i64 %address
}"""

# Large pages are asked for where the memory fills some: there are 512 times fewer page faults when it is touched first
# (relax.runtime.tensor). It need not begin with one: the C library keeps memory that is freed only if it was asked for
# without much of an alignment. A system without large pages refuses the advice, and may.
RESERVE = f"""define hidden noalias ptr @relax.reserve(i64 %bytes) noinline optnone {{
entry:
  %found = call ptr @aligned_alloc(i64 64, i64 %bytes)
  %there = icmp ne ptr %found, null
  %large = icmp uge i64 %bytes, {LARGE_PAGE}
  %fit = and i1 %there, %large
  br i1 %fit, label %measure, label %done
measure:
  %start = ptrtoint ptr %found to i64
  %end = add i64 %start, %bytes
  %behind = add i64 %start, {LARGE_PAGE - 1}
  %first = and i64 %behind, -{LARGE_PAGE}
  %last = and i64 %end, -{LARGE_PAGE}
  %filled = icmp ult i64 %first, %last
  br i1 %filled, label %advise, label %done
advise:
  %pages = inttoptr i64 %first to ptr
  %size = sub i64 %last, %first
  %answer = call i32 @madvise(ptr %pages, i64 %size, i32 {MADV_HUGEPAGE})
  br label %done
done:
  ret ptr %found
}}"""

KIND_NAME = """define internal ptr @relax.kind_name(i32 %kind) cold noinline optnone {{
  %known = icmp ult i32 %kind, {count}
  %index = select i1 %known, i32 %kind, i32 10
  %wide = zext i32 %index to i64
  %place = getelementptr ptr, ptr {table}, i64 %wide
  %name = load ptr, ptr %place
  ret ptr %name
}}"""

DTYPE_NAME = """define internal void @relax.dtype_name(ptr %text, i32 %dtype) cold noinline optnone {{
  %code = and i32 %dtype, 255
  %bits = lshr i32 %dtype, 8
  %bits8 = and i32 %bits, 255
  %known = icmp ult i32 %code, {count}
  %index = select i1 %known, i32 %code, i32 3
  %wide = zext i32 %index to i64
  %place = getelementptr ptr, ptr {table}, i64 %wide
  %format = load ptr, ptr %place
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr %text, i64 64, ptr %format, i32 %bits8)
  ret void
}}"""


@lru_cache(maxsize=1)
def support_text() -> str:
    """LLVM IR of the support code, without a target triple."""
    module = ModuleBuilder()
    module.declare("snprintf", "i32", "ptr, i64, ptr, ...")
    module.declare("strlen", "i64", "ptr")
    module.declare("TVMFFIErrorSetRaisedFromCStr", "void", "ptr, ptr")
    count = max(_KINDS) + 1
    kinds = [module.string(_KINDS.get(i, "an object")) for i in range(count)]
    formats = [module.string(text) for text in DTYPE_FORMATS]
    module.add_text(RAISE)
    module.declare("aligned_alloc", "ptr", "i64, i64")
    module.declare("madvise", "i32", "ptr, i64, i32")
    module.add_text(RESERVE)
    module.add_text(KIND_NAME.format(count=count, table=module.table("relax.kinds", "ptr", kinds)))
    module.add_text(DTYPE_NAME.format(count=len(formats), table=module.table("relax.dtypes", "ptr", formats)))
    module.add_text(argument_checks(module))
    return module.text()


# ------------------------------------------------------------------------------- how kernels call it


def raise_error(module: ModuleBuilder, kind: str, text: str, arguments: Sequence[Operand]) -> str:
    """Call that sets an error of `kind`; the message is formatted by printf from `text` and up to four integers."""
    return raise_numbered(module, module.message(kind, text), arguments)


def raise_numbered(module: ModuleBuilder, number: Operand, arguments: Sequence[Operand]) -> str:
    """Call that sets the error of a numbered message of the module."""
    function = module.support("relax.raise", "void", "ptr, i32, i64, i64, i64, i64")
    operands = [f"i64 {a}" for a in arguments] + ["i64 0"] * (4 - len(arguments))
    return f"call void {function}(ptr {MESSAGES}, i32 {number}, {', '.join(operands)})"


def reserve(module: ModuleBuilder, size: Operand) -> str:
    """Call that allocates a multiple of 64 bytes, aligned to 64, to be released by `free`; null on failure."""
    function = module.support("relax.reserve", "noalias ptr", "i64")
    return f"call noalias align 64 ptr {function}(i64 {size}) nounwind willreturn"


def checked_arguments(module: ModuleBuilder, count: int, table: Operand, words: Operand) -> str:
    """Call that checks arguments and writes their words (`argument_checks`); returns 0, or -1 with the error set."""
    function = module.support("relax.arguments", "i32", "i64, ptr, ptr, ptr, ptr")
    return f"call i32 {function}(i64 {count}, ptr %args, ptr {MESSAGES}, ptr {table}, ptr {words})"


def tensors_apart(module: ModuleBuilder, count: int, pairs: Operand, words: Operand) -> str:
    """Call that checks that pairs of tensor arguments do not overlap; returns 0, or -1 with the error set."""
    function = module.support("relax.apart", "i32", "i64, ptr, ptr, ptr")
    return f"call i32 {function}(i64 {count}, ptr {MESSAGES}, ptr {pairs}, ptr {words})"
