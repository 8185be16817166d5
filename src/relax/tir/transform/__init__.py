"""TIR passes under TVM's names, and the underlying functions from PrimFunc to PrimFunc."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.tvm_names import answer_missing
from ...runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from .common_subexpr_elim import CommonSubexprElimTIR
    from .compact_buffer_allocation import CompactBufferAllocation
    from .convert_blocks_to_opaque import ConvertBlocksToOpaque
    from .convert_for_loops_to_serial import ConvertForLoopsToSerial
    from .convert_ssa import ConvertSSA
    from .flatten_buffer import FlattenBuffer
    from .force_narrow_index import ForceNarrowIndexToInt32
    from .function_pass import Apply, Filter, PrimFuncPass, prim_func_pass
    from .hoist_expression import HoistedConditionals, HoistedLetBindings, HoistExpression
    from .hoist_if_then_else import HoistIfThenElse
    from .inline_private_functions import InlinePrivateFunctions
    from .interchange_reduction import InterchangeReduction
    from .loop_partition import LoopPartition
    from .lower import LowerTIR, lower, lowering_steps
    from .lower_init_block import LowerInitBlock
    from .lower_match_buffer import LowerMatchBuffer
    from .lower_opaque_block import LowerOpaqueBlock
    from .lower_preconditions import LowerPreconditions
    from .narrow_data_type import NarrowDataType
    from .outline_parallel_loops import NOT_PARALLEL, PARALLEL_BODY, PARALLEL_RANGE, OutlineParallelLoops
    from .plan_buffer_allocation import PlanAndUpdateBufferAllocationLocation
    from .remove_assume import RemoveAssume
    from .remove_no_op import RemoveNoOp
    from .renormalize_split_pattern import RenormalizeSplitPattern
    from .simplify import Simplify
    from .sink_allocations import SinkAllocations
    from .storage_rewrite import StorageRewrite
    from .unroll_loop import UnrollLoop, is_written_out
    from .vectorize_loop import NOT_VECTORIZED, VectorizeLoop

__all__ = [
    "NOT_PARALLEL", "NOT_VECTORIZED", "PARALLEL_BODY", "PARALLEL_RANGE", "Apply", "CommonSubexprElimTIR",
    "CompactBufferAllocation", "ConvertBlocksToOpaque", "ConvertForLoopsToSerial", "ConvertSSA", "Filter",
    "FlattenBuffer", "ForceNarrowIndexToInt32", "HoistExpression", "HoistIfThenElse", "HoistedConditionals",
    "HoistedLetBindings", "InlinePrivateFunctions", "InterchangeReduction", "LoopPartition", "LowerInitBlock",
    "LowerMatchBuffer", "LowerOpaqueBlock", "LowerPreconditions", "LowerTIR", "NarrowDataType",
    "OutlineParallelLoops", "PlanAndUpdateBufferAllocationLocation", "PrimFuncPass", "RemoveAssume", "RemoveNoOp",
    "RenormalizeSplitPattern", "Simplify", "SinkAllocations", "StorageRewrite", "UnrollLoop", "VectorizeLoop",
    "is_written_out", "lower", "lowering_steps", "prim_func_pass",
]  # fmt: skip

load_when_used(__name__, HOMES)
answer_missing(__name__)
