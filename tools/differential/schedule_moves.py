"""Random moves of a schedule: primitives with arguments by chance.

A move is the name of a row of `MOVES` and a number, from which its arguments follow. A row is a primitive, its weight and,
for each argument, a function that makes one; rows of primitives that there are not are left out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from relax.ir import structural_equal
from relax.prim import IntImm
from relax.script import from_source
from relax.tir import BlockRV, LoopRV, PrimFunc, Schedule, TensorIntrin
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


def own_loop(sch: Schedule, choices: Choices) -> list[Any]:
    """A block and mostly one of the loops around it."""
    rv = block(sch, choices)
    around = sch.get_loops(rv)
    return [rv, choices.pick(around) if around and choices.chance(90) else loop(sch, choices)]


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
    alike = [item for item in found[first:] if structural_equal(sch.get(item).extent, sch.get(found[first]).extent)]
    distinct = list({item.var: item for item in alike}.values())
    return distinct[: choices.integer(2, 3)] if choices.chance(90) and len(distinct) > 1 else found[:2]


def _towards(sch: Schedule, choices: Choices, query: str) -> list[Any]:
    """A block and a loop: mostly one of a block's consumers or producers."""
    pairs = [
        (rv, other) for name in _names(sch)[1:] for rv in [sch.get_block(name)] for other in getattr(sch, query)(rv)
    ]
    if not pairs or choices.chance(10):
        return [block(sch, choices), loop(sch, choices)]
    rv, other = choices.pick(pairs)
    chosen = sch.get_loops(other)
    if not chosen:
        raise Impossible
    return [rv, choices.pick(chosen)]


def to_consumer(sch: Schedule, choices: Choices) -> list[Any]:
    """A block and a loop around one that reads what it writes."""
    return _towards(sch, choices, "get_consumers")


def to_producer(sch: Schedule, choices: Choices) -> list[Any]:
    """A block and a loop around one that writes what it reads."""
    return _towards(sch, choices, "get_producers")


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


def side(sch: Schedule, choices: Choices) -> str:
    """The accesses of a block that are meant: reads or writes."""
    return choices.pick(("read", "write"))


def access(sch: Schedule, choices: Choices) -> tuple[str, int]:
    """A buffer by its place among those that a block reads or writes."""
    return side(sch, choices), index(sch, choices)


def place_numbers(sch: Schedule, choices: Choices) -> list[int]:
    return [index(sch, choices)]


def own_buffer(sch: Schedule, choices: Choices) -> str:
    """The name of a buffer that the function allocates: callers do not see its layout or its dtype."""
    names = [buffer.name for realize in sch.state.blocks("main") for buffer in realize.block.alloc_buffers]
    if not names:
        raise Impossible
    return choices.pick(names)


def wider(sch: Schedule, choices: Choices) -> str:
    """A dtype that holds all the small whole numbers of the programs."""
    return choices.pick(("int32", "int64", "float32", "float64"))


def padded(sch: Schedule, choices: Choices) -> list[Any]:
    """A block, mostly one that sums up, and a multiple for each of its variables."""
    sums = [realize.block.name_hint for realize in sch.state.blocks("main")[1:] if realize.block.init is not None]
    rv = sch.get_block(choices.pick(sums)) if sums and choices.chance(90) else block(sch, choices)
    number = len(sch.get(rv).iter_vars)
    return [rv, [choices.pick((1, 2, 4, 5)) for _ in range(number)]]


def annotated(sch: Schedule, choices: Choices) -> list[Any]:
    """A block or loop and a key: mostly those of a note that there is."""
    blocks = [sch.get_block(name) for name in _names(sch)]
    notes = [
        [rv, name]
        for rv in [*blocks, *(item for each in blocks for item in sch.get_loops(each))]
        for name in sch.get(rv).annotations
    ]
    return choices.pick(notes) if notes else [block_or_loop(sch, choices), key(sch, choices)]


def rolled(sch: Schedule, choices: Choices) -> BlockRV:
    """A block, mostly one in a loop with a block that reads what it writes."""
    inside = [
        rv
        for rv in map(sch.get_block, _names(sch)[1:])
        for around in [{item.var for item in sch.get_loops(rv)}]
        if any(item.var in around for other in sch.get_consumers(rv) for item in sch.get_loops(other))
    ]
    return choices.pick(inside) if inside and choices.chance(90) else block(sch, choices)


def separators(sch: Schedule, choices: Choices) -> list[int]:
    return [choices.integer(1, 2)]


