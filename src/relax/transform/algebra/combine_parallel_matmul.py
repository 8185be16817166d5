"""Multiply one operand by several others at once: by all of them side by side.

Before   q = R.matmul(x, wq)                 After   lv = R.concat((wq, wk, wv), axis=1)
         k = R.matmul(x, wk)                         lv1 = R.matmul(x, lv)
         v = R.matmul(x, wv)                         lv2 = R.split(lv1, indices_or_sections=[64, 128], axis=2)
                                                     q = lv2[0]
                                                     k = lv2[1]
                                                     v = lv2[2]

Products of a block are combined if they read the same left operand, have one out_dtype and right operands of one rank
of at least two that agree in all but the last size, and none is computed from another. A bias of one dimension that is
added to each of them, and an elementwise operator of one operand that follows in each, are combined too. Where a width
is symbolic, slices take the result apart instead of a split. The elements are the sums they were.

``check(x, weights, biases, bindings)`` decides about a group: the left operand, the right ones, the biases combined
with them (none or as many), and what the block's variables are bound to.

Weights that are constants are put together by FoldConstant, parameters at each call: bind them (BindParams), or lift
the concatenation out of the function (LiftTransformParams). Blocks in which a tensor may be changed are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from itertools import accumulate
from typing import TypeAlias, cast

from ...analysis.effects import may_change
from ...analysis.properties import NORMAL_FORM, SHAPES_LOWERED
from ...analysis.uses import uses_of
from ...dpl.context import BlockFacts
from ...dpl.rewrite import with_values
from ...expr import BindingBlock, Call, DataflowBlock, DataflowVar, Function, PrimValue, Tuple, TupleGetItem, Var
from ...ir import IRModule, RelaxExpr, structural_equal
from ...op import Operator, is_call_of, operator_of
from ...op.binary import Add
from ...op.linear_algebra import Matmul
from ...op.pieces import Concat, Split, StridedSlice
from ...prim import IntImm, PrimExpr, Verdict, const, prove_shape_equal
from ...rewrite import Rewriter, bindings_in
from ...runtime.records import dataclass
from ..decorators import function_pass
from .questions import dims

Check: TypeAlias = Callable[[RelaxExpr, list[RelaxExpr], list[RelaxExpr], Mapping[Var, RelaxExpr]], bool]


@function_pass(opt_level=1, needs={NORMAL_FORM}, breaks={SHAPES_LOWERED})
def CombineParallelMatmul(func: Function, mod: IRModule, check: Check | None = None) -> Function:
    """Combine products of one left operand; see the module's docstring."""
    return _Combiner(mod, check).rewrite_function(func)


@dataclass
class _Branch:
    """A product with the bias and activation that follow it."""

    var: Var
    left: RelaxExpr
    right: RelaxExpr
    matmul: Matmul
    bias: RelaxExpr | None = None
    activation: Operator | None = None
    chain: list[Var] = field(default_factory=list[Var])
    """Variables of the product, the biased sum and the activation's result, as far as present."""

    @property
    def width(self) -> PrimExpr:
        """The number of columns."""
        return (dims(self.right) or (const(0, "int64"),))[-1]


class _Combiner(Rewriter):
    def __init__(self, mod: IRModule, check: Check | None) -> None:
        super().__init__(mod)
        self.check = check

    def concerns(self, function: Function) -> bool:
        products = (b for b in bindings_in(function) if isinstance(b.value, Call) and is_call_of(b.value, Matmul))
        return next(products, None) is not None and next(products, None) is not None

    def block(self, block: BindingBlock) -> BindingBlock:
        if isinstance(block, DataflowBlock) and not any(
            isinstance(b.value, Call) and may_change(b.value, self.mod) for b in block.bindings
        ):
            block = self.combined(block)
        return super().block(block)

    def combined(self, block: DataflowBlock) -> DataflowBlock:
        """A block with its parallel products combined, one group after the other."""
        declined: set[Var] = set()
        while True:
            facts = BlockFacts(block)
            group = next((g for g in _groups(block, facts) if g[0].chain[0] not in declined), None)
            if group is None:
                return block
            # What is declined now is not asked about again; what is combined is no product of its own any more.
            declined.update(branch.chain[0] for branch in group)
            biases = [branch.bias for branch in group if branch.bias is not None]
            weights = [branch.right for branch in group]
            if self.check is None or self.check(group[0].left, weights, biases, facts.values):
                block = with_values(block, _values(group))


def _groups(block: DataflowBlock, facts: BlockFacts) -> list[list[_Branch]]:
    """The groups of products that can be combined, each with what follows all of them."""
    branches = [b for binding in block.bindings if (b := _branch(binding.var, facts)) is not None]
    groups: list[list[_Branch]] = []
    depends = _dependencies(block)
    for branch in branches:
        for group in groups:
            if _is_parallel(group[0], branch, facts) and not any(
                facts.match.holder(other.var) in depends[branch.var] for other in group
            ):
                group.append(branch)
                break
        else:
            groups.append([branch])
    return [_with_followers(group, facts) for group in groups if len(group) > 1]


