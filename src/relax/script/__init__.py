"""TVMScript: programs as Python text. ``from relax.script import ir as I, relax as R, tir as T``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.tvm_names import answer_missing
from ..runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from . import printer
    from .parser import from_source, ir, ir_module, relax, tir

__all__ = ["from_source", "ir", "ir_module", "printer", "relax", "tir"]

load_when_used(__name__, HOMES)
answer_missing(__name__)
