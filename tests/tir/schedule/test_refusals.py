"""Every condition of a primitive has a test that reads its refusal: no message is without one.

A message counts as read if some words of it that stand in a row are in the text of a test beside this file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from schedule_programs import on

import relax.tir.schedule
from relax import tir
from relax.tir import BlockRV

SOURCES = Path(relax.tir.schedule.__file__).parent
HERE = Path(__file__).parent
WORDS = 3
"""So many words in a row identify a message; one without so many is left to the tests of its primitive."""


def messages(tree: ast.AST) -> Iterator[ast.expr]:
    """The messages of errors, and the reasons that functions named after problems return."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="ScheduleError"), args=[_, message, *_]):
                yield message
            case ast.Call(func=ast.Name(id="Mismatch" | "NoCombination" | "Problem"), args=[message, *_]):
                yield message
            case ast.FunctionDef(name=name) if name.endswith("_problem"):
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Return) and inner.value is not None:
                        yield inner.value


def literal(message: ast.expr) -> list[str]:
    """The parts of a message that are always the same."""
    match message:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=values):
            return [part.value for part in values if isinstance(part, ast.Constant)]
        case _:
            return []


def runs(parts: list[str]) -> Iterator[str]:
    """The runs of words that identify a message: those of each part."""
    for words in (part.split() for part in parts):
        yield from (" ".join(words[i : i + WORDS]) for i in range(len(words) - WORDS + 1))


def joined(text: str) -> str:
    """Source text with its strings that stand behind each other as one."""
    return re.sub(r"\s+", " ", re.sub(r'"\s*\n\s*[fr]?"', "", text))


def test_every_refusal_is_read_by_a_test():
    tests = joined("\n".join(path.read_text(encoding="utf-8") for path in sorted(HERE.glob("*.py"))))
    unread: list[str] = []
    total = 0
    for path in sorted(SOURCES.rglob("*.py")):
        for message in messages(ast.parse(path.read_text(encoding="utf-8"))):
            parts = [part.strip(" ,:;.()[]") for part in literal(message)]
            parts = [part for part in parts if len(part.split()) >= WORDS]
            if not parts:
                continue
            total += 1
            if not any(run in tests for run in runs(parts)):
                unread.append(f"{path.relative_to(SOURCES)}:{message.lineno}: {' … '.join(parts)}")
    assert total > 200
    assert unread == []


# ------------------------------------------------------------------------------------------ conditions


def function(body: str, params: str = "A B", sizes: str = "(8, 8)", local: str = "") -> str:
    """A function over buffers of one shape; `body` stands at the indentation of statements."""
    head = ", ".join(f'{name}: T.Buffer({sizes}, "float32")' for name in params.split())
    lines = [f"{name} = T.alloc_buffer({sizes})" for name in local.split()]
    return f"@T.prim_func\ndef main({head}):\n" + "".join(
        f"    {line}\n" for line in [*lines, *body.strip("\n").split("\n")]
    )


