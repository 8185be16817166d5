"""The module of each name of this package. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    "Executable": "..runtime",
    "NaNReport": ".find_nan",
    "VMInstrumentReturnKind": "..runtime",
    "VirtualMachine": "..runtime",
    "build": ".driver",
    "compile": ".driver",
    "find_nan": ".find_nan",
}
