"""Parts of language models: the paged cache of keys and values, positions, and states of recurrent layers."""

from __future__ import annotations

from .kv_cache import PagedKVCache, RopeMode
from .rnn_state import RNNState

__all__ = ["PagedKVCache", "RNNState", "RopeMode"]
