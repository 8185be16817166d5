"""The compilation cache: a keyed store on disk (`store`) of kernels, notes and whole programs.

    kernel    the object of an IR text, without names of functions, buffers and variables, for a target and versions
              (`objects`)
    note      JSON: the object of a PrimFunc (`recall`)
    answer    JSON: an answer of LLVM about a machine (`llvm_queries`)
    build     JSON: the file of a program (`relax.vm.recall`)
    program   a file written by `Executable.save`, named after a digest of its contents. Large ones are written in the
              background (`background_writes`). Programs take at most three quarters of the cache, so that a few large
              ones do not evict the kernels.

No failure of the cache fails a build: the object is compiled again.

    RELAX_CACHE=0            disables the cache
    RELAX_CACHE_PROGRAMS=0   caches kernels only, not whole programs
    RELAX_CACHE_DIR          directory (default: $XDG_CACHE_HOME/relax, else ~/.cache/relax)
    RELAX_CACHE_SIZE         maximum size, e.g. 200M (default 2G, also for invalid values); the least recently used
                             entries are evicted
    RELAX_CACHE_DEBUG=1      logs hits and misses on stderr, with reasons
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import os
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Final

from ..runtime.forks import hold_at_fork
from .store import LARGEST_ENTRY, CorruptedError, Entry, Key, NoStoreError, Removed, Store, key_of_contents
from .store import key_of as key_of

_log = logging.getLogger(__name__)

_DEFAULT_SIZE: Final = 2 << 30
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
KERNEL: Final = ""
NOTE: Final = ".note"
ANSWER: Final = ".answer"
BUILD: Final = ".build"
PROGRAM: Final = ".program"

KINDS: Final[Mapping[str, str]] = {
    KERNEL: "objects of kernels",
    NOTE: "notes on kernels",
    PROGRAM: "programs",
    BUILD: "notes on programs",
    ANSWER: "answers of LLVM",
}
"""Kinds of entries, and what they are."""


@dataclass
class Statistics:
    """Counts of cache events since the start of the process (or `reset`)."""

    hits: int = 0
    misses: Counter[str] = field(default_factory=Counter[str])
    """Number of misses by reason."""
    stored: int = 0
    evicted: int = 0
    problems: int = 0
    """Entries that could not be written or removed."""
    programs: int = 0
    """Whole programs found in the cache."""
    programs_missed: Counter[str] = field(default_factory=Counter[str])
    """Number of programs not found, by reason."""
    programs_stored: int = 0

    def reset(self) -> None:
        """Reset all counts."""
        self.__init__()


statistics: Final = Statistics()

_lock = threading.Lock()
_enabled: ContextVar[bool | None] = ContextVar("relax_cache_enabled", default=None)
_waiting: Final[dict[Key, bytes]] = {}
"""Notes to be written with the first object."""
_others: Final[list[Callable[[Key], bytes | None]]] = []
"""Functions that return the contents of an entry, or None; they are asked for what the user's cache lacks."""


# -------------------------------------------------------------------------------------- switches


def enabled() -> bool:
    """True if the cache is enabled in this context."""
    chosen = _enabled.get()
    return not _is_off("RELAX_CACHE") if chosen is None else chosen


def keeps_programs() -> bool:
    """True if whole programs are cached in this context."""
    return enabled() and not _is_off("RELAX_CACHE_PROGRAMS")


def _is_off(variable: str) -> bool:
    return os.environ.get(variable, "1") in ("0", "off", "no")


@contextlib.contextmanager
def disabled() -> Generator[None]:
    """Context manager: compile without the cache."""
    token = _enabled.set(False)
    try:
        yield
    finally:
        _enabled.reset(token)


def problem() -> str | None:
    """Reason for which the cache is not used; None if it is. The directory need not exist."""
    if not enabled():
        return "it is switched off (RELAX_CACHE=0)"
    try:
        _store.exists()
    except OSError as error:
        return str(error.strerror or error)
    return None


def directory() -> Path:
    """Directory of the entries; it need not exist. Raises OSError if the user has no home directory."""
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
    """Maximum size of the cache in bytes; the default if RELAX_CACHE_SIZE is not a finite number."""
    size = parsed_size(os.environ.get("RELAX_CACHE_SIZE", ""))
    return _DEFAULT_SIZE if size is None else size


