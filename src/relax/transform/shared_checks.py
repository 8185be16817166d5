"""The table of the checks of one value whose struct info stands in very many places, an entry for each object.

``a1 = (a0, a0)``, ``a2 = (a1, a1)`` and so on are few objects in 2**n places. Where a function takes or gives such a
value, a check for each place would be a program of that size. ``vm.builtin.match_parts`` goes through the value and
this table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import cast

from ..analysis.matching import Check, Subject, check, comparing
from ..expr import Var
from ..info.mapping import dims_of
from ..ir import Node, StructInfo
from ..ir.sharing import is_excessive, parts_first
from ..prim import FloatImm, IntImm, PrimExpr
from ..struct_info import ObjectStructInfo, PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo

PLACES = 500
"""The places of a struct info, most of them because objects are shared, up to which each has a check of its own."""


Code = Callable[[Check, int], tuple[int, int | float]]
"""A function that gives the treatment of a dimension, with a slot or a constant."""


def is_shared(info: StructInfo) -> bool:
    """True if a value is matched by a table: its struct info has too many places, and nothing that needs a call of
    its own: a function, a device, a shape in a variable. What its dimensions are compared with is computed before the
    first comparison, so that an overflow there is raised even if an earlier comparison fails.
    """
    return (
        isinstance(info, TupleStructInfo) and is_excessive(info, PLACES) and all(map(_is_plain, _struct_infos_of(info)))
    )


class OnceEach:
    """Tells which fields of some values have a struct info that another field before them has, the same object."""

    def __init__(self, subjects: Collection[Subject]) -> None:
        self._subjects = subjects
        self._met: set[tuple[Subject, int]] = set()

    def __call__(self, subject: Subject) -> bool:
        whole = subject.outermost()
        key = whole, id(subject.info)
        if whole not in self._subjects or not isinstance(subject.info, TupleStructInfo) or key not in self._met:
            self._met.add(key)
            return False
        return True


def shared_dims(info: StructInfo) -> list[PrimExpr]:
    """The dimensions that a table compares with what is computed."""
    return [dim for field in _struct_infos_of(info) for dim in dims_of(field) if not isinstance(dim, IntImm | FloatImm)]


def table_of(subject: Subject, code: Code) -> str:
    """The table of a subject, as ``vm.builtin.match_parts`` reads it."""
    numbers: dict[int, int] = {}
    entries: list[tuple[str, int, str, list[int | float], list[int | None]]] = []
    for info in _struct_infos_of(subject.info):
        inner = Subject(info, subject.context, subject.name)
        kind = inner.kind()
        if kind is None:  # an object
            continue
        compared = check(inner, dict(enumerate(map(comparing, dims_of(info)))))
        codes = [number for axis in range(len(compared.codes)) for number in code(compared, axis)]
        numbers[id(info)] = len(entries)
        entries.append((*kind, codes, [numbers.get(id(field)) for field in _fields(info)]))
    return json.dumps(entries, separators=(",", ":"))


def _struct_infos_of(info: StructInfo) -> list[StructInfo]:
    """Every struct info of a value and of its fields once, behind those of its own fields."""
    return cast("list[StructInfo]", parts_first(info, _fields))


def _fields(info: Node) -> tuple[StructInfo, ...]:
    return info.fields if isinstance(info, TupleStructInfo) else ()


def _is_plain(info: StructInfo) -> bool:
    match info:
        case TensorStructInfo(shape, _, vdevice):
            return vdevice is None and not isinstance(shape, Var)
        case _:
            return isinstance(info, ShapeStructInfo | PrimStructInfo | TupleStructInfo | ObjectStructInfo)
