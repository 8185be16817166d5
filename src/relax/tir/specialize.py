"""Specialisation of a PrimFunc to static sizes or scalars, as a function: `PrimFunc.specialize` is the method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..prim import Var
from .stmt import PrimFunc


def specialize(func: PrimFunc, param_map: Mapping[Var, Any]) -> PrimFunc:
    """Return the function with sizes and scalar parameters replaced by values; the value of a tensor key is a Buffer.

    Raises DiagnosticError for a key that the function does not have, or a buffer that does not fit.
    """
    return func.specialize(param_map)
