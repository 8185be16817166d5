"""TVM's `relax.utils`: copies of functions."""

from __future__ import annotations

from .derive.substitution import copy_with_new_vars as copy_with_new_vars
from .ir.tvm_names import answer_missing

__all__ = ["copy_with_new_vars"]

answer_missing(__name__)
