"""Helpers around whole programs, under TVM's names."""

from __future__ import annotations

from . import relay_translator

__all__ = ["relay_translator"]
