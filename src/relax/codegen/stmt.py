"""Statements to LLVM: loops, branches, storage, stores.

Loops are counted in 64 bits from their start to their end, the form LLVM's loop passes know best. The update of a
sum in memory, ``s[i] = s[i] + x``, is the one place where floating point is not rounded operation by operation: its
terms may be added in another order (by vector lanes), and a product may be fused into the addition. Both are decided
when compiling, never by the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

from ..ir import DiagnosticError, GlobalVar, Node, structural_equal, walk
from ..native.formula import Val
from ..native.types import is_small_float
from ..prim import Add, Call, IntImm, Mul, PrimExpr, Sub, Var, const, is_const
from ..prim.cells import PLACE
from ..prim.intervals import dtype_range
from ..tir import (
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IterVar,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)
from ..tir.assertion import shown_sizes
from ..tir.stmt import OWN_FUNCTION, STAYS_ROLLED
from ..tir.transform import PARALLEL_RANGE, is_written_out
from .allocate import allocate
from .calls import call_function
from .cell_calls import located_at
from .context import Context, escaped
from .function_splitting import parts_of, scope_of, write_apart
from .index import index
from .memory import store
from .parallel_regions import run_in_parallel
from .supported_attributes import LOOP_ANNOTATIONS, LOWER_FIRST, SCOPES, UNKNOWN, unknown_among
from .views import declare_view


def write(cx: Context, stmt: Stmt) -> None:
    """Write a statement."""
    cx.forget()
    outer, cx.place = cx.place, stmt.span or cx.place
    rule = _RULES.get(type(stmt))
    if rule is None:
        cx.report("E5904", f"there is no code for a {type(stmt).__name__}", hint=LOWER_FIRST)
    else:
        try:
            rule(cx, stmt)
        except DiagnosticError as error:  # a dtype without code: nothing can be written in its place
            raise error.placed(cx.place) from None
    cx.place = outer


def _seq(cx: Context, stmt: SeqStmt) -> None:
    parts = parts_of(stmt.seq)
    if len(parts) == 1:
        _in_order(cx, stmt.seq)
        return
    scope = scope_of(cx)
    for part in parts:
        write_apart(cx, scope, partial(_in_order, cx, part))


def _in_order(cx: Context, seq: Sequence[Stmt]) -> None:
    for stmt in seq:
        if cx.b.terminated:  # behind a return
            break
        write(cx, stmt)


def _store(cx: Context, stmt: BufferStore) -> None:
    _mark_reduction(cx, stmt)
    store(cx, stmt)
    cx.flags.clear()


def _mark_reduction(cx: Context, stmt: BufferStore) -> None:
    """Allow reordering and fusing of the additions from the old value to the new one."""
    dtype = stmt.buffer.dtype
    if not dtype.is_float or is_small_float(dtype):
        return
    path: list[PrimExpr] = []
    node = stmt.value
    while isinstance(node, (Add, Sub)):
        path.append(node)
        if _is_old_value(node.a, stmt) or (isinstance(node, Add) and _is_old_value(node.b, stmt)):
            break
        node = node.a
    else:
        return
    for add in path:
        cx.flags[add] = "reassoc contract "
        for operand in (cast(Any, add).a, cast(Any, add).b):
            if isinstance(operand, Mul):
                cx.flags[operand] = "contract "


def _is_old_value(expr: PrimExpr, stmt: BufferStore) -> bool:
    return (
        isinstance(expr, BufferLoad)
        and expr.buffer is stmt.buffer
        and all(a is b or structural_equal(a, b) for a, b in zip(expr.indices, stmt.indices, strict=True))
    )


# ------------------------------------------------------------------------------------- loops


def _for(cx: Context, stmt: For) -> None:
    if stmt.kind is ForKind.THREAD_BINDING:
        cx.report(
            "E5906",
            f"loop {stmt.loop_var.name} is bound to a GPU's threads; the target is a CPU",
            hint="make it T.serial or T.parallel",
        )
        return
    if stmt.kind in (ForKind.PARALLEL, ForKind.VECTORIZED):
        kind = stmt.kind.name.lower()
        cx.report("E5904", f"the {kind} loop {stmt.loop_var.name} must be lowered first", hint=LOWER_FIRST)
        return
    _refuse_annotations(cx, stmt.annotations, LOOP_ANNOTATIONS, f"loop {stmt.loop_var.name}")
    write_loop = _unrolled if is_written_out(stmt) else _counted
    if OWN_FUNCTION in stmt.annotations:
        write_apart(cx, scope_of(cx), partial(write_loop, cx, stmt))
    else:
        write_loop(cx, stmt)


def _counted(cx: Context, stmt: For) -> None:
    """Write a counted loop."""
    start, extent = index(cx, stmt.min), index(cx, stmt.extent)
    if is_const(stmt.extent) and cast(Any, stmt.extent).value <= 0:
        return
    extent = _checked_extent(cx, stmt, start, extent)
    whole = stmt.annotations.get(PARALLEL_RANGE)
    if whole is None:
        _check_range(cx, stmt, start, extent)
    # A part of a loop has the range of the whole loop, which the function that calls it has checked.
    low, count = (stmt.min, stmt.extent) if whole is None else map(partial(_bound, stmt.loop_var), whole)
    with cx.facts.loop(stmt.loop_var, low, count):
        if is_const(stmt.extent, 1):
            cx.wide[stmt.loop_var] = start
            write(cx, stmt.body)
        else:
            end = extent if is_const(stmt.min, 0) else start + extent
            with cx.marked(stmt):
                counted_loop(cx, stmt, start, end)
    cx.wide.pop(stmt.loop_var, None)


def _unrolled(cx: Context, stmt: For) -> None:
    """Write the iterations of an unrolled loop in sequence; proofs about the loop variable hold for all of them."""
    start, count = index(cx, stmt.min), cast(IntImm, stmt.extent).value
    with cx.facts.loop(stmt.loop_var, stmt.min, stmt.extent):
        for i in range(count):
            cx.wide[stmt.loop_var] = start + i
            with cx.inside_loop("", ""):
                write(cx, stmt.body)
    cx.wide.pop(stmt.loop_var, None)


def _refuse_annotations(cx: Context, annotations: Iterable[str], known: Mapping[str, str], what: str) -> None:
    for key, hint in unknown_among(annotations, known):
        cx.report(UNKNOWN, f"code generation does not know the annotation {key} of {what}", hint=hint)


def _bound(var: Var, value: PrimExpr | int) -> PrimExpr:
    return value if isinstance(value, PrimExpr) else const(value, var.dtype)


def _check_range(cx: Context, stmt: For, start: Val, extent: Val) -> None:
    """Check that the last value of the loop variable fits its dtype."""
    dtype = stmt.loop_var.dtype
    top = dtype_range(dtype)[1]
    if top >= 2**63 - 1:
        return  # the loop counts in 64 bits: see `_checked_extent`
    highest = cx.facts.interval(stmt.min)[1] + cx.facts.interval(stmt.extent)[1] - 1
    if highest <= top:
        return
    last = start + extent - 1
    cx.fail_unless(
        last.le(int(top)), "OverflowError", f"loop {escaped(stmt.loop_var.name)}: %lld does not fit {dtype!s}", last
    )


def _checked_extent(cx: Context, stmt: For, start: Val, extent: Val) -> Val:
    """Extent of a loop, checked so that its end fits 64 bits and, unless evident, clamped to at least 0."""
    (low, high), (least, most) = cx.facts.interval(stmt.min), cx.facts.interval(stmt.extent)
    if low + least >= -(2**63) and high + most < 2**63:
        return extent
    name, dtype = escaped(stmt.loop_var.name), stmt.loop_var.dtype
    if stmt.extent.dtype.is_uint:
        message = f"loop {name}: its extent of 2**64 + %lld cannot be counted"
        cx.fail_unless(extent.ge(0), "OverflowError", message, extent)
    count = extent.intrinsic("smax", 0)
    end = start + count
    cx.fail_unless(end.ge(start), "OverflowError", f"loop {name}: %lld + %lld does not fit {dtype!s}", start, count)
    return count


def counted_loop(cx: Context, stmt: For, start: Val, end: Val) -> None:
    """Write a loop from `start` to `end` (exclusive)."""
    b = cx.b
    b.module.has_loops = True
    b.module.has_scalar_loops |= _is_scalar(stmt) and not _is_rest(cx, stmt)
    head, body, latch, done = (b.label(hint) for hint in ("for", "body", "next", "done"))
    before = b.block
    b.branch(head)
    b.start(head)
    following = f"%{latch}.i"
    i = start.make(f"phi i64 [ {start.ref}, %{before} ], [ {following}, %{latch} ]")
    b.branch_if(i.lt(end).ref, body, done)
    b.start(body)
    cx.wide[stmt.loop_var] = i
    with cx.sometimes(), cx.inside_loop(done, latch):
        write(cx, stmt.body)
    b.branch(latch)
    b.start(latch)
    b.do(f"{following} = add nuw nsw i64 {i.ref}, 1" if is_const(stmt.min, 0) else
         f"{following} = add nsw i64 {i.ref}, 1")  # fmt: skip
    b.end(f"br label %{head}{_loop_metadata(cx, stmt)}")
    b.start(done)


def _loop_metadata(cx: Context, stmt: For) -> str:
    """Metadata with hints for LLVM's passes. Forcing a transformation makes LLVM warn on stderr when it declines."""
    if cx.plain or not (_is_row(stmt) or STAYS_ROLLED in stmt.annotations):
        return ""
    hint = cx.b.module.metadata('!"llvm.loop.unroll.disable"')
    return ", !llvm.loop " + cx.b.module.metadata(f"$self, {hint}")


