"""Lockstep execution of TIR: iterations of loops run together on arrays; see `relax.tir.lockstep.statements`."""

from __future__ import annotations

from .trial import in_lockstep
from .work import LEAST, gain

__all__ = ["LEAST", "gain", "in_lockstep"]
