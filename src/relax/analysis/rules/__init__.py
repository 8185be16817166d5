"""Well-formedness rules of language.md §5: one function per rule, mapping a ProgramFacts to its violations."""

from __future__ import annotations

from .annotations import rule_10, rule_14, rule_15, rule_16, rule_17, rule_19, rule_20, rule_22
from .module import rule_12, rule_13, rule_18, rule_21
from .shape_vars import rule_4, rule_5, rule_6
from .structure import rule_7, rule_8, rule_9
from .variables import rule_1, rule_2, rule_3, rule_11
from .violation import Violation

RULES = (
    rule_1, rule_2, rule_3, rule_4, rule_5, rule_6, rule_7, rule_8, rule_9, rule_10, rule_11,
    rule_12, rule_13, rule_14, rule_15, rule_16, rule_17, rule_18, rule_19, rule_20, rule_21, rule_22,
)  # fmt: skip
"""All rules, in the order of their numbers."""

__all__ = ["RULES", "Violation"]
