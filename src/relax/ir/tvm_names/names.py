"""The complete table, and look-ups in it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from . import common_names, loop_names, relax_names, relay_names
from .table import Namespace, Row

NAMESPACES: Final[tuple[Namespace, ...]] = (
    *common_names.NAMESPACES,
    *relax_names.NAMESPACES,
    *loop_names.NAMESPACES,
    *relay_names.NAMESPACES,
)


def rows() -> Iterator[Row]:
    """All rows in table order."""
    for namespace in NAMESPACES:
        yield from namespace.rows()


def row_of(module: str, name: str) -> Row | None:
    """Row of the name that TVM has in the counterpart of `module`: ``row_of("relax.transform", "Gradient")``."""
    return _by_place().get((module, name))


@cache
def _by_place() -> dict[tuple[str, str], Row]:
    table: dict[tuple[str, str], Row] = {}
    for namespace in NAMESPACES:
        for row in namespace.rows():
            table.setdefault((namespace.here, row.name), row)
    return table
