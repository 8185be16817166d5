"""The process that builds a program for another one (`full_build`)."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from ..farm import background_writes, cache
from ..farm.host import resolve
from ..ir import DiagnosticError
from .driver import built_or_recalled
from .full_build import IN_CACHE, IN_FILE, NICENESS, read_request
from .recall import recall_program


def main(descriptor: int, path: str) -> int:
    """Build the request in an open file; print where the program is: in the cache, or in the file `path`."""
    _yield_to_others()
    request = read_request(descriptor)
    where = resolve(request.target)
    try:
        with request.in_context():
            memory = recall_program(request.module, where, "default", request.exec_mode)
            executable = built_or_recalled(request.module, where, "default", request.exec_mode, memory)
    except DiagnosticError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if memory is not None:
        background_writes.wait_for(memory.key)
    if memory is not None and cache.noted(memory.key) is not None:
        sys.stdout.write(f"{IN_CACHE}\n")
    else:
        executable.save(path)
        sys.stdout.write(f"{IN_FILE}\n")
    return 0


def _yield_to_others() -> None:
    """Let other processes come first.

    Linux may share processors between sessions, each of which has a niceness of its own; that of a process counts among
    the processes of its session alone (sched(7), the autogroup feature).
    """
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(NICENESS))
