"""Schedule: a program, and primitives that transform its loops step by step.

    sch = tir.Schedule(func)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    outer, inner = sch.split(i, [None, 16])
    sch.parallel(outer)
    sch.mod["main"].show()

Each primitive is defined in a module of `primitives`, which documents its preconditions.
"""

from __future__ import annotations

import random
from typing import Any, Final

from ...ir import GlobalVar, IRModule
from ...ir.printing import show
from ...ir.tvm_names import answer_missing
from ..stmt import Block, For, PrimFunc
from .argument_types import plain
from .base import DebugMask, ScheduleBase
from .error import ARGUMENT, Level, ScheduleError
from .instruction import PRIMITIVES
from .primitives.add_unit_loop import add_unit_loop
from .primitives.annotate import annotate, unannotate
from .primitives.annotate_buffer_access import annotate_buffer_access, unsafe_hide_buffer_access
from .primitives.blockize import blockize
from .primitives.cache_index import cache_index
from .primitives.cache_inplace import cache_inplace
from .primitives.cache_read_write import cache_read, cache_write
from .primitives.compute_at import compute_at
from .primitives.compute_inline import compute_inline
from .primitives.decompose_padding import decompose_padding
from .primitives.decompose_reduction import decompose_reduction
from .primitives.enter_postproc import enter_postproc
from .primitives.for_kind import bind, parallel, unroll, vectorize
from .primitives.fuse import fuse
from .primitives.loop_partition import loop_partition
from .primitives.merge import merge
from .primitives.pad_einsum import pad_einsum
from .primitives.queries import (
    get_block,
    get_child_blocks,
    get_consumers,
    get_loops,
    get_output_blocks,
    get_producers,
    work_on,
)
from .primitives.read_write_at import read_at, write_at
from .primitives.reindex import reindex, reindex_cache_read, reindex_cache_write
from .primitives.reorder import reorder, reorder_block_iter_var
from .primitives.reverse_compute_at import reverse_compute_at
from .primitives.reverse_compute_inline import reverse_compute_inline
from .primitives.rfactor import rfactor
from .primitives.rolling_buffer import rolling_buffer
from .primitives.sample_compute_location import sample_compute_location
from .primitives.sampling import sample_categorical, sample_partitioned_tile, sample_perfect_tile
from .primitives.set_axis_separator import set_axis_separator
from .primitives.set_scope import set_scope, unsafe_set_dtype
from .primitives.split import split
from .primitives.storage_align import storage_align
from .primitives.tensorize import tensorize
from .primitives.transform_block_layout import transform_block_layout
from .primitives.transform_layout import transform_layout
from .rv import BlockRV, ExprRV, LoopRV
from .sref import StmtSRef
from .trace import Trace

_LEVELS: Final = ("detail", "fast", "none")


