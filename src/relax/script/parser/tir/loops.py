"""``T.serial``, ``T.grid`` and the other loops; ``T.axis``."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from ....prim import IntImm, PrimExpr, Var, convert, match_dtypes
from ....tir.buffer import IterVar, Range, extent_between
from ....tir.scalar import as_tuple
from ....tir.stmt import ForKind
from ..core import Namespace
from .frames import Loop, Loops
from .state import parser


def make_loop(
    kind: ForKind, start: Any, stop: Any, annotations: Mapping[str, Any] | None = None, thread: str = "", step: int = 1
) -> Loop:
    """Create a loop over [start, stop); a single bound is the stop."""
    for bound in (start, stop):
        if bound is not None and not convert(bound).dtype.is_integer:
            raise TypeError(f"the bounds of a loop are integers, found {convert(bound).dtype!s}")
    if stop is None:
        extent = convert(start)
        low: PrimExpr = IntImm(extent.dtype, 0)
    else:
        low, high = match_dtypes(*_bounds(start, stop))
        extent = extent_between(low, high)
    if step != 1:
        extent = (extent + (step - 1)) // step
    return Loop(low, extent, kind, dict(annotations or {}), thread, step)


def _bounds(start: Any, stop: Any) -> tuple[Any, Any]:
    """Convert a constant bound to the other bound's dtype."""
    start, stop = convert(start), convert(stop)
    if isinstance(start, IntImm):
        return IntImm(stop.dtype, start.value), stop
    if isinstance(stop, IntImm):
        return start, IntImm(start.dtype, stop.value)
    return start, stop


def serial(start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None, step: int = 1) -> Loops:
    """``for i in T.serial(n)``: sequential iterations. Raises ValueError for a step of 0 or less."""
    is_integer = hasattr(step, "__index__") and not isinstance(step, bool)
    if not is_integer or operator.index(step) <= 0:
        raise ValueError(f"the step of a loop is a positive constant integer, found {step}")
    return Loops([make_loop(ForKind.SERIAL, start, stop, annotations, step=operator.index(step))])


def parallel(start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None) -> Loops:
    """Iterations distributed to several threads."""
    return Loops([make_loop(ForKind.PARALLEL, start, stop, annotations)])


def vectorized(start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None) -> Loops:
    """Iterations executed at once, as vector operations."""
    return Loops([make_loop(ForKind.VECTORIZED, start, stop, annotations)])


def unroll(start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None) -> Loops:
    """Unrolled iterations."""
    return Loops([make_loop(ForKind.UNROLLED, start, stop, annotations)])


def thread_binding(
    start: Any, stop: Any = None, thread: str = "", *, annotations: Mapping[str, Any] | None = None
) -> Loops:
    """Iterations bound to device threads, ``thread="threadIdx.x"``. Raises TypeError without a thread."""
    if not thread:
        if not isinstance(stop, str):
            raise TypeError('thread_binding needs thread="..."')
        stop, thread = None, stop
    return Loops([make_loop(ForKind.THREAD_BINDING, start, stop, annotations, thread)])


def grid(*extents: Any) -> Loops:
    """``for i, j in T.grid(n, m)``: nested serial loops. An extent may be a pair (start, stop).

    Raises TypeError without an extent.
    """
    if not extents:
        raise TypeError("grid needs at least one extent")
    loops: list[Loop] = []
    for extent in extents:
        bounds = as_tuple(extent)
        start, stop = bounds if len(bounds) == 2 else (extent, None)
        loops.append(make_loop(ForKind.SERIAL, start, stop))
    return Loops(loops)


class Axis(Namespace):
    """``T.axis``: the variables of a block."""

    __script_name__ = "T.axis"

    def spatial(self, dom: Any, binding: Any, dtype: str | None = None) -> Var:
        """A data-parallel axis."""
        return _axis("spatial", dom, binding, dtype)

    def reduce(self, dom: Any, binding: Any, dtype: str | None = None) -> Var:
        """A reduction axis."""
        return _axis("reduce", dom, binding, dtype)

    def scan(self, dom: Any, binding: Any, dtype: str | None = None) -> Var:
        """An axis whose iterations depend on earlier ones."""
        return _axis("scan", dom, binding, dtype)

    def opaque(self, dom: Any, binding: Any, dtype: str | None = None) -> Var:
        """An axis without known properties."""
        return _axis("opaque", dom, binding, dtype)

    S = spatial
    R = reduce

    def remap(self, kinds: str, bindings: Any, dtype: str | None = None) -> Any:
        """Axes bound to loop variables, one letter each: S spatial, R reduce. Their domains are the loops'."""
        values = as_tuple(bindings)
        if len(kinds) != len(values):
            raise ValueError(f"found {len(kinds)} letters for {len(values)} variables")
        names = parser().take_names(len(values))
        variables = tuple(
            self._bound(kind, value, name) for kind, value, name in zip(kinds, values, names, strict=True)
        )
        return variables if len(variables) != 1 else variables[0]

    def _bound(self, kind: str, value: Any, name: str) -> Var:
        if kind not in "SR":
            raise ValueError(f"unknown kind of axis {kind!r}; S is spatial, R is reduce")
        loop = parser().loop_of(value)
        if loop is None:
            raise ValueError(
                f"remap takes the variables of enclosing loops, found {value}; use T.axis.spatial or T.axis.reduce"
            )
        dom = Range.from_min_extent(loop.start, loop.extent)
        return parser().add_axis("spatial" if kind == "S" else "reduce", dom, value, name, None)


def _axis(kind: str, dom: Any, binding: Any, dtype: str | None) -> Var:
    (name,) = parser().take_names(1)
    value = convert(binding)
    return parser().add_axis(kind, _domain(dom, value), value, name, dtype)


def _domain(dom: Any, binding: PrimExpr) -> Range:
    if isinstance(dom, Range):
        return dom
    if isinstance(dom, range):
        dom = (dom.start, dom.stop)
    bounds = as_tuple(dom)
    if len(bounds) == 2:
        loop = make_loop(ForKind.SERIAL, *bounds)
        return Range.from_min_extent(loop.start, loop.extent)
    extent = IntImm(binding.dtype, dom) if isinstance(dom, int) else convert(dom)
    return Range.from_min_extent(IntImm(extent.dtype, 0), extent)


def iter_var(var: Var, dom: Any, iter_type: str, thread_tag: str = "") -> IterVar:
    """An IterVar."""
    return IterVar(None if dom is None else _domain(dom, var), var, iter_type, thread_tag)


axis = Axis()

__all__ = [
    "axis", "grid", "iter_var", "make_loop", "parallel", "serial", "thread_binding", "unroll",
    "vectorized",
]  # fmt: skip
