"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    "..runtime": "Executable VMInstrumentReturnKind VirtualMachine",
    ".driver": "build compile",
    ".eager": "eager",
    ".find_nan": "NaNReport find_nan",
}
