"""Random moves of a schedule: primitives with arguments by chance.

A move is the name of a row of `MOVES` and a number, from which its arguments follow. A row is a primitive, its weight and,
for each argument, a function that makes one; rows of primitives that there are not are left out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from relax.ir import structural_equal
from relax.tir import BlockRV, LoopRV, Schedule
from relax.tir.schedule import PRIMITIVES

from .choices import Choices, Seeded

Move = tuple[str, int]
Maker = Callable[[Schedule, Choices], Any]


class Impossible(Exception):
    """A move has no arguments here: there is no loop, say."""


@dataclass(frozen=True)
class Row:
    """A primitive with makers of its arguments; those of a list maker under ``*`` are given by their places."""

    primitive: str
    weight: int
    makers: dict[str, Maker]
    kinds: tuple[str, ...] = ()
    """Other primitives that the row applies: it is left out without them."""

    def apply(self, sch: Schedule, choices: Choices) -> Any:
        """Apply the primitive to arguments by chance. Raises Impossible where there are none."""
        values = {name: make(sch, choices) for name, make in self.makers.items()}
        places = values.pop("*", ())
        return getattr(sch, self.primitive)(*places, **values)


# ------------------------------------------------------------------------------------------ arguments


def _names(sch: Schedule) -> list[str]:
    """The names of all blocks, the root's first."""
    return [realize.block.name_hint for realize in sch.state.blocks("main")]


def block(sch: Schedule, choices: Choices) -> BlockRV:
    """A block, now and then the root."""
    names = _names(sch)
    inner = names[1:]
    return sch.get_block(choices.pick(inner) if inner and choices.chance(97) else names[0])


def loops(sch: Schedule, choices: Choices) -> list[LoopRV]:
    """The loops around a block."""
    found = sch.get_loops(block(sch, choices))
    if not found:
        raise Impossible
    return found


def loop(sch: Schedule, choices: Choices) -> LoopRV:
    return choices.pick(loops(sch, choices))


def block_or_loop(sch: Schedule, choices: Choices) -> BlockRV | LoopRV:
    return loop(sch, choices) if choices.chance(60) else block(sch, choices)


def chain(sch: Schedule, choices: Choices) -> list[LoopRV]:
    """Loops of which each is inside the one before, mostly directly."""
    found = loops(sch, choices)
    start = choices.integer(0, len(found) - 1)
    result = found[start : start + choices.integer(1, 3)]
    return result if choices.chance(95) else result[::-1]


def permuted(sch: Schedule, choices: Choices) -> list[LoopRV]:
    """Some of the loops around a block, in any order."""
    rest = loops(sch, choices)
    number = choices.integer(min(2, len(rest)), len(rest))
    result: list[LoopRV] = []
    for _ in range(number):
        result.append(rest.pop(choices.integer(0, len(rest) - 1)))
    return result


def several(sch: Schedule, choices: Choices) -> list[LoopRV]:
    """Loops of different blocks, mostly at one depth and of one extent."""
    chains = [sch.get_loops(sch.get_block(name)) for name in _names(sch)[1:]]
    depth = choices.integer(0, 1)
    found = [chain[depth] for chain in chains if len(chain) > depth]
    if len(found) < 2:
        raise Impossible
    first = choices.integer(0, len(found) - 2)
    alike = [
        item for item in found[first:] if structural_equal(sch.get(item).extent, sch.get(found[first]).extent)
    ]
    distinct = list({item.var: item for item in alike}.values())
    return distinct[: choices.integer(2, 3)] if choices.chance(90) and len(distinct) > 1 else found[:2]


def factors(sch: Schedule, choices: Choices) -> list[Any]:
    """Extents of parts of a loop: mostly one is None."""
    result: list[Any] = [choices.pick((2, 3, 4, 1, 5, 8)) for _ in range(choices.integer(1, 2))]
    if choices.chance(85):
        result.insert(choices.integer(0, len(result)), None)
    if choices.chance(20):
        result[0] = sch.sample_categorical([2, 3, 4], [0.4, 0.3, 0.3])
    return result


def parts(sch: Schedule, choices: Choices) -> list[Any]:
    """Numbers of iterations of a partition."""
    result: list[Any] = [choices.pick((1, 1, 2, 3)) for _ in range(choices.integer(1, 2))]
    return [*result, None] if choices.chance(30) else result


