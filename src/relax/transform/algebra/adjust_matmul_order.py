"""Choose the cheaper order of two matrix products.

Before   ab = R.matmul(a, b)      # a: (4096, 8), b: (8, 4096)       After   lv = R.matmul(x, a)
         y = R.matmul(x, ab)      # x: (n, 4096)                             y = R.matmul(lv, b)

``(a b) c`` and ``a (b c)`` are compared by the number of multiplications, leading dimensions included. The other order
is taken if the prover shows that it never needs more, whatever the symbolic sizes are, and not the reverse. Where two
neighbours are known before the program runs (constants, and parameters from `num_input` on) they are multiplied with
each other, so that their product can be computed then. A product that is transposed is ``(b c)ᵀ = cᵀ bᵀ``.

Declines: a middle operand of one dimension, and an outer one of one dimension beside a batch of matrices; products with
an out_dtype; an inner product that is read elsewhere too, and so computed in any case.

Floats are rounded in other places than before, so results differ in the last bits: the pass is not in the default
pipeline.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...analysis.properties import NORMAL_FORM, SHAPES_LOWERED
from ...dpl import is_op, wildcard
from ...dpl.matching import Matched
from ...dpl.rewrite import CallRewriter
from ...expr import Function, Var
from ...ir import IRModule, RelaxExpr
from ...op import OperatorError
from ...op.linear_algebra import Matmul
from ...op.shapes import PermuteDims
from ...prim import PrimExpr, const, prove
from ...struct_info import TensorStructInfo
from ..decorators import function_pass
from .questions import known_before_running, operator_in, read_counts


@function_pass(needs={NORMAL_FORM}, breaks={SHAPES_LOWERED})
def AdjustMatmulOrder(func: Function, mod: IRModule) -> Function:
    """Multiply in the cheaper order; see the module's docstring."""
    while True:
        before = func
        for inner_is_left in (True, False):
            func = _Adjuster(func, mod, inner_is_left).rewrite_function(func)
        if func is before:
            return func


class _Factor(NamedTuple):
    """An operand of a product, with a pending transposition."""

    expr: RelaxExpr
    info: TensorStructInfo
    is_known: bool
    """True if the value depends on constants and weights only."""
    is_transposed: bool = False

    def transposed(self) -> _Factor:
        """The factor with its last two dimensions exchanged."""
        info = PermuteDims(_last_two_swapped(self.info.ndim)).infer(self.info)
        return self._replace(info=info, is_transposed=not self.is_transposed)

    def emitted(self) -> RelaxExpr:
        """The operand as an expression."""
        return PermuteDims(_last_two_swapped(self.info.ndim)).call(self.expr) if self.is_transposed else self.expr


class _Adjuster(CallRewriter):
    """Changes products of which the left, or else the right, operand is a product."""

    def __init__(self, func: Function, mod: IRModule, inner_is_left: bool) -> None:
        self.first, self.second, self.other = wildcard(), wildcard(), wildcard()
        self.inner = is_op("relax.matmul")(self.first, self.second)
        self.moved = is_op("relax.permute_dims")(self.inner)
        factor = self.inner | self.moved
        pair = (factor, self.other) if inner_is_left else (self.other, factor)
        super().__init__([(is_op("relax.matmul")(*pair), self.adjusted)], mod)
        self.inner_is_left = inner_is_left
        self.known = known_before_running(func)
        self.reads = read_counts(func)

    def adjusted(self, expr: RelaxExpr, matched: Matched) -> RelaxExpr:
        """The product in the other order, if that is better."""
        between = [matched[p] for p in (self.inner, self.moved) if p in matched]
        if any(isinstance(var, Var) and self.reads[var] > 1 for var in between):
            return expr
        if not all(is_plain_matmul(self.value(call)) for call in (expr, matched[self.inner])):
            return expr
        a, b, c = (self.factor(matched[p]) for p in (self.first, self.second, self.other))
        if a is None or b is None or c is None:
            return expr
        if self.moved in matched:
            if min(a.info.ndim, b.info.ndim) < 2 or not _is_transposition(self.value(matched[self.moved])):
                return expr
            a, b = b.transposed(), a.transposed()
        if not _is_associative(*((a, b, c) if self.inner_is_left else (c, a, b))):
            return expr
        if self.inner_is_left:
            return expr if keeps_left(a, b, c) else _product(a.emitted(), _product(b.emitted(), c.emitted()))
        return expr if keeps_right(c, a, b) else _product(_product(c.emitted(), a.emitted()), b.emitted())

    def factor(self, expr: RelaxExpr) -> _Factor | None:
        """An operand; None if its sizes are not known."""
        info = expr.struct_info_
        if not isinstance(info, TensorStructInfo) or info.dims is None:
            return None
        return _Factor(expr, info, self.known(expr))


