"""Visitors and mutators of statements, expressions and functions.

Walks follow the declared fields of the nodes, so new classes of statements need no code here. A rewrite that changes
nothing returns the same object, and unchanged parts are shared.

Variables and buffers are leaves of a walk (the sizes in a buffer are not visited). A rewrite changes a buffer only at
its definition (a parameter, an allocation, a view), and its uses follow: rewriting only a body leaves the buffers of
the parameters unchanged.

An expression may be one object in several places: ``e = e + e``, sixty times, has sixty nodes and 2**60 paths. Within
one expression of a statement each object is visited once, and its first result is reused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar, cast

from ..ir import Node, children_of, map_children
from ..ir.node import node_class
from ..prim.expr import FloatImm, IntImm, Let, PrimExpr, Var, convert, match_dtypes
from ..prim.functor import FreeVars
from .buffer import Buffer, Reduce

N = TypeVar("N", bound=Node)


def post_order_visit(node: Node, visit: Callable[[Node], Any]) -> None:
    """Call `visit` on everything below a node, parts before wholes, and on the node last.

    An object that occurs in several places is visited once. The fields of a Buffer are not entered.
    """
    _post_order_visit(node, visit, set())


def _post_order_visit(node: Node, visit: Callable[[Node], Any], seen: set[int]) -> None:
    # No local function that calls itself: it would be a cycle, which keeps all that `visit` holds for the collector.
    seen.add(id(node))
    if not node.__is_variable__:
        for below in node.__children__():
            if id(below) not in seen:
                _post_order_visit(below, visit, seen)
    visit(node)


def pre_order_visit(node: Node, visit: Callable[[Node], bool | None]) -> None:
    """Call `visit` on a node and everything below, wholes before parts; if it returns False, the parts are skipped.

    An object that occurs in several places is visited once.
    """
    seen: set[int] = set()

    def walk(current: Node) -> None:
        if id(current) in seen:
            return
        seen.add(id(current))
        if visit(current) is not False and not current.__is_variable__:
            for below in children_of(current):
                walk(below)

    walk(node)


class _Memory:
    """Cache of results per object while one expression is walked; empty between expressions.

    Results inside a Let that depend on its variable, and all results inside a Reduce, are dropped at its end.
    """

    __slots__ = ("_free", "_results")

    def __init__(self) -> None:
        self._results: dict[int, tuple[Node, Any]] | None = None
        self._free: FreeVars | None = None

    def visit(self, node: Node, method: Callable[[Any], Any]) -> Any:
        """Return the result of `method` for an expression, called once for each object below the outermost one."""
        results = self._results
        if results is None:
            self._results = {}
            try:
                return method(node)
            finally:
                self._results = self._free = None
        cached = results.get(id(node))
        if cached is not None:
            return cached[1]
        size = len(results)
        result = method(node)
        if isinstance(node, (Let, Reduce)):
            self._free = free = self._free or FreeVars()
            for key in list(results)[size:]:
                inner = results[key][0]
                if isinstance(node, Reduce) or node.var in free.of(cast(PrimExpr, inner)):
                    del results[key]
        results[id(node)] = (node, result)  # the node is kept alive, lest another one get its id
        return result


_LEAVES = (Var, IntImm, FloatImm)

_SHARED: Final[dict[type[Node], bool]] = {}
"""True for the classes of expressions with parts: one object may occur in several places."""


def _is_shared(kind: type[Node]) -> bool:
    shared = _SHARED.get(kind)
    if shared is None:
        shared = _SHARED[kind] = issubclass(kind, PrimExpr) and not issubclass(kind, _LEAVES)
    return shared


class StmtExprVisitor:
    """A walk with one method per class of node: ``visit_<ClassName>(node)``, else `visit_default`.

    A method visits the node's parts with `visit_children`.
    """

    def __init__(self) -> None:
        self._methods: dict[type[Node], tuple[Callable[[Any], None], bool]] = {}
        self._shared = _Memory()

    def visit(self, node: Node) -> None:
        """Dispatch on the node's class."""
        kind = type(node)
        entry = self._methods.get(kind)
        if entry is None:
            method = getattr(self, f"visit_{kind.__name__}", self.visit_default)
            entry = self._methods[kind] = method, _is_shared(kind)
        method, shared = entry
        if shared:
            self._shared.visit(node, method)
        else:
            method(node)

    def visit_default(self, node: Node) -> None:
        """Visit the parts of a node whose class has no method."""
        self.visit_children(node)

    def visit_children(self, node: Node) -> None:
        """Visit the parts of a node; variables and buffers have none."""
        if not node.__is_variable__:
            for below in node.__children__():
                self.visit(below)


_BINDERS: dict[type[Node], tuple[str, ...]] = {}
"""Names of the binder fields of each class."""


def _binders_of(kind: type[Node]) -> tuple[str, ...]:
    names = _BINDERS.get(kind)
    if names is None:
        names = _BINDERS[kind] = tuple(f.name for f in kind.__node_fields__ if f.kind == "binder")
    return names


def _buffers_in(node: Node, binders: tuple[str, ...]) -> Iterator[Buffer]:
    """The buffers that a node itself defines, in fields of these names."""
    for name in binders:
        value: Any = getattr(node, name)
        items: Any = cast("dict[Any, Any]", value).values() if isinstance(value, dict) else value
        for item in items if isinstance(value, (dict, tuple)) else (items,):
            if isinstance(item, Buffer):
                yield item


