"""Source text of running Python code, and the span a frame is evaluating.

Programs of ``python -c``, ``python -`` and the interactive prompt are not in files, and Python does not keep the text
of all of them (before 3.13, of none). Their text is recovered from its origin: the command line, the file behind
standard input, the read buffer of a pipe, the history of the prompt. It is used only if it compiles to the code in
question.
"""

from __future__ import annotations
import __future__

import contextlib
import ctypes
import itertools
import linecache
import os
import re
import stat
import sys
import types
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Final, cast

from .span import Source, Span

_PACKAGE: Final = str(Path(__file__).parents[1]) + os.sep

_MOST_LINES: Final = 1_000
"""Maximum number of history lines in one statement."""

_FUTURE: Final = __future__.annotations.compiler_flag | __future__.barry_as_FLUFL.compiler_flag
"""Code flags of ``from __future__ import`` statements that affect compilation."""


_SOURCES: dict[str, tuple[list[str], Source]] = {}
"""By file name: the lines in linecache, and the source created from them."""


def source_of(code: types.CodeType, module_globals: dict[str, Any] | None = None) -> Source | None:
    """Source text of a code object, with its line numbers; None if it cannot be found."""
    name = code.co_filename
    if os.path.exists(name):  # other entries (notebook cells, doctests) would be dropped as out of date
        linecache.checkcache(name)
    lines = linecache.getlines(name, module_globals)
    if lines:
        held, source = _SOURCES.get(name, (None, None))
        if source is None or held is not lines:
            source = Source(name, "".join(lines))
            _SOURCES[name] = lines, source
        return source
    return next((Source(name, text) for text in _candidates(name) if _compiles_to(text, code)), None)


