"""The kernel cache: compiled objects and whole programs on disk, found by what they were compiled from.

Every kernel has an entry of its own. A key is the digest of the IR text, in which functions, buffers and variables have
no names, and that of everything else that decides the machine code (target, versions). Entries hold machine code that
will run, so the directory is the user's alone (0700; one that somebody else owns or can write to is not used), and each
entry carries a checksum of its key and its code: an entry under another entry's name is not that entry. Only regular
files are opened. Writing is atomic. Nothing that goes wrong here fails a build: the object is compiled again.

A whole program (`relax.vm.recall`) is a file by itself, as `Executable.save` writes it, named after its contents; a
note says which. Large ones are written while they are used already (`later`). Programs take at most three quarters of
the cache: a few large ones do not push out the kernels.

    RELAX_CACHE=0            switches the cache off
    RELAX_CACHE_PROGRAMS=0   keeps and finds kernels, and no whole programs
    RELAX_CACHE_DIR          where it is (else $XDG_CACHE_HOME/relax, else ~/.cache/relax)
    RELAX_CACHE_SIZE         how large it may grow, e.g. 200M (default 2G, also for what is no size); the least
                             recently used entries go first
    RELAX_CACHE_DEBUG=1      says on stderr what was found, what was not, and why
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import math
import os
import re
import stat
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ..runtime.files import write_parts
from ..runtime.forks import hold_at_fork

_log = logging.getLogger(__name__)

_MAGIC: Final = b"relax kernel 2\n"
_DIGEST: Final = 32
_HEADER: Final = len(_MAGIC) + _DIGEST
_DEFAULT_SIZE: Final = 2 << 30
_LARGEST_ENTRY: Final = 1 << 30
_PRUNES: Final = 32
"""After how great a part of its size the cache is looked through for what is to be removed."""
_STALE_SECONDS: Final = 3600.0
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_TEMPORARY: Final = ".new-"
_PROGRAM: Final = ".program"
_ENTRY_NAME: Final = re.compile(r"[0-9a-f]{40}-[0-9a-f]{16}(\.program)?|\.new-.*")
"""The names of files the cache makes; it removes no other file."""


@dataclass
class Statistics:
    """Counts of cache events since the process began (or `reset`)."""

    hits: int = 0
    misses: Counter[str] = field(default_factory=Counter[str])
    """Reason → count."""
    stored: int = 0
    evicted: int = 0
    problems: int = 0
    """Entries that could not be written or removed."""
    programs: int = 0
    """Whole programs that were found."""
    programs_missed: Counter[str] = field(default_factory=Counter[str])
    """Reason → count of programs that were not."""
    programs_stored: int = 0

    def reset(self) -> None:
        """Start counting anew."""
        self.__init__()


statistics: Final = Statistics()

_lock = threading.Lock()
_enabled: ContextVar[bool | None] = ContextVar("relax_cache_enabled", default=None)
_waiting: Final[dict[Key, bytes]] = {}
"""Notes to be kept with the first object."""

_unpruned: int | None = None
"""The bytes stored since the last look; None before the first one."""


@dataclass(frozen=True)
class Key:
    """The key of an object: its IR, and all else that decides its machine code."""

    source: str
    environment: str

    @property
    def name(self) -> str:
        return f"{self.source}-{self.environment}"


def key_of(text: str, *environment: str) -> Key:
    """The key of an object compiled from an IR text in an environment (target, versions)."""
    return Key(_digest(text.encode(), 20).hex(), _digest("\n".join(environment).encode(), 8).hex())


def _digest(data: bytes, size: int = _DIGEST) -> bytes:
    return hashlib.blake2b(data, digest_size=size).digest()


def _checksum(key: Key, data: bytes) -> bytes:
    """The digest stored in an entry: of its key, and of its code."""
    return _digest(key.name.encode() + b"\n" + data)


# -------------------------------------------------------------------------------------- switches


def enabled() -> bool:
    """True if the cache is used here."""
    chosen = _enabled.get()
    return not _is_off("RELAX_CACHE") if chosen is None else chosen


def keeps_programs() -> bool:
    """True if whole programs are kept and looked for here."""
    return enabled() and not _is_off("RELAX_CACHE_PROGRAMS")


def _is_off(variable: str) -> bool:
    return os.environ.get(variable, "1") in ("0", "off", "no")


@contextlib.contextmanager
def disabled() -> Generator[None]:
    """Compile without the cache inside the ``with``."""
    token = _enabled.set(False)
    try:
        yield
    finally:
        _enabled.reset(token)


def directory() -> Path:
    """The directory of entries; it need not exist. Raises OSError if the user has no home directory to keep them in."""
    chosen = os.environ.get("RELAX_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        if chosen:
            return Path(chosen).expanduser() / "kernels"
        root = Path(base) if base and os.path.isabs(base) else Path.home() / ".cache"
    except RuntimeError as problem:  # no HOME, and the password database does not know the user either
        raise NotADirectoryError(20, str(problem)) from None
    if not root.is_absolute():
        raise NotADirectoryError(20, "HOME is no absolute path")
    return root / "relax" / "kernels"


def size_limit() -> int:
    """The bytes the cache may take; the default for a text that is no finite number."""
    text = os.environ.get("RELAX_CACHE_SIZE", "").strip().upper().removesuffix("B")
    try:
        number = float(text[:-1]) * _UNITS[text[-1]] if text[-1:] in _UNITS else float(text)
    except ValueError:
        return _DEFAULT_SIZE
    return max(0, int(number)) if math.isfinite(number) else _DEFAULT_SIZE


def program_limit() -> int:
    """The bytes that whole programs may take together."""
    return size_limit() // 4 * 3


def say(message: str, *arguments: object) -> None:
    """Log a decision; on stderr under RELAX_CACHE_DEBUG."""
    if os.environ.get("RELAX_CACHE_DEBUG", "0") not in ("", "0") and not _log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("relax cache: %(message)s"))
        _log.addHandler(handler)
        _log.setLevel(logging.DEBUG)
        _log.propagate = False
    _log.debug(message, *arguments)


# -------------------------------------------------------------------------------------- entries


def load(key: Key, what: str = "module") -> bytes | None:
    """The object stored under a key; None if there is none that can be trusted."""
    return load_all({key: what}).get(key)


def load_noted(key: Key, what: str) -> bytes | None:
    """The object that a note names; None, without a word, if it is not there any more."""
    data = noted(key)
    if data is not None:
        say("%s: found %s", what, key.name)
        with _lock:
            statistics.hits += 1
    return data


def noted(key: Key) -> bytes | None:
    """The note stored under a key. Notes say where objects are, and count neither as hits nor as misses."""
    return _read(key)[0] if enabled() else None


def load_all(wanted: Mapping[Key, str]) -> dict[Key, bytes]:
    """The objects stored under keys, without those of which there is none that can be trusted.

    `wanted` says what to call each object in the log.
    """
    return {key: data for key, data in load_each(wanted.items()) if data is not None}


def load_each(wanted: Iterable[tuple[Key, str]]) -> Iterator[tuple[Key, bytes | None]]:
    """The same one by one, while `wanted` is still being made; None for an object that there is not."""
    used = enabled()
    absent: dict[Key, str] = {}
    for key, what in wanted:
        data, reason = _read(key) if used else (None, "the cache is switched off")
        if data is not None:
            say("%s: found %s", what, key.name)
            with _lock:
                statistics.hits += 1
        elif reason:
            _missed(what, reason)
        else:
            absent[key] = what
        yield key, data
    sources = _sources() if absent else frozenset[str]()
    for key, what in absent.items():
        elsewhere = "it was compiled for another target or by another version"
        _missed(what, elsewhere if key.source in sources else "this code was not compiled before")


def _missed(what: str, reason: str) -> None:
    with _lock:
        statistics.misses[reason] += 1
    say("%s: compiled, since %s", what, reason)


def _read(key: Key) -> tuple[bytes | None, str]:
    """An object, or why there is none; no reason for an entry that is not there."""
    try:
        folder = _trusted_directory(create=False)
        if folder is None:
            return None, "there is no cache yet"
        path = folder / key.name
        data = _read_own_file(path)
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        return None, f"the cache cannot be read ({error.strerror or error})"
    body = data[_HEADER:]
    if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : _HEADER] != _checksum(key, body):
        with contextlib.suppress(OSError):
            path.unlink()
        return None, "its entry is corrupted"
    with contextlib.suppress(OSError):
        os.utime(path)
    return body, ""


def _read_own_file(path: Path) -> bytes:
    """The bytes of a regular file of the user's. Raises OSError for all else, which is not even opened."""
    with _open_own_file(path, _LARGEST_ENTRY) as file:
        return file.read(os.fstat(file.fileno()).st_size + 1)


