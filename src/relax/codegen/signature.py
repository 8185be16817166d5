"""The signature of a PrimFunc: the sizes its parameters bind, and the conditions that arguments must meet.

Scalar parameters bind themselves. Then every shape (or stride, or offset) variable is bound where it first stands
alone, in the order of the parameters; everything else is an expression over those, to be compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..ir import Diagnostic
from ..prim import PrimExpr, Var, free_vars
from ..tir import Buffer, PrimFunc, promised_apart
from .context import Unit


@dataclass(frozen=True)
class ArgumentField:
    """A number that a tensor argument has: a dimension, a stride, or the offset of its first element."""

    param: int
    buffer: Buffer
    what: str
    """``shape``, ``stride`` or ``offset``."""
    axis: int

    @property
    def words(self) -> str:
        """The place as messages name it, after the argument."""
        if self.what == "offset":
            return "offset"
        return f"dimension {self.axis}" if self.what == "shape" else f"stride of dimension {self.axis}"


@dataclass(frozen=True)
class Signature:
    """The parameters of a function, the variables they bind, and the numbers to compare."""

    params: tuple[tuple[Var, Buffer | None], ...]
    bound: dict[Var, ArgumentField]
    """Variables beside the parameters, in the order in which they are passed."""
    compared: tuple[tuple[ArgumentField, PrimExpr], ...]
    apart: tuple[tuple[int, int], ...] = ()
    """Pairs of parameters that must not overlap: the first is written."""


def signature(unit: Unit, name: str, func: PrimFunc) -> Signature:
    """The signature of a function; variables that nothing binds are reported."""
    known = signature_of(func)
    scalars = {param for param, buffer in known.params if buffer is None}
    for place, expr in known.compared:
        for var in free_vars(expr):
            if var not in known.bound and var not in scalars:
                unit.unbound.add(var)
                _report_unbound(unit, name, var, place)
    return known


def signature_of(func: PrimFunc) -> Signature:
    """The signature of a function, whether or not its parameters bind all variables."""
    params = tuple((param, func.buffer_map.get(param)) for param in func.params)
    scalars = {param for param, buffer in params if buffer is None}
    bound: dict[Var, ArgumentField] = {}
    compared: list[tuple[ArgumentField, PrimExpr]] = []
    for place, expr in _places(params):
        if isinstance(expr, Var) and expr not in bound and expr not in scalars:
            bound[expr] = place
        else:
            compared.append((place, expr))
    return Signature(params, bound, tuple(compared), tuple(promised_apart(func)))


def _places(params: tuple[tuple[Var, Buffer | None], ...]) -> Iterator[tuple[ArgumentField, PrimExpr]]:
    for i, (_, buffer) in enumerate(params):
        if buffer is None:
            continue
        for axis, size in enumerate(buffer.shape):
            yield ArgumentField(i, buffer, "shape", axis), size
        for axis, stride in enumerate(buffer.strides):
            yield ArgumentField(i, buffer, "stride", axis), stride
        if buffer.elem_offset is not None:
            yield ArgumentField(i, buffer, "offset", 0), buffer.elem_offset


def _report_unbound(unit: Unit, name: str, var: Var, place: ArgumentField) -> None:
    message = (
        f"{var.name}, in {place.words} of buffer {place.buffer.name}, stands alone in no dimension of any"
    )
    unit.report(
        name,
        Diagnostic(
            "E5907",
            f"{message} parameter",
            place.buffer.span,
            hint=f"pass {var.name} as a parameter of its own, or give some buffer a dimension that is just {var.name}",
        ),
    )