def _branch(var: Var, facts: BlockFacts) -> _Branch | None:
    call = facts.values.get(var)
    matmul = operator_of(call) if isinstance(call, Call) else None
    if not isinstance(matmul, Matmul) or not isinstance(call, Call):
        return None
    left, right = call.args
    sizes, rows = dims(right), dims(left)
    if sizes is None or len(sizes) < 2 or rows is None or len(rows) < 2 or dims(var) is None:
        return None
    return _Branch(var, facts.match.holder(left), right, matmul, chain=[var])


def _is_parallel(a: _Branch, b: _Branch, facts: BlockFacts) -> bool:
    """True if the operands of two products allow combining them."""
    first, second = dims(a.right) or (), dims(b.right) or ()
    return (
        a.left is b.left
        and structural_equal(a.matmul, b.matmul)
        and len(first) == len(second)
        and prove_shape_equal(first[:-1], second[:-1]) is Verdict.YES
        and _dtype(a.right) == _dtype(b.right)
    )


def _dtype(expr: RelaxExpr) -> str:
    return str(getattr(expr.struct_info_, "dtype", ""))


def _dependencies(block: DataflowBlock) -> dict[Var, set[Var]]:
    """For each variable, those of the block that its value is computed from."""
    depends: dict[Var, set[Var]] = {}
    for binding in block.bindings:
        used = [var for var in uses_of(binding.value).variables if var in depends]
        depends[binding.var] = set(used).union(*(depends[var] for var in used))
    return depends


def _with_followers(group: list[_Branch], facts: BlockFacts) -> list[_Branch]:
    """A group with the biases and the activation of its products, if all of them have them."""
    sums = [_only_user(branch.var, facts) for branch in group]
    biases = [_bias(branch.var, total, facts) for branch, total in zip(group, sums, strict=True)]
    if all(bias is not None for bias in biases):
        for branch, total, bias in zip(group, sums, biases, strict=True):
            branch.bias = bias
            branch.chain.append(cast(Var, total))
    last = [_only_user(branch.chain[-1], facts) for branch in group]
    operators = [None if var is None else _activation(facts.values.get(var)) for var in last]
    if operators[0] is not None and all(structural_equal(operators[0], op) for op in operators):
        for branch, var in zip(group, last, strict=True):
            branch.activation = operators[0]
            branch.chain.append(cast(Var, var))
    return group


def _only_user(var: Var, facts: BlockFacts) -> Var | None:
    """The variable whose value is the only one that reads another; None if there are more, or others may read it."""
    users = facts.users.get(var, {})
    private = isinstance(var, DataflowVar) and var not in facts.leaving and len(users) == 1
    return next(iter(users)) if private else None


def _bias(var: Var, total: Var | None, facts: BlockFacts) -> RelaxExpr | None:
    """The operand added to a product: a tensor of its width, from outside of the block or a constant; else None."""
    call = None if total is None else facts.values.get(total)
    if not isinstance(call, Call) or not is_call_of(call, Add):
        return None
    other_args = [arg for arg in call.args if arg is not var]
    if len(other_args) != 1 or (isinstance(other_args[0], Var) and other_args[0] in facts.values):
        return None
    sizes, width = dims(other_args[0]), (dims(var) or ())[-1:]
    if sizes is None or len(sizes) != 1 or prove_shape_equal(sizes, width) is not Verdict.YES:
        return None
    return other_args[0]


def _activation(value: RelaxExpr | None) -> Operator | None:
    operator = operator_of(value) if isinstance(value, Call) and len(value.args) == 1 else None
    return operator if operator is not None and operator.elementwise else None


def _values(group: Sequence[_Branch]) -> dict[Var, RelaxExpr]:
    """The values of the last variables of a group's branches."""
    rank = len(dims(group[0].right) or ())
    weights = Concat(rank - 1).call(Tuple([branch.right for branch in group]))
    result: RelaxExpr = group[0].matmul.call(group[0].left, weights)
    if group[0].bias is not None:
        result = Add().call(result, Concat(0).call(Tuple([b.bias for b in group if b.bias is not None])))
    if group[0].activation is not None:
        result = group[0].activation.call(result)
    widths = [branch.width for branch in group]
    axis = len(dims(group[0].var) or ()) - 1
    last = [branch.chain[-1] for branch in group]
    if all(isinstance(width, IntImm) for width in widths):
        cuts = tuple(accumulate(cast(IntImm, width).value for width in widths[:-1]))
        whole = Split(cuts, axis).call(result)
        return {var: TupleGetItem(whole, i) for i, var in enumerate(last)}
    ends: list[PrimExpr] = []
    for width in widths:
        ends.append(ends[-1] + width if ends else width)
    begins: list[PrimExpr] = [const(0, "int64"), *ends[:-1]]
    return {
        var: StridedSlice().call(result, Tuple([PrimValue(axis)]), Tuple([PrimValue(begin)]), Tuple([PrimValue(end)]))
        for var, begin, end in zip(last, begins, ends, strict=True)
    }
