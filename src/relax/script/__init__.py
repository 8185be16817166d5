"""TVMScript: programs as Python text. ``from relax.script import ir as I, relax as R, tir as T``."""

from __future__ import annotations

from ..ir.tvm_names import answer_missing
from . import printer
from .parser import from_source, ir, ir_module, relax, tir

__all__ = ["from_source", "ir", "ir_module", "printer", "relax", "tir"]

answer_missing(__name__)
