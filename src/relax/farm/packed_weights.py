"""Weights as kernels read them, kept on disk beside the kernels: a second start reads one file and packs nothing.

    tensors = packed_weights.load(parts, identity)

Weights lie in one arena of large pages, in the order of `parts`, which is that of their use: a processor that reads
the arena from one end to the other misses no page table. (Measured on a model of 96 MB, one token: 3.4 ms, with an
array for each matrix 5.2 ms.) A file of the store is the arena; its key names the files that the weights come from, by
path, size and time, and what was done to them, so that a changed file is packed again.

    RELAX_WEIGHTS_SIZE    maximum size of the kept weights, e.g. 8G (default 20G); 0 keeps none
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import numpy as np
import tvm_ffi
from numpy.typing import NDArray

from ..runtime.dtypes import NUMPY_DTYPES
from ..runtime.files import read_places
from ..runtime.records import dataclass
from ..runtime.tensor import new_tensor, tensor_of
from . import cache
from .store import Entry, Key, Store, digest, key_of_contents

Array: TypeAlias = "NDArray[Any]"

KIND: Final = ".weights"
_VERSION: Final = "1"
"""Changes with the order of parts in an arena."""
_DEFAULT_SIZE: Final = 20 << 30
_ALIGNMENT: Final = 64
_LARGE: Final = 1 << 30
"""Size in bytes from which the system's copy of a file that was read is dropped."""
_MAGIC: Final = b"relax weights 1\n"


@dataclass(frozen=True)
class Part:
    """A tensor of the arena: how it is called, what it holds, and the function that makes its array."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    made_as: str
    """Names what `make` does to which tensors of the files; part of the key."""
    make: Callable[[], Array]

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        size = NUMPY_DTYPES[self.dtype].itemsize
        for dim in self.shape:
            size *= dim
        return size


def directory() -> Path:
    """Directory of the kept weights, beside that of the kernels. Raises OSError if the user has no home directory."""
    return cache.directory().parent / "weights"


def size_limit() -> int:
    """Maximum size in bytes of all kept weights."""
    size = cache.parsed_size(os.environ.get("RELAX_WEIGHTS_SIZE", ""))
    return _DEFAULT_SIZE if size is None else size


_store: Final = Store(directory, size_limit, {KIND: Fraction(1)})


def identity_of(paths: Iterable[str | os.PathLike[str]]) -> str:
    """Text that changes when one of the files is replaced or written: paths, sizes and times."""
    lines: list[str] = []
    for path in paths:
        status = os.stat(path)
        lines.append(f"{os.path.realpath(path)} {status.st_size} {status.st_mtime_ns} {status.st_ino}")
    return "\n".join(lines)


def load(
    parts: Sequence[Part], identity: str, progress: Callable[[str, int, int], None] | None = None
) -> list[tvm_ffi.Tensor]:
    """Tensors of the parts, in one arena: read from the store, or made and kept there.

    `identity` names the origin of the weights: their files (`identity_of`) and the version of the code that packs them;
    "" keeps nothing. `progress` is called with the name of
    a part, and the bytes that are done and to be done. Raises what `Part.make` raises, ValueError for an array of
    another shape or dtype than the part's, and MemoryError.
    """
    offsets, size = _layout(parts)
    arena = new_tensor((max(size, 1),), "uint8")
    memory: Array = np.from_dlpack(arena)
    views = [_view(memory, part, offset) for part, offset in zip(parts, offsets, strict=True)]
    key = _key(parts, identity) if identity and cache.enabled() and size_limit() else None
    if key is None or not _read(key, memory, size):
        done = 0
        for part, view in zip(parts, views, strict=True):
            array = part.make()
            if array.shape != part.shape or array.dtype != view.dtype:
                found = f"{array.dtype} {array.shape}"
                raise ValueError(f"{part.name}: expected {part.dtype} {part.shape}, found {found}")
            view[...] = array
            done += part.nbytes
            if progress is not None:
                progress(part.name, done, size)
        if key is not None:
            _keep(key, memory, size)
    return [_tensor(view) for view in views]


def _tensor(view: Array) -> tvm_ffi.Tensor:
    tensor = tensor_of(view)
    assert tensor is not None, "an aligned array is a tensor"
    return tensor


def _layout(parts: Sequence[Part]) -> tuple[list[int], int]:
    """Offsets of the parts in the arena, and its size."""
    offsets: list[int] = []
    size = 0
    for part in parts:
        offsets.append(size)
        size += part.nbytes + -part.nbytes % _ALIGNMENT
    return offsets, size


def _view(memory: Array, part: Part, offset: int) -> Array:
    found: Any = memory[offset : offset + part.nbytes]
    return found.view(NUMPY_DTYPES[part.dtype]).reshape(part.shape)


def _key(parts: Sequence[Part], identity: str) -> Key:
    lines = [_VERSION, identity, *(f"{p.name} {p.shape} {p.dtype} {p.made_as}" for p in parts)]
    return key_of_contents(digest(["\n".join(lines).encode()], 32), KIND)


def _read(key: Key, memory: Array, size: int) -> bool:
    """Fill the arena from the store; False if there is no such entry, or it is not whole."""
    try:
        file = _store.open(key)
    except OSError as error:
        cache.say("weights %s: made, since %s", key.name, error)
        return False
    with file:
        whole = os.fstat(file.fileno()).st_size == size + len(_MAGIC)
        end = bytearray(len(_MAGIC))
        places = [(0, memoryview(cast("Any", memory[:size]))), (size, memoryview(end))]
        if whole and read_places(file, places) and bytes(end) == _MAGIC:
            _forget_pages(file)
            cache.say("weights %s: found", key.name)
            return True
    _store.remove(key)
    return False


def _forget_pages(file: io.BufferedReader) -> None:
    """Let the system drop its copy of a large file, which the arena now holds."""
    if hasattr(os, "posix_fadvise") and os.fstat(file.fileno()).st_size > _LARGE:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _keep(key: Key, memory: Array, size: int) -> None:
    """Write the arena to the store, if there is room; failures change nothing."""
    if size + len(_MAGIC) > size_limit():
        cache.say("weights %s: not kept, since they have %d bytes and RELAX_WEIGHTS_SIZE is less", key.name, size)
        return
    try:
        if shutil.disk_usage(_nearest(directory())).free < 2 * size:
            cache.say("weights %s: not kept, since the disk is nearly full", key.name)
            return
        _store.write_file(key, [memoryview(cast("Any", memory[:size])), _MAGIC])
    except OSError as error:
        cache.say("weights %s: not kept: %s", key.name, error)


def _nearest(path: Path) -> Path:
    """The path, or the nearest folder above it that exists."""
    return path if path.exists() else _nearest(path.parent)


def entries() -> list[Entry]:
    """Files of kept weights, least recently used first."""
    return _store.entries()


def clear() -> int:
    """Remove all kept weights; return the number of files."""
    return _store.clear().files


__all__ = ["Part", "clear", "directory", "entries", "identity_of", "load", "size_limit"]
