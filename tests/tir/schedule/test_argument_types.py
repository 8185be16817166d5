"""Arguments of wrong types: each primitive says which argument is wrong, what it must be, and what it was."""

from __future__ import annotations

import numpy as np
import pytest

from relax.ir import assert_structural_equal
from relax.tir import Schedule, ScheduleError
from relax.tir.schedule import PRIMITIVES

FUNC = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    B = T.alloc_buffer((8, 8))
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * T.float32(2)
"""
VALID = {
    "BlockRV": lambda sch: sch.get_block("C"),
    "BlockRV | LoopRV": lambda sch: sch.get_block("C"),
    "LoopRV": lambda sch: sch.get_loops(sch.get_block("C"))[0],
    "LoopRV | Sequence[BlockRV]": lambda sch: sch.get_loops(sch.get_block("C"))[0],
    "Any": lambda _: 1,
    "bool": lambda _: True,
    "int": lambda _: 1,
    "int | None": lambda _: 1,
    "str": lambda _: "B",
    "str | GlobalVar | None": lambda _: "main",
    "str | IterVar": lambda _: "threadIdx.x",
    "str | TensorIntrin": lambda _: "none",
    "int | str | Buffer": lambda _: 0,
    "tuple[str, int] | str | Buffer": lambda _: ("read", 0),
    "Sequence[BlockRV | str] | None": lambda _: None,
    "Sequence[int | ExprRV | None]": lambda _: [2, None],
    "Sequence[float]": lambda _: [0.5, 0.5],
    "Sequence[int]": lambda _: [0, 1],
    "Sequence[int] | None": lambda _: None,
    "Mapping": lambda _: lambda i, j: (j, i),
    "Callable[..., Any] | IndexMap": lambda _: lambda i, j: (i, j),
    "int | float | PrimExpr | IndexMap | Callable[..., Any] | None": lambda _: None,
}
WRONG = {
    "BlockRV": (5, "{} must be a block, found 5"),
    "BlockRV | LoopRV": ("C", "{} must be a block or a loop, found 'C'"),
    "LoopRV": ("i", "{} must be a loop, found 'i'"),
    "LoopRV | Sequence[BlockRV]": ([], "{} must be a loop, or a list of one block or more, found []"),
    "bool": ("no", "{} must be True or False, found 'no'"),
    "int": ("1", "{} must be an integer, found '1'"),
    "int | None": (1.5, "{} must be an integer or None, found 1.5"),
    "str": (5, "{} must be a string, found 5"),
    "str | GlobalVar | None": (5, "{} must be the name of a function or None, found 5"),
    "str | IterVar": (5, "{} must be the name of a thread axis, found 5"),
    "str | TensorIntrin": (5, "{} must be a TensorIntrin or the name of a registered one, found 5"),
    "int | str | Buffer": (1.5, "{} must be an index, a name or a Buffer, found 1.5"),
    "tuple[str, int] | str | Buffer": (1.5, '{} must be like ("read", 0), a name or a Buffer, found 1.5'),
    "Sequence[BlockRV | str] | None": ([3], "{}[0] must be a block or the name of one, found 3"),
    "Sequence[int | ExprRV | None]": (["2"], "{}[0] must be an integer, an expression or None, found '2'"),
    "Sequence[float]": ([1, "x"], "{}[1] must be a number, found 'x'"),
    "Sequence[int]": ([0, 0.5], "{}[1] must be an integer, found 0.5"),
    "Sequence[int] | None": ("12", "{} must be a list or None, found '12'"),
    "Mapping": (3, "{} must be an IndexMap or a function, found 3"),
    "Callable[..., Any] | IndexMap": ([3], "{} must be a function or an IndexMap, found [3]"),
    "int | float | PrimExpr | IndexMap | Callable[..., Any] | None": (
        "0",
        "{} must be a number, an IndexMap or a function or None, found '0'",
    ),
}
"""For each type of arguments, one that is wrong, and the text about it."""
CASES = [
    (method, name)
    for method, kind in PRIMITIVES.items()
    for name, parameter in list(kind.signature.parameters.items())[1:]
    if parameter.annotation in WRONG
]


@pytest.mark.parametrize("method, name", CASES, ids=lambda value: value)
def test_wrong_type(parse, method, name):
    sch = Schedule(parse(FUNC))
    kind = PRIMITIVES[method]
    positional, named = [], {}
    wrong, message = WRONG[kind.signature.parameters[name].annotation]
    for other, parameter in list(kind.signature.parameters.items())[1:]:
        value = wrong if other == name else VALID[parameter.annotation](sch)
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
            named[other] = value
        else:
            positional.append(value)
    before = sch.mod
    with pytest.raises(ScheduleError) as raised:
        getattr(sch, method)(*positional, **named)
    assert f"{method}: {message.format(name)}" in str(raised.value)
    assert raised.value.diagnostics[0].code == "E8002"
    assert sch.mod is before


def test_every_parameter_is_tried():
    """Only notes may be of any type; they are checked by `annotate` itself."""
    every = {
        (method, name)
        for method, kind in PRIMITIVES.items()
        if kind.function.__module__.startswith("relax.")
        for name in list(kind.signature.parameters)[1:]
    }
    assert every - set(CASES) == {("annotate", "ann_val")}


def test_hints(parse, refuse):
    func = parse(FUNC)
    assert "= help: sch.get_loops(block) gives the loops around a block" in refuse(
        func, lambda sch: sch.split("i", [2])
    )
    assert "= help: sch.get_block(name) gives a block" in refuse(func, lambda sch: sch.get_loops("B"))
    assert "found BlockRV(B in main)" in refuse(func, lambda sch: sch.fuse(sch.get_block("B")))
    text = refuse(func, lambda sch: sch.fuse(sch.get_loops(sch.get_block("B"))))
    assert "loops must be given one by one, not as a list" in text
    assert "write a star before the list: *loops" in text


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda s: s.split(), "split: missing a required argument: 'loop'; the arguments are (loop, factors,"),
        (lambda s: s.get_block("B", block="B"), "get_block: got an unexpected keyword argument 'block'"),
        (lambda s: s.enter_postproc(1), "enter_postproc: too many positional arguments; the arguments are ()"),
    ],
)
def test_number_of_arguments(parse, call, message):
    with pytest.raises(TypeError) as raised:
        call(Schedule(parse(FUNC)))
    assert message in str(raised.value)


def test_blocks_and_loops_of_another_schedule(parse, refuse):
    func = parse(FUNC)
    other = Schedule(func)
    block = other.get_block("C")
    loop = other.get_loops(block)[0]
    text = refuse(func, lambda sch: sch.get_loops(block))
    assert "get_loops: BlockRV(C in main) is of another schedule" in text
    assert "apply the other one's trace to this one" in text
    for action in (
        lambda sch: sch.parallel(loop),
        lambda sch: sch.get(block),
        lambda sch: sch.get_sref(loop),
        lambda sch: sch.blockize([block]),
    ):
        assert "is of another schedule" in refuse(func, action)
    other.copy().parallel(loop)  # copies share them


def test_get_and_get_sref_of_other_values(parse, refuse):
    func = parse(FUNC)
    assert "an integer or an expression of random integers is needed, found 'B'" in refuse(
        func, lambda sch: sch.get("B")
    )
    assert "get_sref takes a block or a loop, as a random variable or a statement, found 5" in refuse(
        func, lambda sch: sch.get_sref(5)
    )


def test_numbers_of_numpy_are_integers(parse):
    """They are in the trace as integers, too."""
    plain, typed = Schedule(parse(FUNC)), Schedule(parse(FUNC))
    for sch, factors, index in ((plain, [None, 4], 0), (typed, np.array([-1, 4]), np.int64(0))):
        factors = [None, *factors[1:]]
        block = sch.get_block("C")
        sch.split(sch.get_loops(block)[1], factors)
        sch.cache_read(block, index, "local")
        sch.storage_align(sch.get_block("B"), np.int32(0) if sch is typed else 0, 0, 16, 1)
    assert_structural_equal(plain.mod, typed.mod)
    assert str(plain.trace) == str(typed.trace)
    assert plain.trace.as_json() == typed.trace.as_json()
    sch = Schedule(parse(FUNC))
    outer, inner = sch.split(sch.get_loops(sch.get_block("B"))[0], np.array([2, 4]))
    assert (sch.get(outer).extent.value, sch.get(inner).extent.value) == (2, 4)
