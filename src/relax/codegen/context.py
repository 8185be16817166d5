"""State of code generation for one function: builder, variables, buffers, error exits.

A failing check branches to a cold block that sets the error and jumps to `error_label`. Each live heap allocation puts
a block that frees it in front of that label.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from functools import cached_property
from typing import TypeAlias

from ..farm.kernel_text import MarkedLoop, function_mark
from ..ir import DataType, Diagnostic, DiagnosticError, Span
from ..native.builder import FunctionBuilder, ModuleBuilder, Operand
from ..native.formula import Val, constant
from ..native.small_floats import SmallFloats
from ..native.support import raise_error
from ..native.types import element_type
from ..prim import IntImm, PrimExpr, Var
from ..runtime.messages import Message
from ..runtime.records import dataclass
from ..target import Target
from ..tir import Buffer, For, PrimFunc, While
from ..tir.signature import Text
from ..tir.transform import PARALLEL_BODY
from .facts import Knowledge

Rule: TypeAlias = "Callable[[Context, PrimExpr], Val]"
"""Writer of one kind of expression."""


@dataclass(frozen=True, slots=True)
class Storage:
    """The location of a buffer: its first element, its sizes, and its strides unless it is compact row-major."""

    pointer: Operand
    shape: tuple[Operand, ...]
    strides: tuple[Operand, ...] | None
    offset: Operand = "0"
    """Number of elements between the data variable's pointer and the first element."""
    align: int = 1
    """Known alignment of the first element in bytes, at most the size of one lane of an element."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory a data variable points to: that of a parameter's buffer, or an allocation of `size` bytes."""

    buffer: Buffer
    size: Val | None


@dataclass(slots=True)
class LoopExits:
    """Labels to which a loop is left and continued."""

    leave: str
    go_on: str
    is_left: bool = False
    """True if some statement leaves the loop."""


