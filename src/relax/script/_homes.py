"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    ".parser": "from_source ir ir_module relax tir",
    ".printer:": "printer",
}
