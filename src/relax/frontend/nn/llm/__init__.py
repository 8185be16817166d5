"""Parts of language models: the paged cache of keys and values, and positions."""

from __future__ import annotations

from .kv_cache import PagedKVCache, RopeMode

__all__ = ["PagedKVCache", "RopeMode"]
