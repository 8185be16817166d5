"""annotate, unannotate: add and remove annotations of a block or loop, for passes and schedule rules.

    for i in range(16):      sch.annotate(i, "unroll_max", 4)      for i in T.serial(16, annotations={"unroll_max": 4}):

A value is a number, a string, or a list or dict of values; sampled integers are stored as numbers.

Rejected: an existing key (annotate), a missing key (unannotate), a value of another kind.
"""

from __future__ import annotations

from typing import Any

from ....ir import Node
from ....prim import FloatImm, IntImm, StringImm
from ...stmt import For
from ..base import ScheduleBase, primitive
from ..error import ARGUMENT, ScheduleError
from ..instruction import leaves
from ..rv import BlockRV, LoopRV


@primitive
def annotate(sch: ScheduleBase, block_or_loop: BlockRV | LoopRV, ann_key: str, ann_val: Any) -> None:
    """Add an annotation to a block or loop. Raises ScheduleError if the key exists, or for an unsupported value."""
    notes = _notes(sch, block_or_loop)
    for item in leaves(ann_val):
        if not isinstance(item, (bool, int, float, str, IntImm, FloatImm, StringImm, Node)):
            raise ScheduleError(
                ARGUMENT,
                f"an annotation is a number, a string, a list or a dict, found {item!r}",
                sch.state.placed(block_or_loop),
            )
    if ann_key in notes:
        raise ScheduleError(
            ARGUMENT, f"there is an annotation {ann_key!r} already", sch.state.placed(block_or_loop),
            hint="unannotate it first",
        )  # fmt: skip
    _put(sch, block_or_loop, {**notes, ann_key: ann_val})


@primitive
def unannotate(sch: ScheduleBase, block_or_loop: BlockRV | LoopRV, ann_key: str) -> None:
    """Remove an annotation from a block or loop. Raises ScheduleError if the key does not exist."""
    notes = _notes(sch, block_or_loop)
    if ann_key not in notes:
        raise ScheduleError(
            ARGUMENT, f"there is no annotation {ann_key!r}", sch.state.placed(block_or_loop),
            hint=f"there are {', '.join(notes) or 'none'}",
        )  # fmt: skip
    _put(sch, block_or_loop, {key: value for key, value in notes.items() if key != ann_key})


def _notes(sch: ScheduleBase, rv: BlockRV | LoopRV) -> dict[str, Any]:
    node = sch.state.placed(rv)
    return node.annotations if isinstance(node, For) else node.block.annotations


def _put(sch: ScheduleBase, rv: BlockRV | LoopRV, notes: dict[str, Any]) -> None:
    node = sch.state.placed(rv)
    if isinstance(node, For):
        sch.state.replace(node, node.replace(annotations=notes), rv.function)
    else:
        sch.state.replace(node, node.replace(block=node.block.replace(annotations=notes)), rv.function)
