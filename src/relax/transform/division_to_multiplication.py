"""Divide by constant powers of two by multiplying, which gives the same numbers and takes a fraction of the time.

Before   y = R.divide(x, R.const(8.0, "float32"))           # x: float32
After    y = R.multiply(x, R.const(0.125, "float32"))

The quotient by a power of two and the product with its inverse are the same real number, which is rounded once: so are
their floats, infinities, NaN and zeros with their signs among them.

Declines: divisors that are not known, or of which one is no power of two or has an inverse that is not a normal number.
"""

from __future__ import annotations

import numpy as np

from ..analysis.properties import NORMAL_FORM, SHAPES_LOWERED
from ..dpl.rewrite import KnownValues
from ..expr import Call, Constant, Function
from ..ir import IRModule, RelaxExpr
from ..op import is_call_of, operator_of
from ..op.binary import Divide
from ..op.gradients import apply
from ..op.known import known_struct_info
from ..rewrite import bindings_in
from ..runtime.rounding import convert_array
from ..struct_info import TensorStructInfo
from .decorators import function_pass

LEAST = {"float16": 2.0**-14, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022}
"""Smallest normal number of each supported dtype."""


@function_pass(opt_level=1, needs={NORMAL_FORM}, breaks={SHAPES_LOWERED})
def DivisionToMultiplication(func: Function, mod: IRModule) -> Function:
    """Make divisions by constant powers of two multiplications; see the module's docstring."""
    return _Divisions(mod).rewrite_function(func)


class _Divisions(KnownValues):
    def concerns(self, function: Function) -> bool:
        """True if something is divided."""
        return any(is_call_of(binding.value, Divide) for binding in bindings_in(function))

    def call(self, call: Call) -> RelaxExpr:
        call = self.parts(call)
        if not isinstance(operator_of(call), Divide):
            return call
        info, divisor = known_struct_info(call), self.value(call.args[1])
        if not isinstance(info, TensorStructInfo) or not isinstance(divisor, Constant):
            return call
        inverse = _inverse(divisor, info.dtype)
        return call if inverse is None else apply("multiply", call.args[0], inverse)


def _inverse(divisor: Constant, dtype: str) -> Constant | None:
    """The inverses of powers of two."""
    least, numbers = LEAST.get(dtype), divisor.data.numpy()
    if least is None or str(numbers.dtype) != dtype:
        return None
    wide = numbers.astype(np.float64)
    if not (np.abs(np.frexp(wide)[0]) == 0.5).all():
        return None
    inverses = convert_array(1 / wide, numbers.dtype)
    sizes = np.abs(inverses.astype(np.float64))
    return Constant(inverses) if ((sizes >= least) & np.isfinite(sizes)).all() else None
