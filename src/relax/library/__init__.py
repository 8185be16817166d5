"""Kernels for all sizes: one for each operator, its attributes, and the dtypes and ranks of its operands.

A program that calls them is built in a fraction of the time: the machine code of most of its kernels is in the cache,
whatever the program's sizes, and nothing is fused or packed. `relax.build(mod, tier="now")` uses them.

`general` says what the general form of a call is, `kernels` makes its kernel, `store` finds what the cache has,
`shipped` what the package carries, and `call_library` is the pass that calls the kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from .call_library import FORM, CallLibrary
    from .common import common_calls, module_of
    from .pipeline import now_pipeline
    from .shipped import shipped_target
    from .store import Library

__all__ = ["FORM", "CallLibrary", "Library", "common_calls", "module_of", "now_pipeline", "shipped_target"]

load_when_used(__name__, HOMES)
