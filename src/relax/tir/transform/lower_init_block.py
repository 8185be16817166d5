"""Move the `init` of reduction blocks in front of the reduction loops.

    for i, k in T.grid(n, m):                       for i in range(n):
        with T.block("B"):                              B[i] = T.float32(0)
            vi, vk = T.axis.remap("SR", [i, k])         for k in range(m):
            with T.init():                    gives         with T.block("B"):
                B[vi] = T.float32(0)                            vi, vk = T.axis.remap("SR", [i, k])
            B[vi] += A[vi, vk]                                  B[vi] += A[vi, vk]

An empty reduction still yields its identity, and the inner loop has no branch. If the init cannot be moved, it is
guarded by the condition that every reduction axis is at its start. This happens if a loop variable occurs in both kinds
of axes, the axes do not start with the loops, the loops may reach one point of the block twice (and start its reduction
again), or another statement accesses the written buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from ...ir import Node
from ...prim import EQ, PrimExpr, Var, is_const, prove
from ...prim.iter_map import IterMapLevel, detect_iter_map
from ...runtime.records import dataclass
from ..buffer import Buffer, Range
from ..functor import StmtExprMutator, post_order_visit, pre_order_visit, substitute
from ..renew import renew_bound_vars
from ..statements import conjunction, conjuncts, has_blocks, seq_of
from ..stmt import AllocBuffer, Block, BlockRealize, BufferStore, For, IfThenElse, LetStmt, PrimFunc, SeqStmt, Stmt
from ..usage import free_vars
from .each_prim_func import each_prim_func


def lower_init_block(func: PrimFunc) -> PrimFunc:
    """The function without `init` in any block."""
    return func.replace(body=_Lowering().visit(func.body)) if has_blocks(func.body) else func


@dataclass
class _Step:
    """A statement (loop, branch, let) that encloses a block, inside the next outer block."""

    stmt: Stmt
    hoisted: list[Stmt] = field(default_factory=list[Stmt])
    """Statements to insert in front of `stmt`."""


class _Lowering(StmtExprMutator):
    def __init__(self) -> None:
        super().__init__()
        self.path: list[_Step] = []

    def visit_default(self, node: Node) -> Node:
        if not isinstance(node, Stmt):
            return node  # nothing is hidden in expressions
        self.path.append(_Step(node))
        result = self.visit_children(node)
        step = self.path.pop()
        return seq_of([*step.hoisted, result]) if step.hoisted else result

    def visit_Block(self, node: Block) -> Block:
        outer, self.path = self.path, []
        body = self.visit(node.body)
        self.path = outer
        return node.replace(body=body)

    def visit_BlockRealize(self, node: BlockRealize) -> Stmt:
        block = self.visit_Block(node.block)
        if block.init is None:
            return node.replace(block=block)
        init, without = block.init, node.replace(block=block.replace(init=None))
        target = _hoisting_point(node, self.path)
        if target is None:
            return node.replace(block=block.replace(init=None, body=_guarded(block, init)))
        values = {v.var: value for v, value in zip(block.iter_vars, node.iter_values, strict=True)}
        nest: Stmt = substitute(init, values)
        dropped = _loop_vars(node, self.path, "reduce")
        kept = [c for c in conjuncts(node.predicate) if not dropped.intersection(free_vars(c))]
        if kept:
            nest = IfThenElse(conjunction(kept), nest)
        for step in reversed(self.path[target:]):
            nest = _around(step.stmt, nest, dropped)
        self.path[target].hoisted.append(renew_bound_vars(nest))
        return without


def _around(stmt: Stmt, nest: Stmt, dropped: set[Var]) -> Stmt:
    """Wrap `nest` in a copy of the enclosing `stmt`, unless that only concerns the reduction."""
    match stmt:
        case For():
            return nest if stmt.loop_var in dropped else stmt.replace(body=nest)
        case IfThenElse(condition):
            return nest if dropped.intersection(free_vars(condition)) else IfThenElse(condition, nest)
        case LetStmt(var, value):
            return LetStmt(var, value, nest) if var in free_vars(nest) else nest
        case _:
            return nest


def _guarded(block: Block, init: Stmt) -> Stmt:
    starts = [EQ(v.var, v.dom.min) for v in block.iter_vars if v.iter_type == "reduce" and v.dom is not None]
    return seq_of([IfThenElse(conjunction(starts), init) if starts else init, block.body])


def _loop_vars(realize: BlockRealize, path: Sequence[_Step], kind: str) -> set[Var]:
    """Return the enclosing loops' variables in the values of a block's axes of this kind."""
    loops = {step.stmt.loop_var for step in path if isinstance(step.stmt, For)}
    variables: set[Var] = set()
    for iter_var, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        if (iter_var.iter_type == "reduce") == (kind == "reduce"):
            variables.update(loops.intersection(free_vars(value)))
    return variables


def _hoisting_point(realize: BlockRealize, path: Sequence[_Step]) -> int | None:
    """Return the index in `path` of the outermost reduction loop; None if the init must stay."""
    block = realize.block
    reducing = _loop_vars(realize, path, "reduce")
    if not reducing or reducing & _loop_vars(realize, path, "spatial"):
        return None
    start = next(i for i, s in enumerate(path) if isinstance(s.stmt, For) and s.stmt.loop_var in reducing)
    assert block.init is not None
    reduce_vars = {v.var for v in block.iter_vars if v.iter_type == "reduce"}
    if reduce_vars.intersection(free_vars(block.init)):
        return None
    if not _starts_together(realize, reducing, path):
        return None
    for condition in conjuncts(realize.predicate):
        if _mixes(condition, reducing, path):
            return None
    for step in path[start:]:
        match step.stmt:
            case IfThenElse(condition, _, else_case):
                if else_case is not None or _mixes(condition, reducing, path) or _reads_memory(condition):
                    return None
            case LetStmt(_, value):
                if reducing.intersection(free_vars(value)) or _reads_memory(value):
                    return None
            case For(_, low, extent):
                if reducing.intersection(free_vars(low)) or reducing.intersection(free_vars(extent)):
                    return None
            case SeqStmt():
                pass
            case AllocBuffer(buffer) if buffer not in _touched(block.init):
                pass
            case _:
                return None
    if not _reaches_points_once(realize, [step.stmt for step in path[start:] if isinstance(step.stmt, For)]):
        return None
    return start if _alone(realize, path[start].stmt) else None


def _starts_together(realize: BlockRealize, reducing: set[Var], path: Sequence[_Step]) -> bool:
    """True if every reduction axis is proved to be at its start in the first iteration of the reduction loops."""
    lows: dict[Var, PrimExpr] = {}
    for step in path:
        if isinstance(step.stmt, For) and step.stmt.loop_var in reducing:
            lows[step.stmt.loop_var] = substitute(step.stmt.min, lows)
    return all(
        prove(EQ(substitute(value, lows), iter_var.dom.min)) is True
        for iter_var, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        if iter_var.iter_type == "reduce" and iter_var.dom is not None
    )


def _reaches_points_once(realize: BlockRealize, loops: Sequence[For]) -> bool:
    """True if any two iterations of the loops are proved to differ in the value of an axis."""
    values = realize.iter_values
    plain = {value for value in values if isinstance(value, Var)}
    others = {loop.loop_var: Range(loop.min, loop.extent) for loop in loops if loop.loop_var not in plain}
    if not others or all(is_const(domain.extent, 1) for domain in others.values()):
        return True
    sums = [value for value in values if not others.keys().isdisjoint(free_vars(value))]
    return bool(sums) and any(
        detect_iter_map(sums, others, predicate, IterMapLevel.Injective, False).indices
        for predicate in (True, realize.predicate)
    )


def _mixes(condition: PrimExpr, reducing: set[Var], path: Sequence[_Step]) -> bool:
    """True if a condition depends on both reduction and other loops."""
    loops = {step.stmt.loop_var for step in path if isinstance(step.stmt, For)}
    used = loops.intersection(free_vars(condition))
    return bool(used & reducing) and bool(used - reducing)


def _reads_memory(expr: PrimExpr) -> bool:
    return bool(_touched(expr))


def _touched(node: Node) -> set[Buffer]:
    """Return the buffers that a statement or expression reads or writes."""
    buffers: set[Buffer] = set()
    post_order_visit(node, lambda inner: buffers.add(inner) if isinstance(inner, Buffer) else None)
    return buffers


def _alone(realize: BlockRealize, loop: Stmt) -> bool:
    """True if no other statement in the loop touches buffers that the init writes, or writes buffers that it reads."""
    assert realize.block.init is not None
    touched = _touched(realize.block.init)
    accessed: set[Buffer] = set()
    written: set[Buffer] = set()

    def visit(node: Node) -> bool:
        if isinstance(node, Buffer):
            accessed.add(node)
        elif isinstance(node, BufferStore):
            written.add(node.buffer)
        return node is not realize.block

    pre_order_visit(loop, visit)
    inits = {s.buffer for s in _stores(realize.block.init)}
    body_writes = {s.buffer for s in _stores(realize.block.body)}
    return not (inits & accessed) and not ((touched - inits) & (written | body_writes))


def _stores(stmt: Stmt) -> list[BufferStore]:
    stores: list[BufferStore] = []
    post_order_visit(stmt, lambda node: stores.append(node) if isinstance(node, BufferStore) else None)
    return stores


LowerInitBlock = each_prim_func(lower_init_block, "LowerInitBlock")
"""Pass: move the `init` of reduction blocks in front of the reduction loops."""
