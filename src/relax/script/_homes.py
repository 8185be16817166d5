"""The module of each name of this package. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    "from_source": ".parser",
    "ir": ".parser",
    "ir_module": ".parser",
    "printer": ".printer:",
    "relax": ".parser",
    "tir": ".parser",
}
