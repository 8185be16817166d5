"""Fusion: kernels that read each other's results become one kernel.

AnnotateTIROpPattern says what kind of kernel each PrimFunc is, FuseOps groups calls into functions, and FuseTIR makes a
kernel of each. FuseOpsByPattern groups what patterns match; MergeCompositeFunctions joins such groups. Passes that fuse
what one schedule rule computes are in `relax.optimize`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from .annotate_tir_op_pattern import AnnotateTIROpPattern
    from .fuse_ops import FuseOps
    from .fuse_ops_by_pattern import FuseOpsByPattern, FusionPattern, PatternCheckContext
    from .fuse_tir import FuseTIR
    from .merge_composite_functions import MergeCompositeFunctions

__all__ = [
    "AnnotateTIROpPattern", "FuseOps", "FuseOpsByPattern", "FuseTIR", "FusionPattern", "MergeCompositeFunctions",
    "PatternCheckContext",
]  # fmt: skip

load_when_used(__name__, HOMES)
