"""Memory: tensors laid out in storages, kept no longer than they are used, reused in place."""

from __future__ import annotations

from .static_plan_block_memory import StaticPlanBlockMemory

__all__ = ["StaticPlanBlockMemory"]
