"""Dangers in kernels. Operators that say they never fail have kernels that assert nothing, divide by nothing that may
be zero, and read no place that memory says.

A division by sizes is harmless: it finds the place of an element, and where there is one no size is 0.
"""

from __future__ import annotations

import relax
from relax.ir import walk
from relax.prim import Call as PrimCall
from relax.prim import Div, FloorDiv, FloorMod, IntImm, Mod, Var, free_vars
from relax.prim.intrin import is_pure
from relax.tir import AssertStmt, BufferLoad, PrimFunc, While


def loads(expr):
    found = []
    walk(expr, lambda item: found.append(item) if isinstance(item, BufferLoad) else None)
    return found


def dangers(func: PrimFunc):
    """What in a kernel may fail."""
    found = []
    shapes = [size for buffer in func.buffer_map.values() for size in buffer.shape]
    sizes = {size for size in shapes if isinstance(size, Var)}
    empty = any(isinstance(size, IntImm) and not size.value for size in shapes)

    def visit(item):
        match item:
            case AssertStmt() | While():
                found.append(item)
            case PrimCall() if not is_pure(item):
                found.append(item)
            case FloorDiv(a, b) | FloorMod(a, b) | Div(a, b) | Mod(a, b) if a.dtype.is_integer:
                known = b.value or empty if isinstance(b, IntImm) else not loads(b) and set(free_vars(b)) <= sizes
                if not known:
                    found.append(item)
            case BufferLoad() if any(map(loads, item.indices)):
                found.append(item)
            case _:
                pass

    walk(func.body, visit)
    return found


def derived(call):
    """The call in a program, where all is derived."""
    builder = relax.BlockBuilder()
    builder.begin_binding_block()
    return builder.normalize(call)
