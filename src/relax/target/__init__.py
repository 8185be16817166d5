"""Targets: the machine code is generated for, as text and as a description of what it can do."""

from __future__ import annotations

from ..ir.tvm_names import answer_missing
from .machine import Caches, Machine
from .target import Target, TargetKind

__all__ = ["Caches", "Machine", "Target", "TargetKind"]

answer_missing(__name__)
