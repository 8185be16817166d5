"""What a machine can do: targets, and the host this process runs on."""

from __future__ import annotations

from .target import Target, TargetKind

__all__ = ["Target", "TargetKind"]
