"""set_axis_separator: the dimensions of a buffer that together are one dimension of memory.

The memory of a CPU has one dimension, in which all dimensions of a buffer lie one after the other:
``set_axis_separator(block, ("write", 0), [])`` says so and changes nothing.

Refused: separators, which divide the dimensions among several of memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...buffer import Buffer
from ..base import ScheduleBase, primitive
from ..buffers import either_buffer
from ..error import BUFFER, ScheduleError
from ..rv import BlockRV


@primitive
def set_axis_separator(
    sch: ScheduleBase,
    block: BlockRV,
    buffer: tuple[str, int] | str | Buffer,
    axis_separators: Sequence[int] | None,
) -> None:
    """Say where the dimensions of a buffer are divided among those of memory: nowhere.

    Parameters
    ----------
    buffer : ``("read", index)``, ``("write", index)``, a name, or a Buffer.

    Raises ScheduleError for any separator.
    """
    realize = sch.state.realize(block)
    target = either_buffer(sch, realize, buffer)
    if axis_separators:
        raise ScheduleError(
            BUFFER,
            f"buffer {target.name} cannot have axis separators: memory has one dimension",
            realize,
            hint="transform_layout changes the order of elements in memory",
        )


__all__ = ["set_axis_separator"]
