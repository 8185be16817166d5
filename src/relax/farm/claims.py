"""Claims on kernels: of several processes that need a kernel at the same time, one compiles it.

A process claims the key of a kernel while it compiles it; the others wait for the object. Claims are record locks
(`fcntl.lockf`) of a file beside the store, at an offset derived from the key. The system releases them when their
process ends, however it ends, and a forked child has none. The file stays empty.

    take      never waits, so processes that need each other's kernels cannot block each other: they compile what they
              have claimed, release it, and only then look at what others had claimed
    release   after the object is in the store, or could not be made

Where there are no locks (another system, a file system without them, a directory that cannot be written), every key can
be taken by everybody.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import stat
import threading
from pathlib import Path
from typing import Any, Final

from typing_extensions import Self

from ..runtime.forks import hold_at_fork
from . import cache
from .store import Key, digest, is_own

try:
    _fcntl: Any = importlib.import_module("fcntl")
except ImportError:  # not on Windows
    _fcntl = None

FILE: Final = "kernels.lock"
"""Name of the file with the locks, in the parent of the store's directory."""

_lock: Final = threading.Lock()
_taken: Final[dict[tuple[Path, Key], int]] = {}
"""Keys claimed by threads of this process, to which its locks mean nothing, and the process."""
_files: Final[dict[Path, int]] = {}
"""Descriptors of lock files. Closing one would release all locks of the process in its file, so each stays open."""


class Claims:
    """Context manager of the claims of one build; at its end all are released."""

    def __init__(self) -> None:
        self._own: dict[Key, tuple[Path, int | None]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release_all()

    def release_all(self) -> None:
        """Release all keys."""
        for key in list(self._own):
            self.release(key)

    def take(self, key: Key) -> bool:
        """Claim a key. Return False if another process or thread has it."""
        if _fcntl is None or not cache.enabled():
            return True
        try:
            path = cache.directory().parent / FILE
            with _lock:
                if _taken.get((path, key)) == os.getpid():
                    return False
                file = _opened(path)
                try:
                    _fcntl.lockf(file, _fcntl.LOCK_EX | _fcntl.LOCK_NB, 1, _offset(key))
                except (BlockingIOError, PermissionError):  # EAGAIN or EACCES, by the system
                    return False
                _taken[path, key] = os.getpid()
        except OSError:
            return True
        self._own[key] = path, file
        return True

    def release(self, key: Key) -> None:
        """Release a key; do nothing if it is not claimed."""
        path, file = self._own.pop(key, (None, None))
        if path is None:
            return
        with _lock, contextlib.suppress(OSError):
            if _taken.get((path, key)) == os.getpid():
                del _taken[path, key]
                _fcntl.lockf(file, _fcntl.LOCK_UN, 1, _offset(key))


def is_claimed_here(key: Key) -> bool:
    """True if this process has claimed a key."""
    with contextlib.suppress(OSError), _lock:
        return _taken.get((cache.directory().parent / FILE, key)) == os.getpid()
    return False


def _offset(key: Key) -> int:
    """Offset of a key's lock."""
    return int.from_bytes(digest([key.name.encode()], 8), "little") >> 2


def _opened(path: Path) -> int:
    """Descriptor of a lock file, which is made if necessary. Raises OSError if it is not the user's own."""
    file = _files.get(path)
    if file is not None and _is_at(path, file):
        return file
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or not is_own(status):
        os.close(file)
        raise PermissionError(13, f"{path} is not a file of this user")
    _files[path] = file
    return file


def _is_at(path: Path, file: int) -> bool:
    """True if an open file is still the one at a path."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except OSError:
        return False


hold_at_fork(_lock)
