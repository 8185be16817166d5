"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    ".cursor": "StringArray",
    ".file": "GGUFFile read",
    ".tokenizer": "Tokenizer",
    ".types": "GGMLType GGML_TYPES",
    ".writer": "Stored write",
}
