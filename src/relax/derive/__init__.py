"""Derivation of struct info, and the normal form it is derived on (language.md §4 and §6).

rules         the struct info of an expression from that of its parts
context       functions and scopes around an expression, shape variables in sight, diagnostics collected
conditions    facts about shape variables that hold from a binding, or in a branch
normalize     normal form, with struct info written on every node
substitution  variables replaced in expressions and their struct info
call_graph    the order in which global functions are derived
"""

from __future__ import annotations
