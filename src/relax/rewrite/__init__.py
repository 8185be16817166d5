"""Rewriting of Relax programs: `rewriter` defines Rewriter, `visitor` visitors and mutators with TVM's names."""

from __future__ import annotations

from .rewriter import Rewriter, bindings_in, blocks_in

__all__ = ["Rewriter", "bindings_in", "blocks_in"]