def _is_row(stmt: For) -> bool:
    """True for an innermost loop of constant length that fills at least a vector.

    LLVM would unroll it before vectorising, and then find no vectors, or worse ones in the outer loop.
    """
    extent = stmt.extent
    if not isinstance(extent, IntImm) or extent.value < _ROW or stmt.kind is ForKind.UNROLLED:
        return False
    return not _contains(stmt.body, lambda node: isinstance(node, (For, While)))


_ROW: Final = 8


def _is_scalar(stmt: For) -> bool:
    """True for an innermost loop that stores scalars and no vectors; False for one that only prefetches."""

    def matters(node: Node) -> bool:
        if isinstance(node, For):
            return not is_written_out(node)
        return isinstance(node, While) or (isinstance(node, BufferStore) and node.value.dtype.lanes > 1)

    stores = _contains(stmt.body, lambda node: isinstance(node, BufferStore))
    return stores and not _contains(stmt.body, matters)


def _is_rest(cx: Context, stmt: For) -> bool:
    """True for a remainder loop: a dynamic extent smaller than a vector."""
    return not isinstance(stmt.extent, IntImm) and cx.facts.interval(stmt.extent)[1] < _VECTOR


_VECTOR: Final = 16
"""Number of elements in a vector of the most common width."""


def _contains(stmt: Stmt, condition: Callable[[Node], bool]) -> bool:
    """True if a condition holds for some node of a statement."""
    result = False

    def visit(node: Node) -> bool:
        nonlocal result
        result = result or condition(node)
        return not result and not isinstance(node, PrimExpr)

    walk(stmt, visit)
    return result


