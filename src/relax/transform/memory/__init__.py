"""Memory: tensors laid out in storages, kept no longer than they are used, reused in place."""

from __future__ import annotations

from .dataflow_use_inplace_calls import DataflowUseInplaceCalls
from .kill_after_last_use import KillAfterLastUse
from .lower_alloc_tensor import LowerAllocTensor
from .static_plan_block_memory import StaticPlanBlockMemory

__all__ = ["DataflowUseInplaceCalls", "KillAfterLastUse", "LowerAllocTensor", "StaticPlanBlockMemory"]
