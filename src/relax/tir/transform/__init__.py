"""Rewrites of PrimFuncs: as passes under TVM's names, and as functions from PrimFunc to PrimFunc."""

from __future__ import annotations

from .convert_blocks_to_opaque import ConvertBlocksToOpaque
from .interchange_reduction import InterchangeReduction
from .lower import LowerTIR, lower, lowering_steps
from .lower_init_block import LowerInitBlock
from .lower_match_buffer import LowerMatchBuffer
from .lower_opaque_block import LowerOpaqueBlock
from .lower_preconditions import LowerPreconditions
from .outline_parallel_loops import NOT_PARALLEL, PARALLEL_BODY, PARALLEL_RANGE, OutlineParallelLoops
from .plan_buffer_allocation import PlanAndUpdateBufferAllocationLocation
from .simplify import Simplify
from .unroll_loop import UnrollLoop
from .vectorize_loop import NOT_VECTORIZED, VectorizeLoop

__all__ = [
    "NOT_PARALLEL",
    "NOT_VECTORIZED",
    "PARALLEL_BODY",
    "PARALLEL_RANGE",
    "ConvertBlocksToOpaque",
    "InterchangeReduction",
    "LowerInitBlock",
    "LowerMatchBuffer",
    "LowerOpaqueBlock",
    "LowerPreconditions",
    "LowerTIR",
    "OutlineParallelLoops",
    "PlanAndUpdateBufferAllocationLocation",
    "Simplify",
    "UnrollLoop",
    "VectorizeLoop",
    "lower",
    "lowering_steps",
]