def _while(cx: Context, stmt: While) -> None:
    b = cx.b
    head, body, done = (b.label(hint) for hint in ("while", "body", "done"))
    endless = cx.plain and is_const(stmt.condition, 1)
    b.branch(head)
    b.start(head)
    cx.forget()
    with cx.sometimes(), cx.marked(stmt), cx.inside_loop(done, head) as loop:
        if endless:
            b.branch(body)
        else:
            b.branch_if(cx.value(stmt.condition).ref, body, done)
        b.start(body)
        with cx.facts.condition(stmt.condition):
            write(cx, stmt.body)
    b.branch(head)
    if loop.is_left or not endless:
        b.start(done)


# ------------------------------------------------------------------------------------- branches and names


def _if(cx: Context, stmt: IfThenElse) -> None:
    b = cx.b
    condition = cx.value(stmt.condition).ref
    if condition in ("true", "false"):
        arm = stmt.then_case if condition == "true" else stmt.else_case
        if arm is not None:
            with cx.facts.condition(stmt.condition, condition == "true"):
                write(cx, arm)
        return
    then, otherwise, done = (b.label(hint) for hint in ("then", "else", "done"))
    b.branch_if(condition, then, otherwise if stmt.else_case is not None else done)
    arms = [(then, stmt.then_case, True)]
    if stmt.else_case is not None:
        arms.append((otherwise, stmt.else_case, False))
    goes_on = stmt.else_case is None
    for label, arm, holds in arms:
        b.start(label)
        with cx.sometimes(), cx.facts.condition(stmt.condition, holds):
            write(cx, arm)
        goes_on |= not b.terminated
        b.branch(done)
    if goes_on:
        b.start(done)


