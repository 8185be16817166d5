"""The packed form of a compiled Relax function: sets up registers and calls the function's body.

    int relax.function.<number>(void *context, const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result)

The context is a table of the program (see `cells`), preceded by its reference count and number of cells. The body,
``i32 body(ptr r, ptr c)``, receives the registers, beginning with the arguments, and leaves its result in the register
after them. Additional arguments, if the function takes any (`OUTPUTS`), follow there. On every exit, the values left in
registers are released.

One function of the support code does all of this, driven by a table of the function's constants; inlined, it was most
of the code of a short function.

A compiled function that calls another one writes the call depth, and the address at which the stack of the outermost
call began, into the result cell (`INNER_CALL`). In a call from outside, that cell is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..native.builder import FunctionBuilder
from ..native.cells import cell_function
from ..native.support import raise_numbered
from ..prim.cells import DEEPER, OUTPUTS, PARAMETERS
from ..runtime.combine import FUNCTION
from ..runtime.messages import KIND, counted_arguments
from .calls import inner_symbol
from .cell_calls import frame_cell
from .context import Unit, escaped


def write_entry(unit: Unit, name: str, attrs: Mapping[str, Any]) -> None:
    """Write the packed form of a compiled Relax function into the module."""
    module = unit.module
    group = module.attribute_group("nounwind noinline")
    head = f"define i32 @{FUNCTION}{unit.numbers[name]}(ptr %self, ptr %args, i32 %count, ptr %result) #{group}"
    b = FunctionBuilder(module, head)
    title = escaped(str(attrs["global_symbol"]))  # not the name of the PrimFunc
    params = [str(param) for param in cast("list[Any]", attrs[PARAMETERS])]
    most = len(params) + int(attrs.get(OUTPUTS, 0))
    numbers = [str(number) for number in (len(params), most, frame_cell(attrs), int(attrs.get(DEEPER, 0)))]
    facts = module.table(f"relax.facts.{'.'.join(numbers)}", "i32", numbers)
    operands = f"ptr %self, ptr %args, i32 %count, ptr %result, ptr {inner_symbol(unit, name)}, ptr {facts}"
    status = b.op(f"call i32 {cell_function(module, 'run')[1]}({operands})")
    finished = b.op(f"icmp sle i32 {status}, 0")
    done, refused = b.label("done"), b.label("refused")
    b.branch_if(finished, done, refused, hint="then")
    b.start(done)
    b.end(f"ret i32 {status}")
    with b.cold(refused):
        expected = escaped(counted_arguments(len(params), params))
        first = module.message_run([  # in the order of `Refused`
            KIND.printf(context=title, expected=expected, found="%lld"),
            ("ValueError", f"{title}: is part of a program, and called through a machine"),
        ])  # fmt: skip
        number = b.op(f"add i32 {status}, {first - 1}")
        b.do(raise_numbered(module, number, [b.op("sext i32 %count to i64")]))
        b.end("ret i32 -1")
    module.define(b)
