"""Facts that answer questions about indices from intervals and from how they are written, without the prover."""

from __future__ import annotations

import pytest

from relax.codegen.facts import Knowledge
from relax.prim import SizeVar, Var, const
from relax.prim.intrin import floordiv, floormod
from relax.prim.intrin import max as maximum
from relax.prim.intrin import min as minimum
from relax.tir import decl_buffer


def number(value):
    return const(value, "int64")


def name(text):
    return Var(text, "int64")


@pytest.fixture
def facts(monkeypatch):
    """Facts whose prover proves nothing."""
    monkeypatch.setattr(Knowledge, "holds", lambda self, condition: False)
    return Knowledge()


def sizes(*names):
    return [SizeVar(text, "int64") for text in names]


def test_the_highest_digit_of_a_loop_is_below_its_size(facts):
    batch, chunks, groups = sizes("batch", "chunks", "groups")
    task, image, chunk = name("task"), name("image"), name("chunk")
    highest = floordiv(floordiv(task, groups), chunks)
    with facts.loop(task, number(0), batch * chunks * groups), facts.binding(image, highest):
        assert facts.nonzero(groups)
        assert facts.in_bounds(image, batch) == (True, True)
        assert facts.in_bounds(image, chunks) == (True, False)
        with facts.binding(chunk, floordiv(task, groups)):  # below batch * chunks only
            assert facts.in_bounds(chunk, batch) == (True, False)
    with facts.binding(image, highest):  # outside of the loop nothing is known of it
        assert facts.in_bounds(image, batch) == (False, False)


@pytest.mark.parametrize("negative", ["batch", "chunks", "groups"])
def test_digits_of_a_product_of_what_may_be_negative_are_not_known(facts, negative):
    batch, chunks, groups = [
        name(text) if text == negative else SizeVar(text, "int64") for text in ("batch", "chunks", "groups")
    ]
    task, image = name("task"), name("image")
    highest = floordiv(floordiv(task, groups), chunks)
    with facts.loop(task, number(0), batch * chunks * groups), facts.binding(image, highest):
        assert facts.in_bounds(image, batch)[1] is False


def test_elements_of_a_block_are_below_the_size_that_ends_the_last_block(facts):
    block, depth, k = name("block"), name("depth"), name("k")
    rest = minimum(number(77), number(384) - block * 77)
    with facts.loop(block, number(0), number(5)), facts.binding(depth, rest), facts.loop(k, number(0), depth):
        assert facts.in_bounds(block * 77 + k, number(384)) == (True, True)
        assert facts.in_bounds(block * 77 + k, number(383)) == (True, False)
        assert facts.in_bounds(block * 78 + k, number(384)) == (True, False)


def test_an_index_that_a_condition_compares_with_a_number(facts):
    """As in the arms of a choice among many: the index is the expression that is compared, but for a number."""
    block, k = name("block"), name("k")
    with facts.loop(block, number(0), number(5)), facts.loop(k, number(0), number(8)):
        at = block * 8 + k
        assert facts.in_bounds(at - 4, number(6)) == (False, False)
        with facts.condition(at < 10):
            assert facts.in_bounds(at - 4, number(6)) == (False, True)
            with facts.condition(at < 4, False):
                assert facts.in_bounds(block * 8 + k - 4, number(6)) == (True, True)
                assert facts.in_bounds(block * 8 + k - 4, number(5)) == (True, False)
                assert facts.in_bounds(block * 9 + k - 4, number(6)) == (False, False)
                assert facts.in_bounds(at + number(2**63 - 9), number(6)) == (False, False)
        assert facts.in_bounds(at - 4, number(6)) == (False, False)


def test_elements_of_a_block_that_may_wrap_around_are_not_known(facts):
    begin, k = name("begin"), name("k")  # any number: 384 - begin may wrap around
    with facts.loop(k, number(0), minimum(number(77), number(384) - begin)):
        assert facts.in_bounds(begin + k, number(384)) == (False, False)


def test_names_of_sizes_are_not_negative(facts):
    count, plain = SizeVar("count", "int64"), name("plain")
    left = name("length") - name("begin")
    with facts.binding(count, minimum(number(32), left)), facts.binding(plain, minimum(number(32), left)):
        assert facts.interval(count) == (0, 32)
        assert facts.interval(plain)[0] < 0


def test_an_index_below_another_that_a_condition_compares_with_the_size(facts):
    (size,) = sizes("size")
    at, lane = name("at"), name("lane")
    with (
        facts.loop(at, number(0), number(1000)),
        facts.loop(lane, number(0), number(16)),
        facts.binding(size, number(512)),
    ):
        assert facts.in_bounds(at + lane, size) == (True, False)
        with facts.condition(at + 15 < size):
            assert facts.in_bounds(at + lane, size) == (True, True)
            assert facts.in_bounds(at + 1 + lane, size) == (True, False)
            assert facts.in_bounds(at * 2 + lane, size) == (True, False)
        with facts.condition(at + 16 <= size):
            assert facts.in_bounds(at + lane, size) == (True, True)
            assert facts.in_bounds(at + 1 + lane, size) == (True, False)
        with facts.condition(at + 15 < size, False):
            assert facts.in_bounds(at + lane, size) == (True, False)