def parsed_size(text: str) -> int | None:
    """Size in bytes that a text such as 500M or 2G states; None if it is not a finite number."""
    text = text.strip().upper().removesuffix("B")
    try:
        number = float(text[:-1]) * _UNITS[text[-1]] if text[-1:] in _UNITS else float(text)
    except ValueError:
        return None
    return max(0, int(number)) if math.isfinite(number) else None


def program_limit() -> int:
    """Maximum total size of whole programs in bytes."""
    return _store.limit_of(PROGRAM)


def say(message: str, *arguments: object) -> None:
    """Log a decision, on stderr if RELAX_CACHE_DEBUG is set."""
    if os.environ.get("RELAX_CACHE_DEBUG", "0") not in ("", "0") and not _log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("relax cache: %(message)s"))
        _log.addHandler(handler)
        _log.setLevel(logging.DEBUG)
        _log.propagate = False
    _log.debug(message, *arguments)


_store: Final = Store(
    directory,
    size_limit,
    {kind: Fraction(3, 4) if kind == PROGRAM else Fraction(1) for kind in KINDS if kind != KERNEL},
)


# -------------------------------------------------------------------------------------- entries


def load(key: Key, label: str = "module") -> bytes | None:
    """Object stored under a key; None if it is missing or fails its checks."""
    return load_all({key: label}).get(key)


def load_noted(key: Key, label: str) -> bytes | None:
    """Object that a note refers to; None, without logging, if it has been removed."""
    data = noted(key)
    if data is not None:
        say("%s: found %s", label, key.name)
        with _lock:
            statistics.hits += 1
    return data


def noted(key: Key) -> bytes | None:
    """Note stored under a key. Notes refer to objects, and count neither as hits nor as misses."""
    return _read(key)[0] if enabled() else None


def load_all(wanted: Mapping[Key, str]) -> dict[Key, bytes]:
    """Objects stored under keys, without those that are missing or fail their checks.

    `wanted` maps each key to the object's name in the log.
    """
    return {key: data for key, data in load_each(wanted.items()) if data is not None}


def load_each(wanted: Iterable[tuple[Key, str]]) -> Iterator[tuple[Key, bytes | None]]:
    """Like `load_all`, but lazily, one pair per element of `wanted`; None for a missing object."""
    used = enabled()
    absent: dict[Key, str] = {}
    for key, label in wanted:
        data, reason = _read(key) if used else (None, "the cache is switched off")
        if data is not None:
            say("%s: found %s", label, key.name)
            with _lock:
                statistics.hits += 1
        elif reason:
            _missed(label, reason)
        else:
            absent[key] = label
        yield key, data
    sources = _store.sources() if absent else frozenset[str]()
    for key, label in absent.items():
        elsewhere = "it was compiled for another target or by another version"
        _missed(label, elsewhere if key.source in sources else "this code was not compiled before")


def _missed(label: str, reason: str) -> None:
    with _lock:
        statistics.misses[reason] += 1
    say("%s: compiled, since %s", label, reason)


def read_also(source: Callable[[Key], bytes | None]) -> None:
    """Look up what the user's cache does not have in another source, which returns None for what it lacks."""
    with _lock:
        _others.append(source)


def _read(key: Key) -> tuple[bytes | None, str]:
    """Return (object, "") or (None, reason); the reason is empty if the entry does not exist."""
    data, reason = _read_own(key)
    if data is None:
        data = next((found for source in _others if (found := source(key)) is not None), None)
    return data, reason if data is None else ""


def _read_own(key: Key) -> tuple[bytes | None, str]:
    """`_read` from the user's cache."""
    try:
        return _store.read(key), ""
    except FileNotFoundError:
        return None, ""
    except NoStoreError:
        return None, "there is no cache yet"
    except CorruptedError:
        return None, "its entry is corrupted"
    except OSError as error:
        return None, f"the cache cannot be read ({error.strerror or error})"


def store(key: Key, data: bytes) -> None:
    """Store an object. A full or read-only disk is not an error: the object is not stored."""
    if note(key, data):
        with _lock:
            statistics.stored += 1
            waiting = dict(_waiting)
            _waiting.clear()
        for other, text in waiting.items():
            note(other, text)


