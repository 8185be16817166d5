"""Facts that answer questions about indices from intervals and from how they are written, without the prover."""

from __future__ import annotations

import pytest

from relax.codegen.facts import Knowledge
from relax.prim import SizeVar, Var, const
from relax.prim.intrin import floordiv
from relax.prim.intrin import min as minimum


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
    with (
        facts.loop(block, number(0), number(5)),
        facts.binding(depth, rest),
        facts.loop(k, number(0), depth),
    ):
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
