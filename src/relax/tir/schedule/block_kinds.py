"""Kinds of blocks that primitives distinguish: complete blocks and reduction blocks.

The kind of a block depends on the other readers and writers in its scope (see `dependence`). It is

    complete        the only writer of its buffers in the scope; only data-parallel variables, distinct values of which
                    write distinct elements; does not read the buffers it writes
    a reduction     likewise, but with an init, and with reduction variables that do not index the written buffers

or neither. The functions of this module return the reason why a block is not of a kind.
"""

from __future__ import annotations

from typing import Final, TypeVar

from ...ir import Node, structural_equal
from ...prim import Analyzer, Var, free_vars, is_const, substitute
from ...prim.iter_map import IterMapLevel, detect_iter_map
from ..buffer import BufferLoad, BufferRegion, IterVar, Range
from ..dependence import accesses, free_variables, scope_of
from ..functor import post_order_visit
from ..stmt import Block, BlockRealize, BufferStore

N = TypeVar("N", bound=Node)


COMPLETE_HINT: Final = "a complete block reads no buffer that it writes, and no other block writes its buffers"
REDUCTION_HINT: Final = (
    "a reduction block starts an element in T.init and updates it, and no other block writes its buffer"
)


def kind_hint(child: BlockRealize) -> str:
    """Return the definition of the kind that a block comes closest to."""
    reduces = any(iter_var.iter_type == "reduce" for iter_var in child.block.iter_vars)
    return REDUCTION_HINT if reduces or child.block.init is not None else COMPLETE_HINT


def complete_problem(child: BlockRealize, scope: Block, alone: bool = True) -> str | None:
    """Return why a child of a scope is not a complete block, or None if it is one.

    With ``alone=False``, other blocks may write its buffers, too.
    """
    block = child.block
    problem = _common_problem(child, scope, alone)
    if problem is not None:
        return problem
    for iter_var in block.iter_vars:
        if iter_var.iter_type != "spatial":
            return f"its variable {iter_var.var.name} is {_kind(iter_var)}, not data-parallel"
    used = accesses(block)
    for region in used.writes:
        if region.buffer in used.read_buffers:
            return f"it reads buffer {region.buffer.name}, which it also writes"
    if block.init is not None:
        return "it has an init"
    return None


def reduction_problem(child: BlockRealize, scope: Block, alone: bool = True, initialised: bool = False) -> str | None:
    """Return why a child of a scope is not a reduction block, or None if it is one.

    With ``alone=False``, other blocks may write its buffers, too; with ``initialised=True``, it needs no init.
    """
    block = child.block
    if block.init is None and not initialised:
        return "it has no init (write its first step in T.init)"
    for iter_var in block.iter_vars:
        if iter_var.iter_type not in ("spatial", "reduce"):
            return f"its variable {iter_var.var.name} is {_kind(iter_var)}, neither data-parallel nor a reduction"
    problem = _common_problem(child, scope, alone)
    if problem is not None:
        return problem
    reduced = {v.var for v in block.iter_vars if v.iter_type == "reduce"}
    for region in accesses(block).writes:
        for extent in region.region:
            if reduced & set(free_vars(extent.min)) or reduced & set(free_vars(extent.extent)):
                return f"a reduction variable indexes buffer {region.buffer.name}, which it writes"
    return _other_element_problem(block)


def _other_element_problem(block: Block) -> str | None:
    """Return why a block may read elements that its other instances write, or None if it does not."""
    stores = nodes_of(block.body, BufferStore)
    written = {store.buffer for store in stores}
    for load in nodes_of(block.body, BufferLoad):
        if load.buffer in written and not any(
            store.buffer is load.buffer and structural_equal(store.indices, load.indices) for store in stores
        ):
            return f"it reads elements of buffer {load.buffer.name} other than the one that it writes"
    return None


def nodes_of(node: Node, kind: type[N]) -> list[N]:
    """Return the nodes of a class in a statement or expression."""
    result: list[N] = []
    post_order_visit(node, lambda inner: result.append(inner) if isinstance(inner, kind) else None)
    return result


def data_parallel_problem(block: Block) -> str | None:
    """Return why two values of a block's data-parallel variables may write one element, or None if they cannot."""
    needed = [v.var for v in block.iter_vars if v.iter_type == "spatial" and not _is_single(v)]
    for region in accesses(block).writes:
        for var in needed:
            if not any(_tells_apart(var, needed, extent) for extent in region.region):
                if _is_injective(block, needed, region):
                    break
                return f"two values of its variable {var.name} may write the same element of {region.buffer.name}"
    return None


def _is_single(iter_var: IterVar) -> bool:
    """True if a variable has one value."""
    return iter_var.dom is not None and is_const(iter_var.dom.extent, 1)


def _tells_apart(var: Var, needed: list[Var], extent: Range) -> bool:
    """True if each step of `var` moves a range by at least its length, regardless of the other variables."""
    free = set(free_vars(extent.min))
    if var not in free or any(other in free for other in needed if other is not var):
        return False
    analyzer = Analyzer()
    step = analyzer.simplify(substitute(extent.min, {var: var + 1}) - extent.min)
    return var not in set(free_vars(step)) and analyzer.can_prove(step >= extent.extent)


def _is_injective(block: Block, needed: list[Var], region: BufferRegion) -> bool:
    """True if distinct values of the variables together are proved to write distinct elements."""
    if not all(is_const(extent.extent, 1) for extent in region.region):
        return False
    domains = {v.var: v.dom for v in block.iter_vars if v.dom is not None and v.var in set(needed)}
    indices = [r.min for r in region.region if set(free_vars(r.min)) & set(needed)]
    result = detect_iter_map(indices, domains, check_level=IterMapLevel.Injective)
    used = {var for index in indices for var in free_vars(index)}
    return bool(result.indices) and used.issuperset(needed)


def _common_problem(child: BlockRealize, scope: Block, alone: bool) -> str | None:
    block = child.block
    used = accesses(block)
    if used.opaque:
        return "it calls a function with effects, has a while loop, or views storage through a pointer"
    siblings = scope_of(scope)
    outside = siblings.variables.intersection(free_variables(block))
    if outside:
        name = min(var.name for var in outside)
        return f"its body uses the loop variable {name} itself (bind a variable of the block to it)"
    for region in (*used.reads, *used.writes):
        if len(siblings.by_pointer[region.buffer.data]) > 1:
            return f"buffer {region.buffer.name} shares its storage with another buffer"
    for region in used.writes:
        other_writers = [c for c in siblings.writers.get(region.buffer, ()) if c is not child]
        if other_writers and alone:
            name = other_writers[0].block.name_hint
            return f"it is not the only block that writes buffer {region.buffer.name}: so does {name}"
        if region.buffer in siblings.loose:
            return f"a statement outside of blocks reads or writes buffer {region.buffer.name}"
    return data_parallel_problem(block)


def _kind(iter_var: IterVar) -> str:
    names = {"reduce": "a reduction", "scan": "ordered", "opaque": "opaque", "thread": "a thread"}
    return names.get(iter_var.iter_type, iter_var.iter_type)