def note(key: Key, data: bytes) -> bool:
    """Store a note like an object, but uncounted. Return True if it was stored."""
    if not enabled() or min(size_limit(), LARGEST_ENTRY) < len(data):
        return False
    return _stored(key, lambda: _store.write(key, data))


def note_beside(key: Key, data: bytes) -> None:
    """Store a note, but only together with the first object if the cache directory does not exist.

    Creating the directory for a note alone would make an empty cache look used.
    """
    with contextlib.suppress(OSError):
        if enabled() and not _store.exists():
            with _lock:
                _waiting[key] = data
            return
    note(key, data)


def was_stored_elsewhere(key: Key) -> bool:
    """True if there is an entry for the same source and another environment."""
    return key.source in _store.sources()


def _stored(key: Key, write: Callable[[], Removed]) -> bool:
    """Write an entry; return True if it was stored."""
    try:
        removed = write()
    except OSError as error:
        with _lock:
            statistics.problems += 1
        say("%s is not kept: %s", key.name, error)
        return False
    _count(removed)
    return True


# -------------------------------------------------------------------------------------- whole programs


def store_program(digest: bytes, pieces: Sequence[bytes | memoryview]) -> bool:
    """Store the file of a program under the digest of its contents; return True if it was stored."""
    size = sum(map(len, pieces))
    if not keeps_programs() or size > program_limit():
        say("a program of %d bytes is not kept: there is room for %d", size, program_limit())
        return False
    key = key_of_contents(digest, PROGRAM)
    kept = _stored(key, lambda: _store.write_file(key, pieces))
    if kept:
        with _lock:
            statistics.programs_stored += 1
    return kept


def open_program(digest: bytes) -> io.BufferedReader | None:
    """Open the file of a program; None if that fails. The reader must check the contents against `digest`."""
    try:
        return _store.open(key_of_contents(digest, PROGRAM))
    except OSError:
        return None


def remove_program(digest: bytes) -> None:
    """Remove the damaged file of a program."""
    _store.remove(key_of_contents(digest, PROGRAM))


def program_found(name: str) -> None:
    """Count and log a program that was found."""
    with _lock:
        statistics.programs += 1
    say("program %s: found", name)


def program_missed(name: str, reason: str) -> None:
    """Count and log a program that must be built, with the reason."""
    with _lock:
        statistics.programs_missed[reason] += 1
    say("program %s: built, since %s", name, reason)


# -------------------------------------------------------------------------------------- housekeeping


def entries() -> list[Entry]:
    """Path, size and time of last use of every entry, least recently used first."""
    return _store.entries()


def kind_of(entry: Entry) -> str:
    """Kind of an entry, one of `KINDS`; temporary files count as objects of kernels."""
    return entry.path.suffix if entry.path.suffix in KINDS else KERNEL


def entry_keys() -> list[Key]:
    """Keys of all entries, least recently used first."""
    names = (entry.path.name for entry in _store.entries())
    return [Key.named(name) for name in names if not _store.is_temporary(name)]


def open_entry(key: Key) -> tuple[io.BufferedIOBase, int]:
    """Open the file of an entry for a copy; return it with its size. Raises OSError, also for a damaged entry.

    The elements of a program are not checked.
    """
    if key.kind != PROGRAM:
        data = _store.contents(key)
        return io.BytesIO(data), len(data)
    file = _store.open(key, used=False)
    return file, os.fstat(file.fileno()).st_size


def write_entry(key: Key, pieces: Iterable[bytes]) -> None:
    """Write a copy of the file of an entry. Raises OSError, or what `pieces` raises, and writes nothing then."""
    _count(_store.write_file(key, pieces))


def prune(limit: int | None = None) -> int:
    """Remove the least recently used entries until a tenth of `limit` is free, if the cache exceeds it.

    Removes temporary files of interrupted writers as well. Returns the number of removed files.
    """
    return _count(_store.prune(limit))


def clear() -> int:
    """Remove all entries; return their number."""
    return _count(_store.clear())


def _count(removed: Removed) -> int:
    """Count removed files, and log those that could not be removed."""
    for error in removed.problems:
        say("cannot remove %s: %s", error.filename, error)
    with _lock:
        statistics.evicted += removed.files
        statistics.problems += len(removed.problems)
    return removed.files


hold_at_fork(_lock)
