"""The module of each name of this package. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    "DataflowUseInplaceCalls": ".dataflow_use_inplace_calls",
    "KillAfterLastUse": ".kill_after_last_use",
    "LowerAllocTensor": ".lower_alloc_tensor",
    "StaticPlanBlockMemory": ".static_plan_block_memory",
}
