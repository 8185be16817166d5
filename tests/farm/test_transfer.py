"""Entries of the cache in a file: what is written, what comes back, and files that are damaged or made with intent."""

from __future__ import annotations

import json
import os
import random
import struct

import pytest

from relax.farm import cache, transfer
from relax.farm.store import digest, key_of_contents
from relax.farm.transfer import TransferError, export_entries, imported

ONE, TWO = cache.key_of("one", "here"), cache.key_of("two", "there", kind=cache.NOTE)
PROGRAM = digest([b"a program"], 32)
TEXTS = {"target": "llvm", "cpu": "znver4"}


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """A cache of the test's own, with an object, a note and a program."""
    monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("RELAX_CACHE", "RELAX_CACHE_PROGRAMS"):
        monkeypatch.delenv(name, raising=False)
    cache.store(ONE, b"code" * 1000)
    cache.note(TWO, b"[1, 2]")
    assert cache.store_program(PROGRAM, [b"a program, in ", b"two pieces"])
    return tmp_path / "cache" / "kernels"


@pytest.fixture
def exported(tmp_path):
    """A file with all entries, and where the cache is another one afterwards."""
    path = tmp_path / "file.cache"
    totals = export_entries(path, TEXTS, cache.entry_keys())
    assert totals.entries == 3
    assert totals.size == sum(entry.size for entry in cache.entries())
    cache.clear()
    return path


def brought(path):
    """Check a file and import all of it."""
    with imported(path) as file:
        file.check()
        return file.write(file.keys())


def test_entries_come_back_as_they_were(exported):
    with imported(exported) as file:
        assert file.description == TEXTS
        assert {key.name for key in file.keys()} == {ONE.name, TWO.name, key_of_contents(PROGRAM, cache.PROGRAM).name}
        assert file.note(TWO) == b"[1, 2]"
        assert file.size_of(key_of_contents(PROGRAM, cache.PROGRAM)) == 24
    assert brought(exported).entries == 3
    assert cache.load(ONE) == b"code" * 1000
    assert cache.noted(TWO) == b"[1, 2]"
    with cache.open_program(PROGRAM) as program:
        assert program.read() == b"a program, in two pieces"
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in cache.directory().iterdir())


def test_some_of_them(exported):
    with imported(exported) as file:
        assert file.write([TWO]) == (1, file.size_of(TWO))
    assert cache.entry_keys() == [TWO]


def test_a_copy_is_no_use_of_an_entry(fresh, tmp_path):
    for path in fresh.iterdir():
        os.utime(path, (1000, 1000))
    export_entries(tmp_path / "file", {}, cache.entry_keys())
    assert {entry.used for entry in cache.entries()} == {1000}


def test_what_is_gone_or_damaged_is_left_out(fresh, tmp_path):
    keys = cache.entry_keys()
    (fresh / ONE.name).unlink()
    (fresh / TWO.name).write_bytes(b"damaged")
    assert export_entries(tmp_path / "file", {}, keys).entries == 1


def test_an_export_that_fails_leaves_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"an older file")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(transfer.os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        export_entries(tmp_path / "file", {}, cache.entry_keys())
    assert {path.name for path in tmp_path.iterdir()} == {"cache", "file"}
    assert (tmp_path / "file").read_bytes() == b"an older file"


# ------------------------------------------------------------------------- files that are no good


def made(*entries, count=None, description=b"{}"):
    """A file of entries given as (name, contents)."""
    data = transfer.MAGIC + struct.pack("<I", len(description)) + description
    for name, contents in entries:
        checksum = digest([name, b"\n", contents], 32)
        data += bytes([len(name)]) + name + struct.pack("<Q", len(contents)) + contents + checksum
    return data + b"\0" + struct.pack("<Q", len(entries) if count is None else count)


GOOD = ONE.name.encode()
HOSTILE = {
    b"": "it was not written by relax cache export",
    b"PK\3\4 a zip": "it was not written by relax cache export",
    transfer.MAGIC: "the file ends too early",
    transfer.MAGIC + b"\xff\xff\xff\xff": "its description is too long",
    made(description=b"[1]"): "its description cannot be read",
    made(description=b"[" * 5000): "its description cannot be read",
    made((b"../../.bashrc", b"rm -rf")): "entry 0 has a name that no entry has",
    made((b"/etc/passwd", b"root")): "entry 0 has a name that no entry has",
    made((GOOD.upper(), b"")): "entry 0 has a name that no entry has",
    made((GOOD + b"\n", b"")): "entry 0 has a name that no entry has",
    made((GOOD + b".exe", b"")): "entry 0 is of a kind that this version does not know: .exe",
    made((GOOD, b"code")): f"the entry {ONE.name} is none of a cache",
    made(count=1): "the file does not end where it says",
    made() + b"more": "the file does not end where it says",
    made((GOOD, b"code"))[:-45]: "the file ends too early",
    transfer.MAGIC + struct.pack("<I", 2) + b"{}" + bytes([57]) + GOOD + b"\xff" * 8: "the file ends too early",
}


@pytest.mark.parametrize("data", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_file_is_rejected_before_anything_is_written(data, tmp_path):
    cache.clear()
    path = tmp_path / "hostile"
    path.write_bytes(data)
    with pytest.raises(TransferError, match=HOSTILE[data]):
        brought(path)
    assert cache.entries() == []
    assert {path.name for path in tmp_path.iterdir()} == {"cache", "hostile"}


def test_an_entry_under_the_name_of_another_is_rejected(fresh, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(made((GOOD, (fresh / TWO.name).read_bytes())))
    with pytest.raises(TransferError, match="is none of a cache"):
        brought(path)


def test_no_damage_passes_unnoticed(exported):
    """Each byte is part of something that is checked, but for the description."""
    data = exported.read_bytes()
    start = len(transfer.MAGIC) + 4 + len(json.dumps(TEXTS))
    generator = random.Random(0)
    for place in generator.sample(range(start, len(data)), 200):
        exported.write_bytes(data[:place] + bytes([data[place] ^ (1 << generator.randrange(8))]) + data[place + 1 :])
        with pytest.raises(TransferError):
            brought(exported)
        assert cache.entries() == []
    for place in generator.sample(range(len(data)), 50):
        exported.write_bytes(data[:place])
        with pytest.raises(TransferError):
            brought(exported)


def test_what_changes_while_it_is_read_is_not_kept(exported):
    with imported(exported) as file:
        file.check()
        data = exported.read_bytes()
        with open(exported, "r+b") as other:
            other.write(data.replace(b"codecode", b"codeCODE"))
        with pytest.raises(TransferError, match=f"{ONE.name} is damaged"):
            file.write([ONE])
    assert cache.entries() == []


def test_a_description_is_plain_text(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(made(description=json.dumps({"cpu": "\x1b[31mred", "cores": 4, "target": "llvm"}).encode()))
    with imported(path) as file:
        assert file.description == {"target": "llvm"}
