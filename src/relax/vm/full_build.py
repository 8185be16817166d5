"""The full build of a program in a process of its own, while this one runs the program of tier "now".

The process gets the module in a file without a name: a pickle, and the elements of large constants behind it, which
it maps. Constants that are in a file already it reads there. What it built is in the cache of programs, or in a file if
the cache does not take it (a build that warned, say). It yields to other processes, and leaves a core to the program:
the programs of this process, such as the pieces of a module of torch, are built one after another.
"""

from __future__ import annotations

import io
import json
import mmap
import os
import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from ..farm.tuning_records import VARIABLE, database_in_use
from ..farm.worker_processes import job_limit
from ..ir import IRModule, StoredArray, StoredFile
from ..ir.transform import PassContext
from ..runtime import Executable
from ..target import Target
from .recall import ProgramMemory

_START: Final = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from relax.vm.full_build_process import main; sys.exit(main(int(sys.argv[2]), sys.argv[3]))"
)
_ALIGNMENT: Final = 64
NICENESS: Final = 10
"""Niceness of the process: others come first."""
IN_CACHE: Final = "cache"
IN_FILE: Final = "file"


@dataclass(frozen=True)
class Request:
    """A program to build: what `relax.build` knows of it."""

    module: IRModule
    target: Target
    exec_mode: str
    context: tuple[Any, ...]
    """Optimisation level, required passes, disabled passes, configuration."""

    def in_context(self) -> PassContext:
        """The context in which the program was given to `build`."""
        level, required, disabled, config = self.context
        return PassContext(opt_level=level, required_pass=required, disabled_pass=disabled, config=config)


def context_of(context: PassContext) -> tuple[Any, ...]:
    """Parts of a context that a request holds."""
    return context.opt_level, list(context.required_pass), list(context.disabled_pass), dict(context.config)


class _Turns:
    """Lock that lets one full build of this process run at a time.

    It is no `ForkLock`, for which a fork would wait as long as a build takes: a forked process gets a new lock.
    """

    def __init__(self) -> None:
        self.renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        """Make a lock that is free."""
        self.lock = threading.Lock()


_turns: Final = _Turns()


class FullBuild:
    """Builds a program in another process."""

    def __init__(self, request: Request, memory: ProgramMemory) -> None:
        self.request, self.memory = request, memory
        # The first use of tempfile takes a lock, which a process forked meanwhile would wait for.
        tempfile.TemporaryDirectory(prefix="relax-").cleanup()

    def __call__(self) -> Executable:
        """Wait for the process; return what it built. Raises RuntimeError with its errors, if it fails."""
        with _turns.lock, tempfile.TemporaryDirectory(prefix="relax-") as folder, _nameless_file() as file:
            path = Path(folder) / "program"
            files = write_request(self.request, file)
            inherited = (file.fileno(), *(stored.stream.fileno() for stored in files))
            command = [sys.executable, "-I", "-S", "-c", _START, json.dumps([*map(str, sys.path)])]
            process = subprocess.run(
                [*command, str(file.fileno()), str(path)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                pass_fds=inherited,
                start_new_session=True,  # an interrupt from the keyboard is this process's affair
                env={**os.environ, "RELAX_JOBS": str(max(1, job_limit() - 1)), VARIABLE: database_in_use()},
            )
            words = process.stdout.split()
            if process.returncode or not words:
                lines = process.stderr.strip() or f"its process ended with {process.returncode}"
                raise RuntimeError(lines)
            executable = self.memory.load() if words[-1] == IN_CACHE else Executable.load(path)
            if executable is None:
                raise RuntimeError("the program it built is not in the cache any more")
            return executable


# --------------------------------------------------------------------------------------- the request as a file


def _nameless_file() -> Any:
    """A file in memory, where there is such a thing; else a temporary one."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("relax"), "r+b")
    return tempfile.TemporaryFile()


class _Pickler(pickle.Pickler):
    """Writes constants that are in files as places in them."""

    def __init__(self, stream: io.BytesIO, buffers: list[pickle.PickleBuffer]) -> None:
        super().__init__(stream, 5, buffer_callback=buffers.append)
        self.files: dict[int, StoredFile] = {}

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, StoredArray):
            return None
        self.files[id(obj.file)] = obj.file
        return obj.file.stream.fileno(), obj.offset, obj.shape, obj.dtype.name


class _Unpickler(pickle.Unpickler):
    """Reads what `_Pickler` wrote, in a process with the same open files."""

    def __init__(self, stream: io.BytesIO, buffers: Sequence[memoryview]) -> None:
        super().__init__(stream, buffers=buffers)
        self.files: dict[int, StoredFile] = {}

    def persistent_load(self, pid: Any) -> StoredArray:
        descriptor, offset, shape, dtype = pid
        file = self.files.get(descriptor)
        if file is None:
            file = self.files[descriptor] = StoredFile(f"/dev/fd/{descriptor}")
        return StoredArray(file, offset, shape, dtype)


def write_request(request: Request, file: Any) -> list[StoredFile]:
    """Write a request; return the open files that its constants are in."""
    stream, buffers = io.BytesIO(), list[pickle.PickleBuffer]()
    pickler = _Pickler(stream, buffers)
    pickler.dump(request)
    code = stream.getbuffer()
    raws = [buffer.raw() for buffer in buffers]
    head = json.dumps([len(code), *(raw.nbytes for raw in raws)]).encode()
    file.write(head + b"\n")
    for piece in (code, *raws):
        file.write(bytes(-file.tell() % _ALIGNMENT))
        file.write(piece)
    file.flush()
    return list(pickler.files.values())


def read_request(descriptor: int) -> Request:
    """Read a request from an open file, which is mapped as long as its constants live."""
    memory = memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
    head = bytes(memory[: 1 << 20]).partition(b"\n")[0] if len(memory) else b""
    place = len(head) + 1
    pieces: list[memoryview] = []
    for size in json.loads(head):
        place += -place % _ALIGNMENT
        pieces.append(memory[place : place + size])
        place += size
    return cast(Request, _Unpickler(io.BytesIO(pieces[0]), pieces[1:]).load())