def test_an_index_below_another_that_may_wrap_around_is_not_known(facts):
    (size,) = sizes("size")
    at = name("at")  # any number: at + 15 may be less than at
    with facts.condition(at + 15 < size):
        assert facts.in_bounds(at, size) == (False, False)


def test_whole_vectors_of_a_block_are_below_the_size_that_ends_the_last_block(facts):
    (columns,) = sizes("columns")
    facts.size(columns)
    strip, length, q = name("strip"), name("length"), name("q")
    begin = strip * 1024
    with (
        facts.loop(strip, number(0), number(100)),
        facts.binding(length, minimum(number(1024), columns - begin)),
        facts.loop(q, number(0), floordiv(length, number(16))),
    ):
        assert facts.in_bounds(begin + q * 16 + 15, columns) == (True, True)
        assert facts.in_bounds(begin + q * 16 + 16, columns) == (True, False)
        assert facts.in_bounds(begin + q * 15 + 15, columns) == (True, False)
        assert facts.in_bounds(strip * 1025 + q * 16 + 15, columns) == (True, False)


def test_digits_of_a_loop_over_a_product_with_numbers(facts):
    batch, lines = sizes("batch", "lines")
    facts.size(batch)
    facts.size(lines)
    flat, row, rest, image = name("flat"), name("row"), name("rest"), name("image")
    rows = maximum(lines, number(1)) * 16
    with (
        facts.loop(flat, number(0), batch * 3 * rows),
        facts.binding(row, floormod(flat, rows)),
        facts.binding(rest, floordiv(flat, rows)),
        facts.binding(image, floordiv(rest, number(3))),
    ):
        assert facts.in_bounds(image, batch) == (True, True)
        assert facts.in_bounds(rest, batch) == (True, False)
        assert facts.in_bounds(row, maximum(lines, number(1)) * 16) == (True, True)
        assert facts.in_bounds(floordiv(row, number(2)), maximum(lines, number(1)) * 8) == (True, True)
        assert facts.in_bounds(floordiv(row, number(2)), maximum(lines, number(1)) * 7) == (True, False)
        assert facts.in_bounds(floordiv(row, number(3)), maximum(lines, number(1)) * 8) == (True, False)


def test_the_prover_is_not_asked_of_the_next_element_of_what_it_could_not_prove(monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(Knowledge, "holds", lambda self, condition: asked.append(str(condition)))
    facts = Knowledge()
    (size,) = sizes("size")
    at, loaded = name("at"), Var("loaded", "float32")
    with facts.loop(at, number(0), number(100)):
        assert facts.in_bounds(at + 1, size) == (True, False)
        with facts.binding(loaded, const(1.0, "float32")):
            assert facts.in_bounds(at + 2, size) == (True, False)
        assert asked == ["at + 1 < size"]
        assert facts.in_bounds(at, size) == (True, False)
        with facts.condition(at < 50):  # says more
            assert facts.in_bounds(at + 2, size) == (True, False)
    assert asked == ["at + 1 < size", "at < size", "at + 2 < size"]


@pytest.mark.parametrize("is_declared", [True, False])
def test_strips_of_planes_whose_product_of_sizes_only_a_buffer_limits(facts, is_declared):
    """As in a copy of planes: height * width may be 2^96 by its factors, but is a buffer's size."""
    batch, height, width = sizes("batch", "height", "width")
    plane, task, strip, row, image, vector, length = map(name, "plane task strip row image vector length".split())
    if is_declared:
        facts.sizes(decl_buffer((batch, 64, height * 2, width * 2), "float32"))
    strips = floordiv(plane + 2047, number(2048))
    with (
        facts.binding(plane, height * width * 4),
        facts.loop(task, number(0), batch * 64 * strips),
        facts.binding(strip, floormod(task, strips)),
        facts.binding(row, floordiv(task, strips)),
        facts.binding(image, floordiv(row, number(64))),
        facts.binding(length, minimum(number(2048), plane - strip * 2048)),
        facts.loop(vector, number(0), floordiv(length, number(16))),
    ):
        last = strip * 2048 + vector * 16 + 15
        assert facts.in_bounds(image, batch) == (is_declared, is_declared)
        assert facts.in_bounds(last, plane) == (is_declared, is_declared)
        assert facts.in_bounds(last + 1, plane)[1] is False
        assert facts.nonzero(plane) is is_declared
        assert facts.nonzero(width) is is_declared
    assert not facts.nonzero(width)


def test_sizes_whose_limits_are_of_another_product_say_nothing(facts):
    height, width = sizes("height", "width")
    plane = name("plane")
    facts.sizes(decl_buffer((height, width * 2), "float32"))
    with facts.binding(plane, height * width * 3):
        assert facts.interval(plane)[0] < 0
    with facts.binding(plane, width * height * 2):
        assert facts.interval(plane) == (0, 2**62)


def test_buffers_without_elements():
    """A size of 0 makes every product of sizes 0, by which nothing is divided."""
    n, m = sizes("n", "m")
    facts = Knowledge()
    with facts.allocated(decl_buffer((n, number(0), m), "float32")):
        facts.sizes(decl_buffer((n, m, number(0)), "float32"))
        facts.sizes(decl_buffer((n, number(0), m, number(0)), "float32"))
        facts.sizes(decl_buffer((n, number(5), m), "float32"))
        assert facts.nonnegative(n * m)
        assert facts.in_bounds(floordiv(n * m, n * 0), m) == (False, False)
