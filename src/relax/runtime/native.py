"""Running compiled code without a compiler: an archive of kernels, or an object file, becomes callable functions.

The compiler's output is an archive of relocatable ELF objects, and this is the only way it is ever run: the one just
compiled and the one loaded from a saved executable take the same path. The objects become one, whose image is written
into fresh pages, linked against the C library, libm, tvm-ffi and ``register_symbol``, and then protected: code
cannot be written, data cannot be executed.

A function called from outside has the packed form of tvm-ffi,
``int f(void *self, const TVMFFIAny *args, int32_t n, TVMFFIAny *result)``; it returns 0, or -1 after
``TVMFFIErrorSetRaisedFromCStr(kind, message)``. Tensors among its arguments are compact, in host memory, at
byte offset 0, and aligned to their element at least (fresh ones to 64 bytes).
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import sys
import threading
import weakref
from typing import Any, Final

import tvm_ffi

from .archive import Archive, Unit, is_archive, read_archive
from .combine import combine
from .elf import SHN_UNDEF, STT_FUNC, ObjectFileError, parse_object
from .forks import hold_at_fork
from .linker import defined_symbols, link, plan_layout, undefined_symbols
from .machine_code import architecture_named, title
from .threads import LAUNCH, pool_symbols

__all__ = [
    "CELLS", "NativeLibrary", "ObjectFileError", "cells_function", "host_machine", "load_object", "register_symbol",
]  # fmt: skip

PACKED_PREFIX: Final = "__tvm_ffi_"
"""The prefix that tvm-ffi's convention puts before a packed function's name to make its symbol."""
CELLS: Final = "relax.cells.v9."
"""The prefix of the support code of compiled Relax functions (`codegen.support.cells`). A process keeps one copy:
values made by it are freed by it, whoever holds them. The number changes with the meaning of a function."""
LIBRARY_TABLE: Final = "relax.library.v1.refuse"
"""A symbol of the support code of shared libraries (`relax.runtime.export`), which is not loaded with an archive."""

_PROTECTION: Final = {
    "rx": mmap.PROT_READ | mmap.PROT_EXEC,
    "r": mmap.PROT_READ,
    "rw": mmap.PROT_READ | mmap.PROT_WRITE,
}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_longlong]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_MAP_FAILED: Final = ctypes.c_void_p(-1).value

_symbols: dict[str, int] = {}
_lock = threading.Lock()
_pool_lock = threading.Lock()
hold_at_fork(_lock)
hold_at_fork(_pool_lock)  # taken before the other, by a fork too: what is registered last comes first


def host_machine() -> int:
    """The ELF number of the machine this process runs on; 0 if there is no loader for it."""
    if sys.byteorder != "little" or sys.platform == "win32":
        return 0
    architecture = architecture_named(platform.machine())
    return 0 if architecture is None else architecture.elf_machine


def register_symbol(name: str, address: int) -> None:
    """Make a C function or datum known to objects loaded from now on, by its name and address."""
    with _lock:
        _symbols[name] = address


class NativeLibrary:
    """Loaded kernels. Their memory lives as long as this, or any function got from it, does."""

    def __init__(self, data: bytes, name: str = "object") -> None:
        """Load an archive of kernels or a relocatable object; `name` is what messages call it."""
        self.name = name
        self._address, self._size, self._offsets = _load(bytes(data), name)
        # Not at exit: functions may still be held by C++ objects that die later.
        weakref.finalize(self, _libc.munmap, self._address, self._size).atexit = False

    @property
    def functions(self) -> list[str]:
        """Names of the functions the object defines, in alphabetical order."""
        return sorted(name for name, (_, kind) in self._offsets.items() if kind == STT_FUNC)

    @property
    def nbytes(self) -> int:
        """The size of the image in memory."""
        return self._size

    def __contains__(self, name: object) -> bool:
        """True if there is a packed function of that name."""
        return f"{PACKED_PREFIX}{name}" in self._offsets or name in self._offsets

    def address(self, symbol: str) -> int:
        """The address of a function or datum, good while this library lives. Raises AttributeError if it has none."""
        entry = self._offsets.get(symbol)
        if entry is None:
            raise AttributeError(f"{self.name} defines no symbol {symbol}; it has {', '.join(self.functions)}")
        return self._address + entry[0]

    def get_function(self, name: str) -> tvm_ffi.Function:
        """The packed function of that name (with or without tvm-ffi's prefix); it keeps the library alive."""
        prefixed = f"{PACKED_PREFIX}{name}"
        address = self.address(prefixed if prefixed in self._offsets else name)
        return tvm_ffi.Function.__from_extern_c__(address, keep_alive_object=self)


def load_object(data: bytes, name: str = "object") -> NativeLibrary:
    """Load an archive of kernels or a relocatable ELF object. Raises ObjectFileError for what is wrong with it."""
    return NativeLibrary(data, name)


def _load(data: bytes, name: str) -> tuple[int, int, dict[str, tuple[int, int]]]:
    """Address and size of the linked, protected image, and the offsets of its symbols."""
    try:
        archive, shared = _apart(read_archive(data)) if is_archive(data) else (None, [])
        obj = parse_object(data) if archive is None else combine(archive, PACKED_PREFIX)
        host = host_machine()
        if obj.machine != host:
            this = title(host, f"{platform.machine()} ({sys.platform}), which cannot load objects")
            raise ObjectFileError(f"it is for {title(obj.machine)}, this machine is {this}")
        for resident in shared:
            _load_resident(resident)
        layout = plan_layout(obj)
        external = {symbol: _resolve(symbol) for symbol in undefined_symbols(obj)}
        missing = [symbol for symbol, address in external.items() if address is None]
        if missing:
            raise ObjectFileError(f"it needs symbols nobody here defines: {', '.join(missing)}")
        addresses = {symbol: address for symbol, address in external.items() if address is not None}
        size = max(layout.size, mmap.PAGESIZE)
        address = _map(size)
        try:
            image = memoryview((ctypes.c_char * size).from_address(address)).cast("B")
            link(obj, layout, image, address, addresses)
            for segment in layout.segments:
                _protect(address + segment.offset, segment.size, segment.protection)
        except BaseException:
            _libc.munmap(address, size)
            raise
        return address, size, defined_symbols(obj, layout)
    except ObjectFileError as error:
        raise ObjectFileError(f"cannot load {name}: {error}") from None


def _apart(archive: Archive) -> tuple[Archive, list[bytes]]:
    """Split an archive into per-library objects and the objects that a process keeps once."""
    shared: list[bytes] = []
    units: list[Unit] = []
    for unit in archive.units:
        data = archive.objects[unit.object]
        if not unit.names and _resident_symbol(data):
            shared.append(data)
        elif unit.names or not _defines(data, LIBRARY_TABLE):  # that is for shared libraries only
            units.append(unit)
    return (Archive(archive.objects, tuple(units)), shared) if shared else (archive, [])


@functools.lru_cache(maxsize=64)
def _defines(data: bytes, name: str) -> bool:
    """True if an object defines a symbol. Remembered: the objects asked about are in every archive."""
    return name.encode() in data and any(
        symbol.name == name and symbol.section != SHN_UNDEF for symbol in parse_object(data).symbols
    )


def _resident_symbol(data: bytes) -> str:
    """The symbol by which an object is known that a process keeps; empty for any other object."""
    for marker in (LAUNCH, f"{CELLS}table"):
        if _defines(data, marker):
            return marker
    return ""


def _load_resident(data: bytes) -> None:
    """Load the thread pool or the support code of compiled functions, for good. All libraries share the first one.

    The pool's threads stay in its code, and tensors are freed by the other's, which may be at any time.
    """
    marker = _resident_symbol(data)
    with _pool_lock:
        if marker in _symbols:
            return
        for symbol, address in pool_symbols().items() if marker == LAUNCH else ():
            register_symbol(symbol, address)
        address, _, offsets = _load(data, "the thread pool" if marker == LAUNCH else "support code")
        for symbol, (offset, kind) in offsets.items():
            if kind == STT_FUNC and symbol != marker:
                register_symbol(symbol, address + offset)
        register_symbol(marker, address + offsets[marker][0])


def cells_function(name: str) -> tvm_ffi.Function:
    """A packed function of the support code of compiled functions, which a library has brought."""
    with _lock:
        address = _symbols[f"{CELLS}{name}"]
    return tvm_ffi.Function.__from_extern_c__(address)


def _map(size: int) -> int:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address = _libc.mmap(None, size, _PROTECTION["rw"], flags, -1, 0)
    if address is None or address == _MAP_FAILED:
        raise MemoryError(f"out of memory: cannot map {size} bytes for code")
    return address


def _protect(address: int, size: int, protection: str) -> None:
    # On AArch64 the kernel makes the instruction cache see a page when it becomes executable.
    if _libc.mprotect(address, size, _PROTECTION[protection]):
        raise ObjectFileError(f"the system refuses to make its pages {protection!r}")


def _resolve(symbol: str) -> int | None:
    """The address of a C symbol: registered, else of tvm-ffi, libm, or anything loaded globally."""
    with _lock:
        if symbol in _symbols:
            return _symbols[symbol]
    for library in (tvm_ffi.LIB, _libm, _libc):
        address = _find(library, symbol)
        if address is not None:
            return address
    return None


def _find(library: Any, symbol: str) -> int | None:
    try:
        return ctypes.cast(library[symbol], ctypes.c_void_p).value
    except (AttributeError, ValueError):
        return None


def _open_libm() -> ctypes.CDLL:
    """Open libm, which the process's own symbols may lack."""
    try:
        return ctypes.CDLL("libm.so.6")
    except OSError:  # not glibc: libm is part of the C library
        return _libc


_libm = _open_libm()