class Schedule(ScheduleBase):
    """A module's PrimFuncs, and primitives that rewrite them without changing what they compute.

    Parameters
    ----------
    mod : the module, or a single PrimFunc, which becomes the function main.
    seed : seed of the random numbers of sampling primitives; None or -1 chooses one.
    debug_mask : "all" or a nonzero number verifies after every primitive that changed functions are well-formed.
    error_render_level : "detail" prints errors with the function, "fast" with message and line, "none" without.
    """

    def __init__(
        self,
        mod: IRModule | PrimFunc,
        *,
        seed: int | None = None,
        debug_mask: DebugMask = "none",
        error_render_level: Level = "detail",
        enable_check: bool = True,
    ) -> None:
        if error_render_level not in _LEVELS:
            raise ScheduleError(
                ARGUMENT, f"error_render_level must be one of {', '.join(_LEVELS)}, found {error_render_level!r}"
            )
        if not isinstance(mod, (IRModule, PrimFunc)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ScheduleError(ARGUMENT, f"a Schedule takes a module or a PrimFunc, found {type(mod).__name__}")
        del enable_check  # conditions are always checked
        super().__init__(
            IRModule({"main": mod}) if isinstance(mod, PrimFunc) else mod, seed, debug_mask, error_render_level
        )

    @property
    def trace(self) -> Trace:
        """The applied primitives."""
        return self._trace

    @property
    def func_working_on(self) -> GlobalVar | None:
        """The function set by `work_on`, or None."""
        return None if self.working_on is None else self.mod.get_global_var(self.working_on)

    def copy(self) -> Schedule:
        """Return an independent copy in constant time. BlockRVs, LoopRVs and ExprRVs are valid in both schedules."""
        other = Schedule.__new__(Schedule)
        other.__dict__.update(self.__dict__)
        other.state, other._trace = self.state.copy(), self._trace.copy()
        other.random = random.Random(self.fork_seed())
        return other

    def get(self, rand_var_or_sref: Any) -> Any:
        """Return the For of a LoopRV, the Block of a BlockRV, or the value of an ExprRV."""
        if isinstance(rand_var_or_sref, StmtSRef):
            return rand_var_or_sref.stmt
        value = self.evaluated(plain(rand_var_or_sref))
        if isinstance(value, LoopRV):
            return self.state.loop(value)
        if isinstance(value, BlockRV):
            return self.state.block(value)
        return self.integer(value)

    def get_sref(self, rand_var_or_stmt: BlockRV | LoopRV | For | Block) -> StmtSRef:
        """Return a lasting reference to a block or loop, given by its random variable or current statement."""
        if isinstance(rand_var_or_stmt, (For, Block)):
            return StmtSRef(self.state, self.state.rv_of_stmt(rand_var_or_stmt))
        if not isinstance(rand_var_or_stmt, (BlockRV, LoopRV)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ScheduleError(
                ARGUMENT,
                f"get_sref takes a block or a loop, as a random variable or a statement, found {rand_var_or_stmt!r}",
            )
        self.state.placed(self.evaluated(rand_var_or_stmt))
        return StmtSRef(self.state, rand_var_or_stmt)

    def show(self, *args: Any, **options: Any) -> None:
        """Print the current program, and the trace."""
        show(self.mod, *args, **options)
        self.trace.show(*args, **options)

    get_block = get_block
    get_loops = get_loops
    get_child_blocks = get_child_blocks
    get_producers = get_producers
    get_consumers = get_consumers
    get_output_blocks = get_output_blocks
    work_on = work_on

    sample_categorical = sample_categorical
    sample_perfect_tile = sample_perfect_tile
    sample_partitioned_tile = sample_partitioned_tile
    sample_compute_location = sample_compute_location

    split = split
    fuse = fuse
    merge = merge
    reorder = reorder
    reorder_block_iter_var = reorder_block_iter_var
    loop_partition = loop_partition
    add_unit_loop = add_unit_loop
    parallel = parallel
    vectorize = vectorize
    unroll = unroll
    bind = bind

    compute_at = compute_at
    compute_inline = compute_inline
    reverse_compute_inline = reverse_compute_inline
    pad_einsum = pad_einsum
    decompose_padding = decompose_padding
    rolling_buffer = rolling_buffer
    reverse_compute_at = reverse_compute_at

    cache_read = cache_read
    cache_write = cache_write
    cache_inplace = cache_inplace
    cache_index = cache_index
    reindex = reindex
    reindex_cache_read = reindex_cache_read
    reindex_cache_write = reindex_cache_write
    transform_layout = transform_layout
    transform_block_layout = transform_block_layout
    read_at = read_at
    write_at = write_at
    set_axis_separator = set_axis_separator
    set_scope = set_scope
    unsafe_set_dtype = unsafe_set_dtype
    storage_align = storage_align
    annotate_buffer_access = annotate_buffer_access
    unsafe_hide_buffer_access = unsafe_hide_buffer_access

    decompose_reduction = decompose_reduction
    rfactor = rfactor
    blockize = blockize
    tensorize = tensorize

    annotate = annotate
    unannotate = unannotate
    enter_postproc = enter_postproc


__all__ = ["PRIMITIVES", "BlockRV", "ExprRV", "LoopRV", "Schedule"]

answer_missing("relax.tir.Schedule", Schedule)
