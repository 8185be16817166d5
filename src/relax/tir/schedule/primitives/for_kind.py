"""parallel, vectorize, unroll, bind: set the kind of a loop.

    for i in range(16):        sch.parallel(i)        for i in T.parallel(16):

Rejected, except by unroll: a loop whose iterations depend on each other. Such a loop is bound to a reduction variable,
contains blocks that are neither complete nor reductions or that exchange elements between iterations, or contains
statements outside of blocks.
"""

from __future__ import annotations

from typing import Final

from ...buffer import IterVar
from ...stmt import For, ForKind
from ..base import ScheduleBase, primitive
from ..conditions import require_parallel
from ..error import ARGUMENT, ScheduleError
from ..rv import LoopRV

_THREADS: Final = (
    "blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z",
    "vthread", "vthread.x", "vthread.y", "vthread.z",
)  # fmt: skip


@primitive
def parallel(sch: ScheduleBase, loop: LoopRV) -> None:
    """Run the iterations of a loop on several threads. Raises ScheduleError if they depend on each other."""
    _set_kind(sch, loop, ForKind.PARALLEL)


@primitive
def vectorize(sch: ScheduleBase, loop: LoopRV) -> None:
    """Run the iterations of a loop as lanes of vectors. Raises ScheduleError if they depend on each other."""
    _set_kind(sch, loop, ForKind.VECTORIZED)


@primitive
def unroll(sch: ScheduleBase, loop: LoopRV) -> None:
    """Unroll a loop."""
    node = sch.state.loop(loop)
    sch.state.replace(node, node.replace(kind=ForKind.UNROLLED, thread_binding=""), loop.function)


@primitive
def bind(sch: ScheduleBase, loop: LoopRV, thread_axis: str | IterVar) -> None:
    """Bind a loop to a thread axis. The binding is kept and printed; CPUs have no such threads.

    Raises ScheduleError if the iterations depend on each other, or for an unknown axis.
    """
    axis = thread_axis.thread_tag if isinstance(thread_axis, IterVar) else thread_axis
    sch.recorded["thread_axis"] = axis
    if axis not in _THREADS:
        raise ScheduleError(ARGUMENT, f"{axis!r} is no thread axis", hint=f"there are {', '.join(_THREADS)}")
    _set_kind(sch, loop, ForKind.THREAD_BINDING, axis)


def _set_kind(sch: ScheduleBase, loop: LoopRV, kind: ForKind, thread: str = "") -> None:
    node: For = sch.state.loop(loop)
    require_parallel(sch.state, loop)
    sch.state.replace(node, node.replace(kind=kind, thread_binding=thread), loop.function)