def _open_own_file(path: Path, largest: int) -> io.BufferedReader:
    """A regular file of the user's, of a size, open for reading. Raises OSError for all else."""
    _check_entry(path, os.lstat(path), largest)
    # What was put there in the meantime is not waited for.
    flags = (
        os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    )
    file = open(os.open(path, flags), "rb")  # noqa: SIM115  (the caller closes it)
    try:
        _check_entry(path, os.fstat(file.fileno()), largest)
    except OSError:
        file.close()
        raise
    return file


def _check_entry(path: Path, status: os.stat_result, largest: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(22, f"{path} is not a regular file")
    if not _is_own(status):
        raise PermissionError(13, f"{path} does not belong to this user")
    if status.st_size > largest:
        raise OSError(27, f"{path} is too large for an entry")


def _sources() -> frozenset[str]:
    """The digests of all IR texts that were compiled for any target by any version."""
    with contextlib.suppress(OSError):
        return frozenset(entry.name.partition("-")[0] for entry in os.scandir(directory()))
    return frozenset()


def store(key: Key, data: bytes) -> None:
    """Keep an object. A disk that is full or read-only only means that it is not kept."""
    if note(key, data):
        with _lock:
            statistics.stored += 1
            waiting = dict(_waiting)
            _waiting.clear()
        for other, text in waiting.items():
            note(other, text)


def note(key: Key, data: bytes) -> bool:
    """Keep a note, as `store` keeps an object, but uncounted; True if it is kept."""
    if not enabled() or min(size_limit(), _LARGEST_ENTRY - _HEADER) < len(data):
        return False
    return _keep(key.name, (_MAGIC, _checksum(key, data), data), len(data))


def note_beside(key: Key, data: bytes) -> None:
    """Keep a note once there is a cache: it alone does not make one, which would hide that no kernel is in it yet."""
    with contextlib.suppress(OSError):
        if enabled() and _trusted_directory(create=False) is None:
            with _lock:
                _waiting[key] = data
            return
    note(key, data)


def _keep(name: str, pieces: Iterable[bytes | memoryview], size: int) -> bool:
    """Write a file of the cache; True if it is kept."""
    global _unpruned
    try:
        folder = _trusted_directory(create=True)
        if folder is None:
            return False
        _write_atomically(folder, name, pieces)
    except OSError as error:
        with _lock:
            statistics.problems += 1
        say("%s is not kept: %s", name, error)
        return False
    with _lock:
        due = _unpruned is None or _unpruned > size_limit() // _PRUNES
        _unpruned = 0 if due else (_unpruned or 0) + size
    if due:
        prune()
    return True


def _write_atomically(folder: Path, name: str, pieces: Iterable[bytes | memoryview]) -> None:
    descriptor, temporary = tempfile.mkstemp(prefix=_TEMPORARY, dir=folder)  # mode 0600
    try:
        with open(descriptor, "wb") as file:
            write_parts(file, pieces)
        os.replace(temporary, folder / name)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


# -------------------------------------------------------------------------------------- whole programs


def store_program(digest: bytes, pieces: Sequence[bytes | memoryview]) -> bool:
    """Keep the file of a program under the digest of its contents; True if it is kept."""
    size = sum(map(len, pieces))
    if not keeps_programs() or size > program_limit():
        say("a program of %d bytes is not kept: there is room for %d", size, program_limit())
        return False
    kept = _keep(_program_name(digest), pieces, size)
    if kept:
        with _lock:
            statistics.programs_stored += 1
    return kept


def open_program(digest: bytes) -> io.BufferedReader | None:
    """The file of a program, to be checked against the digest by the one who reads it; None if it cannot be opened."""
    with contextlib.suppress(OSError):
        folder = _trusted_directory(create=False)
        if folder is not None:
            path = folder / _program_name(digest)
            file = _open_own_file(path, program_limit())
            with contextlib.suppress(OSError):
                os.utime(path)
            return file
    return None


def remove_program(digest: bytes) -> None:
    """Remove the file of a program that turned out to be damaged."""
    with contextlib.suppress(OSError):
        (directory() / _program_name(digest)).unlink()


def program_found(name: str) -> None:
    """Count a program that was found, and say so."""
    with _lock:
        statistics.programs += 1
    say("program %s: found", name)


def program_missed(name: str, reason: str) -> None:
    """Count a program that is built, and say why."""
    with _lock:
        statistics.programs_missed[reason] += 1
    say("program %s: built, since %s", name, reason)


def was_stored_elsewhere(key: Key) -> bool:
    """True if there is an entry of the same source for another environment."""
    return key.source in _sources()


def _program_name(digest: bytes) -> str:
    text = digest.hex()
    return f"{text[:40]}-{text[40:56]}{_PROGRAM}"


# -------------------------------------------------------------------------------------- the directory


def _trusted_directory(create: bool) -> Path | None:
    """The directory, if it is the user's alone; None if there is none. Raises PermissionError if it is not."""
    folder = directory()
    if create:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    try:
        status = os.stat(folder)
    except FileNotFoundError:
        return None
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(20, f"{folder} is not a directory")
    if not _is_own(status) or (os.name == "posix" and status.st_mode & 0o022):
        raise PermissionError(13, f"{folder} belongs to, or can be changed by, another user")
    return folder


def _is_own(status: os.stat_result) -> bool:
    return os.name != "posix" or status.st_uid == os.geteuid()


# -------------------------------------------------------------------------------------- housekeeping


def entries() -> list[tuple[Path, int, float]]:
    """Path, size and time of last use of every entry, the least recently used first."""
    found: list[tuple[Path, int, float]] = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(directory()):
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and _ENTRY_NAME.fullmatch(entry.name):
                    found.append((Path(entry.path), status.st_size, status.st_mtime))
    return sorted(found, key=lambda item: item[2])


def prune(limit: int | None = None) -> int:
    """Remove the least recently used entries until a tenth of the limit is free again, if the cache has outgrown it.

    What writers that died left behind goes too. Returns how many files were removed.
    """
    limit = size_limit() if limit is None else limit
    found = entries()
    stale = time.time() - _STALE_SECONDS
    doomed = [path for path, _, used in found if path.name.startswith(_TEMPORARY) and used < stale]
    programs = [entry for entry in found if entry[0].suffix == _PROGRAM]
    doomed += _surplus(programs, limit // 4 * 3, 0)
    gone = set(doomed)
    doomed += _surplus([entry for entry in found if entry[0] not in gone], limit, limit // 10)
    return _remove(doomed)


def _surplus(found: Collection[tuple[Path, int, float]], limit: int, room: int) -> list[Path]:
    """The least recently used entries, without which the others leave `room` below a limit; none if all fit."""
    doomed: list[Path] = []
    total = sum(size for _, size, _ in found)
    if total > limit:
        for path, size, _ in found:
            if total <= limit - room:
                break
            doomed.append(path)
            total -= size
    return doomed


def clear() -> int:
    """Remove every entry; how many there were."""
    return _remove([path for path, _, _ in entries()])


def _remove(paths: list[Path]) -> int:
    removed = 0
    for path in dict.fromkeys(paths):
        try:
            path.unlink()
            removed += 1
        except FileNotFoundError:
            pass  # another process was faster
        except OSError as error:
            say("cannot remove %s: %s", path, error)
            with _lock:
                statistics.problems += 1
    with _lock:
        statistics.evicted += removed
    return removed


hold_at_fork(_lock)
