"""Helpers around whole programs, under TVM's names."""

from __future__ import annotations

from ..ir.tvm_names import answer_missing
from . import relay_translator

__all__ = ["relay_translator"]

answer_missing(__name__)