def small(sch: Schedule, choices: Choices) -> int:
    return choices.pick((1, 2, 4))


# ------------------------------------------------------------------------------------------ index maps


def _reversed(*indices: Any) -> list[Any]:
    return list(indices[::-1])


def _same(*indices: Any) -> list[Any]:
    return list(indices)


def _first_last(first: Any, *rest: Any) -> list[Any]:
    return [*rest, first]


def _by_tiles(factor: int) -> Callable[..., list[Any]]:
    def tiles(*indices: Any) -> list[Any]:
        *before, last = indices
        return [*before, last // factor, last % factor]

    return tiles


def _tile_outside(factor: int) -> Callable[..., list[Any]]:
    def tiles(*indices: Any) -> list[Any]:
        *before, last = indices
        return [last // factor, *before, last % factor]

    return tiles


def _shifted(*indices: Any) -> list[Any]:
    *before, last = indices
    return [*before, last + 1]


def index_map(sch: Schedule, choices: Choices) -> Callable[..., list[Any]]:
    """A map of at least one index: an order, tiles, or a shift, which leaves a place empty."""
    factor = choices.pick((1, 2, 3, 4))
    return choices.pick(
        (_reversed, _same, _first_last, _by_tiles(factor), _tile_outside(factor), _by_tiles(2), _shifted)
    )


def pad_value(sch: Schedule, choices: Choices) -> int | None:
    return choices.pick((None, 0, 3))


def whole_region(sch: Schedule, choices: Choices) -> Callable[..., Any]:
    """A region that is mostly too small: an element for each variable of a block, and its neighbour."""
    length = choices.integer(1, 2)
    return lambda *variables: tuple((variable, variable + length) for variable in variables)


# ------------------------------------------------------------------------------------------ intrinsics

INTRINSICS = """
@I.ir_module
class Intrinsics:
    @T.prim_func
    def add_desc(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (SIZE,), "DTYPE", offset_factor=1)
        B = T.match_buffer(b, (SIZE,), "DTYPE", offset_factor=1)
        with T.block("root"):
            for i in range(SIZE):
                with T.block("add"):
                    v = T.axis.spatial(SIZE, i)
                    B[v] = A[v] + T.DTYPE(1)

    @T.prim_func
    def add_impl(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (SIZE,), "DTYPE", offset_factor=1)
        B = T.match_buffer(b, (SIZE,), "DTYPE", offset_factor=1)
        with T.block("root"):
            for i in T.vectorized(SIZE):
                with T.block("add"):
                    v = T.axis.spatial(SIZE, SIZE - 1 - i)
                    B[v] = A[v] + T.DTYPE(1)

    @T.prim_func
    def sum_desc(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (SIZE,), "DTYPE", offset_factor=1)
        B = T.match_buffer(b, (), "DTYPE", offset_factor=1)
        with T.block("root"):
            for i in range(SIZE):
                with T.block("sum"):
                    v = T.axis.reduce(SIZE, i)
                    B[()] = B[()] + A[v]

    @T.prim_func
    def sum_impl(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (SIZE,), "DTYPE", offset_factor=1)
        B = T.match_buffer(b, (), "DTYPE", offset_factor=1)
        with T.block("root"):
            for i in range(SIZE):
                with T.block("sum"):
                    v = T.axis.reduce(SIZE, SIZE - 1 - i)
                    B[()] = B[()] + A[v]
"""
"""Two computations that random programs contain: an element plus one, and a sum of neighbours in memory."""


@cache
def _intrinsic(kind: str, size: int, dtype: str) -> TensorIntrin:
    text = INTRINSICS.replace("SIZE", str(size)).replace("DTYPE", dtype)
    module = from_source(f"from relax.script import ir as I, tir as T\n{text}")
    desc, impl = (cast(PrimFunc, module[f"{kind}_{part}"]) for part in ("desc", "impl"))
    return TensorIntrin(desc, impl, f"{kind}{size}_{dtype}")


def tensorized(sch: Schedule, choices: Choices) -> list[Any]:
    """A loop, an innermost one of a small constant extent if there is one, and an intrinsic of its extent."""
    inner = [sch.get_loops(sch.get_block(name))[-1:] for name in _names(sch)[1:]]
    fitting = [
        item
        for chain in inner
        for item in chain
        if isinstance(extent := sch.get(item).extent, IntImm) and 1 <= extent.value <= 8
    ]
    chosen = choices.pick(fitting) if fitting else loop(sch, choices)
    extent = sch.get(chosen).extent
    dtypes = {str(buffer.dtype) for buffer in cast(PrimFunc, sch.mod["main"]).buffer_map.values()}
    dtype = "float32" if "float32" in dtypes else "int32"
    size = extent.value if isinstance(extent, IntImm) else 4
    return [chosen, _intrinsic(choices.pick(("add", "sum")), size, dtype)]


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
        Row("unannotate", 3, {"*": annotated}),
        Row("sample_perfect_tile", 2, {"loop": loop, "n": count}),
        Row("sample_partitioned_tile", 1, {"loop": loop, "n": count}),
        Row("sample_compute_location", 1, {"block": block}),
        Row("enter_postproc", 1, {}),
        Row("compute_at", 8, {"*": to_consumer, "preserve_unit_loops": flag}),
        Row("reverse_compute_at", 8, {"*": to_producer, "preserve_unit_loops": flag}),
        Row("compute_inline", 4, {"block": block}),
        Row("reverse_compute_inline", 4, {"block": block}),
        Row("cache_read", 4, {"block": block, "read_buffer_index": index, "storage_scope": scope}),
        Row("cache_write", 4, {"block": block, "write_buffer_index": first, "storage_scope": scope}),
        Row("decompose_reduction", 5, {"*": own_loop}),
        Row("rfactor", 5, {"loop": loop, "factor_axis": first}),
        Row("blockize", 4, {"target": loop}),
        Row("set_scope", 1, {"block": block, "buffer_index": first, "storage_scope": scope}),
        Row("bind", 1, {"loop": loop, "thread_axis": thread}),
        Row("cache_index", 3, {"block": block, "storage_scope": scope, "cse_thresh": index}),
        Row("cache_inplace", 3, {"block": block, "read_buffer_index": index, "storage_scope": scope}),
        Row("reindex", 3, {"block": block, "buffer": access}),
        Row(
            "reindex_cache_read",
            3,
            {"block": block, "read_buffer_index": index, "storage_scope": scope, "index_map": index_map},
        ),
        Row(
            "reindex_cache_write",
            3,
            {"block": block, "write_buffer_index": first, "storage_scope": scope, "index_map": index_map},
        ),
        Row("read_at", 4, {"loop": loop, "block": block, "read_buffer_index": index, "storage_scope": scope}),
        Row("write_at", 4, {"loop": loop, "block": block, "write_buffer_index": first, "storage_scope": scope}),
        Row("unsafe_set_dtype", 2, {"block": block, "buffer_index": own_buffer, "dtype": wider}),
        Row(
            "storage_align", 1, {"block": block, "buffer_index": first, "axis": index, "factor": small, "offset": index}
        ),
        Row(
            "transform_layout",
            5,
            {"block": block, "buffer": own_buffer, "index_map": index_map, "pad_value": pad_value},
        ),
        Row("transform_block_layout", 5, {"block": block, "index_map": index_map}),
        Row("set_axis_separator", 1, {"block": block, "buffer": own_buffer, "axis_separators": separators}),
        Row("rolling_buffer", 5, {"block": rolled, "write_buffer_index": first}),
        Row("pad_einsum", 4, {"*": padded}),
        Row("decompose_padding", 3, {"*": own_loop}),
        Row("tensorize", 5, {"*": tensorized}),
        Row(
            "annotate_buffer_access",
            1,
            {"block": block, "buffer_index": index, "buf_type": side, "gen_new_ranges": whole_region},
        ),
        Row("unsafe_hide_buffer_access", 1, {"block": block, "buf_type": side, "buf_index_array": place_numbers}),
    )
    if row.primitive in PRIMITIVES
}
"""The primitives to try. A new one is a line here."""

USED_BY_ARGUMENTS = ("get_block", "get_loops", "sample_categorical")
"""Primitives that makers of arguments apply, which need no row."""
NOT_TRIED = ("work_on",)
"""Primitives that say nothing of a function: the random programs have only `main`."""


def random_moves(seed: int | str, number: int = 10) -> list[Move]:
    """Moves by chance."""
    choices = Seeded(f"moves {seed}")
    names = [row.primitive for row in MOVES.values() for _ in range(row.weight)]
    return [(choices.pick(names), choices.integer(0, 1 << 20)) for _ in range(choices.integer(1, number))]


def apply_move(sch: Schedule, move: Sequence[Any]) -> None:
    """Apply a move. Raises Impossible where it has no arguments, and whatever the primitive raises."""
    name, number = move
    MOVES[name].apply(sch, Seeded(f"move {number}"))
