"""Tables that share what they hold with their copies: each is as a dict that was copied whole."""

from __future__ import annotations

import itertools
import random

import pytest

from relax.prim import EQ, Analyzer, SizeVar, tables
from relax.prim.tables import LayeredTable, copied, noted


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Tables of four entries are layered."""
    monkeypatch.setattr(tables, "SMALL", 4)


def test_a_copy_and_its_original_change_on_their_own():
    first = copied({k: k for k in range(10)})
    assert isinstance(first, LayeredTable)
    second = copied(first)
    first[1], second[20] = -1, 20
    third = copied(second)
    del third[2]
    assert first[1] == -1
    assert second[1] == 1
    assert 20 not in first
    assert third[20] == 20
    assert 2 in first
    assert 2 in second
    assert 2 not in third
    assert [len(first), len(second), len(third)] == [10, 11, 10]


def test_a_small_table_is_a_dict():
    assert type(copied({1: 2})) is dict


def test_a_missing_key():
    table = copied(dict.fromkeys(range(5), 0))
    assert table.get(7) is None
    assert table.get(7, "none") == "none"
    assert table.setdefault(7, 1) == 1
    assert table.setdefault(7, 2) == 1
    with pytest.raises(KeyError):
        table[8]
    with pytest.raises(KeyError):
        del table[8]


def test_cleared_and_empty():
    table = copied(dict.fromkeys(range(5), 0))
    other = copied(table)
    table.clear()
    assert not table
    assert len(other) == 5
    noted(table, "ab")
    assert list(table) == ["a", "b"]


@pytest.mark.parametrize("seed", range(20))
def test_random_changes_of_many_copies(seed):
    rng = random.Random(seed)
    pairs = [(copied(dict.fromkeys(range(6), 0)), dict.fromkeys(range(6), 0))]
    for step in range(300):
        table, plain = rng.choice(pairs)
        key = rng.randrange(40)
        action = rng.randrange(8)
        if action == 0 and len(pairs) < 12:
            pairs.append((copied(table), dict(plain)))
        elif action == 1:
            assert table.pop(key, None) == plain.pop(key, None)
        elif action == 2:
            assert table.setdefault(key, step) == plain.setdefault(key, step)
        else:
            table[key] = plain[key] = step
        assert len(table) == len(plain)
        assert table.get(key) == plain.get(key)
    for table, plain in pairs:
        assert dict(table.items()) == plain
        assert dict(table) == plain
        assert set(table.keys()) == set(plain)
        assert all(k in table and table[k] == v for k, v in plain.items())


def test_a_chain_of_tables_takes_the_space_of_one():
    chain = [copied(dict.fromkeys(range(8), 0))]
    for k in range(8, 2000):
        chain.append(copied(chain[-1]))
        chain[-1][k] = k
    layers = {id(layer): len(layer) for table in chain for layer in table._below}
    assert len(chain[-1]) == 2000
    assert sum(layers.values()) < 2000 * 2 * 11
    assert max(len(table._below) for table in chain) <= 11


def test_facts_of_many_sizes():
    sizes = [SizeVar(f"n{i}", "int64") for i in range(40)]
    analyzer, before = Analyzer(), []
    for a, b in itertools.pairwise(sizes):
        before.append(analyzer)
        analyzer = analyzer.copy()
        analyzer.assume(EQ(a, b))
        assert analyzer.can_prove_equal(sizes[0], b)
    assert analyzer.can_prove_equal(sizes[0] * 2, sizes[-1] + sizes[7])
    assert not before[20].can_prove_equal(sizes[0], sizes[25])
    assert before[20].can_prove_equal(sizes[3], sizes[19])
