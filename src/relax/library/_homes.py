"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    ".call_library": "CallLibrary FORM",
    ".common": "common_calls module_of",
    ".pipeline": "now_pipeline",
    ".shipped": "shipped_target",
    ".store": "Library",
}
