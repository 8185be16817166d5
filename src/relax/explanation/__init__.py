"""Explanations of kernels: their schedule rules, the machine code of each innermost loop, and why it is not
vectorised.
"""

from __future__ import annotations

from ..ir.provided import provide
from .explain import explain
from .report import LoopReport, MachineCode
from .rules import RuleReport
from .shown import Explanation

provide("explain", explain)

__all__ = ["Explanation", "LoopReport", "MachineCode", "RuleReport", "explain"]
