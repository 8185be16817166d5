"""The namespace `T` of scripts. (The TIR parser grows here.)"""

from __future__ import annotations

import sys
from typing import Any

from ....prim.expr import PrimExpr, SizeVar, Var, const
from ..core import register_namespace


def int64(value: Any = None, is_size_var: bool = False) -> PrimExpr:
    """A new variable, or a constant."""
    if value is None:
        return SizeVar("", "int64") if is_size_var else Var("", "int64")
    return const(value, "int64")


register_namespace(sys.modules[__name__])

__all__ = ["Var", "int64"]
