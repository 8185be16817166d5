"""The packed form of a compiled Relax function: registers around its body.

    int relax.function.<number>(void *context, const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result)

The context is a table of the program (see `cells`), behind its number of references and of cells. The body,
``i32 body(ptr r, ptr c)``, gets the registers, with the arguments in the first ones, and leaves its result in the one
behind them. Arguments after those of the parameters, if the function takes any (`OUTPUTS`), follow there. However it
ends, all that the registers still hold is released.

A compiled function that calls another one says in the place of the result how deep the call is, and at which address
the stack of the first of them began (`INNER_CALL`). A call from outside has nothing there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..prim.cells import DEEPER, OUTPUTS, PARAMETERS
from ..runtime.combine import FUNCTION
from ..runtime.compiled import MOST_CALLS, STACK_LIMIT
from ..runtime.messages import KIND, counted_arguments
from .builder import FunctionBuilder, Operand
from .calls import inner_symbol
from .cell_calls import INNER_CALL, NOTHING, frame_cell, load_cell, store_cell
from .cells import TABLE_MARK, cell_function
from .context import Context, Rule, Unit, escaped
from .formula import Val
from .layouts import ANY_TYPE


def write_entry(unit: Unit, name: str, attrs: Mapping[str, Any], rules: Mapping[type, Rule]) -> None:
    """Write the packed form of a compiled Relax function into the module."""
    group = unit.module.attribute_group("nounwind noinline")
    head = (
        f"define i32 @{FUNCTION}{unit.numbers[name]}(ptr %self, ptr %args, i32 %count, ptr %result) #{group}"
    )
    b = FunctionBuilder(unit.module, head)
    cx = Context(unit, b, name, rules)
    cx.checked = True  # messages begin with the name of the Relax function, which is not that of the PrimFunc
    title = str(attrs["global_symbol"])
    params = [str(param) for param in cast("list[Any]", attrs[PARAMETERS])]
    registers, given = frame_cell(attrs), len(params)
    count = Val(b, "i32", 1, "%count")
    offered = int(attrs.get(OUTPUTS, 0))
    counted = count.ge(given) & count.le(given + offered) if offered else count.eq(given)
    cx.require(counted, KIND, context=title, expected=counted_arguments(given, params), found=count)
    context = _context(cx, escaped(title))
    table = b.op(f"getelementptr i8, ptr {context}, i64 16")
    r = b.alloca(f"[{registers + 1} x {ANY_TYPE}]", 16)
    _keep_flat(cx, attrs, r, table)
    zeros = unit.module.intrinsic("llvm.memset.p0.i64", "void", "ptr", "i8", "i64", "i1")
    b.do(f"call void {zeros}(ptr align 16 {r}, i8 0, i64 {16 * registers}, i1 false)")
    leave = f"call void {cell_function(unit.module, 'leave')[1]}(ptr {r}, i64 {registers})"
    enter = cell_function(unit.module, "enter")[1]
    entered = b.op(f"call i32 {enter}(ptr %args, i32 {given}, ptr {r}, ptr {table})")
    if offered:
        more = b.op(f"getelementptr {ANY_TYPE}, ptr %args, i64 {given}")
        behind = b.op(f"getelementptr {ANY_TYPE}, ptr {r}, i64 {given + 1}")
        rest = b.op(f"sub i32 %count, {given}")
        taken = b.op(f"call i32 {enter}(ptr {more}, i32 {rest}, ptr {behind}, ptr {table})")
        entered = b.op(f"or i32 {entered}, {taken}")
    run, finish, move = b.label("run"), b.label("finish"), b.label("move")
    start = b.block
    b.branch_if(b.op(f"icmp eq i32 {entered}, 0"), run, finish, hint="then")
    b.start(run)
    done = b.op(f"call i32 {inner_symbol(unit, name)}(ptr {r}, ptr {table})")
    b.branch_if(b.op(f"icmp eq i32 {done}, 0"), move, finish, hint="then")
    b.start(move)
    at = b.op(f"getelementptr {ANY_TYPE}, ptr {r}, i64 {given}")
    store_cell(b, load_cell(b, at), "%result")
    store_cell(b, NOTHING, at)
    b.branch(finish)
    b.start(finish)
    status = b.op(f"phi i32 [ -1, %{start} ], [ -1, %{run} ], [ 0, %{move} ]")
    b.do(leave)
    b.end(f"ret i32 {status}")
    with b.cold("error"):
        b.end("ret i32 -1")
    unit.module.define(b)


def _context(cx: Context, title: str) -> Operand:
    """The table of the program. A function that was made of its address alone is called with itself, or with nothing:
    then it is that of the shared library which the function is in.
    """
    b, module = cx.b, cx.unit.module
    look, alone, go = b.label("look"), b.label("alone"), b.label("go")
    b.branch_if(b.op("icmp ne ptr %self, null"), look, alone, hint="then")
    b.start(look)
    mark = b.op(f"load i32, ptr {b.op('getelementptr i8, ptr %self, i64 12')}")
    b.branch_if(b.op(f"icmp eq i32 {mark}, {TABLE_MARK}"), go, alone, hint="then")
    b.start(alone)
    own = Val(b, "ptr", 1, b.op(f"call ptr {cell_function(module, 'program')[1]}()"))
    lonely = f"{title}: is part of a program, and called through a machine"
    cx.fail_unless(Val(b, "i1", 1, b.op(f"icmp ne ptr {own.ref}, null")), "ValueError", lonely)
    refused = b.op(f"icmp eq ptr {own.ref}, inttoptr (i64 1 to ptr)")
    there = b.label("there")
    b.branch_if(refused, cx.error_label, there, hint="otherwise")
    b.start(there)
    last = b.block
    b.branch(go)
    b.start(go)
    return b.op(f"phi ptr [ %self, %{look} ], [ {own.ref}, %{last} ]")


def _keep_flat(cx: Context, attrs: Mapping[str, Any], r: Operand, table: Operand) -> None:
    """Note the depth of the call, and where the stack began, behind the registers. Where calls are too deep for the
    machine or the stack, call the function in the function's own cell instead.
    """
    b = cx.b
    kind = b.op("load i32, ptr %result")
    inner = b.op(f"icmp eq i32 {kind}, {INNER_CALL}")
    told, told_base = load_cell(b, "%result")
    here = b.op(f"ptrtoint ptr {r} to i64")
    depth_told = b.op(f"sub {told}, {INNER_CALL}")
    first = b.op(f"select i1 {inner}, i64 {depth_told}, i64 0")
    base = b.op(f"select i1 {inner}, {told_base}, i64 {here}")
    own = b.op(f"getelementptr {ANY_TYPE}, ptr {r}, i64 {frame_cell(attrs)}")
    store_cell(b, (f"i64 {first}", f"i64 {base}"), own)
    if DEEPER not in attrs:
        return
    given = len(cast("list[Any]", attrs[PARAMETERS]))
    depth = b.op(f"trunc i64 {b.op(f'lshr i64 {first}, 32')} to i32")
    used = b.op(f"sub i64 {base}, {here}")
    limits = [
        b.op(f"load i64, ptr {b.op(f'getelementptr i8, ptr {table}, i64 {16 * cell + 8}')}")
        for cell in (MOST_CALLS, STACK_LIMIT)
    ]
    many = b.op(f"icmp sgt i64 {b.op(f'zext i32 {depth} to i64')}, {limits[0]}")
    deep = b.op(f"icmp sgt i64 {used}, {limits[1]}")
    fine, deeper = b.label("flat"), b.label("deeper")
    b.branch_if(b.op(f"or i1 {many}, {deep}"), deeper, fine, hint="otherwise")
    with b.cold(deeper):
        cell = b.op(f"getelementptr {ANY_TYPE}, ptr {table}, i64 {int(attrs[DEEPER])}")
        symbol = cell_function(cx.unit.module, "deeper")[1]
        status = b.op(f"call i32 {symbol}(ptr {cell}, ptr %args, i32 {given}, i32 {depth}, ptr %result)")
        b.end(f"ret i32 {status}")
    b.start(fine)
