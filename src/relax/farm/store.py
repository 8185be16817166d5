"""A keyed store on disk: files in one directory, named by digests. All persistent data of the farm are here.

All kinds of entries (kernels, notes, answers of LLVM, whole programs) follow the same rules:

    key         `Key`: digests of the source and of everything else that determines the contents (`key_of`), and a kind
    trust       entries hold code that will run: the directory belongs to the user alone (0700), and only regular files
                of the user are opened; a directory that others own or can write to raises PermissionError
    checksum    an entry that is read whole (`read`) carries a checksum of its key and contents, so that an entry under
                another entry's name is invalid; an entry that is opened (`open`) is checked by its reader
    writing     atomic: a temporary file is renamed; the last of several writers wins, and there are no locks
    eviction    the least recently used entries are evicted; a kind with a share of the limit never exceeds it

Failures raise OSError here; `cache` decides their effect on a build.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final, NamedTuple

from ..runtime.files import write_parts
from ..runtime.forks import hold_at_fork

_MAGIC: Final = b"relax kernel 2\n"
_CHECKSUM: Final = 32
_HEADER: Final = len(_MAGIC) + _CHECKSUM
LARGEST_ENTRY: Final = (1 << 30) - _HEADER
"""Maximum size in bytes of an entry that is read whole."""
LARGEST_FILE: Final = LARGEST_ENTRY + _HEADER
"""Maximum size of its file."""
_PRUNES: Final = 32
"""The store is pruned after writing 1/32 of its limit."""
_STALE_SECONDS: Final = 3600.0
_TEMPORARY: Final = ".new-"
_NAME: Final = re.compile(r"([0-9a-f]{40})-([0-9a-f]{16})((?:\.[a-z]+)?)", re.ASCII)


def digest(parts: Iterable[bytes], size: int) -> bytes:
    """Digest of `size` bytes of the concatenated parts, used for all keys and checksums."""
    return digest_state(parts, size).digest()


def digest_state(parts: Iterable[bytes], size: int) -> hashlib.blake2b:
    """State of `digest` after some parts, to which others can be added."""
    state = hashlib.blake2b(digest_size=size)
    for part in parts:
        state.update(part)
    return state


@dataclass(frozen=True)
class Key:
    """Key of an entry: digests of its source, and of everything else that determines its contents."""

    source: str
    environment: str
    kind: str = ""
    """Suffix of the file name: a kind of the store, or empty."""

    @classmethod
    def named(cls, name: str) -> Key:
        """Key with the name of a file. Raises ValueError for a name that is no key's."""
        match = _NAME.fullmatch(name)
        if match is None:
            raise ValueError(f"{name!r} is no name of an entry")
        return cls(match[1], match[2], match[3])

    @property
    def name(self) -> str:
        """Name of the file."""
        return f"{self.source}-{self.environment}{self.kind}"


def key_of(text: str, *environment: str, kind: str = "") -> Key:
    """Key of an entry derived from a text in an environment (target, versions)."""
    return Key(digest([text.encode()], 20).hex(), environment_of(*environment), kind)


def environment_of(*environment: str) -> str:
    """Digest of an environment, as in keys."""
    return digest(["\n".join(environment).encode()], 8).hex()


def key_of_contents(contents: bytes, kind: str) -> Key:
    """Key of an entry named after a digest of its contents."""
    text = contents.hex()
    return Key(text[:40], text[40:56], kind)


class CorruptedError(OSError):
    """The checksum of an entry does not match."""


class NoStoreError(OSError):
    """The directory does not exist."""


class Entry(NamedTuple):
    """A file of the store."""

    path: Path
    size: int
    used: float
    """Time of last use."""


class Removed(NamedTuple):
    """Number of removed files, and the errors of files that could not be removed."""

    files: int
    problems: list[OSError]


