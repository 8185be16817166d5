"""Parameters that a kernel may write, which must not overlap with other arguments."""

from __future__ import annotations

from ..ir import GlobalVar, Node, walk
from ..prim import Call, IntImm, PrimExpr, Var
from ..prim.per_node import per_node
from .buffer import BufferLoad
from .stmt import BufferStore, DeclBuffer, MatchBufferRegion, PrimFunc


def written_params(func: PrimFunc, *, handed_on: bool = True) -> frozenset[int]:
    """Return the positions of tensor parameters that the function may write.

    A buffer is written if it, or another view of its memory, is stored to; with `handed_on`, also if its pointer is
    passed to a call.
    """
    return _stored_or_handed_on(func) if handed_on else _stored(func)


@per_node
def _stored_or_handed_on(func: PrimFunc) -> frozenset[int]:
    return _written(func, True)


@per_node
def _stored(func: PrimFunc) -> frozenset[int]:
    return _written(func, False)


def _written(func: PrimFunc, handed_on: bool) -> frozenset[int]:
    """Walk the body of a function: see `written_params`."""
    written: set[Var] = set()
    views: dict[Var, Var] = {}

    def visit(node: Node) -> bool | None:
        match node:
            case Call(_, _, (Call() as call, IntImm() as count)) if node.intrinsic == "parallel_for":
                written.update(*(_pointers(arg, True) for arg in call.args[2 : 2 + count.value]))
                return False
            case BufferStore(buffer):
                written.add(buffer.data)
            case MatchBufferRegion(buffer, source):
                views[buffer.data] = source.buffer.data
            case DeclBuffer(buffer):
                views.setdefault(buffer.data, buffer.data)
            case Call(_, op, args) if handed_on:
                whole = isinstance(op, GlobalVar) or node.intrinsic in _BY_ADDRESS
                for arg in args:
                    written.update(_pointers(arg, whole))
            case _:
                pass
        return None

    walk(func.body, visit, _WRITING)
    changed = True
    while changed:
        before = len(written)
        written |= {source for view, source in views.items() if view in written}
        changed = len(written) != before
    return frozenset(
        i
        for i, param in enumerate(func.params)
        if param in func.buffer_map and (func.buffer_map[param].data in written or param in written)
    )


_WRITING = (Call, BufferStore, MatchBufferRegion, DeclBuffer)
"""Classes of nodes that may write, or alias memory."""

_BY_ADDRESS = frozenset({"address_of", "tvm_access_ptr", "call_extern", "call_packed"})
"""Intrinsics whose BufferLoad arguments may denote addresses."""


def _pointers(arg: PrimExpr, whole: bool) -> list[Var]:
    """Return the data pointers that an argument of a call exposes; with `whole`, a BufferLoad exposes its buffer."""
    match arg:
        case Var() if arg.dtype.is_handle:
            return [arg]
        case BufferLoad(buffer) if whole:
            return [buffer.data]
        case _:
            return []


def promised_apart(func: PrimFunc) -> list[tuple[int, int]]:
    """Return pairs of tensor parameters, (stored, other), whose arguments must not overlap.

    Empty without the attribute ``tir.noalias``: then stores through one parameter are visible through the other.
    """
    if not func.attrs.get("tir.noalias"):
        return []
    written = written_params(func, handed_on=False)
    tensors = [i for i, param in enumerate(func.params) if param in func.buffer_map]
    return [(i, j) for i in tensors if i in written for j in tensors if j > i or (j < i and j not in written)]


def overlap_message(written: str, other: str) -> str:
    """Return the message about overlapping arguments, by the names of a pair from `promised_apart`."""
    return (
        f"argument {other} overlaps argument {written}, which is written; "
        "the function promises (tir.noalias) to be right only if they are apart"
    )
