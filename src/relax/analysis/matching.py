"""Matching values against struct info, step by step (language.md §7.1): at function entry and exit, at match_cast.

    Object   anything
    Tensor   a tensor; its ndim, dtype and device; then dimension by dimension
    Shape    a shape; its ndim; then dimension by dimension
    Prim     a number of the dtype; then its value
    Tuple    a tuple; its length; then field by field
    Func     a closure whose run-time struct info fits, or, with derive_func, a packed function

A dimension that is an unbound variable standing alone is bound; anything else is evaluated and compared. A scalar may
have any value, but for one that binds a variable which is a dimension elsewhere: that is a size, too.

There are two rounds. The first goes to the binding positions, and matches what comes before them in the order above;
the second matches everything. At function entry all parameters are bound, left to right, before the first is checked.
A dimension whose turn comes in the first round already is not compared again.

`checks` is the only place that says so. The interpreter makes the checks, a lowered program calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ..info.mapping import bound_in, dims_of
from ..ir import StructInfo
from ..prim import FloatImm, IntImm, PrimExpr, Var, evaluate
from ..prim.totality import scalar_never_fails
from ..runtime.match import ASSERT_IMM, ASSERT_SLOT, IGNORE, STORE, STORE_SIZE
from ..runtime.records import dataclass
from ..struct_info import ObjectStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo


@dataclass(frozen=True, eq=False)
class Subject:
    """A matched value, or a field of one, with its expected struct info."""

    info: StructInfo
    context: str
    """Prefix of messages: ``main: parameter x``."""
    name: str
    """The name of the value where messages say what bound a variable: ``x``."""
    whole: Subject | None = None
    """The tuple of which this is a field."""
    index: int = 0
    """The number of the field."""

    def outermost(self) -> Subject:
        """Return the matched value that contains this field, or the subject itself."""
        subject = self
        while subject.whole is not None:
            subject = subject.whole
        return subject

    def kind(self) -> tuple[str, int, str] | None:
        """Kind of value, rank or length, and dtype, as ``vm.builtin.match`` takes them. None if they are not asked for,
        or not there: for objects and functions.
        """
        match self.info:
            case TensorStructInfo(_, dtype):
                return "tensor", self.info.ndim, str(dtype)
            case ShapeStructInfo(_, ndim):
                return "shape", ndim, ""
            case PrimStructInfo(dtype):
                return "scalar", 0, str(dtype)
            case TupleStructInfo(fields):
                return "tuple", len(fields), ""
            case _:
                return None

    def parts(self, is_met: Callable[[Subject], bool] | None = None) -> Iterator[Subject]:
        """The value, and the fields of a tuple of which something is expected, however deep; without what is met."""
        if is_met is not None and is_met(self):
            return
        yield self
        for index, info in enumerate(self.info.fields if isinstance(self.info, TupleStructInfo) else ()):
            if not isinstance(info, ObjectStructInfo):
                field = Subject(info, f"{self.context}[{index}]", f"{self.name}[{index}]", self, index)
                yield from field.parts(is_met)


Code = tuple[int, PrimExpr | float]
"""The treatment of a dimension, as `relax.runtime.match` has it: STORE with the variable, ASSERT_SLOT with the
expression.
"""


@dataclass(frozen=True)
class Check:
    """One check of a value: its kind, then its dimensions or its scalar value."""

    subject: Subject
    codes: tuple[Code, ...] = ()
    """The treatment of each dimension; empty if nothing is done with any."""
    binding: bool = False
    """True in the first round, which binds variables."""

    def origin(self, axis: int) -> str:
        """The place of a dimension that binds a variable: ``x, dimension 1``."""
        subject = self.subject
        return subject.name if isinstance(subject.info, PrimStructInfo) else f"{subject.name}, dimension {axis}"


def checks(
    subjects: Iterable[Subject], is_known: Callable[[Var], bool], is_met: Callable[[Subject], bool] | None = None
) -> Iterator[Check]:
    """The checks that match some values together, in order; `is_known` tells which variables have a value.

    `is_met` tells, where values are at hand, that the same value was asked about with the same struct info before.
    """
    parts = [part for subject in subjects for part in subject.parts(is_met)]
    bound: set[Var] = set()
    unchecked_axes: dict[Subject, list[int]] = {}
    """Dimensions of checked values that are neither bound nor compared yet."""
    in_turn = True  # as long as nothing is left to check of the parts before

    def is_open(var: Var) -> bool:
        return var not in bound and not is_known(var)

    for part in parts:
        if not any(map(is_open, bound_in(part.info))):
            in_turn = in_turn and isinstance(part.info, ObjectStructInfo)
            continue
        codes: dict[int, Code] = {}
        unchecked_axes[part] = []
        for axis, dim in enumerate(dims_of(part.info)):
            if isinstance(dim, Var) and is_open(dim):
                codes[axis] = _storing(part.info, dim), dim
                bound.add(dim)
            elif in_turn and isinstance(dim, IntImm):
                codes[axis] = comparing(dim)
            else:
                in_turn = False
                unchecked_axes[part].append(axis)
        yield replace(check(part, codes), binding=True)
    for part in parts:
        yield from _comparisons(part, unchecked_axes.get(part))


def _comparisons(subject: Subject, axes: Sequence[int] | None) -> Iterator[Check]:
    """Yield comparisons of the dimensions `axes`, None for all of the subject's.

    A dimension whose computation may fail is computed after the comparisons of the dimensions before it.
    """
    dims = dims_of(subject.info)
    codes: dict[int, Code] = {}
    looked_at = axes is not None
    for axis in range(len(dims)) if axes is None else axes:
        if (codes or not looked_at) and not scalar_never_fails(dims[axis]):
            yield check(subject, codes)
            codes, looked_at = {}, True
        codes[axis] = comparing(dims[axis])
    if codes or not looked_at:
        yield check(subject, codes)


def _storing(info: StructInfo, var: Var) -> int:
    return STORE_SIZE if isinstance(info, PrimStructInfo) and var.nonnegative else STORE


def comparing(dim: PrimExpr) -> Code:
    """The comparison of a dimension. Constants are compared as numbers of their dtype."""
    if isinstance(dim, IntImm):
        return ASSERT_IMM, dim.value
    return (ASSERT_IMM, evaluate(dim)) if isinstance(dim, FloatImm) else (ASSERT_SLOT, dim)


def check(subject: Subject, codes: Mapping[int, Code]) -> Check:
    """Return the check with the given treatment of some dimensions; the others are unconstrained."""
    every = tuple(codes.get(axis, (IGNORE, 0)) for axis in range(len(dims_of(subject.info))))
    return Check(subject, every if codes else ())
