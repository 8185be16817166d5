"""cache_index: precompute the indices of a block's loads into buffers.

    for i, j in T.grid(80, 80):                    for ax0, ax1 in T.grid(80, 80):
        with T.block("B"):                             with T.block("index_0"):
            vi, vj = T.axis.remap("SS", [i, j])            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            B[vi, vj] = A[vi // 4 + vj // 4]               index_var_0[v0, v1] = v0 // 4 + v1 // 4
                                                   for i, j in T.grid(80, 80):
                                                       with T.block("B"):
    after cache_index(B, "global")                         vi, vj = T.axis.remap("SS", [i, j])
                                                           B[vi, vj] = A[index_var_0[vi, vj]]

Caches indices of loads that are sums, products, quotients or remainders of the block's variables, but not single
variables or constants. With ``cse_thresh`` above 1, only indices that occur at least `cse_thresh` times.

Rejected: variables of the block whose domain does not start at 0.
"""

from __future__ import annotations

from ....ir import structural_equal
from ....prim import (
    Add,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Sub,
    Var,
    free_vars,
    is_const,
    sub_expressions,
    substitute,
)
from ...buffer import Buffer, BufferLoad, BufferRegion, IterVar, Range, decl_buffer
from ...dependence import scope_of
from ...functor import StmtExprMutator, StmtExprVisitor
from ...regions import block_access_region
from ...stmt import BlockRealize, BufferStore, Stmt
from ..base import ScheduleBase, primitive
from ..buffers import require_scope_name
from ..error import ARGUMENT, ScheduleError
from ..rv import BlockRV
from ..sites import element_nest, paths, site_before, whole
from ..state import Placed
from .cache_read_write import put_beside


@primitive
def cache_index(sch: ScheduleBase, block: BlockRV, storage_scope: str, cse_thresh: int = 0) -> list[BlockRV]:
    """Precompute indices of a block's loads; returns the computing blocks, none if there are no such indices.

    Parameters
    ----------
    storage_scope : scope of the buffers that hold the indices.
    cse_thresh : least number of occurrences of an index in the block.

    Raises ScheduleError in the cases listed in the module's docstring.
    """
    state, realize = sch.state, sch.state.realize(block)
    storage_scope = require_scope_name(storage_scope)
    indices = _indices(realize, cse_thresh)
    if not indices:
        return []
    scope = BlockRV(block.function, state.scope(block).block.name_hint)
    site, _ = site_before(state, scope, [paths(scope_of(state.block(scope)).block.body)[realize]])
    buffers: list[Buffer] = []
    nests: list[Placed] = []
    loads: list[tuple[PrimExpr, PrimExpr]] = []
    names: set[str] = set()
    for number, index in enumerate(indices):
        used = [v for v in realize.block.iter_vars if v.var in set(free_vars(index))]
        extents = [_extent(iter_var, realize) for iter_var in used]
        buffer = decl_buffer(extents, str(index.dtype), f"index_var_{number}", scope=storage_scope)
        name = state.fresh_name(block.function, f"index_{number}", names)
        names.add(name)
        nests.append(_nest(name, index, used, extents, buffer))
        buffers.append(buffer)
        loads.append((index, BufferLoad(buffer, tuple(v.var for v in used))))

    def change(stmt: Stmt) -> Stmt:
        assert isinstance(stmt, BlockRealize)
        changed = _Lookup(loads).visit(stmt.block.body)
        reads, _ = block_access_region(stmt.block.replace(body=changed))
        own = tuple(region for region in reads if any(region.buffer is buffer for buffer in buffers))
        return stmt.replace(block=stmt.block.replace(body=changed, reads=(*stmt.block.reads, *own)))

    return put_beside(state, site, nests, [], buffers, {realize: change})


_COMPUTED = (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max, Cast)


def _indices(realize: BlockRealize, threshold: int) -> list[PrimExpr]:
    """Return the distinct indices to be cached, in order of first use."""
    visitor = _Loads()
    visitor.visit(realize.block.body)
    variables = {iter_var.var for iter_var in realize.block.iter_vars}
    counted: list[tuple[PrimExpr, int]] = []
    for index in visitor.indices:
        if not isinstance(index, _COMPUTED) or not _is_computed(index, variables):
            continue
        position = next((i for i, (other, _) in enumerate(counted) if structural_equal(index, other)), None)
        if position is None:
            counted.append((index, 1))
        else:
            counted[position] = (counted[position][0], counted[position][1] + 1)
    return [index for index, count in counted if count >= threshold]


def _is_computed(expr: PrimExpr, variables: set[Var]) -> bool:
    """True if an expression is arithmetic on a block's variables and constants, and cannot fail."""
    if isinstance(expr, Var):
        return expr in variables
    if isinstance(expr, (FloorDiv, FloorMod)) and (not isinstance(expr.b, IntImm) or expr.b.value == 0):
        return False
    if isinstance(expr, IntImm):
        return True
    return (
        isinstance(expr, _COMPUTED)
        and expr.dtype.is_integer
        and all(_is_computed(child, variables) for child in sub_expressions(expr))
    )


class _Loads(StmtExprVisitor):
    """Collect the indices of all loads."""

    def __init__(self) -> None:
        super().__init__()
        self.indices: list[PrimExpr] = []

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.indices.extend(node.indices)
        self.visit_children(node)


class _Lookup(StmtExprMutator):
    """Replace indices of loads by loads of the precomputed indices."""

    def __init__(self, loads: list[tuple[PrimExpr, PrimExpr]]) -> None:
        super().__init__()
        self.loads = loads

    def visit_BufferLoad(self, node: BufferLoad) -> BufferLoad:
        indices = tuple(self.looked_up(index) for index in node.indices)
        if all(a is b for a, b in zip(indices, node.indices, strict=True)):
            return node
        return node.replace(indices=indices)

    def looked_up(self, index: PrimExpr) -> PrimExpr:
        for expr, load in self.loads:
            if structural_equal(index, expr):
                return load
        return self.visit(index)


def _extent(iter_var: IterVar, realize: BlockRealize) -> PrimExpr:
    if iter_var.dom is None or not is_const(iter_var.dom.min, 0):
        raise ScheduleError(ARGUMENT, f"the domain of {iter_var.var.name} does not begin at 0", realize)
    return iter_var.dom.extent


def _nest(name: str, index: PrimExpr, used: list[IterVar], extents: list[PrimExpr], buffer: Buffer) -> Placed:
    """Return loops around a block that computes an index for all values of its variables."""

    def body(variables: tuple[Var, ...]) -> BufferStore:
        table = {v.var: var.astype(v.var.dtype) for v, var in zip(used, variables, strict=True)}
        return BufferStore(buffer, substitute(index, table), variables)

    def regions(region: tuple[Range, ...]) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
        return (), (BufferRegion(buffer, region),)

    dtypes = [str(iter_var.var.dtype) for iter_var in used]
    return element_nest(name, extents, whole(extents, dtypes), body, regions)
