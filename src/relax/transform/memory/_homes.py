"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    ".dataflow_use_inplace_calls": "DataflowUseInplaceCalls",
    ".kill_after_last_use": "KillAfterLastUse",
    ".lower_alloc_tensor": "LowerAllocTensor",
    ".static_plan_block_memory": "StaticPlanBlockMemory",
}
