"""Compile the library for levels of CPUs, for a wheel to carry (`relax.library.shipped`).

    python -m relax.vm.shipping FOLDER x86_64 aarch64

`hatch_build.py` runs this when a wheel is built. No machine of these levels is needed: LLVM compiles for each of them.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..codegen.support_objects import support_environments
from ..farm import cache
from ..farm.host import resolve
from ..farm.objects import object_environment
from ..farm.recall import note_environment
from ..farm.transfer import Totals, export_entries
from ..library.shipped import description_of, file_name, level_target
from ..library.store import library_environments
from ..target.isa import ISA, ISAS, Level
from .warm import warm

_KINDS = (cache.KERNEL, cache.NOTE)
"""Kinds of entries that a file has."""


def write_level(folder: Path, isa: ISA, level: Level, calls: Sequence[str] | None = None) -> Totals:
    """Compile the kernels of calls, by default all common ones, for a level; write its file into a folder.

    The kernels stay in the cache. Raises OSError if the file cannot be written.
    """
    target = resolve(level_target(isa, level))
    for _ in warm(target, calls):
        pass
    environments = {note_environment(target), object_environment(target)}
    environments |= support_environments(target) | library_environments(target)
    keys = [key for key in cache.entry_keys() if key.kind in _KINDS and key.environment in environments]
    return export_entries(folder / file_name(isa, level), description_of(target), keys)


def main(arguments: Sequence[str]) -> None:
    """Write the files of all levels of the architectures named after a folder."""
    known = {isa.name: isa for isa in ISAS if isa.levels}
    parser = argparse.ArgumentParser(prog="python -m relax.vm.shipping", description="Compile kernels for a wheel.")
    parser.add_argument("folder", type=Path, help="where the files are written")
    parser.add_argument(
        "architectures", nargs="+", choices=sorted(known), metavar="architecture", help=" or ".join(known)
    )
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    for isa in map(known.__getitem__, options.architectures):
        for level in isa.levels:
            with tempfile.TemporaryDirectory() as fresh:
                os.environ["RELAX_CACHE_DIR"] = fresh
                totals = write_level(options.folder, isa, level)
            sys.stdout.write(f"{file_name(isa, level)}: {totals.entries} entries, {totals.size / 1e6:.1f} MB\n")


if __name__ == "__main__":
    main(sys.argv[1:])