class StmtExprMutator:
    """A rewrite with one method per class of node: ``visit_<ClassName>(node)``, else `visit_default`.

    A method rewrites the parts with `visit_children`, which returns the node itself when no part changed.
    A Buffer is rewritten once, where it is defined, with the variables and expressions in it; its uses follow.
    """

    def __init__(self) -> None:
        self._methods: dict[type[Node], tuple[Callable[[Any], Node], bool]] = {}
        self._buffers: dict[Buffer, Buffer] = {}
        self._shared = _Memory()

    def visit(self, node: N) -> N:
        """Dispatch on the node's class."""
        kind = type(node)
        entry = self._methods.get(kind)
        if entry is None:
            method = getattr(self, f"visit_{kind.__name__}", self.visit_default)
            entry = self._methods[kind] = method, _is_shared(kind)
        # A method may answer with another kind of node: the caller's field takes any of its base class.
        method, shared = entry
        result: Any = self._shared.visit(node, method) if shared else method(node)
        return result

    def visit_default(self, node: Node) -> Node:
        """Rewrite the parts of a node whose class has no method."""
        return self.visit_children(node)

    def visit_children(self, node: N) -> N:
        """The node with its parts rewritten; itself if none changed."""
        binders = _binders_of(type(node))
        if binders:
            for buffer in _buffers_in(node, binders):
                self.define_buffer(buffer)
        return cast(N, node.__mapped__(self.visit))

    def visit_all(self, nodes: tuple[N, ...]) -> tuple[N, ...]:
        """Rewrite each of `nodes`; returns the tuple itself if none changed."""
        result = tuple(self.visit(node) for node in nodes)
        return nodes if all(a is b for a, b in zip(nodes, result, strict=True)) else result

    def visit_predicate(self, predicate: PrimExpr | None) -> PrimExpr | None:
        """Rewrite the predicate of a load or store, if it has one."""
        return None if predicate is None else self.visit(predicate)

    def define_buffer(self, buffer: Buffer) -> None:
        """Rewrite a buffer at its definition."""
        self._buffers[buffer] = buffer  # its layout may mention its own pointer
        self._buffers[buffer] = map_children(buffer, self.visit)

    def visit_Var(self, node: Var) -> PrimExpr:
        return node

    def visit_Buffer(self, node: Buffer) -> Buffer:
        return self._buffers.get(node, node)


class StmtMutator(StmtExprMutator):
    """A rewrite of statements alone: expressions, and the buffers that statements define, stay as they are.

    Four of five nodes of a kernel are expressions, which are not walked. Its methods are for classes of statements.
    """

    def visit(self, node: N) -> N:
        """Dispatch on the node's class; expressions and buffers are returned."""
        return node if isinstance(node, _NO_STATEMENTS) else super().visit(node)

    def visit_children(self, node: N) -> N:
        """The statement with the statements in it rewritten; itself if none changed."""
        return cast(N, node.__mapped__(self.visit))


_NO_STATEMENTS = (PrimExpr, Buffer)


class _Substitution(StmtExprMutator):
    def __init__(self, variables: Mapping[Var, PrimExpr], buffers: Mapping[Buffer, Buffer]) -> None:
        super().__init__()
        self.variables = variables
        self._buffers.update(buffers)
        self._done: dict[int, Node] = {}

    def visit(self, node: N) -> N:
        cached = self._done.get(id(node))  # also across the expressions of a statement
        if cached is None:
            cached = self._done[id(node)] = super().visit(node)
        return cast(N, cached)

    def visit_Var(self, node: Var) -> PrimExpr:
        return self.variables.get(node, node)

    def visit_Buffer(self, node: Buffer) -> Buffer:
        if node not in self._buffers:  # free, or defined here
            super().define_buffer(node)
        return self._buffers[node]

    def define_buffer(self, buffer: Buffer) -> None:
        self.visit_Buffer(buffer)


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
        self._replaced = _Memory()

    def visit(self, node: N) -> N:
        if not isinstance(node, self.kinds):
            return super().visit(node)
        if isinstance(node, PrimExpr) and not isinstance(node, _LEAVES):
            return cast(N, self._replaced.visit(node, self.replaced))
        return cast(N, self.replaced(node))

    def replaced(self, node: Node) -> Node:
        """Apply the user's functions to a node, and the walk between them."""
        replaced = self.before(node) if self.before is not None else None
        if replaced is not None:
            return replaced
        result = super().visit(node)
        changed = self.after(result) if self.after is not None else None
        return result if changed is None else changed


def _node_class(kind: type[Node] | str) -> type[Node]:
    if not isinstance(kind, str):
        return kind
    name = kind.rpartition(".")[2]
    for key in (f"tir.{name}", f"prim.{name}"):
        with contextlib.suppress(KeyError):
            return node_class(key)
    raise ValueError(f"ir_transform: there is no class of nodes called {kind!r}")


def ir_transform(
    stmt: Node,
    preorder: Callable[[Any], Node | None] | None,
    postorder: Callable[[Any], Node | None] | None,
    only_enable: Iterable[type[Node] | str] | None = None,
) -> Any:
    """Rewrite by functions of the user; a function that returns None leaves a node unchanged.

    `preorder` is called before a node's parts are rewritten; its result replaces the node and is not visited.
    `postorder` is called with the rewritten node. `only_enable` limits both to some classes, or names such as
    ``"tir.BufferStore"``.
    """
    kinds = (Node,) if only_enable is None else tuple(map(_node_class, only_enable))
    return _FunctionMutator(preorder, postorder, kinds).visit(stmt)