COPY = """
for i, j in T.grid(8, 8):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj]
"""
LATE = """
for i, j in T.grid(8, 8):
    with T.block("B"):
        vi = T.axis.spatial((2, 10), i + 2)
        vj = T.axis.spatial(8, j)
        B[vi - 2, vj] = A[(vi - 2) // 2 + vj // 2, vj]
"""
TWICE = """
for i, j in T.grid(8, 8):
    with T.block("S"):
        vi, vj = T.axis.remap("SS", [i, j])
        S[vi, vj] = A[vi, vj]
for i, j in T.grid(8, 8):
    with T.block("C"):
        vi = T.axis.spatial(8, T.min(i, j))
        vj = T.axis.spatial(8, j)
        B[vi, vj] = S[vi, vj]
"""
STARTED = """
for i in range(8):
    with T.block("S"):
        vi = T.axis.spatial(8, i)
        with T.init():
            S[vi, 0] = T.float32(0)
        S[vi, 0] = A[vi, 0]
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi, 0] = S[vi, 0]
"""
LATE_PRODUCER = """
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        B[vi, 0] = S[vi, 0]
for i in range(8):
    with T.block("S"):
        vi = T.axis.spatial(8, i)
        S[vi, 0] = A[vi, 0]
"""
PARTS = """
for i, ko, ki in T.grid(8, 2, 4):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        vk = T.axis.reduce(8, ko * 4 + ki)
        T.where(i + ko * 4 + ki < 9)
        with T.init():
            B[vi, 0] = T.float32(0)
        B[vi, 0] = B[vi, 0] + A[vi, vk]
"""
STRIDED = """
S = T.alloc_buffer((8, 8), strides=(16, 1))
B = T.alloc_buffer((8, 8))
for i, j in T.grid(8, 8):
    with T.block("S"):
        vi, vj = T.axis.remap("SS", [i, j])
        S[vi, vj] = T.float32(1)
for i, j in T.grid(8, 8):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = S[vi, vj]
"""
VECTOR = """
for i in range(8):
    with T.block("S"):
        vi = T.axis.spatial(8, i)
        S[vi, T.ramp(0, 1, 8)] = A[vi, T.ramp(0, 1, 8)]
for i, j in T.grid(8, 8):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = S[vi, vj]
"""
GUARDED = """
for i, j in T.grid(8, 8):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.where(i * 8 + j < 60)
        B[vi, vj] = A[vi, vj]
"""
TWO_NESTS = """
for i in range(8):
    for j in range(8):
        if i < 4:
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
    for j in range(8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
"""
UNEVEN = """
for i in range(8):
    for j in range(8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for j in range(8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
for i, j in T.grid(8, 8):
    with T.block("D"):
        vi, vj = T.axis.remap("SS", [i, j])
        D[vi, vj] = A[vi, vj]
"""
SUM = """
for i, k in T.grid(8, 8):
    with T.block("B"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            {start}
        {step}
"""
GUARDED_SUM = """
for i in range(8):
    if i < 4:
        for k in range(8):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi, 0] = T.float32(0)
                B[vi, 0] = B[vi, 0] + A[vi, vk]
"""
VIEW = """
for i, k in T.grid(8, 8):
    with T.block("B"):
        vi, vk = T.axis.remap("SR", [i, k])
        {own}
        with T.init():
            B[vi, 0] = T.float32(0)
        B[vi, 0] = B[vi, 0] + {read}
"""
SEVERAL = """
for i, j in T.grid(8, 8):
    with T.block("S"):
        vi, vj = T.axis.remap("SS", [i, j])
        S[vi, vj] = A[vi, vj]
        R[vi, vj] = A[vi, vj]
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = S[vi, vj] + R[vi, vj]
"""


def at(name: str, depth: int, method: str, *args: object):
    """A step: a primitive on one of the loops of a block."""
    return lambda sch: getattr(sch, method)(sch.get_loops(sch.get_block(name))[depth], *args)


def a_load(sch):
    """An element of the first buffer that a function takes."""
    buffer = next(iter(sch.mod["main"].buffer_map.values()))
    return tir.BufferLoad(buffer, [0, 0])


def merged(*places: tuple[str, int]):
    return lambda sch: sch.merge(*(sch.get_loops(sch.get_block(name))[depth] for name, depth in places))


def reduction(start: str = "B[vi, 0] = T.float32(0)", step: str = "B[vi, 0] = B[vi, 0] + A[vi, vk]") -> str:
    return SUM.format(start=start.replace("; ", "\n            "), step=step.replace("; ", "\n        "))


FACTOR = at("B", 1, "rfactor", 0)
TWO = "B[vi, 0] = T.float32(0); C[vi, 0] = T.float32(0)"


