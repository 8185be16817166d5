"""Facts about shape variables that derivation learns (language.md §6: what is not proved is checked).

    w = R.match_cast(x, R.Tensor((m, 4)))          x: R.Tensor((n, k))     n == m, k == 4
    _ = R.assert_op(R.prim_value(n % 4 == 0))                              n % 4 == 0
    if c: … else: …                                c: R.Prim(value=n < m)  n < m in the one branch, n >= m in the other

A fact holds from its binding on, to the end of the SeqExpr, in inner scopes and in closures made there: what a closure
captures was established before the closure was made. It is used by whoever asks the prover while struct
info is derived, and by nobody else.

Facts decide, they do not respell: a dimension is written as it would be without them, so that the parser and
the passes, which may know less, write the same.

Why this is sound. A fact rests on a check that was passed on the way to the place where it is used. A pass
may remove that check or move code above it only inside a dataflow block (§7.2), and then:

* what is derived anew is weaker, never wrong: a shape is unknown again, and where an annotation or a variable's struct
  info says more, a run-time check takes the place of the fact;
* struct info that is kept says what held in the program as it was written; a run that would have failed the removed
  check may now fail elsewhere, or not at all (§7.2 allows it), but no memory is touched that is not there: kernels
  check the shapes of their arguments on entry, and what an operator could not decide about sizes is decided
  in terms of the kernel's own variables, of which no fact is known.

A condition that is refuted by what is known already stands where the program never comes. There nothing is taken as
known: everything would follow from it, also that a cast can never succeed, which is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..expr import Call
from ..ir import RelaxExpr, StructInfo
from ..op.base import is_call_of
from ..op.intrinsics import AssertOp
from ..prim import Analyzer, IntImm, Not, PrimExpr
from ..prim.expr import EQ
from ..struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo


def with_facts(facts: Analyzer | None, conditions: Iterable[PrimExpr]) -> Analyzer | None:
    """Return `facts` extended by the new conditions."""
    result = facts
    for condition in conditions:
        verdict = (result or _NOTHING).prove(condition)
        if verdict is False:
            return None
        if verdict is None:
            if result is facts:
                result = Analyzer() if facts is None else facts.copy()
            assert result is not None
            result.assume(condition)
    return result


_NOTHING = Analyzer()
"""The empty set of facts, shared and immutable."""


def cast_facts(value: StructInfo | None, cast: StructInfo) -> Iterator[PrimExpr]:
    """Facts about dimensions and scalars that hold after a value has passed a cast."""
    match value, cast:
        case TensorStructInfo(), TensorStructInfo():
            yield from _equations(value.dims, cast.dims)
        case ShapeStructInfo(values), ShapeStructInfo(others):
            yield from _equations(values, others)
        case PrimStructInfo(_, dim), PrimStructInfo(_, other) if dim is not None and other is not None:
            yield from _equations((dim,), (other,))
        case TupleStructInfo(fields), TupleStructInfo(others):
            for field, other in zip(fields, others, strict=False):
                yield from cast_facts(field, other)
        case _:
            return


def _equations(dims: tuple[PrimExpr, ...] | None, other_dims: tuple[PrimExpr, ...] | None) -> Iterator[PrimExpr]:
    for a, b in zip(dims or (), other_dims or (), strict=False):
        if a is not b and a.dtype == b.dtype and not a.dtype.is_float:
            yield EQ(a, b)


def condition_facts(info: StructInfo | None, holds: bool = True) -> Iterator[PrimExpr]:
    """The fact that holds where a condition of this struct info is true (or false); none if its scalar is unknown."""
    value = info.value if isinstance(info, PrimStructInfo) and info.dtype.is_bool else None
    if value is not None and not isinstance(value, IntImm):
        yield value if holds else Not(value)


def call_facts(value: RelaxExpr) -> Iterator[PrimExpr]:
    """The facts known after a call: the condition of an assert_op holds."""
    match value:
        case Call(_, (cond, *_)) if is_call_of(value, AssertOp):
            yield from condition_facts(cond.struct_info_)
        case _:
            return