@dataclass
class Unit:
    """One LLVM module under construction: PrimFuncs that call each other."""

    module: ModuleBuilder
    target: Target
    small_floats: SmallFloats
    functions: dict[str, PrimFunc]
    symbols: frozenset[str] = frozenset()
    """Symbols of all functions being compiled, including those of other LLVM modules."""
    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])
    loops: list[MarkedLoop] | None = None
    """Loops in the order of writing, if their instructions are marked; otherwise None."""
    unbound: set[Var] = field(default_factory=set[Var])
    """Unbound variables of signatures: already reported, so their uses are not reported again."""
    plain: Mapping[str, PrimFunc] = field(default_factory=dict[str, PrimFunc])
    """Plain functions that may be called, by symbol: those of the module, and declared ones."""
    data: frozenset[str] = frozenset()
    """Symbols of variables whose address may be taken."""

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Numbers of the functions, used in their symbols so that names do not affect the code."""
        return {name: i for i, name in enumerate(self.functions)}

    def title(self, name: str) -> str:
        """Mark of a function's name for messages at run time: of its caller's, for the body of a parallel loop."""
        owner = str(self.functions[name].attrs.get(PARALLEL_BODY, name))
        return function_mark(self.numbers[owner]) if owner in self.numbers else owner

    def report(self, function: str, diagnostic: Diagnostic) -> None:
        """Add an error, unless it was already added for the function."""
        diagnostic = located(function, self.functions[function], diagnostic)
        if diagnostic not in self.diagnostics:
            self.diagnostics.append(diagnostic)


def located(name: str, func: PrimFunc, diagnostic: Diagnostic) -> Diagnostic:
    """Add the name of the function to a diagnostic."""
    label = diagnostic.label or f"in PrimFunc {name}"
    return replace(diagnostic, span=diagnostic.span or func.span, label=label)


class Context:
    """State of code generation for one function's body."""

    def __init__(self, unit: Unit, b: FunctionBuilder, name: str, rules: Mapping[type, Rule]) -> None:
        self.unit = unit
        self.rules = rules
        self.b = b
        self.name = name
        self.title = name
        """Function name in run-time messages, or the placeholder that the name replaces when the archive is written."""
        self.facts = Knowledge()
        self.vars: dict[Var, Val] = {}
        self.masks: dict[Var, PrimExpr] = {}
        """Variables of vectors of conditions, and the conditions: proofs about an access look at its predicate."""
        self.wide: dict[Var, Val] = {}
        """Integer variables in 64 bits, where they were computed in 64 bits."""
        self.storage: dict[Buffer, Storage] = {}
        self.memory: dict[Var, Memory] = {}
        """The memory of each data variable whose extent is known."""
        self.flags: dict[PrimExpr, str] = {}
        """Fast-math flags of single operations: those of a reduction's update."""
        self.place: Span | None = None
        """The span of the statement being written; diagnostics about nodes without a span use it."""
        self.error_label = "error"
        self.loop: int | None = None
        """The number of the loop being written, where loops are marked."""
        self.stack_bytes = 0
        self.attributes = 0
        """The number of the function's attributes in LLVM."""
        self.distinct: set[Operand] = set()
        """Pointers to whose memory none of the others leads."""
        self.checked = False
        """True if the function is shape arithmetic of a Relax function, and has no name to users."""
        self.exact = False
        """True if int64 arithmetic that overflows is an error: in what computes sizes."""
        self.plain = False
        """True in a plain function: nothing is checked, and there is no exit for errors."""
        self.loops: list[LoopExits] = []
        """The loops around the statement being written, the innermost last."""
        self.doubts = 0
        """The loads in choices that could not be shown to be in bounds."""
        self._memo: list[dict[PrimExpr, Val]] = [{}]
        self._wide_memo: list[dict[PrimExpr, Val]] = [{}]

    # ------------------------------------------------------------------ values computed already

    def known(self, expr: PrimExpr, wide: bool = False) -> Val | None:
        """Value of an expression object that was computed before in a dominating block; None if there is none."""
        for layer in self._wide_memo if wide else self._memo:
            found = layer.get(expr)
            if found is not None:
                return found
        return None

    def remember(self, expr: PrimExpr, value: Val, wide: bool = False) -> Val:
        (self._wide_memo if wide else self._memo)[-1][expr] = value
        return value

    def forget(self) -> None:
        """Discard cached values, since memory has changed."""
        for layer in (*self._memo, *self._wide_memo):
            layer.clear()

    @contextmanager
    def sometimes(self) -> Generator[None]:
        """Context manager: write code that is executed conditionally; its values are not reused after it."""
        self._memo.append({})
        self._wide_memo.append({})
        self.b.enter()
        yield
        self.b.leave()
        self._memo.pop()
        self._wide_memo.pop()

    @contextmanager
    def elsewhere(self) -> Generator[None]:
        """Context manager: write code about another function's variables; this function's are hidden.

        The variables may be the same objects if a function calls itself.
        """
        hidden = self.vars, self.wide, self.facts, self._memo, self._wide_memo
        self.vars, self.wide, self.facts, self._memo, self._wide_memo = {}, {}, Knowledge(), [{}], [{}]
        yield
        self.vars, self.wide, self.facts, self._memo, self._wide_memo = hidden

    @contextmanager
    def marked(self, loop: For | While) -> Generator[None]:
        """Context manager: write a loop. If loops are marked, its instructions end in ``!dbg !loop<number>``."""
        loops, parent, outside = self.unit.loops, self.loop, self.b.mark
        if loops is not None:
            self.loop = len(loops)
            self.b.mark = f", !dbg !loop{self.loop}"
            loops.append(MarkedLoop(self.name, loop, parent))
        yield
        self.loop, self.b.mark = parent, outside

    @contextmanager
    def inside_loop(self, leave: str, go_on: str) -> Generator[LoopExits]:
        """Context manager: write the body of a loop."""
        self.loops.append(LoopExits(leave, go_on))
        yield self.loops[-1]
        self.loops.pop()

    @contextmanager
    def exactly(self) -> Generator[None]:
        """Context manager: write size arithmetic, in which int64 overflow is an error."""
        outside = self.exact, self._memo, self._wide_memo
        self.exact, self._memo, self._wide_memo = (True, [{}], [{}])  # what was computed before may have wrapped around
        yield
        self.exact, self._memo, self._wide_memo = outside

    # ------------------------------------------------------------------ values

    def value(self, expr: PrimExpr) -> Val:
        """Value of an expression, in the register form of its dtype."""
        if isinstance(expr, IntImm):
            return self.constant(expr.dtype, expr.value)
        if isinstance(expr, Var):
            return self._variable(expr)
        known = self.known(expr)
        if known is not None:
            return known
        rule = self.rules.get(type(expr))
        if rule is None:
            self.report("E5904", f"there is no code for a {type(expr).__name__} here", expr)
            return self.anything(expr.dtype)
        return self.remember(expr, rule(self, expr))

    def _variable(self, var: Var) -> Val:
        found = self.vars.get(var)
        if found is not None:
            return found
        wide = self.wide.get(var)
        if wide is not None:
            return wide.to(element_type(var.dtype))
        if var not in self.unit.unbound:
            self.report(
                "E5902",
                f"the variable {var.name} has no value here",
                var,
                "a shape variable must stand alone in a dimension of some parameter's buffer, or be a parameter",
            )
        return self.anything(var.dtype)

    @contextmanager
    def bound(self, var: Var, expr: PrimExpr) -> Generator[None]:
        """Context manager: `var` has the value of `expr`."""
        self.vars[var] = self.value(expr)
        if expr.dtype.is_bool and expr.dtype.lanes > 1:
            self.masks[var] = expr
        with self.facts.binding(var, expr):
            yield
        del self.vars[var]
        self.masks.pop(var, None)

    def constant(self, dtype: DataType, value: float) -> Val:
        return constant(self.b, element_type(dtype), max(dtype.lanes, 1), value)

    def i64(self, value: int) -> Val:
        return constant(self.b, "i64", 1, value)

    def val(self, dtype: DataType, ref: Operand) -> Val:
        """Value of `dtype` from its operand."""
        return Val(self.b, element_type(dtype), max(dtype.lanes, 1), ref)

    def anything(self, dtype: DataType) -> Val:
        """Substitute (poison) for a value whose expression was reported as an error."""
        try:
            return self.val(dtype, "poison")
        except DiagnosticError:
            return Val(self.b, "i64", 1, "poison")

    def report(self, code: str, message: str, node: PrimExpr | None = None, hint: str = "") -> None:
        """Report an error in the program being compiled."""
        own = node.span if node is not None and not node.__is_variable__ else None
        self.unit.report(self.name, Diagnostic(code, message, own or self.place, hint=hint))

    # ------------------------------------------------------------------ failing

    def fail_unless(self, condition: Val, kind: str, message: str, *arguments: Val) -> None:
        """Raise an error of `kind` at run time unless `condition` (a scalar i1) holds.

        `message` is a printf format with ``%lld`` for each argument. It follows the function's name.
        """
        if condition.ref == "true" or self.plain:
            return
        ok, bad = self.b.label("ok"), self.b.label("bad")
        self.b.branch_if(condition.ref, ok, bad, hint="then")
        with self.b.cold(bad), self.sometimes():
            self.fail(kind, message, *arguments)
        self.b.start(ok)

    def require(self, condition: Val, message: Message, **fields: Text[Val]) -> None:
        """Raise an error of the message table at run time unless a condition holds; numeric fields are formatted."""
        numbers: list[Val] = []

        def shown(field: Text[Val]) -> str:
            parts = [field] if isinstance(field, (str, Val)) else field
            numbers.extend(part for part in parts if isinstance(part, Val))
            return "".join("%lld" if isinstance(part, Val) else escaped(part) for part in parts)

        texts = {name: shown(fields[name]) for _, name in message.parts() if name is not None}
        self.fail_unless(condition, *message.printf(**texts), *numbers)

    def leave_unless_zero(self, status: Operand) -> None:
        """Propagate the error of a function that was called, if `status` is not 0."""
        fine, bad = self.b.label("ok"), self.b.label("bad")
        self.b.branch_if(self.b.op(f"icmp eq i32 {status}, 0"), fine, bad, hint="then")
        with self.b.cold(bad):
            self.b.end(f"br label %{self.error_label}")
        self.b.start(fine)

    def fail(self, kind: str, message: str, *arguments: Val) -> None:
        """Raise an error at run time."""
        # Shape arithmetic is part of the Relax function that calls it, and has no name to users.
        text = message if self.checked else f"{escaped(self.title)}: {message}"
        self.b.do(raise_error(self.b.module, kind, text, [a.to("i64").ref for a in arguments]))
        self.b.end(f"br label %{self.error_label}")


def escaped(name: str) -> str:
    """Escape a name for a printf format."""
    return name.replace("%", "%%")
