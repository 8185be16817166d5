"""Graph passes that depend on kernels: they ask schedule rules what these accept (`ScheduleRule.accepts`).

`FuseAttention` and `FuseConvolutions` group kernels that one rule computes faster together, `ChannelsLast` keeps
tensors between kernels in the layout that rules read without copies, and `PackConstants` brings constants into the
order in which they read them. `pipeline` says which passes run by default, and why; `bisect` finds the one to blame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.tvm_names import answer_missing
from ..runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from . import pipeline
    from .bisect import Bisection, bisect
    from .channels_last import ChannelsLast
    from .fuse_attention import FuseAttention
    from .fuse_convolutions import FuseConvolutions
    from .pack_constants import PACKED_CONSTANTS, PACKED_KERNELS, PackConstants

__all__ = [
    "PACKED_CONSTANTS", "PACKED_KERNELS", "Bisection", "ChannelsLast", "FuseAttention", "FuseConvolutions",
    "PackConstants", "bisect", "pipeline",
]  # fmt: skip

load_when_used(__name__, HOMES)
answer_missing(__name__)
