"""FuseOps: group operator calls that one kernel can compute into functions with the attribute Primitive.

    multiply(exp(%x), 2f)    becomes    fn (%p0: Tensor[(4), float32], Primitive=1) -> Tensor[(4), float32] {
                                          %0 = exp(%p0);
                                          multiply(%0, 2f)
                                        }(%x)

Calls are grouped by their patterns (`ops.declare`) and post-dominators, as in Relax's FuseOps; an ungrouped call
becomes a function of its own. Calls of operators without a pattern are not fused, nor are calls in different scopes.
Scalar constants move into the function; larger ones become arguments. `fuse_opt_level` 0 disables grouping; -1 uses the
level of the PassContext. The configuration ``relay.FuseOps.max_depth`` limits the calls per function.
"""

from __future__ import annotations

from typing import Any

from ...ir import Op
from ...ir.transform import PassContext
from ...tir.op_pattern import OpPatternKind
from ...transform.fusion.groups import FusionNode, fusion_groups
from ..expr import Call, Constant, Expr, Function, Tuple, Var
from ..ops.declare import pattern_of
from ..parts import parts_of, with_parts
from ..scopes import Placement, place
from ..types import FuncType
from .rewriting import Program, ordered_rewrite, relay_pass

_MOST_CALLS = 256


class _Fusion:
    """Groups of one expression, and the functions created from them."""

    def __init__(self, expr: Expr, level: int, max_depth: int) -> None:
        self.expr = expr
        self.placement: Placement = place(expr)
        self.calls = [node for node in self.placement.order if self._is_fusable(node)]
        numbers = {node: i for i, node in enumerate(self.calls)}
        self.group: dict[Expr, int] = dict(numbers)
        """Number of the last call of each call's group."""
        if level > 0:
            for group in fusion_groups(self._graph(numbers), max_depth):
                for member in group:
                    self.group[self.calls[member]] = group[-1]
        self.memo: dict[Expr, Expr] = {}

    def _is_fusable(self, node: Expr) -> bool:
        return (
            isinstance(node, Call)
            and isinstance(node.op, Op)
            and pattern_of(node.op) is not OpPatternKind.OPAQUE
            and node.checked_type_ is not None
            and not isinstance(node.checked_type_, FuncType)
            and self._has_values(node)
        )

    @staticmethod
    def _has_values(call: Call) -> bool:
        """True if a call has a non-constant operand (others are left to FoldConstant)."""
        return any(not isinstance(arg, Constant) for arg in call.args)

    def _graph(self, numbers: dict[Expr, int]) -> list[FusionNode]:
        placement = self.placement
        nodes = [FusionNode(_kind(call), place=placement.of[call]) for call in self.calls]
        for user in placement.order:
            for part, scope in placement.positions(user):
                if part in numbers:
                    nodes[numbers[part]].is_external |= user not in numbers or scope is not placement.of[part]
                if user in numbers and part in numbers:
                    nodes[numbers[part]].consumers.append((numbers[user], _operand_kind(part, user)))
        if self.expr in numbers:
            nodes[numbers[self.expr]].is_external = True
        return nodes

    def run(self) -> Expr:
        members: dict[int, list[Expr]] = {}
        for call in self.calls:
            members.setdefault(self.group[call], []).append(call)
        inner = {call for group in members.values() for call in group[:-1]}
        ends = {group[-1]: group for group in members.values()}
        for node in self.placement.order:
            if node in inner or (isinstance(node, Function) and node.attrs.get("Primitive")):
                continue
            if node in ends:
                self.memo[node] = self._function(ends[node])
            else:
                self.memo[node] = with_parts(node, [self.memo.get(part, part) for part in parts_of(node)])
        return self.memo.get(self.expr, self.expr)

    def _function(self, group: list[Expr]) -> Expr:
        """Return a call of the function that contains a group's calls."""
        params: dict[Expr, Var] = {}
        own: dict[Expr, Expr] = {}

        def inside(operand: Expr) -> Expr:
            if operand in own:
                return own[operand]
            if isinstance(operand, Constant) and operand.is_scalar:
                return operand
            if isinstance(operand, Tuple):
                own[operand] = with_parts(operand, map(inside, operand.fields))
                return own[operand]
            if operand not in params:
                params[operand] = Var(f"p{len(params)}", getattr(operand, "checked_type_", None) or _type(operand))
            return params[operand]

        for call in group:
            own[call] = with_parts(call, [call.op, *map(inside, call.args)])  # type: ignore[attr-defined]
        last: Any = group[-1]
        function = Function(list(params.values()), own[last], last.checked_type, attrs={"Primitive": 1})
        return Call(function, [self.memo.get(operand, operand) for operand in params], span=last.span)


def _kind(call: Any) -> OpPatternKind:
    kind = pattern_of(call.op)
    # An operator on a tuple reads fields computed by earlier kernels; it does not recompute them.
    return OpPatternKind.INJECTIVE if any(isinstance(arg, Tuple) for arg in call.args) else kind


def _operand_kind(operand: Any, user: Any) -> OpPatternKind:
    """Pattern of the edge from an operand to its user; element-wise unless it is broadcast."""
    kind = _kind(user)
    if kind is OpPatternKind.BROADCAST and operand.checked_type == user.checked_type:
        return OpPatternKind.ELEMWISE
    return kind


def _type(operand: Expr) -> Any:
    return operand.type if isinstance(operand, Constant) else None


def fuse_ops(expr: Expr, fuse_opt_level: int = -1, max_depth: int = _MOST_CALLS) -> Expr:
    """Return the typed expression with primitive functions; itself if it has no calls to fuse."""
    return _Fusion(expr, fuse_opt_level, max_depth).run()


@relay_pass("FuseOps", opt_level=0, required=["InferType"])
def FuseOps(function: Function, program: Program, fuse_opt_level: int = -1) -> Expr:
    """Group operator calls into primitive functions, in every function."""
    if function.attrs.get("Primitive"):
        return function
    context = PassContext.current()
    level = context.opt_level if fuse_opt_level < 0 else fuse_opt_level
    most = int(context.config.get("relay.FuseOps.max_depth", _MOST_CALLS))
    return ordered_rewrite(function, program, lambda expr: fuse_ops(expr, level, most))
