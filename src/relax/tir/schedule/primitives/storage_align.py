"""storage_align: request an alignment of a buffer's strides.

    with T.block("B"):              with T.block("B"):
        ...                             T.block_attr({"buffer_dim_align": ((0, 0, 32, 1),)})
                                        ...

    after storage_align(B, 0, axis=0, factor=32, offset=1): the stride of axis 0 of the block's first written
    buffer shall be k * 32 + 1

Rejected: buffers of parameters, whose strides the caller determines; axes out of range; a factor below 1.
"""

from __future__ import annotations

from typing import Any, Final

from ...buffer import Buffer
from ..base import ScheduleBase, primitive
from ..buffers import allocating_block, buffer_argument
from ..error import ARGUMENT, ScheduleError
from ..rv import BlockRV

ALIGN: Final = "buffer_dim_align"


@primitive
def storage_align(
    sch: ScheduleBase, block: BlockRV, buffer_index: int | str | Buffer, axis: int, factor: int, offset: int
) -> None:
    """Request a stride of ``k * factor + offset``, for some k, of an axis of a buffer that a block writes.

    Parameters
    ----------
    buffer_index : an index into the block's writes, a name, or a Buffer.
    axis : dimension of the buffer; negative numbers count from the last.

    Raises ScheduleError for a buffer that no block allocates, and for an axis out of range.
    """
    realize = sch.state.realize(block)
    buffer = buffer_argument(sch, realize, buffer_index, "write", "buffer_index")
    allocating_block(sch.state, block, buffer)
    dimension = axis + buffer.ndim if axis < 0 else axis
    if not 0 <= dimension < buffer.ndim:
        raise ScheduleError(
            ARGUMENT,
            f"axis must be at least {-buffer.ndim} and less than {buffer.ndim}, found {axis}",
            realize,
            hint=f"buffer {buffer.name} has {buffer.ndim} dimensions",
        )
    if factor < 1:
        raise ScheduleError(ARGUMENT, f"factor must be 1 or more, found {factor}", realize)
    number = next(i for i, region in enumerate(realize.block.writes) if region.buffer is buffer)
    notes: tuple[Any, ...] = realize.block.annotations.get(ALIGN, ())
    kept = [note for note in notes if tuple(note[:2]) != (number, dimension)]
    changed = realize.block.replace(
        annotations={**realize.block.annotations, ALIGN: (*kept, (number, dimension, factor, offset))}
    )
    sch.state.replace(realize, realize.replace(block=changed), block.function)
