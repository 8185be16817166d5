"""Fusion: kernels that read each other's results become one kernel.

AnnotateTIROpPattern says what kind of kernel each PrimFunc is, FuseOps groups calls into functions, FuseTIR makes a
kernel of each.
"""

from __future__ import annotations

from .annotate_tir_op_pattern import AnnotateTIROpPattern
from .fuse_ops import FuseOps
from .fuse_tir import FuseTIR

__all__ = ["AnnotateTIROpPattern", "FuseOps", "FuseTIR"]
