"""set_axis_separator: group the dimensions of a buffer into dimensions of memory.

    B = T.alloc_buffer((16, 8, 4))       B = T.alloc_buffer((16, 8, 4), axis_separators=[1])

    after set_axis_separator(block, ("write", 0), [1])

`FlattenBuffer` flattens the dimensions between separators: B gets the shape (16, 32). The memory layout does not
change, as CPU memory has one dimension.

Rejected: separators that do not increase from 1 to the last dimension; buffers with views.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...buffer import Buffer
from ...dependence import touches
from ...functor import StmtExprMutator
from ...stmt import Block
from ..base import ScheduleBase, primitive
from ..buffers import allocating_block, either_buffer, is_parameter, require_accesses_only
from ..error import ARGUMENT, ScheduleError
from ..rv import BlockRV


@primitive
def set_axis_separator(
    sch: ScheduleBase, block: BlockRV, buffer: tuple[str, int] | str | Buffer, axis_separators: Sequence[int] | None
) -> None:
    """Set the axis separators of a buffer, which group its dimensions into dimensions of memory.

    Parameters
    ----------
    buffer : ``("read", index)``, ``("write", index)``, a name, or a Buffer.
    axis_separators : number of dimensions before each separator; empty or None for a single group.

    Raises ScheduleError in the cases listed in the module's docstring.
    """
    state, realize = sch.state, sch.state.realize(block)
    old = either_buffer(sch, realize, buffer)
    separators = tuple(axis_separators or ())
    if sorted({*separators} & {*range(1, old.ndim)}) != list(separators):
        raise ScheduleError(
            ARGUMENT,
            f"axis_separators must be increasing numbers from 1 to {old.ndim - 1}, found {list(separators)}",
            realize,
            hint=f"buffer {old.name} has {old.ndim} dimensions",
        )
    if separators == old.axis_separators:
        return
    require_accesses_only(state, block.function, old)
    change = _Exchange(old, old.replace(axis_separators=separators))
    func = state.func(block.function)
    if is_parameter(func, old):
        buffers = {param: change.visit(item) for param, item in func.buffer_map.items()}
        state.replace_function(block.function, func.replace(buffer_map=buffers, body=change.visit(func.body)))
    else:
        around = allocating_block(state, block, old)
        state.replace(around, around.replace(block=change.visit(around.block)), block.function)


class _Exchange(StmtExprMutator):
    """Replace one buffer by another."""

    def __init__(self, old: Buffer, new: Buffer) -> None:
        super().__init__()
        self.old, self.new = old, new

    def define_buffer(self, buffer: Buffer) -> None:
        if buffer is not self.old:
            super().define_buffer(buffer)

    def visit_Buffer(self, node: Buffer) -> Buffer:
        return self.new if node is self.old else super().visit_Buffer(node)

    def visit_Block(self, node: Block) -> Block:
        return self.visit_children(node) if touches(node, self.old) else node
