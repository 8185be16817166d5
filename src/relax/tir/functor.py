"""Walking and rewriting statements, expressions and functions.

Everything goes by the declared fields of the nodes, so a new kind of statement needs nothing here. A rewrite
that changes nothing returns the very object it got, and unchanged parts are shared.

Variables and buffers are leaves of a walk (what a buffer's shape says is visited only where asked for), and a
rewrite that changes a buffer changes every use of it to the same new buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from ..ir import Node, children_of, map_children
from ..ir.node import NODE_CLASSES
from ..prim.expr import PrimExpr, Var, convert, match_dtypes
from .buffer import Buffer

N = TypeVar("N", bound=Node)


def post_order_visit(node: Node, visit: Callable[[Node], Any]) -> None:
    """Call `visit` on everything below a node, parts before wholes, and on the node last.

    An object that occurs in several places is visited once. The fields of a Buffer are not entered.
    """
    seen: set[int] = set()

    def walk(part: Node) -> None:
        if id(part) in seen:
            return
        seen.add(id(part))
        if not part.__is_variable__:
            for below in children_of(part):
                walk(below)
        visit(part)

    walk(node)


def pre_order_visit(node: Node, visit: Callable[[Node], bool | None]) -> None:
    """Call `visit` on a node and everything below, wholes before parts; where it returns False, not below."""
    if visit(node) is False or node.__is_variable__:
        return
    for below in children_of(node):
        pre_order_visit(below, visit)


class StmtExprVisitor:
    """A walk with one method per kind of node: ``visit_<ClassName>(node)``, else `visit_default`.

    A method goes on into the parts with `visit_children`.
    """

    def __init__(self) -> None:
        self._methods: dict[type[Node], Callable[[Any], None]] = {}

    def visit(self, node: Node) -> None:
        """Dispatch on the node's class."""
        kind = type(node)
        method = self._methods.get(kind)
        if method is None:
            method = getattr(self, f"visit_{kind.__name__}", self.visit_default)
            self._methods[kind] = method
        method(node)

    def visit_default(self, node: Node) -> None:
        """What is done with a node of which no method speaks: visit its parts."""
        self.visit_children(node)

    def visit_children(self, node: Node) -> None:
        """Visit the parts of a node; variables and buffers have none."""
        if not node.__is_variable__:
            for below in children_of(node):
                self.visit(below)


class StmtExprMutator:
    """A rewrite with one method per kind of node: ``visit_<ClassName>(node)``, else `visit_default`.

    A method rewrites the parts with `visit_children`, which returns the node itself when no part changed.
    A Buffer is rewritten once, with the variables and expressions in it, and remembered.
    """

    def __init__(self) -> None:
        self._methods: dict[type[Node], Callable[[Any], Node]] = {}
        self._buffers: dict[Buffer, Buffer] = {}

    def visit(self, node: N) -> N:
        """Dispatch on the node's class."""
        kind = type(node)
        method = self._methods.get(kind)
        if method is None:
            method = getattr(self, f"visit_{kind.__name__}", self.visit_default)
            self._methods[kind] = method
        # A method may answer with another kind of node: the caller's field takes any of its base class.
        return cast(N, method(node))

    def visit_default(self, node: Node) -> Node:
        """What is done with a node of which no method speaks: rewrite its parts."""
        return self.visit_children(node)

    def visit_children(self, node: N) -> N:
        """The node with its parts rewritten; itself if none changed."""
        return map_children(node, self.visit)

    def visit_Var(self, node: Var) -> PrimExpr:
        return node

    def visit_Buffer(self, node: Buffer) -> Buffer:
        known = self._buffers.get(node)
        if known is None:
            self._buffers[node] = node  # an annotation may mention what it annotates
            known = self._buffers[node] = self.visit_children(node)
        return known


class _Substitution(StmtExprMutator):
    def __init__(self, variables: Mapping[Var, PrimExpr], buffers: Mapping[Buffer, Buffer]) -> None:
        super().__init__()
        self.variables = variables
        self._buffers.update(buffers)
        self._done: dict[int, Node] = {}

    def visit(self, node: N) -> N:
        known = self._done.get(id(node))
        if known is None:
            known = self._done[id(node)] = super().visit(node)
        return cast(N, known)

    def visit_Var(self, node: Var) -> PrimExpr:
        return self.variables.get(node, node)


def substitute(node: Any, mapping: Mapping[Any, Any]) -> Any:
    """Replace variables by expressions and buffers by buffers, in a node or in a tuple or list of them.

    `mapping` has keys of both kinds; a number takes the variable's dtype. A buffer whose shape, strides or
    offset mention a replaced variable becomes a new buffer, the same one at every use. Bound variables are
    objects of their own, so nothing is captured. Raises TypeError if a replacement has another dtype.
    """
    variables: dict[Var, PrimExpr] = {}
    buffers: dict[Buffer, Buffer] = {}
    for key, value in mapping.items():
        if isinstance(key, Buffer):
            buffers[key] = value
        else:
            variables[key] = _replacement(key, value)
    if not variables and not buffers:
        return node
    rewriter = _Substitution(variables, buffers)
    if isinstance(node, (tuple, list)):
        # Converted before any is visited: the rewriter remembers objects, which must stay alive.
        items = [convert(item) for item in cast("Iterable[Any]", node)]
        return type(node)([rewriter.visit(item) for item in items])  # type: ignore[reportUnknownVariableType]
    return rewriter.visit(node if isinstance(node, Node) else convert(node))


def _replacement(var: Var, value: Any) -> PrimExpr:
    if not isinstance(value, PrimExpr):
        _, value = match_dtypes(var, value)
    if value.dtype != var.dtype:
        raise TypeError(f"substitute: {var.name} has dtype {var.dtype!s}, its replacement {value.dtype!s}")
    return value


class _FunctionMutator(StmtExprMutator):
    def __init__(
        self,
        before: Callable[[Any], Node | None] | None,
        after: Callable[[Any], Node | None] | None,
        kinds: tuple[type[Node], ...],
    ) -> None:
        super().__init__()
        self.before, self.after, self.kinds = before, after, kinds

    def visit(self, node: N) -> N:
        if not isinstance(node, self.kinds):
            return super().visit(node)
        replaced = self.before(node) if self.before is not None else None
        if replaced is not None:
            return cast(N, replaced)
        result = super().visit(node)
        changed = self.after(result) if self.after is not None else None
        return result if changed is None else cast(N, changed)


def _node_class(kind: type[Node] | str) -> type[Node]:
    if not isinstance(kind, str):
        return kind
    name = kind.rpartition(".")[2]
    for key in (f"tir.{name}", f"prim.{name}"):
        if key in NODE_CLASSES:
            return NODE_CLASSES[key]
    raise ValueError(f"ir_transform: there is no class of nodes called {kind!r}")


def ir_transform(
    stmt: Node,
    preorder: Callable[[Any], Node | None] | None,
    postorder: Callable[[Any], Node | None] | None,
    only_enable: Iterable[type[Node] | str] | None = None,
) -> Any:
    """Rewrite by functions of the user: None from either leaves a node as it is.

    `preorder` sees a node first; what it returns stands, and is not entered. `postorder` sees the node with
    its parts rewritten. `only_enable` limits both to some classes, given as such or as ``"tir.BufferStore"``.
    """
    kinds = (Node,) if only_enable is None else tuple(map(_node_class, only_enable))
    return _FunctionMutator(preorder, postorder, kinds).visit(stmt)


__all__ = [
    "StmtExprMutator", "StmtExprVisitor", "ir_transform", "post_order_visit", "pre_order_visit", "substitute",
]  # fmt: skip
