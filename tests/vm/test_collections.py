"""Python looks for unreachable cycles seldom while a program is built, and as before after that."""

from __future__ import annotations

import gc

import pytest

from relax.vm.collections import OBJECTS, few_collections


@pytest.fixture(autouse=True)
def thresholds():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_the_thresholds_come_back():
    gc.set_threshold(700, 11, 12)
    with few_collections():
        assert gc.get_threshold() == (OBJECTS, 11, 12)
        with few_collections():  # another thread builds too
            assert gc.get_threshold() == (OBJECTS, 11, 12)
        assert gc.get_threshold() == (OBJECTS, 11, 12)
    assert gc.get_threshold() == (700, 11, 12)


def fails():
    with few_collections():
        raise ValueError("a build")


def test_also_after_an_error():
    gc.set_threshold(700, 10, 10)
    with pytest.raises(ValueError, match="a build"):
        fails()
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("first", [0, 10 * OBJECTS])
def test_what_is_rarer_already_stays(first):
    gc.set_threshold(first, 10, 10)
    with few_collections():
        assert gc.get_threshold() == (first, 10, 10)
    assert gc.get_threshold() == (first, 10, 10)


def test_a_change_in_the_meantime_stays():
    gc.set_threshold(700, 10, 10)
    with few_collections():
        gc.set_threshold(123, 4, 5)
    assert gc.get_threshold() == (123, 4, 5)
