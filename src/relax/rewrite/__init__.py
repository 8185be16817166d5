"""Rewriting of Relax programs: `rewriter` has the Rewriter, `visitor` walkers and mutators under TVM's names."""

from __future__ import annotations

from .rewriter import Rewriter, bindings_in, blocks_in

__all__ = ["Rewriter", "bindings_in", "blocks_in"]
