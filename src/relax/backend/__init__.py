"""Other people's libraries: patterns of what they compute, code generators for them, and the partition of a program.

    register_codegen("npu", patterns=[("npu.add", is_op("relax.add")(wildcard(), wildcard()))],
                     codegen=json_codegen("npu"), runtime=Npu.load)
    mod = partition(mod, "npu")

What a library runs becomes a module of the executable (`relax.runtime.modules`). Where the program runs, a loader makes
functions of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.rooms import load_when_used
from ._homes import HOMES

if TYPE_CHECKING:
    from .codegen import register_codegen
    from .json_serializer import json_codegen, json_graph
    from .measurement import Choice, Report, measure
    from .partition import partition
    from .pattern_registry import get_pattern, get_patterns_with_prefix, register_patterns

__all__ = [
    "Choice", "Report", "get_pattern", "get_patterns_with_prefix", "json_codegen", "json_graph", "measure", "partition",
    "register_codegen", "register_patterns",
]  # fmt: skip

load_when_used(__name__, HOMES)
