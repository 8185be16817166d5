"""Calls of the support code of kernels (`relax.codegen.support`): raising errors, checking arguments, memory.

The code is one object for all kernels, which the loader links to them. The loader resolves its external symbols:
``snprintf``, ``aligned_alloc``, ``madvise``, ``free`` and libm in the C library, errors in tvm-ffi.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .builder import ModuleBuilder, Operand

MADV_HUGEPAGE: Final = 14
"""Linux's number of this advice."""

MESSAGES: Final = "@relax.messages"
"""Messages of a kernel, bound by the loader."""


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