def _let(cx: Context, stmt: LetStmt) -> None:
    with cx.bound(stmt.var, stmt.value):
        write(cx, stmt.body)


def _assert(cx: Context, stmt: AssertStmt) -> None:
    if cx.plain:
        cx.report("E5904", "a plain function raises no errors", hint="return a status")
    shown = shown_sizes(stmt.condition)
    values = ", ".join(f"{escaped(var.name)} = %lld" for var in shown)
    message = escaped(str(stmt.message)) + f" ({values})" * bool(shown)
    cx.fail_unless(cx.value(stmt.condition), "AssertionError", message, *map(cx.value, shown))
    with cx.facts.condition(stmt.condition):
        write(cx, stmt.body)


def _attr(cx: Context, stmt: AttrStmt) -> None:
    if isinstance(stmt.node, IterVar):
        cx.report(
            "E5906",
            f"{stmt.node.name} is a thread of a GPU ({stmt.node.thread_tag}); the target is a CPU",
            hint="make it a loop: T.serial or T.parallel",
        )
        return
    if stmt.attr_key == PLACE:
        with located_at(cx, stmt.value):
            write(cx, stmt.body)
        return
    cx.report(UNKNOWN, f"code generation does not know the attribute {stmt.attr_key}", hint="remove it")
    write(cx, stmt.body)


def _evaluate(cx: Context, stmt: Evaluate) -> None:
    value = stmt.value
    if isinstance(value, Call) and value.intrinsic == "parallel_for":
        call = cast(Call, value.args[0])
        run_in_parallel(cx, call, cast(GlobalVar, call.op).name_hint)
    elif isinstance(value, Call) and isinstance(value.op, GlobalVar) and not cx.plain:
        call_function(cx, value, value.op.name_hint)
    else:
        cx.value(value)


# ------------------------------------------------------------------------------------- storage


def _alloc(cx: Context, stmt: AllocBuffer) -> None:
    _refuse_annotations(cx, stmt.annotations, {}, f"buffer {stmt.buffer.name}")
    if stmt.buffer.scope not in SCOPES:
        cx.report(
            "E5911",
            f"buffer {stmt.buffer.name} is allocated in scope {stmt.buffer.scope!r}, which a CPU does not have",
            hint='allocate it in scope "global" or "local"',
        )
    with allocate(cx, stmt.buffer), cx.facts.allocated(stmt.buffer):
        write(cx, stmt.body)


def _decl(cx: Context, stmt: DeclBuffer) -> None:
    buffer = stmt.buffer
    declare_view(cx, buffer)
    write(cx, stmt.body)
    del cx.storage[buffer]


def _block(cx: Context, stmt: Block | BlockRealize) -> None:
    block = stmt.block if isinstance(stmt, BlockRealize) else stmt
    cx.report("E5904", f"block {block.name_hint} must be lowered to loops first", hint=LOWER_FIRST)


_RULES: Final[dict[type, Callable[[Context, Any], None]]] = {
    SeqStmt: _seq, BufferStore: _store, For: _for, While: _while, IfThenElse: _if, LetStmt: _let,
    AssertStmt: _assert, AttrStmt: _attr, Evaluate: _evaluate, AllocBuffer: _alloc, DeclBuffer: _decl,
    Block: _block, BlockRealize: _block,
}  # fmt: skip