class Store:
    """Entries in a directory, within a limit of bytes.

    `directory` and `limit` are called on each use, and may raise OSError. `shares` maps a kind to the part of the limit
    its entries may take together; entries without a kind may take all of it.
    """

    def __init__(self, directory: Callable[[], Path], limit: Callable[[], int], shares: Mapping[str, Fraction]) -> None:
        self._directory, self._limit, self._shares = directory, limit, shares
        self._lock = threading.Lock()
        hold_at_fork(self._lock)
        self._unpruned: int | None = None
        """The bytes written since the last look; None before the first one."""

    def limit_of(self, kind: str) -> int:
        """Maximum total size in bytes of the entries of a kind."""
        return int(self._limit() * self._shares.get(kind, Fraction(1)))

    def is_temporary(self, name: str) -> bool:
        """True for the name of a file that is being written."""
        return name.startswith(_TEMPORARY)

    def is_own_name(self, name: str) -> bool:
        """True for the name of a file that the store makes; it removes no other file."""
        match = _NAME.fullmatch(name)
        return self.is_temporary(name) if match is None else not match[3] or match[3] in self._shares

    def exists(self) -> bool:
        """True if the directory exists. Raises OSError if it is not trustworthy."""
        return self._trusted(create=False) is not None

    # -- reading

    def read(self, key: Key) -> bytes:
        """Contents of an entry written by `write`.

        Raises FileNotFoundError if there is none, NoStoreError if there is no directory, CorruptedError if the entry is
        damaged (it is removed), another OSError if it cannot be read.
        """
        path = self._path(key)
        data = self.contents(key)
        _touch(path)
        return body_of(data)

    def contents(self, key: Key) -> bytes:
        """File of an entry written by `write`, which does not count as a use. Raises as `read`."""
        path = self._path(key)
        with _open_own_file(path, LARGEST_FILE) as file:
            data = file.read(os.fstat(file.fileno()).st_size + 1)
        if not is_intact(key, data):
            with contextlib.suppress(OSError):
                path.unlink()
            raise CorruptedError(5, "its entry is corrupted")
        return data

    def open(self, key: Key, used: bool = True) -> io.BufferedReader:
        """Open an entry written by `write_file`; the reader must check it. Raises OSError."""
        path = self._path(key)
        file = _open_own_file(path, self.limit_of(key.kind))
        if used:
            _touch(path)
        return file

    def sources(self) -> frozenset[str]:
        """Sources of all entries, in any environment."""
        with contextlib.suppress(OSError):
            return frozenset(entry.name.partition("-")[0] for entry in os.scandir(self._directory()))
        return frozenset()

    # -- writing

    def write(self, key: Key, data: bytes) -> Removed:
        """Write an entry with its checksum, and prune the store if due. Raises OSError."""
        return self.write_file(key, (_MAGIC, _checksum(key, [data]), data))

    def write_file(self, key: Key, pieces: Iterable[bytes | memoryview]) -> Removed:
        """Write an entry unchanged, and prune the store if due. Raises OSError."""
        folder = self._trusted(create=True)
        if folder is None:
            raise FileNotFoundError(2, "the directory was removed")
        size = _write_atomically(folder, key.name, pieces)
        with self._lock:
            due = self._unpruned is None or self._unpruned > self._limit() // _PRUNES
            self._unpruned = 0 if due else (self._unpruned or 0) + size
        return self.prune() if due else Removed(0, [])

    # -- removing

    def entries(self) -> list[Entry]:
        """All entries, least recently used first."""
        entries: list[Entry] = []
        with contextlib.suppress(OSError):
            for entry in os.scandir(self._directory()):
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode) and self.is_own_name(entry.name):
                        entries.append(Entry(Path(entry.path), status.st_size, status.st_mtime))
        return sorted(entries, key=lambda entry: entry.used)

    def prune(self, limit: int | None = None) -> Removed:
        """Remove the least recently used entries until a tenth of `limit` is free, if the store exceeds it.

        Kinds above their shares are pruned first. Temporary files of interrupted writers are removed as well.
        """
        limit = self._limit() if limit is None else limit
        entries = self.entries()
        stale = time.time() - _STALE_SECONDS
        doomed = [entry for entry in entries if entry.path.name.startswith(_TEMPORARY) and entry.used < stale]
        for kind, share in self._shares.items():
            doomed += _surplus([entry for entry in entries if entry.path.suffix == kind], int(limit * share), 0)
        gone = set(doomed)
        doomed += _surplus([entry for entry in entries if entry not in gone], limit, limit // 10)
        return _removed(entry.path for entry in doomed)

    def clear(self) -> Removed:
        """Remove all entries."""
        return _removed(entry.path for entry in self.entries())

    def remove(self, key: Key) -> None:
        """Remove a damaged entry."""
        with contextlib.suppress(OSError):
            (self._directory() / key.name).unlink()

    # -- the directory

    def _path(self, key: Key) -> Path:
        folder = self._trusted(create=False)
        if folder is None:
            raise NoStoreError(2, "there is no directory yet")
        return folder / key.name

    def _trusted(self, create: bool) -> Path | None:
        """The directory; None if it does not exist. Raises PermissionError unless it belongs to the user alone."""
        folder = self._directory()
        if create:
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
        try:
            status = os.stat(folder)
        except FileNotFoundError:
            return None
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(20, f"{folder} is not a directory")
        if not is_own(status) or (os.name == "posix" and status.st_mode & 0o022):
            raise PermissionError(13, f"{folder} belongs to, or can be changed by, another user")
        return folder


def body_of(data: bytes) -> bytes:
    """Contents of an entry, given its file as `write` writes it."""
    return data[_HEADER:]


def is_intact(key: Key, data: bytes) -> bool:
    """True for the file of an entry that `write` writes."""
    checksum = _checksum(key, [body_of(data)])
    return len(data) <= LARGEST_FILE and data[:_HEADER] == _MAGIC + checksum


def _checksum(key: Key, pieces: Iterable[bytes]) -> bytes:
    """Checksum of an entry: digest of its key and contents."""
    return digest([key.name.encode() + b"\n", *pieces], _CHECKSUM)


def _touch(path: Path) -> None:
    """Set the time of last use of a file."""
    with contextlib.suppress(OSError):
        os.utime(path)


def _open_own_file(path: Path, largest: int) -> io.BufferedReader:
    """Open a regular file of the user's, of at most `largest` bytes. Raises OSError for others."""
    _check_file(path, os.lstat(path), largest)
    # What was put there in the meantime is not waited for.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    file = open(os.open(path, flags), "rb")  # noqa: SIM115  (the caller closes it)
    try:
        _check_file(path, os.fstat(file.fileno()), largest)
    except OSError:
        file.close()
        raise
    return file


def _check_file(path: Path, status: os.stat_result, largest: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(22, f"{path} is not a regular file")
    if not is_own(status):
        raise PermissionError(13, f"{path} does not belong to this user")
    if status.st_size > largest:
        raise OSError(27, f"{path} is too large for an entry")


def is_own(status: os.stat_result) -> bool:
    """True if a file belongs to this user."""
    return os.name != "posix" or status.st_uid == os.geteuid()


def _write_atomically(folder: Path, name: str, pieces: Iterable[bytes | memoryview]) -> int:
    """Write a file under a temporary name and rename it; return its size."""
    descriptor, temporary = tempfile.mkstemp(prefix=_TEMPORARY, dir=folder)  # mode 0600
    try:
        with open(descriptor, "wb") as file:
            write_parts(file, pieces)
            size = os.fstat(file.fileno()).st_size
        os.replace(temporary, folder / name)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return size


def _surplus(entries: Collection[Entry], limit: int, room: int) -> list[Entry]:
    """Least recently used entries whose removal leaves `room` below `limit`; empty if all entries fit."""
    doomed: list[Entry] = []
    total = sum(entry.size for entry in entries)
    if total > limit:
        for entry in entries:
            if total <= limit - room:
                break
            doomed.append(entry)
            total -= entry.size
    return doomed


def _removed(paths: Iterable[Path]) -> Removed:
    """Remove files; count them and collect the errors."""
    count = 0
    problems: list[OSError] = []
    for path in dict.fromkeys(paths):
        try:
            path.unlink()
            count += 1
        except FileNotFoundError:
            pass  # another process was faster
        except OSError as error:
            problems.append(error)
    return Removed(count, problems)
