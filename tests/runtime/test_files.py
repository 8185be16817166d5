"""The checksum of large files, and their contents: the same by threads, without them, from disk and from memory."""

from __future__ import annotations

import hashlib
import io
import os
from itertools import pairwise

import numpy as np
import pytest

from relax.runtime import files
from relax.runtime.executable import ExecutableError
from relax.runtime.files import BLOCK, checksum, checksum_of_rest, in_threads, read_places, write_parts
from relax.runtime.format import Section

DATA = np.random.default_rng(0).integers(0, 256, 9 * BLOCK + 5, dtype="uint8").tobytes()
SIZES = (0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 4 * BLOCK, 4 * BLOCK + 1, len(DATA))


def stated(data):
    """The checksum as the format states it."""
    blocks = [data[i : i + BLOCK] for i in range(0, len(data), BLOCK)]
    return hashlib.sha256(b"".join(hashlib.sha256(block).digest() for block in blocks)).digest()


@pytest.fixture(params=["threads", "no threads", "no preadv"])
def way(request, monkeypatch):
    """Where several threads read, where none can be started, and where they cannot read one file."""
    if request.param == "no threads":

        def refused(*arguments):
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(files.ThreadPoolExecutor, "submit", refused)
    elif request.param == "no preadv":
        monkeypatch.delattr(os, "preadv", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)


@pytest.mark.parametrize("size", SIZES)
def test_the_checksum_is_of_blocks_however_the_parts_are(way, size):
    data = DATA[:size]
    assert checksum([data]) == stated(data)
    for cuts in ([0, 1, 7], [BLOCK - 1, BLOCK + 1], [3 * BLOCK, 3 * BLOCK]):
        ends = [0, *(min(cut, size) for cut in cuts), size]
        parts = [memoryview(data)[a:b] for a, b in pairwise(ends)]
        assert checksum(parts) == stated(data)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("start", [0, 64])
def test_files_on_disk_and_in_memory_have_the_same(way, tmp_path, size, start):
    data = DATA[:size]
    path = tmp_path / "file"
    path.write_bytes(bytes(start) + data)
    with path.open("rb") as file:
        file.seek(start)
        assert checksum_of_rest(file) == stated(data)
    memory = io.BytesIO(bytes(start) + data)
    memory.seek(start)
    assert checksum_of_rest(memory) == stated(data)


def test_every_block_and_their_order_count():
    other = bytearray(DATA)
    for at in (0, BLOCK, 5 * BLOCK + 77, len(DATA) - 1):
        other[at] ^= 1
        assert checksum([bytes(other)]) != checksum([DATA])
        other[at] ^= 1
    assert checksum([DATA[BLOCK : 2 * BLOCK], DATA[:BLOCK]]) != checksum([DATA[: 2 * BLOCK]])


@pytest.mark.parametrize("sizes", [[0], [1], [0, 3, 0, 70], [5 * BLOCK + 1, 0, 64], [4 * BLOCK, 4 * BLOCK]])
def test_places_of_a_file_are_read(way, tmp_path, sizes):
    path = tmp_path / "file"
    path.write_bytes(DATA)
    places = [(sum(sizes[:i]), memoryview(bytearray(size))) for i, size in enumerate(sizes)]
    for file in (path.open("rb"), io.BytesIO(DATA)):
        with file:
            for _, memory in places:
                memory[:] = bytes(len(memory))
            assert read_places(file, places)
            assert all(memory == DATA[offset : offset + len(memory)] for offset, memory in places)


@pytest.mark.parametrize("size", [3, 5 * BLOCK])
def test_a_file_that_ends_before_is_told(way, tmp_path, size):
    path = tmp_path / "file"
    path.write_bytes(DATA)
    for file in (path.open("rb"), io.BytesIO(DATA)):
        with file:
            memory = memoryview(bytearray(size))
            assert not read_places(file, [(0, memory), (len(DATA) - size + 1, memory)])
            section = Section(file, 0, len(DATA))
            section.read_later(len(DATA) - size + 1, memory)
            with pytest.raises(ExecutableError, match="it is truncated"):
                section.read()


def test_results_have_the_order_of_jobs_and_errors_come_through(way):
    assert in_threads(lambda x: x * x, list(range(100))) == [x * x for x in range(100)]
    assert in_threads(len, []) == []
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda x: 1 // x, [1, 0, 1])


@pytest.mark.parametrize("way_of_writing", ["writev", "a part at a time", "parts of writes"])
def test_what_is_written_in_parts_is_whole(tmp_path, monkeypatch, way_of_writing):
    if way_of_writing == "a part at a time":
        monkeypatch.delattr(os, "writev", raising=False)
    elif way_of_writing == "parts of writes":  # as where a signal comes or the disk is nearly full
        write = os.write
        monkeypatch.setattr(
            os,
            "writev",
            lambda fd, parts: write(fd, b"".join(parts)[: max(1, sum(map(len, parts)) // 2)]),
            raising=False,
        )
        monkeypatch.setattr(os, "write", lambda fd, part: write(fd, part[: max(1, len(part) // 2)]))
    ends = [0, 1, 1, 100, *range(101, 2301), 3 * BLOCK, len(DATA)]
    path = tmp_path / "file"
    with path.open("wb") as file:
        write_parts(file, [memoryview(DATA)[a:b] for a, b in pairwise(ends)])
    assert path.read_bytes() == DATA