@pytest.mark.parametrize(
    "program, step, message",
    [
        (
            function(TWICE, local="S"),
            lambda sch: sch.reverse_compute_at(sch.get_block("C"), sch.get_loops(sch.get_block("S"))[0]),
            "block C is not bound affinely to its loops",
        ),
        (function(STARTED, local="S"), on("S", "compute_inline"), "it has an init"),
        (
            function(STRIDED, ""),
            on("B", "transform_layout", ("read", 0), lambda i, j: (j, i)),
            "buffer S has strides or an offset",
        ),
        (
            function(LATE_PRODUCER, local="S"),
            lambda sch: sch.reverse_compute_at(sch.get_block("C"), sch.get_loops(sch.get_block("S"))[0]),
            "loop i runs behind block C, which would read other values there",
        ),
        (function(PARTS), FACTOR, "may leave parts of loop ko without a start"),
        (
            function(COPY),
            lambda sch: sch.transform_layout(
                sch.get_block("B"), ("write", 0), lambda i, j: (i, j // 3, j % 3), pad_value=lambda i, j, k: a_load(sch)
            ),
            "pad_value must not read a buffer",
        ),
        (function(VECTOR, local="S"), on("S", "compute_inline"), "block S stores a vector"),
        (
            function(VECTOR, local="S"),
            on("B", "transform_layout", ("read", 0), lambda i, j: (j, i)),
            "buffer S is accessed by vectors of elements",
        ),
        (
            function(TWO_NESTS, "A B C"),
            lambda sch: sch.blockize([sch.get_block("B"), sch.get_block("C")]),
            "there is more than loops around block B",
        ),
        (function(LATE), on("B", "cache_index", "global"), "the domain of vi does not begin at 0"),
        (function(LATE), on("B", "reindex", ("read", 0)), "the domain of vi does not begin at 0"),
        (
            function(GUARDED_SUM),
            lambda sch: sch.decompose_reduction(sch.get_block("B"), sch.get_loops(sch.get_block("B"))[0]),
            "between loop i and block B is more than loops",
        ),
        (function(UNEVEN, "A B C D"), merged(("B", 1), ("D", 1)), "loop i contains more than loop j"),
        (
            function(GUARDED),
            on("B", "transform_block_layout", lambda i, j: (j, i)),
            "block B has a condition, which the new variables could not express",
        ),
        (function(SEVERAL, local="S R"), on("S", "rolling_buffer", 0), "block S writes several buffers"),
        (
            function(COPY),
            on("B", "transform_layout", ("read", 0), lambda i, j: (j, tir.IndexMap.AXIS_SEPARATOR, i)),
            "index_map must have no axis separators",
        ),
        (
            function(VIEW.format(own="V = T.alloc_buffer((8,))", read="A[vi, vk]")),
            FACTOR,
            "block B has buffers of its own",
        ),
        (function(reduction(TWO), "A B C"), FACTOR, "its init and its body write different buffers"),
        (function(reduction("B[vi, 1] = T.float32(0)")), FACTOR, "its init and its body write at different indices"),
        (
            function(reduction(step="if B[vi, 0] < A[vi, vk]:; ____B[vi, 0] = A[vi, vk]".replace("____", "    "))),
            FACTOR,
            "the condition in its body reads a result",
        ),
        (
            function(reduction(step="B[vi, 0] = B[vi, 0] + A[vi, vk]; B[vi, 0] = B[vi, 0] + A[vi, vk]")),
            FACTOR,
            "its body is more than one store into each result",
        ),
        (
            function(reduction(TWO, "B[vi, 0] = B[vi, 0] + A[vi, vk]; C[vi, 0] = C[vi, 0] + B[vi, 0]"), "A B C"),
            FACTOR,
            "its body reads a result that it has just stored",
        ),
    ],
)
def test_a_condition_is_named(parse, refuse, program, step, message):
    assert message in refuse(parse(program), step)


# ------------------------------------------------------------------------------------------ statements beside blocks

LOOSE = """
for i in range(8):
    with T.block("S"):
        vi = T.axis.spatial(8, i)
        S[vi, 0] = S[vi, 0] + A[vi, 0]
S[0, 0] = T.float32(1)
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi, 0] = S[vi, 0]
"""
LOOSE_INSIDE = """
for i in range(7):
    with T.block("B"):
        vi = T.axis.spatial(7, i)
        B[vi, 0] = A[vi, 0]
    C[i, 0] = T.float32(1)
"""
TRIANGLE = """
for i in range(8):
    for j in range(i + 1):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            vj = T.axis.spatial(8, j)
            B[vi, vj] = A[vi, vj]
"""
TRIANGLE_SUM = """
for i in range(8):
    for k in range(i + 1):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            vk = T.axis.reduce(8, k)
            with T.init():
                B[vi, 0] = T.float32(0)
            B[vi, 0] = B[vi, 0] + A[vi, vk]
"""
SCOPES = """
for i in range(8):
    with T.block("O"):
        vi = T.axis.spatial(8, i)
        for j in range(8):
            with T.block("I"):
                vj = T.axis.spatial(8, j)
                B[vi, vj] = A[vi, vj]
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        C[vi, 0] = A[vi, 0]
"""
HALF = """
for i in range(4):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi, 0] = A[vi, 0]
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        C[vi, 0] = B[vi, 0]
"""
PAIR_OF_SUMS = """
for i in range(8):
    for k in range(8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi, 0] = T.float32(0)
            B[vi, 0] = B[vi, 0] + A[vi, vk] * A[vk, vi]
        C[i, k] = T.float32(0)
"""
MIXED = """
for f, k in T.grid(32, 4):
    with T.block("B"):
        vi = T.axis.spatial(8, f // 4)
        vk = T.axis.reduce(16, f % 4 * 4 + k)
        with T.init():
            B[vi, 0] = T.float32(0)
        B[vi, 0] = B[vi, 0] + A[vi, vk // 2]
"""
IDLE = """
for i, t, k in T.grid(8, 2, 8):
    with T.block("B"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            B[vi, 0] = T.float32(0)
        B[vi, 0] = B[vi, 0] + A[vi, vk]
"""
REPEATED = """
for t in range(2):
    with T.block("B"):
        with T.init():
            B[0, 0] = T.float32(0)
        B[0, 0] = B[0, 0] + A[0, 0]
"""
TWO_IN_ROW = """
for i, k in T.grid(8, 8):
    with T.block("B"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            B[vi, 0] = T.float32(0)
        B[vi, 0] = B[vi, 0] + A[vi, vk]
    with T.block("C"):
        vi, vk = T.axis.remap("SS", [i, k])
        C[vi, vk] = A[vi, vk]
"""


def into(name: str, target: str, depth: int = 0, method: str = "compute_at"):
    """A step: a block moves to a loop of another one."""
    return lambda sch: getattr(sch, method)(sch.get_block(name), sch.get_loops(sch.get_block(target))[depth])


def both(sch):
    return [sch.get_block("I"), sch.get_block("C")]


@pytest.mark.parametrize(
    "program, step, message",
    [
        (function(LOOSE, local="S"), on("S", "cache_inplace", 0, "local"), "a statement outside of blocks"),
        (function(LOOSE, local="S"), into("B", "S", 0, "reverse_compute_at"), "a statement outside of blocks"),
        (
            function(LOOSE_INSIDE, "A B C"),
            at("B", 0, "split", [None, 2]),
            "loop i needs a condition, which a statement outside of blocks cannot get",
        ),
        (function(TRIANGLE), at("B", 1, "blockize"), "the bounds of loop j depend on a loop outside of the new block"),
        (function(SCOPES, "A B C"), lambda sch: sch.blockize(both(sch)), "the blocks are not in one scope"),
        (function(SCOPES, "A B C"), merged(("I", 0), ("C", 0)), "the loops are not in the same block"),
        (function(COPY), lambda sch: sch.blockize([]), "target must be a loop, or a list of one block or more"),
        (
            function(HALF, "A B C"),
            lambda sch: sch.cache_write(sch.get_block("B"), 0, "local", consumer_blocks=["C"]),
            "buffer B is not allocated in the scope: what the block does not write has values already",
        ),
        (
            function(PAIR_OF_SUMS, "A B C"),
            on("B", "pad_einsum", [1, 16]),
            "loop k has something else in it than block B",
        ),
        (
            function(MIXED, sizes="(8, 16)"),
            at("B", 1, "rfactor", 0),
            "loop f is bound to data-parallel and to reduction variables of block B",
        ),
        (function(TRIANGLE_SUM), FACTOR, "the bounds of loop k depend on another loop"),
        (
            function(IDLE),
            lambda sch: sch.decompose_reduction(sch.get_block("B"), sch.get_loops(sch.get_block("B"))[1]),
            "the loops inside may reach one point of block B twice",
        ),
        (
            function(REPEATED),
            lambda sch: sch.decompose_reduction(sch.get_block("B"), sch.get_loops(sch.get_block("B"))[0]),
            "loop t is bound to no variable of block B",
        ),
        (function(TWO_IN_ROW, "A B C"), at("B", 0, "rfactor", 0), "loop i must have one block inside, found B, C"),
        (
            function(TWO_IN_ROW, "A B C"),
            on("B", "transform_block_layout", lambda i, k: (i, k)),
            "loop k holds more than the next loop or block B",
        ),
        (function(COPY), on("B", "transform_layout", "A", 3), "index_map must be"),
        (function(COPY), lambda sch: sch.state.scope(sch.get_block("root")), "this is the root block"),
        (
            function(COPY),
            lambda sch: sch.state.replace(
                sch.state.placed(sch.get_block("root")), sch.get(sch.get_loops(sch.get_block("B"))[0]), "main"
            ),
            "the root block cannot be replaced by something else",
        ),
        (function(COPY), lambda sch: sch.state.placed(BlockRV("main", "gone")), "the block gone is no longer there"),
    ],
)
def test_a_condition_on_what_stands_around(parse, refuse, program, step, message):
    assert message in refuse(parse(program), step)


# ------------------------------------------------------------------------------------------ order and cover

PARTIAL = """
for i, j in T.grid(8, 8):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        T.where(j < 5)
        B[vi, vj] = A[vi, vj]
"""
NARROW = """
for i in range(4):
    with T.block("S"):
        vi = T.axis.spatial(8, i)
        S[vi, 0] = A[vi, 0]
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi, 0] = S[vi, 0]
"""
REDUCED_OUTSIDE = """
for k0 in range(2):
    for i in range(8):
        for k1 in range(4):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                vk = T.axis.reduce(8, k0 * 4 + k1)
                with T.init():
                    B[vi, 0] = T.float32(0)
                B[vi, 0] = B[vi, 0] + A[vi, vk]
    C[k0, 0] = T.float32(1)
"""


@pytest.mark.parametrize(
    "program, step, message",
    [
        (
            function(PARTIAL),
            lambda sch: sch.write_at(sch.get_loops(sch.get_block("B"))[0], sch.get_block("B"), 0, "local"),
            "block B is not known to write all elements of B that would be copied",
        ),
        (function(NARROW, local="S"), on("B", "reverse_compute_inline"), "that block S does not write"),
        (function(REDUCED_OUTSIDE, "A B C"), at("B", 2, "rfactor", 0), "does not stand around block B alone"),
        (function(REDUCED_OUTSIDE, "A B C"), at("B", 0, "rfactor", 0), "does not stand around block B alone"),
    ],
)
def test_a_condition_on_order_and_cover(parse, refuse, program, step, message):
    assert message in refuse(parse(program), step)
