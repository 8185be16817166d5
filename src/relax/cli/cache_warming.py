"""``relax cache warm``: compile kernels of the library before a program needs them."""

from __future__ import annotations

import argparse
import sys

from ..farm import cache
from ..vm.warm import warm, warm_for
from .failures import SUCCESS
from .models import jobs, read_module
from .progress import progress
from .tables import byte_size, plural
from .targets import target_of


def warm_cache(options: argparse.Namespace) -> int:
    """Compile the kernels that models call, or those of common calls; returns the exit status."""
    target = target_of(options.target)
    compiled = 0
    with jobs(options.jobs):
        if options.models:
            for path in options.models:
                module = read_module(path)
                with progress(f"compiling kernels of {path.name}"):
                    compiled += warm_for(module, target)
        else:
            with progress("compiling kernels") as meter:
                for done in warm(target):
                    compiled += done.compiled
                    meter.describe(f"compiling kernels: {done.calls} of {done.all_calls} calls")
    size = byte_size(sum(entry.size for entry in cache.entries()))
    sys.stdout.write(f"{plural(compiled, 'kernel')} compiled; {cache.directory()} has {size}\n")
    return SUCCESS
