"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    ".codegen": "register_codegen",
    ".json_serializer": "json_codegen json_graph",
    ".measurement": "Choice Report measure",
    ".partition": "partition",
    ".pattern_registry": "get_pattern get_patterns_with_prefix register_patterns",
}
