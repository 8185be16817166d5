"""Instances of polymorphic values: the type arguments of each use, found by type inference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from ..runtime.records import dataclass
from .expr import Call, Expr, RelayExpr, update_checked_type
from .parts import parts_of, with_parts
from .scopes import nodes_with_parts
from .type_walk import IncompleteParts
from .types import Type


@dataclass(frozen=True, slots=True)
class Instance:
    """Use of a polymorphic value, an operator or a constructor: its type and type arguments.

    A type argument is a type; for the shape kind a tuple, for the dtype kind a DataType.
    """

    type: Type
    args: tuple[Any, ...]


Uses: TypeAlias = dict[tuple[Expr, Expr], list[Instance]]
"""Instances by (node, part), in the order in which the part occurs in the node."""


def with_type_args(expr: Expr, uses: Mapping[tuple[Expr, Expr], list[Instance]]) -> Any:
    """Add inferred type arguments to calls without them; return the expression unchanged if there are none.

    Before   @id(1)
    After    @id<int32>(1)

    Type arguments that nothing determines stay out.
    """
    changed: dict[Expr, Expr] = {}
    for node in nodes_with_parts(expr):
        new = with_parts(node, [changed.get(part, part) for part in parts_of(node)])
        if isinstance(node, Call) and isinstance(new, Call) and not node.type_args:
            instances = uses.get((node, node.op))
            if instances and instances[0].args and all(map(_is_determined, instances[0].args)):
                new = new.replace(type_args=instances[0].args)
        if new is not node:
            changed[node] = new
            if isinstance(node, RelayExpr) and isinstance(new, RelayExpr):
                update_checked_type(new, node.checked_type)
    return changed.get(expr, expr)


def _is_determined(argument: Any) -> bool:
    """True if a type argument contains no incomplete type."""
    return isinstance(argument, Type) and not IncompleteParts().of(argument)
