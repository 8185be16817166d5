"""Large files: their checksum and their contents, by several threads; what is written so that it can be mapped.

The checksum is the SHA-256 of the SHA-256s of blocks of 1 MiB (the last one may be shorter), so that threads can share
the work: one processor hashes more slowly than memory and disks give.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from .tensor import LARGE_PAGE

BLOCK: Final = 1 << 20
"""Size in bytes of a separately hashed block."""

_PART: Final = 4 * BLOCK
"""Bytes that one thread reads per system call."""

_VECTOR: Final = 1024
"""Maximum number of buffers per vectored write."""

_THREADS: Final = 4

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


def in_threads(function: Callable[[_Job], _Result], jobs: Sequence[_Job]) -> list[_Result]:
    """Apply a function to each job, on several threads if available; it may be called twice for a job."""
    threads = min(_THREADS, os.cpu_count() or 1, len(jobs))
    if threads > 1:
        with ThreadPoolExecutor(threads) as pool:
            try:
                futures = [pool.submit(function, job) for job in jobs]
            except RuntimeError:  # no thread can be started
                futures = []
            if futures:
                return [future.result() for future in futures]
    return [function(job) for job in jobs]


@contextmanager
def in_place_of(path: str | os.PathLike[str]) -> Generator[Path, None, None]:
    """The name of a file to write, which then takes the place of another at once, or not at all if writing fails.

    A link stays, and the file that it leads to is replaced. Raises FileExistsError for what is no file, such as a
    device, and IsADirectoryError: neither is to be replaced by a file.
    """
    target = Path(path)
    if target.is_symlink():
        target = target.resolve()
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a directory", str(path))
    if target.exists() and not target.is_file():
        raise FileExistsError(errno.EEXIST, "it is no regular file, and is not replaced", str(path))
    temporary = target.with_name(f".{target.name[:200]}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


# ------------------------------------------------------------------------------------- the checksum


def checksum(parts: Iterable[bytes | memoryview]) -> bytes:
    """Return the checksum of the concatenation of `parts`."""
    return _of_blocks(in_threads(_hashed, list(_blocks(parts))))


def checksum_of_rest(file: io.BufferedIOBase) -> bytes:
    """Return the checksum of a file from its current position to its end."""
    start = file.tell()
    if isinstance(file, io.BytesIO):
        return checksum([file.getbuffer()[start:]])
    length = file.seek(0, io.SEEK_END) - start
    file.seek(start)
    descriptor = _descriptor(file)
    if descriptor is None:
        return checksum([file.read()])

    def hashed(job: range) -> list[bytes]:
        memory = memoryview(bytearray(min(len(job), BLOCK)))
        digests: list[bytes] = []
        for offset in job[::BLOCK]:
            block = memory[: min(BLOCK, job.stop - offset)]
            digests.append(hashlib.sha256(block[: _read_at(descriptor, offset, block)]).digest())
        return digests

    end = start + length
    jobs = [range(offset, min(offset + _PART, end)) for offset in range(start, end, _PART)]
    return _of_blocks(digest for digests in in_threads(hashed, jobs) for digest in digests)


def _of_blocks(digests: Iterable[bytes]) -> bytes:
    return hashlib.sha256(b"".join(digests)).digest()


def _hashed(block: Sequence[memoryview]) -> bytes:
    digest = hashlib.sha256()
    for piece in block:
        digest.update(piece)
    return digest.digest()


def _blocks(parts: Iterable[bytes | memoryview], size: int = BLOCK) -> Iterator[list[memoryview]]:
    """The blocks of parts that follow one another, each as the pieces of parts that it is made of."""
    block: list[memoryview] = []
    room = size
    for part in parts:
        rest = memoryview(part)
        while len(rest):
            block.append(rest[:room])
            rest, room = rest[room:], room - len(block[-1])
            if not room:
                yield block
                block, room = [], size
    if block:
        yield block


# ------------------------------------------------------------------------------------- the contents


def read_places(file: io.BufferedIOBase, destinations: Sequence[tuple[int, memoryview]], threads: bool = True) -> bool:
    """Fill each memory with what is in a file from an offset on; False if the file ends before.

    Large contents are read by several threads if `threads`.

    Where `shares_reads`, several threads may read one file at the same time.
    """
    jobs = [
        (offset + at, memory[at : at + _PART]) for offset, memory in destinations for at in range(0, len(memory), _PART)
    ]
    descriptor = _descriptor(file)
    if descriptor is not None:

        def read(job: tuple[int, memoryview]) -> bool:
            return _read_at(descriptor, *job) == len(job[1])

        large = threads and sum(len(memory) for _, memory in destinations) > _PART
        return all(in_threads(read, jobs)) if large else all(map(read, jobs))
    for offset, memory in jobs:
        file.seek(offset)
        if file.readinto(memory) != len(memory):
            return False
    return True


def write_parts(file: io.BufferedIOBase, parts: Iterable[bytes | memoryview]) -> None:
    """Write parts that follow one another to an empty file.

    What fills a large page is written at once: then Linux keeps it in one, in which `mapping` finds it.
    """
    file.flush()
    for block in _blocks(parts, LARGE_PAGE):
        for at in range(0, len(block), _VECTOR):
            _write(file.fileno(), block[at : at + _VECTOR])


def _write(descriptor: int, parts: Sequence[memoryview]) -> None:
    """Write parts that follow one another, at once if the system can."""
    done = os.writev(descriptor, parts) if hasattr(os, "writev") else 0
    for part in parts:
        rest, done = part[done:], max(0, done - len(part))
        while len(rest):
            rest = rest[os.write(descriptor, rest) :]


def shares_reads(file: io.BufferedIOBase) -> bool:
    """True if threads can read a file at the same time."""
    return _descriptor(file) is not None


def _descriptor(file: io.BufferedIOBase) -> int | None:
    """The descriptor of a file that threads can read at the same time; None if they cannot."""
    if not hasattr(os, "preadv"):
        return None
    try:
        return file.fileno()
    except OSError:  # it is in memory
        return None


def _read_at(descriptor: int, offset: int, memory: memoryview) -> int:
    """Fill memory with what is in a file from an offset on; how many bytes there were."""
    done = 0
    while done < len(memory):
        count = os.preadv(descriptor, [memory[done:]], offset + done)
        if not count:
            break
        done += count
    return done