def _is_associative(first: _Factor, middle: _Factor, last: _Factor) -> bool:
    """True if both orders of three factors mean the same.

    A vector stands for a row, or a column, beside one matrix. Beside a batch of n, the product is a matrix of n rows.
    """
    if middle.info.ndim < 2:
        return False
    return middle.info.ndim == 2 or min(first.info.ndim, last.info.ndim) >= 2


def keeps_left(a: _Factor, b: _Factor, c: _Factor) -> bool:
    """True unless ``a (b c)`` is better than ``(a b) c``."""
    if a.is_known and b.is_known:
        return True
    return not (b.is_known and c.is_known) and not _is_cheaper(_right_cost(a, b, c), _left_cost(a, b, c))


def keeps_right(a: _Factor, b: _Factor, c: _Factor) -> bool:
    """True unless ``(a b) c`` is better than ``a (b c)``."""
    if b.is_known and c.is_known:
        return True
    return not (a.is_known and b.is_known) and not _is_cheaper(_left_cost(a, b, c), _right_cost(a, b, c))


def _is_cheaper(new: PrimExpr | None, old: PrimExpr | None) -> bool:
    """True if one multiplication count is provably at most another and may be smaller."""
    return new is not None and old is not None and prove(new <= old) is True and prove(old <= new) is not True


def _left_cost(a: _Factor, b: _Factor, c: _Factor) -> PrimExpr | None:
    return _cost(a.info, b.info, c.info, left=True)


def _right_cost(a: _Factor, b: _Factor, c: _Factor) -> PrimExpr | None:
    return _cost(a.info, b.info, c.info, left=False)


def _cost(a: TensorStructInfo, b: TensorStructInfo, c: TensorStructInfo, *, left: bool) -> PrimExpr | None:
    """The multiplications of a product of three, None if its sizes are not known to fit."""
    try:
        inner = Matmul().infer(a, b) if left else Matmul().infer(b, c)
        outer = Matmul().infer(inner, c) if left else Matmul().infer(a, inner)
    except OperatorError:
        return None
    if inner.dims is None or outer.dims is None or a.dims is None or b.dims is None:
        return None
    middle, last = a.dims[-1], b.dims[-1]
    first_sum, second_sum = (middle, last) if left else (last, middle)
    return _count(inner.dims) * first_sum + _count(outer.dims) * second_sum


def _count(dims: Sequence[PrimExpr]) -> PrimExpr:
    count: PrimExpr = const(1, "int64")
    for size in dims:
        count = count * size
    return count


def is_plain_matmul(expr: RelaxExpr) -> bool:
    """True for a product that is summed in the operands' dtype."""
    operator = operator_in(expr)
    return isinstance(operator, Matmul) and operator.out_dtype.is_void


def _product(a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
    return Matmul().call(a, b)


def _last_two_swapped(ndim: int) -> tuple[int, ...]:
    return (*range(ndim - 2), ndim - 1, ndim - 2)


def _is_transposition(expr: RelaxExpr) -> bool:
    """True for a permutation that exchanges the last two dimensions only."""
    operator, info = operator_in(expr), expr.struct_info_
    if not isinstance(operator, PermuteDims) or not isinstance(info, TensorStructInfo):
        return False
    return operator.order(info.ndim) == _last_two_swapped(info.ndim)
