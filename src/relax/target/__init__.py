"""Compilation targets, as text and as descriptions of their capabilities."""

from __future__ import annotations

from ..ir.tvm_names import answer_missing
from .machine import Caches, Machine
from .target import Target, TargetKind

__all__ = ["Caches", "Machine", "Target", "TargetKind"]

answer_missing(__name__)
