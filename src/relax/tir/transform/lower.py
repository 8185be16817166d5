"""The lowering pipeline: from PrimFuncs with blocks to the input of code generation.

The result consists of For, While, IfThenElse, SeqStmt, BufferStore, LetStmt, AssertStmt, Evaluate, AllocBuffer and
DeclBuffer. Buffers without strides are compact row-major. In a load or store only the last index may be a vector.
Loops are serial or unrolled; code generation unrolls the latter.
"""

from __future__ import annotations

from functools import partial
from typing import TypeVar

from ...ir import IRModule
from ...ir.transform import Pass, Sequential, Step
from ...target import Target
from ..stmt import PrimFunc
from .compact_buffer_allocation import CompactBufferAllocation
from .convert_blocks_to_opaque import ConvertBlocksToOpaque
from .each_prim_func import each_prim_func
from .interchange_reduction import InterchangeReduction
from .lower_init_block import LowerInitBlock
from .lower_match_buffer import LowerMatchBuffer
from .lower_opaque_block import LowerOpaqueBlock
from .lower_preconditions import LowerPreconditions
from .outline_parallel_loops import OutlineParallelLoops
from .plan_buffer_allocation import PlanAndUpdateBufferAllocationLocation
from .simplify import Simplify, simplify_again
from .sink_allocations import SinkAllocations
from .vectorize_loop import vectorize_loop

T = TypeVar("T", IRModule, PrimFunc)


def _vectorized(func: PrimFunc) -> PrimFunc:
    vectors = vectorize_loop(func)
    return func if vectors is func else simplify_again(vectors, func)


_Vectors = each_prim_func(_vectorized, "VectorizeLoop")

FUNCTION_STEPS: tuple[Step, ...] = (
    Step(LowerPreconditions, "what a call must fulfil is checked before anything is written"),
    Step(SinkAllocations, "what an iteration fills before it reads it is its own, while blocks say what they read"),
    Step(LowerInitBlock, "reductions start in front of their loops, while blocks still name their variables"),
    Step(LowerMatchBuffer, "views of regions become index arithmetic, which later steps simplify"),
    Step(ConvertBlocksToOpaque, "block variables become what they stand for"),
    Step(LowerOpaqueBlock, "blocks become branches and allocations"),
    Step(PlanAndUpdateBufferAllocationLocation, "buffers live no longer than they are used"),
    Step(CompactBufferAllocation, "a buffer has the size of what is used while it lives: a tile, not a matrix"),
    Step(Simplify, "the bounds of loops decide conditions: the next steps see fewer of them"),
    Step(InterchangeReduction, "innermost loops run along memory before vectors are looked for"),
    Step(_Vectors, "vectorised loops become operations on vectors, which are simplified"),
)
"""Steps that rewrite each PrimFunc separately, independent of the target."""


def lowering_steps(target: Target | None = None) -> tuple[Step, ...]:
    """Return all steps for a target, which need not be resolved."""
    outline = partial(OutlineParallelLoops, target)
    return (
        *FUNCTION_STEPS,
        Step(outline, "bodies of parallel loops are final: threads call them through their address"),
    )


def LowerTIR(target: Target | None = None) -> Pass:
    """Pass: lower every PrimFunc for code generation."""
    return _sequential(lowering_steps(target))


def lower(mod: T, target: Target | None = None) -> T:
    """Lower a module, or a single PrimFunc, for code generation; returns it unchanged if it is lowered already.

    A single PrimFunc keeps its parallel loops, since outlining them would add functions.
    """
    if isinstance(mod, IRModule):
        return LowerTIR(target)(mod)
    name = str(mod.attrs.get("global_symbol", "main"))
    lowered = _sequential(FUNCTION_STEPS)(IRModule({name: mod}))[name]
    assert isinstance(lowered, PrimFunc)
    return lowered


def _sequential(steps: tuple[Step, ...]) -> Pass:
    return Sequential([step.make() for step in steps], name="LowerTIR")
