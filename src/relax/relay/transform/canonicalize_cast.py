"""CanonicalizeCast: duplicate widening casts for each user.

    %0 = cast(%x, dtype="int32");              %0 = cast(%x, dtype="int32");
    (add(%0, 1), multiply(%0, 2))   becomes    %1 = cast(%x, dtype="int32");
                                               (add(%0, 1), multiply(%1, 2))

Each user then fuses with its own cast and reads the narrow tensor. Only operator calls are users; a cast with any other
use stays one node.
"""

from __future__ import annotations

from ...ir import DataType, Op
from ..expr import Call, Expr, Function
from ..parts import parts_of, with_parts
from ..scopes import nodes_with_parts
from ..types import TensorType, TypeVar
from .rewriting import Program, fresh_node, is_call, relay_pass


def canonicalize_cast(expr: Expr) -> Expr:
    """Return the typed expression with one widening cast per user; itself if that is already so."""
    order = nodes_with_parts(expr)
    users: dict[Expr, list[Expr]] = {}
    for node in order:
        for part in dict.fromkeys(parts_of(node)):
            if _widens(part):
                users.setdefault(part, []).append(node)
    shared = {
        cast
        for cast, nodes in users.items()
        if len(nodes) > 1 and all(isinstance(node, Call) and isinstance(node.op, Op) for node in nodes)
    }
    taken: set[Expr] = set()
    memo: dict[Expr, Expr] = {}
    for node in order if shared else ():
        own: dict[Expr, Expr] = {}
        for part in dict.fromkeys(parts_of(node)):
            standing = memo.get(part, part)
            own[part] = fresh_node(standing, parts_of(standing)) if part in shared and part in taken else standing
            taken.add(part)
        memo[node] = with_parts(node, [own[part] for part in parts_of(node)])
    return memo.get(expr, expr)


def _widens(expr: Expr) -> bool:
    if not is_call(expr, "cast") or expr.attrs is None:
        return False
    operand = getattr(expr.args[0], "checked_type_", None)
    if not isinstance(operand, TensorType) or isinstance(operand.dtype, TypeVar):
        return False
    return DataType(expr.attrs.dtype).bits > operand.dtype.bits


@relay_pass("CanonicalizeCast", opt_level=3, required=["InferType"])
def CanonicalizeCast(function: Function, program: Program) -> Expr:
    """Duplicate widening casts for each user, in every function."""
    del program
    return canonicalize_cast(function)
