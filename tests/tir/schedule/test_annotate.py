"""annotate, unannotate: notes on blocks and loops."""

from __future__ import annotations

import pytest

from relax.tir import Schedule

FUNC = """
@T.prim_func
def main(A: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.block("A"):
            vi = T.axis.spatial(4, i)
            A[vi] = vi
"""


def on_loop(sch):
    return sch.get_loops(sch.get_block("A"))[0]


def on_block(sch):
    return sch.get_block("A")


def notes(sch, place):
    node = sch.get(place(sch))
    return dict(node.annotations)


@pytest.mark.parametrize("place", [on_loop, on_block])
@pytest.mark.parametrize(
    "value, kept",
    [
        (4, 4),
        (0.5, 0.5),
        (True, True),
        ("text with 'quotes'", "text with 'quotes'"),
        ([1, [2, "x"]], (1, (2, "x"))),
        ({"a": 1, "b": {"c": [1, 2]}}, {"a": 1, "b": {"c": (1, 2)}}),
        ([], ()),
    ],
)
def test_values(parse, check, place, value, kept):
    from relax.script import from_source

    def steps(sch):
        sch.annotate(place(sch), "note", value)
        assert notes(sch, place) == {"note": kept}

    after = check(parse(FUNC), steps)
    assert from_source(after.script()).script() == after.script()


def test_the_printed_form(parse, check):
    text = FUNC.replace("range(4)", 'T.serial(4, annotations={"a": 1, "b": "c"})')

    def steps(sch):
        sch.annotate(on_loop(sch), "a", 1)
        sch.annotate(on_loop(sch), "b", "c")

    check(parse(FUNC), steps, parse(text))


def test_random_integers_are_noted_as_their_values(parse, check):
    def steps(sch):
        v = sch.sample_categorical([3, 5], [0.5, 0.5], decision=1)
        sch.annotate(on_loop(sch), "n", v)
        sch.annotate(on_loop(sch), "twice", [v * 2, {"k": v + 1}])
        assert notes(sch, on_loop) == {"n": 5, "twice": (10, {"k": 6})}

    check(parse(FUNC), steps)


def test_unannotate(parse, check):
    def steps(sch):
        sch.annotate(on_block(sch), "a", 1)
        sch.annotate(on_block(sch), "b", 2)
        sch.unannotate(on_block(sch), "a")
        assert notes(sch, on_block) == {"b": 2}
        sch.unannotate(on_block(sch), "b")

    check(parse(FUNC), steps, parse(FUNC))


def test_refusals(parse, refuse):
    func = parse(FUNC)
    text = refuse(func, lambda sch: sch.annotate(on_loop(sch), "a", 1), lambda sch: sch.annotate(on_loop(sch), "a", 2))
    assert "annotate: there is an annotation 'a' already" in text
    assert "unannotate it first" in text
    assert "there is no annotation 'a'" in refuse(func, lambda sch: sch.unannotate(on_loop(sch), "a"))
    assert "a number, a string, a list or a dict, found" in refuse(
        func, lambda sch: sch.annotate(on_loop(sch), "a", [object()])
    )
    assert "ann_key must be a string, found 3" in refuse(func, lambda sch: sch.annotate(on_loop(sch), 3, 3))
    assert "must be a block or a loop" in refuse(func, lambda sch: sch.annotate("A", "a", 1))


def test_the_list_that_was_noted_may_change(parse):
    value = [1]
    sch = Schedule(parse(FUNC))
    sch.annotate(on_loop(sch), "a", value)
    value.append(2)
    assert sch.trace.insts[-1].attrs == ["a", [1]]
    assert notes(sch, on_loop) == {"a": (1,)}
