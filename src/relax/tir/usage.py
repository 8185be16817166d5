"""Free variables and undefined buffers of statements, expressions and functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from ..ir import Node, children_of
from ..prim import Let, PrimExpr, Var
from .buffer import Buffer, CommReducer, IterVar, shape_vars_bound_by
from .stmt import AllocBuffer, Block, DeclBuffer, For, LetStmt, PrimFunc


def buffer_expressions(buffer: Buffer) -> tuple[PrimExpr, ...]:
    """Return the expressions in a buffer's layout: sizes, strides, offset."""
    offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
    return (*buffer.shape, *buffer.strides, *offset)


def size_vars(func: PrimFunc) -> tuple[Var, ...]:
    """Return the symbolic sizes of a function: variables that its buffers' shapes bind, and its integer parameters."""
    found: dict[Var, None] = {}
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            found.update(dict.fromkeys(shape_vars_bound_by(buffer)))
        elif param.dtype.is_integer:
            found[param] = None
    return tuple(found)


class Usage:
    """The variables and buffers that a statement, expression or function uses and defines."""

    def __init__(self, node: Node) -> None:
        self.defined: set[Var] = set()
        self.used: dict[Var, None] = {}
        self.buffers: dict[Buffer, None] = {}
        self.own_buffers: set[Buffer] = set()
        self._pending = [node]
        """The nodes to look at, the next one last."""
        self._collect()

    def undefined_vars(self) -> list[Var]:
        """The variables that are used and not defined, in order of first use."""
        return [var for var in self.used if var not in self.defined]

    def undefined_buffers(self) -> list[Buffer]:
        """The buffers that are used and neither parameters nor allocated or declared, in order of first use."""
        return [buffer for buffer in self.buffers if buffer not in self.own_buffers]

    def _collect(self) -> None:
        pending, used, seen = self._pending, self.used, set[int]()
        while pending:
            node = pending.pop()
            if isinstance(node, Var):
                used[node] = None
            elif isinstance(node, Buffer):
                if node not in self.buffers:
                    self.buffers[node] = None
                    pending += reversed((node.data, *buffer_expressions(node)))
            elif id(node) not in seen:
                seen.add(id(node))
                get_parts = self._PARTS.get(type(node))
                if get_parts is None:
                    below = node.__children__()
                    if len(below) > 1:
                        below.reverse()
                    pending += below
                else:
                    pending += reversed(get_parts(self, node))

    def _define(self, *buffers: Buffer, with_pointers: bool = True) -> None:
        self.own_buffers.update(buffers)
        if with_pointers:
            self.defined.update([buffer.data for buffer in buffers])

    # The methods note what a node defines, and return the parts in which something is used, in order.

    def _binding(self, node: LetStmt | Let | IterVar) -> list[Node]:
        self.defined.add(node.var)
        return children_of(node)

    def _loop(self, node: For) -> list[Node]:
        self.defined.add(node.loop_var)
        return children_of(node)

    def _reducer(self, node: CommReducer) -> list[Node]:
        self.defined.update(node.lhs, node.rhs)
        return children_of(node)

    def _alloc(self, node: AllocBuffer) -> list[Node]:
        self._define(node.buffer)
        return [node.buffer, node.body]

    def _decl(self, node: DeclBuffer) -> list[Node]:
        self._define(node.buffer, with_pointers=False)
        return [node.buffer, node.body]

    def _block(self, node: Block) -> list[Node]:
        views = [match.buffer for match in node.match_buffers]
        self._define(*node.alloc_buffers, *views)
        for view in views:
            self.defined.update(shape_vars_bound_by(view))
        return [*node.alloc_buffers, *views, *children_of(node)]

    def _function(self, node: PrimFunc) -> list[Node]:
        self.defined.update(node.params)
        buffers = list(node.buffer_map.values())
        self._define(*buffers)
        for buffer in buffers:
            self.defined.update(shape_vars_bound_by(buffer))
        return [*buffers, *node.preconditions, node.body]

    _PARTS: ClassVar[dict[type[Node], Callable[[Usage, Any], list[Node]]]] = {
        LetStmt: _binding,
        Let: _binding,
        IterVar: _binding,
        For: _loop,
        CommReducer: _reducer,
        AllocBuffer: _alloc,
        DeclBuffer: _decl,
        Block: _block,
        PrimFunc: _function,
    }


def undefined_vars(node: Node, defs: Iterable[Var] = ()) -> list[Var]:
    """Return the free variables of a statement, expression or function, except `defs`, in order of first use.

    A buffer's pointer counts as used where the buffer is; the sizes of a parameter's buffer are defined by it.
    """
    outside = set(defs)
    return [var for var in Usage(node).undefined_vars() if var not in outside]


def free_vars(node: Node) -> set[Var]:
    """`undefined_vars` as a set. (Do not test membership in a list of variables: comparing variables builds an
    expression.)
    """
    return set(undefined_vars(node))


def undefined_buffers(node: Node) -> list[Buffer]:
    """The buffers used that are neither parameters nor allocated or declared inside, in order of first
    use.
    """
    return Usage(node).undefined_buffers()


__all__ = ["Usage", "buffer_expressions", "free_vars", "shape_vars_bound_by", "undefined_buffers", "undefined_vars"]
