"""Passes over modules of Relay functions, one file each: `relay.transform`."""

from __future__ import annotations

from .infer_type import InferType

__all__ = [
    "InferType",
]
