"""Settings of a paged KV cache, checked once."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Final

from .records import dataclass
from .rotary import Rotary

PAGE_DTYPES: Final = ("float32", "float16", "bfloat16")
"""Dtypes of the elements of pages."""

CONFIGURATION, LAYERS, HEADS, KINDS, TRANSFER, ROPE_MODE, SCALE, THETA = 0, 1, slice(2, 6), 6, 7, 8, 9, 10
"""Positions of arguments of ``vm.builtin.paged_attention_kv_cache_create``."""
FACTORS: Final = 11
"""Position of `rope_ext_factors`, or of the initial tensor in a call without them."""
FUNCTIONS: Final = (15, 16)
"""Fewest and most kernels of TVM's contract behind the initial tensor."""
PAGE_SIZE: Final = 3
"""Position of the page size in `cache_config`."""


class AttnKind(enum.IntEnum):
    """The kind of a layer, by TVM's numbers."""

    MHA = 0
    """Attention to all tokens before."""
    MLA = 1
    """Multi-head latent attention: one latent vector a token is key and, in its first part, value."""
    LINEAR = 2
    """A layer without keys and values."""
    MHA_SLIDING = 3
    """Attention to the tokens in a sliding window."""


@dataclass(frozen=True)
class Kernels:
    """The kernels of a cache: functions of tensors, with the arguments of `paged_kernels`."""

    append: Callable[..., Any]
    attend: Callable[..., Any]
    owners: tuple[Any, ...] = ()
    """Objects that must live as long as the kernels do, such as the machine whose code they are."""


@dataclass(frozen=True)
class CacheLayout:
    """Settings of a cache, which do not change while it is in use."""

    max_sequences: int
    total_tokens: int
    prefill_chunk: int
    """The greatest number of new tokens of one forward."""
    page_size: int
    sliding_window: int
    """The window of layers of kind MHA_SLIDING, in tokens; 0: none."""
    first_layer: int
    """The number of the first layer; the others follow it."""
    kinds: tuple[AttnKind, ...]
    query_heads: int
    key_heads: int
    key_dim: int
    value_dim: int
    dtype: str
    """The dtype of queries, new keys and values, and results."""
    page_dtype: str
    rotary: Rotary
    local_rotary: Rotary | None
    """The rotary embedding of layers of kind MHA_SLIDING, if it is another one."""
    interleaved: bool
    rotates_inline: bool
    """True if `self_attention` rotates its queries and keys too."""
    softcap: float

    @property
    def sliding_layers(self) -> tuple[bool, ...]:
        """True for each layer that sliding windows apply to: those of kind MHA_SLIDING, or all if there are none."""
        some = AttnKind.MHA_SLIDING in self.kinds
        return tuple(kind is AttnKind.MHA_SLIDING or not some for kind in self.kinds)

    @property
    def slides_everywhere(self) -> bool:
        """True if all layers with pages slide, so that pages outside of the window are of no use."""
        pairs = zip(self.kinds, self.sliding_layers, strict=True)
        return all(slides for kind, slides in pairs if kind is not AttnKind.LINEAR)

    @property
    def pages(self) -> int:
        """The number of pages: for all tokens, and two more a sequence where windows slide over page borders."""
        extra = 2 * self.max_sequences if self.sliding_window else 0
        return -(-self.total_tokens // self.page_size) + extra

    @property
    def packed_width(self) -> int:
        """Elements of a token's queries, keys and values together."""
        return (self.query_heads + self.key_heads) * self.key_dim + self.key_heads * self.value_dim
