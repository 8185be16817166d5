"""Plain functions to LLVM IR: PrimFuncs with a C signature (`relax.tir.stmt.LINKAGE`), such as support code.

A plain function takes and returns scalars and pointers, and is called by its symbol. Its accesses to memory are those
it states: buffers are declared at pointers, without bounds that are checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..ir import Diagnostic, DiagnosticError
from ..native.builder import FunctionBuilder, ModuleBuilder, quoted
from ..native.small_floats import SmallFloats
from ..native.types import register_type
from ..runtime.records import dataclass
from ..target import Target
from ..target.c_structs import STRUCTS
from ..target.machine import Machine
from ..tir import AllocBuffer, BlockRealize, PrimFunc, Stmt
from ..tir.stmt import C_ATTRIBUTES, LINKAGE
from . import expr, intrinsics, memory
from .context import Context, Rule, Unit
from .stmt import write

_RULES: Final[dict[type, Rule]] = {**expr.RULES, **memory.RULES, **intrinsics.RULES}
_LINKAGES: Final = {"internal": "internal ", "hidden": "hidden ", "weak": "weak ", "external": ""}


@dataclass(frozen=True, slots=True)
class Data:
    """A variable of the object, or one that the loader binds; its first value is zeros, or constants."""

    symbol: str
    type: str = ""
    """A struct's name, or a dtype; empty for a variable that another object defines."""
    count: int = 1
    linkage: str = "internal"
    align: int = 8
    texts: tuple[str, ...] = ()
    """Strings, whose addresses are the elements of a constant table."""
    words: tuple[int, ...] = ()
    """Numbers of 64 bits that are the elements of a constant table."""

    def write(self, module: ModuleBuilder, pointer_bits: int) -> str:
        """LLVM text of the definition."""
        if self.texts:
            items = ", ".join(f"ptr {module.string(text)}" for text in self.texts)
            return f"{quoted(self.symbol)} = private unnamed_addr constant [{len(self.texts)} x ptr] [{items}]"
        if self.words:
            items = ", ".join(f"i64 {word}" for word in self.words)
            return f"{quoted(self.symbol)} = private unnamed_addr constant [{len(self.words)} x i64] [{items}]"
        if not self.type:
            return f"{quoted(self.symbol)} = external {_LINKAGES[self.linkage].replace('internal ', '')}global i8"
        size = STRUCTS[self.type].layout(pointer_bits).size if self.type in STRUCTS else int(self.type[3:]) // 8
        linkage = _LINKAGES[self.linkage]
        type_ = f"[{self.count * size} x i8]"
        return f"{quoted(self.symbol)} = {linkage}global {type_} zeroinitializer, align {self.align}"


def plain_module_text(
    functions: Sequence[PrimFunc], triple: str, *, declared: Sequence[PrimFunc] = (), data: Sequence[Data] = ()
) -> str:
    """LLVM IR of plain functions, without a target triple. Raises DiagnosticError with all errors in them.

    `declared` functions are those of other objects, `data` the variables whose address is taken.
    """
    by_symbol = {symbol_of(func): func for func in functions}
    target = Target("llvm").with_machine(Machine(triple, "", ""))
    module = ModuleBuilder()
    variables = [one.write(module, target.machine.pointer_bits) for one in data]
    unit = Unit(module, target, SmallFloats(False, None), by_symbol, diagnostics=[])
    unit.plain = {**{symbol_of(func): func for func in declared}, **by_symbol}
    unit.data = frozenset(one.symbol for one in data)
    for symbol, func in by_symbol.items():
        try:
            _write(unit, symbol, func)
        except DiagnosticError as error:
            for diagnostic in error.diagnostics:
                unit.report(symbol, diagnostic)
    if unit.diagnostics:
        raise DiagnosticError(unit.diagnostics)
    return "\n".join([*variables, module.text()])


def symbol_of(func: PrimFunc) -> str:
    """Symbol of a plain function."""
    return str(func.attrs["global_symbol"])


def _write(unit: Unit, symbol: str, func: PrimFunc) -> None:
    linkage = _LINKAGES.get(str(func.attrs.get(LINKAGE)))
    if linkage is None:
        message = f"a plain function has one of the linkages {', '.join(_LINKAGES)}"
        unit.report(symbol, Diagnostic("E5910", message, func.span, hint='@T.prim_func(linkage="internal")'))
        return
    parameters = ", ".join(f"{register_type(param.dtype)} %p{i}" for i, param in enumerate(func.params))
    attributes = str(func.attrs.get(C_ATTRIBUTES, "nounwind"))
    result = "void" if func.ret_type is None else register_type(func.ret_type)
    b = FunctionBuilder(unit.module, f"define {linkage}{result} {quoted(symbol)}({parameters}) {attributes}")
    b.share()
    cx = Context(unit, b, symbol, _RULES)
    cx.plain = True
    for i, param in enumerate(func.params):
        cx.vars[param] = cx.val(param.dtype, f"%p{i}")
    write(cx, _without_root(func.body))
    if not b.terminated:
        if func.ret_type is not None:
            unit.report(symbol, Diagnostic("E5904", "the function may end without a result", func.span))
        b.end("ret void")
    unit.module.define(b)


def _without_root(body: Stmt) -> Stmt:
    """Replace the root block, which holds the buffers of the whole function, by their allocations."""
    if not isinstance(body, BlockRealize) or body.block.iter_vars:
        return body
    inner = body.block.body
    for buffer in reversed(body.block.alloc_buffers):
        inner = AllocBuffer(buffer, inner)
    return inner
