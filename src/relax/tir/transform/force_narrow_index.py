"""Compute all indices in 32 bits, on the user's assurance that they fit.

    def f(A: T.Buffer((n,))):   n is int64              def f(A: T.Buffer((n,))):   n is int32
        for i in range(n):                  gives           for i in range(n):
            A[i] = T.Cast("float32", i)                         A[i] = T.Cast("float32", T.Cast("int64", i))

Loop and block variables, sizes, scalar integer parameters and subscripts become int32. A call with a dimension or
scalar that does not fit raises an error. Arithmetic between indices is not checked; use `NarrowDataType` to narrow only
indices that are proved to fit. A constant that does not fit is rejected with E5022.
"""

from __future__ import annotations

from ...ir import Diagnostic, DiagnosticError
from ..dtypes import force_index_dtype
from ..stmt import PrimFunc
from .each_prim_func import each_prim_func


def force_narrow_index_to_int32(func: PrimFunc) -> PrimFunc:
    """Return the function with 32-bit indices. Raises DiagnosticError if a constant does not fit."""
    try:
        return force_index_dtype(func, "int32")
    except ValueError as error:
        hint = "use NarrowDataType(32), which narrows what fits"
        message = f"an index does not fit 32 bits: {error}"
        raise DiagnosticError(Diagnostic("E5022", message, func.span, hint=hint)) from None


ForceNarrowIndexToInt32 = each_prim_func(force_narrow_index_to_int32, "ForceNarrowIndexToInt32")
"""Pass: compute all indices in 32 bits."""
