"""Queries: blocks by name, loops around a block, producers and consumers.

They change nothing, but are recorded in the trace, since later instructions use their random variables.
"""

from __future__ import annotations

import difflib

from ....ir import GlobalVar
from ...dependence import accesses, scope_of
from ...statements import parts_of
from ...stmt import BlockRealize, PrimFunc, Stmt
from ..base import ScheduleBase, primitive, query
from ..error import ARGUMENT, EXPIRED, ScheduleError
from ..rv import BlockRV, LoopRV


@query
def get_block(sch: ScheduleBase, name: str, func_name: str | GlobalVar | None = None) -> BlockRV:
    """Return the block with a name; searches the function set by `work_on`, or the only PrimFunc, by default.

    Raises ScheduleError if there is no such function or block.
    """
    function = function_named(sch, func_name)
    if not sch.state.has_block(function, name):
        names = [item.block.name_hint for item in sch.state.blocks(function)]
        folded = {item.casefold(): item for item in names}
        close = difflib.get_close_matches(str(name).casefold(), folded, 1)
        hint = f"did you mean {folded[close[0]]!r}?" if close else f"it has {', '.join(names)}"
        raise ScheduleError(EXPIRED, f"function {function} has no block {name!r}", hint=hint)
    return BlockRV(function, name)


def function_named(sch: ScheduleBase, func_name: str | GlobalVar | None) -> str:
    """Return the name of the function that a primitive works on."""
    name = func_name.name_hint if isinstance(func_name, GlobalVar) else func_name
    functions = [g.name_hint for g, func in sch.mod.functions.items() if isinstance(func, PrimFunc)]
    if name is None:
        name = sch.working_on
    if name is None:
        if len(functions) == 1:
            return functions[0]
        name = "main" if "main" in functions else None
    if name is None:
        raise ScheduleError(
            ARGUMENT,
            f"the module has {len(functions)} PrimFuncs, none of which is called main",
            hint="give func_name=, or say sch.work_on(name) once",
        )
    if name not in functions:
        close = difflib.get_close_matches(name, functions, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(functions) or 'none'}"
        raise ScheduleError(EXPIRED, f"the module has no PrimFunc {name!r}", hint=hint)
    return name


@primitive
def work_on(sch: ScheduleBase, func_name: str) -> None:
    """Set the default function of `get_block`."""
    sch.working_on = function_named(sch, func_name)


@query
def get_loops(sch: ScheduleBase, block: BlockRV) -> list[LoopRV]:
    """Return the loops around a block, within its scope, outermost first."""
    return [LoopRV(block.function, loop.loop_var) for loop in sch.state.loops(block)]


@query
def get_child_blocks(sch: ScheduleBase, block_or_loop: BlockRV | LoopRV) -> list[BlockRV]:
    """Return the blocks directly in the scope of a block, or below a loop within its scope."""
    node = sch.state.placed(block_or_loop)
    return [BlockRV(block_or_loop.function, child.block.name_hint) for child in _children(node)]


def _children(node: Stmt) -> list[BlockRealize]:
    result: list[BlockRealize] = []
    for part in parts_of(node):
        result += [part] if isinstance(part, BlockRealize) else _children(part)
    return result


@query
def get_producers(sch: ScheduleBase, block: BlockRV) -> list[BlockRV]:
    """Return the blocks of the same scope that write, before the block, what it reads or writes."""
    scope = scope_of(sch.state.scope(block).block)
    return [BlockRV(block.function, item.block.name_hint) for item in scope.producers(sch.state.realize(block))]


@query
def get_consumers(sch: ScheduleBase, block: BlockRV) -> list[BlockRV]:
    """Return the blocks of the same scope that read or write, after the block, what it writes."""
    scope = scope_of(sch.state.scope(block).block)
    return [BlockRV(block.function, item.block.name_hint) for item in scope.consumers(sch.state.realize(block))]


@query
def get_output_blocks(sch: ScheduleBase, scope_block: BlockRV) -> list[BlockRV]:
    """Return the blocks in a scope that write buffers which the scope does not allocate."""
    block = sch.state.block(scope_block)
    own = set(block.alloc_buffers)
    return [
        BlockRV(scope_block.function, child.block.name_hint)
        for child in scope_of(block).children
        if accesses(child.block).written_buffers - own
    ]
