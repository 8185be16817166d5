"""From blocks to what code generation takes.

The result consists of For, While, IfThenElse, SeqStmt, BufferStore, LetStmt, AssertStmt, AttrStmt, Evaluate,
AllocBuffer and DeclBuffer. Buffers without strides are compact row-major. In a load or store only the last index may
be a vector. Vectorised loops are gone (what could not be vectorised is a serial loop); parallel loops and
loops too long to unroll are left to code generation.
"""

from __future__ import annotations

from ..stmt import PrimFunc
from .convert_blocks_to_opaque import convert_blocks_to_opaque
from .interchange_reduction import interchange_reduction
from .lower_init_block import lower_init_block
from .lower_match_buffer import lower_match_buffer
from .lower_opaque_block import lower_opaque_block
from .passes import prim_func_pass
from .plan_buffer_allocation import plan_buffer_allocation
from .simplify import simplify_func
from .unroll_loop import unroll_loop
from .vectorize_loop import vectorize_loop

STEPS = (
    lower_init_block,  # reductions start in front of their loops
    lower_match_buffer,  # views of regions become index arithmetic
    convert_blocks_to_opaque,  # block variables become what they stand for
    lower_opaque_block,  # blocks become branches and allocations
    plan_buffer_allocation,  # buffers live no longer than needed
    simplify_func,  # bounds known from the loops decide conditions: what follows sees fewer of them
    interchange_reduction,  # after it the innermost loop runs along memory, where it may
    vectorize_loop,
    unroll_loop,
    simplify_func,
)
"""The way down, in order."""


def lower(func: PrimFunc) -> PrimFunc:
    """A PrimFunc in the form that code generation takes. A function already in that form is returned as it is."""
    for step in STEPS:
        func = step(func)
    return func


LowerTIR = prim_func_pass(lower, "LowerTIR")
"""Pass: every PrimFunc in the form that code generation takes."""
