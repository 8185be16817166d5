"""Parallel loops: calls of the thread pool (`pool`), which calls a function of this module for chunks of the loop.

    T.parallel_for(cls.main_parallel(0, n, B.data, A.data), 1)
as
    relax.parallel.v1(region, &captures, n, grain)      captures: operands of the body other than its range
    region(captures, begin, end)                        loads them, and calls the body

The chunks depend only on the loop's length and estimated work (`work`). A loop of little work is one chunk, run by the
calling thread. The grain is negative if the work is small compared with the bytes stored: such a loop runs on several
threads only soon after other loops that did, since parts of its operands are then in their cores' caches.
"""

from __future__ import annotations

from math import ceil

from ..native.formula import Val
from ..prim import Call
from ..runtime.threads import LAUNCH
from .calls import call_function, inner_symbol, operands_of
from .context import Context
from .index import index
from .work import BYTE_WORK, CHUNK_WORK, LOOP_WORK, SPLIT_WORK, IterationWork, work_of_iteration


def run_in_parallel(cx: Context, call: Call, callee: str) -> None:
    """Write a call ``callee(begin, end, …)`` over all chunks of a range, as a statement; an error is propagated."""
    func = cx.unit.functions.get(callee)
    work: list[IterationWork | None] = []
    operands = operands_of(cx, call, callee, lambda: work.append(func and work_of_iteration(cx, func)))
    if operands is None:
        return
    begin, end = (index(cx, bound) for bound in call.args[:2])
    count = end - begin if begin.ref != "0" else end
    grain = _grain(cx, count, work[0])
    if grain is None:
        call_function(cx, call, callee)
        return
    captured = [f"i64 {begin.ref}", *operands[2:]]
    types = [text.rsplit(" ", 1)[0] for text in captured]
    symbol = f"@{cx.b.label('relax.region')}.{cx.unit.numbers[cx.name]}"
    struct = f"%{symbol[1:]}.captures"  # a name, since it is written for each value that is captured
    cx.b.module.add_text(f"{struct} = type {{ {', '.join(types)} }}")
    captures = cx.b.alloca(struct, 16)
    for i, text in enumerate(captured):
        place = cx.b.op(f"getelementptr {struct}, ptr {captures}, i32 0, i32 {i}")
        cx.b.do(f"store {text}, ptr {place}")
    bounds = operands[0].rsplit(" ", 1)[0]
    cx.b.module.add_text(_region(cx, symbol, inner_symbol(cx.unit, callee), struct, types, bounds))
    launch = cx.b.module.declare(LAUNCH, "i32", "ptr, ptr, i64, i64")
    status = cx.b.op(f"call i32 {launch}(ptr {symbol}, ptr {captures}, i64 {count.ref}, i64 {grain.ref})")
    cx.forget()
    cx.leave_unless_zero(status)


def _grain(cx: Context, count: Val, each: IterationWork | None) -> Val | None:
    """Minimum number of iterations per chunk (all of them for little work); None if the loop is known to run serially.

    Negative if the loop runs on several threads only right after other loops that did.
    """
    if each is None:
        return cx.i64(1)
    work, stored = each
    if isinstance(work, Val):
        least = (work.constant(CHUNK_WORK) / work).to("i64") + 1
    else:
        least = cx.i64(ceil(CHUNK_WORK / work))
        if count.ref.lstrip("-").isdigit() and not isinstance(stored, Val):
            number = int(count.ref)
            total = number * work
            if total < LOOP_WORK:
                return None
            enough = min(SPLIT_WORK, LOOP_WORK + BYTE_WORK * number * stored)
            chunk = _even(number, ceil(CHUNK_WORK / work), cx.unit.target.num_cores)
            return cx.i64(chunk if total >= enough else -chunk)
    number = count.to("double")
    total = number * work
    enough = (number * stored * BYTE_WORK + LOOP_WORK).intrinsic("minnum", SPLIT_WORK)
    cores = cx.unit.target.num_cores
    several = count / least / cores * cores
    even = ((count + several - 1) / several.intrinsic("smax", 1)).intrinsic("smax", least)
    chunk = (several.gt(0) & least.gt(1)).choose(even, least)
    return total.lt(LOOP_WORK).choose(count, total.lt(enough).choose(cx.i64(0) - chunk, chunk))


def _even(count: int, least: int, cores: int) -> int:
    """Chunk size of at least `least` iterations, with an equal number of chunks per core if there are several.

    The pool assigns whole chunks: with five chunks, one of two threads would get three.
    """
    several = count // least // cores * cores
    return max(-(-count // several), least) if several and least > 1 else least


def _region(cx: Context, symbol: str, body: str, struct: str, types: list[str], bounds: str) -> str:
    """LLVM text of the function called by the pool."""
    lines = [f"define internal i32 {symbol}(ptr %captures, i64 %begin, i64 %end) #{cx.attributes} {{"]
    for i, type_ in enumerate(types):
        lines.append(f"  %at{i} = getelementptr {struct}, ptr %captures, i32 0, i32 {i}")
        lines.append(f"  %c{i} = load {type_}, ptr %at{i}")
    for name in ("begin", "end"):
        lines.append(f"  %{name}.wide = add i64 %{name}, %c0")
        cast = f"trunc i64 %{name}.wide to {bounds}" if bounds != "i64" else f"add i64 %{name}.wide, 0"
        lines.append(f"  %{name}.own = {cast}")
    passed = [f"{bounds} %begin.own", f"{bounds} %end.own"]
    passed += [f"{type_} %c{i}" for i, type_ in enumerate(types) if i]
    lines += [f"  %status = call i32 {body}({', '.join(passed)})", "  ret i32 %status", "}"]
    return "\n".join(lines)
