"""The arguments that a kernel may change, and that must therefore not overlap with the others."""

from __future__ import annotations

from functools import lru_cache

from ..ir import GlobalVar, Node, walk
from ..prim import Call, IntImm, PrimExpr, Var
from .buffer import BufferLoad
from .stmt import BufferStore, DeclBuffer, MatchBufferRegion, PrimFunc


@lru_cache(maxsize=128)
def written_params(func: PrimFunc, *, handed_on: bool = True) -> frozenset[int]:
    """Positions of the tensor parameters that the function may write.

    A buffer is written if it, or another view of its memory, is stored to; and, with `handed_on`, if its pointer is
    handed to a call, of which nothing is known.
    """
    written: set[Var] = set()
    views: dict[Var, Var] = {}

    def visit(node: Node) -> bool | None:
        if not isinstance(node, _WRITING):
            return None
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

    walk(func.body, visit)
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
"""The classes of nodes that say what is written."""

_BY_ADDRESS = frozenset({"address_of", "tvm_access_ptr", "call_extern", "call_packed"})
"""Intrinsics to which an element may mean its place in memory."""


def _pointers(arg: PrimExpr, whole: bool) -> list[Var]:
    """The memory an argument of a call gives access to; `whole` if an element stands for its buffer."""
    match arg:
        case Var() if arg.dtype.is_handle:
            return [arg]
        case BufferLoad(buffer) if whole:
            return [buffer.data]
        case _:
            return []


def promised_apart(func: PrimFunc) -> list[tuple[int, int]]:
    """Pairs of tensor parameters that a call must not give overlapping memory: (one that is stored to, another).

    There are none without the attribute ``tir.noalias``: then whatever is stored is seen through the other one.
    """
    if not func.attrs.get("tir.noalias"):
        return []
    written = written_params(func, handed_on=False)
    tensors = [i for i, param in enumerate(func.params) if param in func.buffer_map]
    return [(i, j) for i in tensors if i in written for j in tensors if j > i or (j < i and j not in written)]


def overlap_message(written: str, other: str) -> str:
    """The message about two arguments that `promised_apart` names and that overlap; by the names of their buffers."""
    return (
        f"argument {other} overlaps argument {written}, which is written; "
        "the function promises (tir.noalias) to be right only if they are apart"
    )
