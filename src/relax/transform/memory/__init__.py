"""Memory passes: in-place reuse, planning of arenas, freeing after last use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from .dataflow_use_inplace_calls import DataflowUseInplaceCalls
    from .kill_after_last_use import KillAfterLastUse
    from .lower_alloc_tensor import LowerAllocTensor
    from .static_plan_block_memory import StaticPlanBlockMemory

__all__ = ["DataflowUseInplaceCalls", "KillAfterLastUse", "LowerAllocTensor", "StaticPlanBlockMemory"]

load_when_used(__name__, HOMES)
