"""Schedule: a program whose loops its user moves, step by step.

    sch = tir.Schedule(func)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    outer, inner = sch.split(i, [None, 16])
    sch.parallel(outer)
    sch.mod["main"].show()

Each method is a primitive, defined in a file of its own in `primitives`, where its conditions are.
"""

from __future__ import annotations

import random
from typing import Any, Final

from ...ir import GlobalVar, IRModule
from ...ir.printing import show
from ..stmt import Block, For, PrimFunc
from .base import DebugMask, ScheduleBase
from .error import ARGUMENT, Level, ScheduleError
from .primitives.add_unit_loop import add_unit_loop
from .primitives.annotate import annotate, unannotate
from .primitives.blockize import blockize
from .primitives.decompose_reduction import decompose_reduction
from .primitives.enter_postproc import enter_postproc
from .primitives.for_kind import bind, parallel, unroll, vectorize
from .primitives.fuse import fuse
from .primitives.loop_partition import loop_partition
from .primitives.merge import merge
from .primitives.queries import (
    get_block,
    get_child_blocks,
    get_consumers,
    get_loops,
    get_output_blocks,
    get_producers,
    work_on,
)
from .primitives.reorder import reorder, reorder_block_iter_var
from .primitives.rfactor import rfactor
from .primitives.sample_compute_location import sample_compute_location
from .primitives.sampling import sample_categorical, sample_partitioned_tile, sample_perfect_tile
from .primitives.split import split
from .primitives.tensorize import tensorize
from .rv import BlockRV, ExprRV, LoopRV
from .sref import StmtSRef
from .trace import Trace

_LEVELS: Final = ("detail", "fast", "none")


class Schedule(ScheduleBase):
    """A module's PrimFuncs, and primitives that rewrite them without changing what they compute.

    Parameters
    ----------
    mod : the module, or a lone PrimFunc, which becomes the function main.
    seed : of the random numbers of sampling primitives; None or -1 for a new one.
    debug_mask : "all" or a number other than 0 checks after every primitive that what it made is well-formed.
    error_render_level : "detail" prints the function in errors, "fast" the message alone, "none" the primitive's name.
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
                ARGUMENT,
                f"error_render_level must be one of {', '.join(_LEVELS)}, found {error_render_level!r}",
            )
        if not isinstance(mod, (IRModule, PrimFunc)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ScheduleError(
                ARGUMENT, f"a Schedule takes a module or a PrimFunc, found {type(mod).__name__}"
            )
        del enable_check  # conditions are always checked
        super().__init__(
            IRModule({"main": mod}) if isinstance(mod, PrimFunc) else mod,
            seed,
            debug_mask,
            error_render_level,
        )

    @property
    def trace(self) -> Trace:
        """The primitives applied so far."""
        return self._trace

    @property
    def func_working_on(self) -> GlobalVar | None:
        """The function that `work_on` named."""
        return None if self.working_on is None else self.mod.get_global_var(self.working_on)

    def copy(self) -> Schedule:
        """A schedule of its own, which goes on from here, in constant time. Random variables are good for both."""
        other = Schedule.__new__(Schedule)
        other.__dict__.update(self.__dict__)
        other.state, other._trace = self.state.copy(), self._trace.copy()
        other.random = random.Random(self.fork_seed())
        return other

    def get(self, rand_var_or_sref: Any) -> Any:
        """The For that a LoopRV stands for, the Block of a BlockRV, the number of an ExprRV."""
        if isinstance(rand_var_or_sref, StmtSRef):
            return rand_var_or_sref.stmt
        value = self.evaluated(rand_var_or_sref)
        if isinstance(value, LoopRV):
            return self.state.loop(value)
        if isinstance(value, BlockRV):
            return self.state.block(value)
        return self.integer(value)

    def get_sref(self, rand_var_or_stmt: BlockRV | LoopRV | For | Block) -> StmtSRef:
        """A lasting reference to a block or loop: given by its random variable, or as the statement that it is now."""
        if isinstance(rand_var_or_stmt, (For, Block)):
            return StmtSRef(self.state, self.state.rv_of_stmt(rand_var_or_stmt))
        self.state.placed(rand_var_or_stmt)
        return StmtSRef(self.state, rand_var_or_stmt)

    def show(self, *args: Any, **options: Any) -> None:
        """Print the program as it is now, and the trace."""
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

    decompose_reduction = decompose_reduction
    rfactor = rfactor
    blockize = blockize
    tensorize = tensorize

    annotate = annotate
    unannotate = unannotate
    enter_postproc = enter_postproc


__all__ = ["BlockRV", "ExprRV", "LoopRV", "Schedule"]
