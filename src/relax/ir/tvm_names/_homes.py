"""The module of each name of this package. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    "NAMESPACES": ".names",
    "Namespace": ".table",
    "Row": ".table",
    "row_of": ".names",
    "rows": ".names",
}
