"""Machine code of the library that a wheel carries: one file for each level of CPUs (`ISA.levels`).

`relax.vm.shipping` writes the files when a wheel is built; a source checkout has none. A file holds entries of the
cache (`relax.farm.transfer`), for a target that describes its level. A program of tier "now" is compiled for the level
of the host if there is a file for it, made by this version: then the cache finds the file's entries after those of the
user.
"""

from __future__ import annotations

import dataclasses
import json
import mmap
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast

from ..farm import cache
from ..farm.store import Key, body_of, is_intact
from ..farm.transfer import Imported, TransferError
from ..target import Caches, Machine, Target
from ..target.isa import ISA, Level, isa_of
from .store import library_environments

FOLDER: Final = Path(__file__).with_name("compiled")
"""Folder of the files in an installed package."""

SUFFIX: Final = ".kernels"

_CORES: Final = 4
"""Number of cores that kernels of a level are scheduled for."""

_SETS: Final = ("dot_products", "tiles")
"""Fields of a machine that are sets."""


def level_target(isa: ISA, level: Level) -> Target:
    """Return the target of a level: Linux, and caches of a usual size.

    It names all features of the level: a saved program says what a processor must have to load it.
    """
    features = ",".join(f"+{feature}" for feature in sorted(level.features))
    options = f"-mtriple={isa.name}-unknown-linux-gnu -mcpu={level.cpu} -mattr={features} -num-cores={_CORES}"
    return Target(f"llvm {options}")


def file_name(isa: ISA, level: Level) -> str:
    """Return the name of a level's file."""
    return f"{isa.name}-{level.name}{SUFFIX}"


def description_of(target: Target) -> dict[str, str]:
    """Return the description in the file of a resolved target, from which `described_target` makes it again."""
    fields = {**dataclasses.asdict(target.machine), **{name: sorted(getattr(target.machine, name)) for name in _SETS}}
    return {"target": str(target), "machine": json.dumps(fields)}


def described_target(description: dict[str, str]) -> Target:
    """Return the resolved target of a file. Raises ValueError, TypeError or KeyError for a wrong description."""
    fields = cast("dict[str, Any]", json.loads(description["machine"]))
    fields |= {name: frozenset(fields[name]) for name in _SETS} | {"caches": Caches(**fields["caches"])}
    return Target(description["target"]).with_machine(Machine(**fields))


def shipped_target(where: Target) -> Target:
    """Return the target of programs of tier "now": the level of the host that the package has kernels for.

    Returns `where`, a resolved target, if it says more than "this machine", or there are no such kernels.
    """
    if where.attrs or not cache.enabled():
        return where
    return _for_host(FOLDER, where.triple, where.features) or where


@lru_cache(maxsize=8)
def _for_host(folder: Path, triple: str, features: str) -> Target | None:
    """Target of the highest level with a file; the cache finds the file's entries from now on."""
    isa = isa_of(triple)
    present = {word[1:] for word in features.split(",") if word.startswith("+")}
    for level in isa.levels:
        if level.features <= present:
            found = _opened(folder / file_name(isa, level))
            if found is not None and found[0].triple == triple:
                target, entries = found
                cache.read_also(entries.read)
                return target
    return None


def _opened(path: Path) -> tuple[Target, _Entries] | None:
    """Target and entries of a file; None if there is none, or it is damaged or of another version."""
    try:
        entries = _Entries(path)
        target = described_target(entries.description)
    except (OSError, ValueError, TypeError, KeyError):  # TransferError is a ValueError
        return None
    return (target, entries) if entries.environments & library_environments(target) else None


class _Entries:
    """The entries of a file, which is mapped, not read. Raises TransferError for a damaged file, and OSError."""

    def __init__(self, path: Path) -> None:
        with open(path, "rb") as file:
            read = Imported(file)
            self.description = read.description
            self._ranges = dict(read.ranges)
            try:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError:  # it has become empty
                raise TransferError("the file ends too early") from None

    @property
    def environments(self) -> set[str]:
        """Digests of the target and versions that the entries were made for (`Key.environment`)."""
        return {key.environment for key in self._ranges}

    def read(self, key: Key) -> bytes | None:
        """Return the contents of an entry; None if there is none, or it is damaged."""
        place = self._ranges.get(key)
        if place is None:
            return None
        data = self._bytes[place.offset : place.offset + place.size]
        return body_of(data) if is_intact(key, data) else None