def flag(sch: Schedule, choices: Choices) -> bool:
    return choices.chance(70)


def order(sch: Schedule, choices: Choices) -> list[int]:
    """An order of three or fewer things."""
    numbers = list(range(choices.integer(1, 3)))
    random.Random(choices.integer(0, 99)).shuffle(numbers)
    return numbers


def key(sch: Schedule, choices: Choices) -> str:
    return choices.pick(("a", "a", "b"))


def note(sch: Schedule, choices: Choices) -> Any:
    return choices.pick((1, 0.5, "text", [1, "x"], {"k": 2}, sch.sample_categorical([1, 2], [0.5, 0.5])))


def thread(sch: Schedule, choices: Choices) -> str:
    return choices.pick(("threadIdx.x", "blockIdx.x", "nothing"))


def count(sch: Schedule, choices: Choices) -> int:
    return choices.integer(1, 3)


def first(sch: Schedule, choices: Choices) -> int:
    return 0


def index(sch: Schedule, choices: Choices) -> int:
    return choices.integer(0, 1)


def scope(sch: Schedule, choices: Choices) -> str:
    return choices.pick(("global", "global", "local"))


MOVES: dict[str, Row] = {
    row.primitive: row
    for row in (
        Row("get_producers", 1, {"block": block}),
        Row("get_consumers", 1, {"block": block}),
        Row("get_output_blocks", 1, {"scope_block": block}),
        Row("get_child_blocks", 1, {"block_or_loop": block_or_loop}),
        Row("split", 12, {"loop": loop, "factors": factors, "preserve_unit_iters": flag}),
        Row("fuse", 8, {"*": chain, "preserve_unit_iters": flag}),
        Row("reorder", 12, {"*": permuted}),
        Row("merge", 6, {"*": several}),
        Row("loop_partition", 4, {"loop": loop, "factors": parts, "preserve_unit_iters": flag}),
        Row("add_unit_loop", 3, {"block_or_loop": block_or_loop}),
        Row("reorder_block_iter_var", 2, {"block": block, "new_order": order}),
        Row("parallel", 5, {"loop": loop}),
        Row("vectorize", 4, {"loop": loop}),
        Row("unroll", 3, {"loop": loop}),
        Row("annotate", 2, {"block_or_loop": block_or_loop, "ann_key": key, "ann_val": note}),
        Row("unannotate", 2, {"block_or_loop": block_or_loop, "ann_key": key}),
        Row("sample_perfect_tile", 2, {"loop": loop, "n": count}),
        Row("sample_partitioned_tile", 1, {"loop": loop, "n": count}),
        Row("sample_compute_location", 1, {"block": block}),
        Row("enter_postproc", 1, {}),
        Row("compute_at", 6, {"block": block, "loop": loop}),
        Row("reverse_compute_at", 6, {"block": block, "loop": loop}),
        Row("compute_inline", 4, {"block": block}),
        Row("reverse_compute_inline", 4, {"block": block}),
        Row("cache_read", 4, {"block": block, "read_buffer_index": index, "storage_scope": scope}),
        Row("cache_write", 4, {"block": block, "write_buffer_index": first, "storage_scope": scope}),
        Row("decompose_reduction", 5, {"block": block, "loop": loop}),
        Row("rfactor", 5, {"loop": loop, "factor_axis": first}),
        Row("blockize", 4, {"target": loop}),
        Row("set_scope", 1, {"block": block, "buffer_index": first, "storage_scope": scope}),
    )
    if row.primitive in PRIMITIVES
}
"""The primitives to try. A new one is a line here."""


def random_moves(seed: int | str, number: int = 10) -> list[Move]:
    """Moves by chance."""
    choices = Seeded(f"moves {seed}")
    names = [row.primitive for row in MOVES.values() for _ in range(row.weight)]
    return [(choices.pick(names), choices.integer(0, 1 << 20)) for _ in range(choices.integer(1, number))]


def apply_move(sch: Schedule, move: Sequence[Any]) -> None:
    """Apply a move. Raises Impossible where it has no arguments, and whatever the primitive raises."""
    name, number = move
    MOVES[name].apply(sch, Seeded(f"move {number}"))