def caller_span(frame: types.FrameType) -> Span | None:
    """Span of the expression a Python frame is evaluating (its line, before Python 3.11); None without source text.

    Used for decorators and annotations, which Python evaluates before any parser sees them.
    """
    code, line = frame.f_code, frame.f_lineno
    source = source_of(code, frame.f_globals)
    text = source.line(line) if source is not None else ""
    if source is None or not text:
        return None
    indent = len(text) - len(text.lstrip())
    whole = Span(source, line, indent + 1, line, len(text) + 1)
    positions: Callable[[], Iterator[tuple[int | None, ...]]] | None = getattr(code, "co_positions", None)
    if positions is None:
        return whole
    first, last, start, end = next(itertools.islice(positions(), frame.f_lasti // 2, None))
    if first is None or last is None or start is None or end is None or not (source.line(first) and source.line(last)):
        return whole
    columns = [len(source.line(n).encode()[:c].decode(errors="replace")) for n, c in ((first, start), (last, end))]
    return Span(source, first, columns[0] + 1, last, columns[1] + 1)


def user_span(*own: str) -> Span | None:
    """Span of the expression that user code is evaluating; None if the caller is in this package or has no source text.

    `own` lists files and folders of this package, relative to it, on the path of the user's call; frames of contextlib
    may be in between.
    """
    skipped = (contextlib.__file__, *(_PACKAGE + path.replace("/", os.sep) for path in own))
    frame: types.FrameType | None = cast("Any", sys)._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(skipped):
        frame = frame.f_back
    if frame is None or frame.f_code.co_filename.startswith(_PACKAGE):
        return None
    return caller_span(frame)


def _candidates(name: str) -> Iterator[str]:
    """Possible source texts of code without a file."""
    if name == "<string>":
        yield from _command_line()
    elif name == "<stdin>":
        yield from _standard_input()
        yield from _history()


def _command_line() -> Iterator[str]:
    """Text after ``-c``, which may be in the same argument, possibly after other options."""
    for i, word in enumerate(sys.orig_argv[1:], 1):
        option, c, rest = word.partition("c")
        if c and option.startswith("-") and not option.startswith("--"):
            yield from [rest] if rest else sys.orig_argv[i + 1 : i + 2]
            return


def _standard_input() -> Iterator[str]:
    """Contents of the file behind standard input, or data read from a pipe; nothing for a terminal."""
    try:
        status = os.fstat(0)
        if stat.S_ISREG(status.st_mode) and hasattr(os, "pread"):
            yield os.pread(0, status.st_size, 0).decode()
        elif stat.S_ISFIFO(status.st_mode):
            yield from _texts_at_start(_last_block())
    except (OSError, UnicodeDecodeError):
        return


def _texts_at_start(block: bytes) -> Iterator[str]:
    """Texts at the start of a memory block, longest first; stale bytes may follow the last line."""
    text = _NO_TEXT.split(block, maxsplit=1)[0]
    try:
        rest = text.decode()
    except UnicodeDecodeError as error:
        rest = text[: error.start].decode()
    for _ in range(_MOST_TEXTS):
        yield rest
        rest, newline, _ = rest.removesuffix("\n").rpartition("\n")
        if not newline:
            return
        rest += newline


def _last_block() -> bytes:
    """Buffer of the C library's standard input, through which Python reads programs.

    It holds the last block read (4096 bytes for a pipe), thus all of a shorter program, followed by stale data: a shell
    passes short here-documents by a pipe, long ones by a file. Supported for glibc only, whose FILE has had one layout
    since 1997, and not with ``python -u`` or PYTHONUNBUFFERED, which leave no buffer.
    """
    if sys.platform != "linux":
        return b""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        return b""
    address = ctypes.c_void_p.in_dll(libc, "stdin").value
    if address is None:
        return b""
    file = _File.from_address(address)
    size = (file.pointers[_BUFFER_END] or 0) - (file.pointers[_BUFFER] or 0)
    if file.flags & 0xFFFF0000 != _FILE_MAGIC or not file.pointers[_BUFFER] or not 1 < size <= _LARGEST_BUFFER:
        return b""
    return ctypes.string_at(file.pointers[_BUFFER], size)


class _File(ctypes.Structure):
    """Start of glibc's FILE: flags, three read pointers, three write pointers, both ends of the buffer."""

    _fields_: ClassVar = [("flags", ctypes.c_uint), ("pointers", ctypes.c_void_p * 8)]


_FILE_MAGIC: Final = 0xFBAD0000
_BUFFER, _BUFFER_END = 6, 7
_LARGEST_BUFFER: Final = 1 << 20
_NO_TEXT: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_MOST_TEXTS: Final = 8
"""Maximum number of candidate texts; a stale byte is a line end once in hundreds."""


def _history() -> Iterator[str]:
    """Last lines typed at the prompt, from each unindented line on, latest first."""
    readline = sys.modules.get("readline")
    if readline is None or not hasattr(sys, "ps1"):
        return
    item = cast("Callable[[int], str | None]", readline.get_history_item)
    count: int = readline.get_current_history_length()
    lines: list[str] = []
    for i in range(count, max(count - _MOST_LINES, 0), -1):
        line = item(i) or ""
        lines.insert(0, line)
        if line[:1].strip():
            yield "\n".join(lines) + "\n"


def _compiles_to(text: str, code: types.CodeType) -> bool:
    """True if compiling a text yields code equivalent to `code`, as a whole or as a part."""
    flags = code.co_flags & _FUTURE
    return any(_alike(other, code) for other in _codes(text, flags))


@lru_cache(maxsize=8)
def _codes(text: str, flags: int) -> tuple[types.CodeType, ...]:
    result: list[types.CodeType] = []
    for mode in ("exec", "single"):
        try:
            pending = [compile(text, "<text>", mode, flags, dont_inherit=True)]
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        while pending:
            code = pending.pop()
            result.append(code)
            pending += [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return tuple(result)


def _alike(a: types.CodeType, b: types.CodeType) -> bool:
    """True if two code objects have the same instructions on the same lines, regardless of file."""
    same = (
        a.co_code == b.co_code
        and a.co_name == b.co_name
        and a.co_names == b.co_names
        and a.co_varnames == b.co_varnames
        and list(a.co_lines()) == list(b.co_lines())
        and len(a.co_consts) == len(b.co_consts)
    )
    return same and all(map(_same_const, a.co_consts, b.co_consts))


def _same_const(a: object, b: object) -> bool:
    if isinstance(a, types.CodeType) and isinstance(b, types.CodeType):
        return _alike(a, b)
    return type(a) is type(b) and repr(a) == repr(b)
