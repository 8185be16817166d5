"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    ".library": "library_text",
    ".support_code": "FUNCTIONS TABLE_MARK cell_function cells_text",
    ".values": "INNER_CALL Passed",
}
