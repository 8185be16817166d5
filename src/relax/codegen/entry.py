"""The packed form of a compiled Relax function: registers around its body.

    int relax.function.<number>(void *context, const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result)

The context is a table of the program (see `cells`), behind its number of references and of cells. The body,
``i32 body(ptr r, ptr c)``, gets the registers, with the arguments in the first ones, and leaves its result in the one
behind them. However it ends, all that the registers still hold is released.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..prim.cells import PARAMETERS, REGISTERS
from ..runtime.combine import FUNCTION
from .builder import FunctionBuilder
from .calls import inner_symbol
from .cells import TABLE_MARK, cell_function
from .context import Context, Rule, Unit, escaped
from .formula import Val
from .support import ANY_TYPE


def write_entry(unit: Unit, name: str, attrs: Mapping[str, Any], rules: Mapping[type, Rule]) -> None:
    """Write the packed form of a compiled Relax function into the module."""
    group = unit.module.attribute_group("nounwind noinline")
    head = (
        f"define i32 @{FUNCTION}{unit.numbers[name]}(ptr %self, ptr %args, i32 %count, ptr %result) #{group}"
    )
    b = FunctionBuilder(unit.module, head)
    cx = Context(unit, b, name, rules)
    cx.checked = True  # messages begin with the name of the Relax function, which is not that of the PrimFunc
    title = escaped(str(attrs["global_symbol"]))
    params = [str(param) for param in cast("list[Any]", attrs[PARAMETERS])]
    registers, given = max(int(attrs[REGISTERS]), len(params) + 1), len(params)
    # A function that was made of the address alone is called with itself, or with nothing.
    lonely = f"{title}: is part of a program, and called through a machine"
    cx.fail_unless(Val(b, "i1", 1, b.op("icmp ne ptr %self, null")), "ValueError", lonely)
    mark = b.op(f"load i32, ptr {b.op('getelementptr i8, ptr %self, i64 12')}")
    cx.fail_unless(Val(b, "i32", 1, mark).eq(TABLE_MARK), "ValueError", lonely)
    noun = "argument" if given == 1 else "arguments"
    message = f"{title}: expected {given} {noun} ({escaped(', '.join(params))}), found %lld"
    count = Val(b, "i32", 1, "%count")
    cx.fail_unless(count.eq(given), "TypeError", message, count)
    r = b.alloca(f"[{registers} x {ANY_TYPE}]", 16)
    zeros = unit.module.intrinsic("llvm.memset.p0.i64", "void", "ptr", "i8", "i64", "i1")
    b.do(f"call void {zeros}(ptr align 16 {r}, i8 0, i64 {16 * registers}, i1 false)")
    table = b.op("getelementptr i8, ptr %self, i64 16")
    leave = f"call void {cell_function(unit.module, 'leave')[1]}(ptr {r}, i64 {registers})"
    enter = cell_function(unit.module, "enter")[1]
    entered = b.op(f"call i32 {enter}(ptr %args, i32 %count, ptr {r}, ptr {table})")
    run, finish, move = b.label("run"), b.label("finish"), b.label("move")
    start = b.block
    b.branch_if(b.op(f"icmp eq i32 {entered}, 0"), run, finish, hint="then")
    b.start(run)
    done = b.op(f"call i32 {inner_symbol(unit, name)}(ptr {r}, ptr {table})")
    b.branch_if(b.op(f"icmp eq i32 {done}, 0"), move, finish, hint="then")
    b.start(move)
    at = b.op(f"getelementptr {ANY_TYPE}, ptr {r}, i64 {given}")
    b.do(f"store i128 {b.op(f'load i128, ptr {at}, align 8')}, ptr %result, align 8")
    b.do(f"store i128 0, ptr {at}, align 8")
    b.branch(finish)
    b.start(finish)
    status = b.op(f"phi i32 [ -1, %{start} ], [ -1, %{run} ], [ 0, %{move} ]")
    b.do(leave)
    b.end(f"ret i32 {status}")
    with b.cold("error"):
        b.end("ret i32 -1")
    unit.module.define(b)
