"""The keyed store: what is found under a key, what is refused, and which entries go first."""

from __future__ import annotations

import os
from fractions import Fraction

import pytest

from relax.farm.store import CorruptedError, Key, NoStoreError, Store, digest, key_of, key_of_contents

LARGE = ".large"
BESIDE = ".largest"


def store(tmp_path, limit=1 << 20):
    return Store(lambda: tmp_path / "kept", lambda: limit, {LARGE: Fraction(3, 4), BESIDE: Fraction(1, 10)})


def large(number):
    return key_of_contents(digest([str(number).encode()], 32), LARGE)


def age(store, *keys):
    """Let entries be used one after the other, long ago."""
    for time, key in enumerate(keys):
        os.utime(store._directory() / key.name, (time, time))


def test_an_entry_is_found_by_source_and_environment(tmp_path):
    kept = store(tmp_path)
    kept.write(key_of("text", "target"), b"code")
    assert kept.read(key_of("text", "target")) == b"code"
    for other in (key_of("text", "another"), key_of("texts", "target"), key_of("text\ntarget")):
        with pytest.raises(FileNotFoundError):
            kept.read(other)
    assert kept.sources() == {key_of("text").source}


def test_the_digest_is_of_all_parts_one_after_the_other():
    assert digest([b"ab", b"c"], 16) == digest([b"a", b"", b"bc"], 16) != digest([b"abd"], 16)
    assert len(digest([], 8)) == 8


def test_nothing_is_found_before_there_is_a_directory(tmp_path):
    kept = store(tmp_path)
    assert not kept.exists()
    with pytest.raises(NoStoreError):
        kept.read(key_of("text"))
    with pytest.raises(NoStoreError):
        kept.open(large(0))
    assert (kept.entries(), kept.sources(), kept.clear().files) == ([], frozenset(), 0)
    assert not kept.exists()


def test_a_damaged_entry_is_removed(tmp_path):
    kept = store(tmp_path)
    key, other = key_of("text"), key_of("other")
    kept.write(key, b"code")
    kept.write(other, b"data")
    path = tmp_path / "kept" / key.name
    path.write_bytes((tmp_path / "kept" / other.name).read_bytes())
    with pytest.raises(CorruptedError):
        kept.read(key)
    assert not path.exists()
    assert kept.read(other) == b"data"


def test_a_file_is_written_as_it_is(tmp_path):
    kept = store(tmp_path)
    kept.write_file(large(0), [b"12", memoryview(b"345")])
    with kept.open(large(0)) as file:
        assert file.read() == b"12345"
    assert large(0).name.endswith(LARGE)
    kept.remove(large(0))
    kept.remove(large(0))  # is gone already
    with pytest.raises(FileNotFoundError):
        kept.open(large(0))


def test_a_kind_takes_no_more_than_its_share(tmp_path):
    kept = store(tmp_path)
    small = [key_of(str(number)) for number in range(3)]
    for key in small:
        kept.write(key, bytes(10))
    for number in range(4):
        kept.write_file(large(number), [bytes(200)])
    age(kept, *small, *map(large, range(4)))
    assert kept.limit_of(LARGE) == 3 << 18
    assert kept.limit_of("") == 1 << 20
    assert kept.prune(limit=1000).files == 1  # the oldest one of its kind, though smaller entries are older
    assert [entry.path.name for entry in kept.entries()] == [key.name for key in (*small, *map(large, (1, 2, 3)))]


def test_the_least_recently_used_go_first_whatever_their_kind(tmp_path):
    kept = store(tmp_path)
    keys = [large(0), Key("0" * 40, "1" * 16), large(1), Key("2" * 40, "3" * 16)]
    for key in keys:
        kept.write_file(key, [bytes(50)])
    age(kept, *keys)
    with kept.open(large(0)):
        pass  # it was used just now
    assert kept.prune(limit=200).files == 0
    assert kept.prune(limit=160).files == 2  # then a tenth is free
    assert [entry.path.name for entry in kept.entries()] == [keys[3].name, large(0).name]


def test_each_kind_has_a_share_of_its_own(tmp_path):
    kept = store(tmp_path)
    beside = key_of_contents(digest([b"beside"], 32), BESIDE)
    for key in (beside, large(0)):
        kept.write_file(key, [bytes(50)])
    assert kept.prune(limit=499).files == 1
    assert [entry.path.name for entry in kept.entries()] == [large(0).name]


def test_room_is_made_while_entries_are_written(tmp_path):
    kept = store(tmp_path, limit=2000)
    for number in range(20):
        kept.write(key_of(str(number)), bytes(500))
    *others, last = kept.entries()
    assert sum(entry.size for entry in others) <= 2000  # the last one has not been counted yet
    assert last.path.name in {key_of(str(number)).name for number in range(20)}


def test_only_names_of_its_kinds_are_its_own(tmp_path):
    kept = store(tmp_path)
    kept.write_file(large(0), [b"1"])
    for name in (f"{key_of('text').name}.other", "text", f"{key_of('text').name}-", f"x{large(1).name}"):
        (tmp_path / "kept" / name).write_bytes(b"a user's")
    assert len(kept.entries()) == 1
    assert kept.clear().files == 1
    assert len(list((tmp_path / "kept").iterdir())) == 4


def test_what_cannot_be_removed_is_told(tmp_path, monkeypatch):
    kept = store(tmp_path)
    kept.write(key_of("text"), b"code")

    def refused(path, missing_ok=False):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("pathlib.Path.unlink", refused)
    removed = kept.clear()
    assert removed.files == 0
    assert [error.filename for error in removed.problems] == [str(tmp_path / "kept" / key_of("text").name)]
