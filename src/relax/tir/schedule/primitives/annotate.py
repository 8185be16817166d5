"""annotate, unannotate: notes on a block or loop, which passes and rules read.

    for i in range(16):      sch.annotate(i, "unroll_max", 4)      for i in T.serial(16, annotations={"unroll_max": 4}):

A note is a number, a string, a list or a dict of such; integers that sampling chose are noted as their values.

Refused: a key that is there already (annotate), or that is not (unannotate); a value of another kind.
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
    """Add a note to a block or loop. Raises ScheduleError if it has one of this key, or for a value that is no note."""
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
    """Remove a note from a block or loop. Raises ScheduleError if it has none of this key."""
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


__all__ = ["annotate", "unannotate"]
