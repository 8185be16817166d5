"""Nodes after one whose result has several ranks: read separately for each branch, up to the join.

    if n == 1:                        if n == 1:
        h = squeeze(x, 1)                 h = squeeze(x, 1)                   # (m,)
    else:                                 z = … of one dimension
        h = x                             y = reshape(z, (m, 1))
    z = …  # needs the rank of h      else:
    y = reshape(z, (m, -1))               z = … of two dimensions             # (m, n)
    return exp(y)                         y = reshape(z, (m, n))
                                      return exp(y)

A Squeeze without axes is such a node, too: its result has another rank where a dynamic dimension is 1. The join is
after the first node from which on no value that is used differs in rank, dtype or known elements. If nodes do not fit
one of the ranks, that branch raises there (`branches`), and the other one alone decides the join. Nodes that do not
depend on the first one are read before it. The number of paths doubles with each such node inside of a continuation,
so they are nested `DEEPEST` deep at most.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, cast

from onnx import NodeProto

from ...expr import PrimValue
from ...ir import DiagnosticError, RelaxExpr, Span
from ...runtime.records import dataclass
from .branches import chosen, condition, equal_elements, is_misfit, undecided_ones
from .emitter import Emitter
from .model import subgraphs_of
from .objects import type_of
from .values import Elements, Subgraph, TensorType, Value

Names: TypeAlias = MutableMapping[str, "Value | None"]
"""The values of a graph by name."""
IndexedNode: TypeAlias = tuple[int, NodeProto]
"""A node with its index in its graph."""

DEEPEST: Final = 4
"""Maximum number of continuations inside of each other."""


class Reader(Protocol):
    """The part of a GraphReader that a continuation uses."""

    emitter: Emitter
    depth: int
    place: Span | None

    def nodes(
        self, ordered: Sequence[IndexedNode], names: Names, outputs: Collection[str], opsets: Mapping[str, int]
    ) -> None: ...

    def node(self, node: NodeProto, names: Names, opsets: Mapping[str, int]) -> None: ...

    def read_subgraph(self, subgraph: Subgraph, inputs: Sequence[Value | None]) -> list[Value | None]: ...

    def converting(self, node: NodeProto, opsets: Mapping[str, int]) -> Any: ...

    def input(self, name: str, names: Names) -> Value | None: ...

    def attributes(self, node: NodeProto, names: Names) -> dict[str, Any]: ...


def _test(reader: Reader, node: NodeProto, names: Names) -> bool | RelaxExpr | None:
    """The condition on which the rank of a node's results depends; None if there is none."""
    value = reader.input(node.input[0], names) if node.input else None
    if value is None:
        return None
    if node.op_type == "If":
        return condition(reader.emitter, value)
    if node.op_type == "Squeeze" and isinstance(value, RelaxExpr):
        undecided = undecided_ones(reader.emitter, reader.emitter.info(value).dims or ())
        return PrimValue(undecided[0].equal(1)) if undecided else None
    return None


def continued(
    reader: Reader,
    indexed: IndexedNode,
    rest: Sequence[IndexedNode],
    names: Names,
    outputs: Collection[str],
    opsets: Mapping[str, int],
) -> bool:
    """Read a node and those after it, separately for each rank; False if that is not needed or nested too deep.

    Nodes that do not depend on the first one, and those after the join, are read once.
    """
    if reader.depth >= DEEPEST:
        return False
    _, node = indexed
    place = reader.place
    with reader.converting(node, opsets):
        test = _test(reader, node, names)
    if test is None or isinstance(test, bool):
        return False
    free, dependent = _divided(node, rest)
    reader.nodes(free, names, {name for _, other in dependent for name in reads(other)} | set(outputs), opsets)
    reader.place = place
    paths = [_Path(reader, indexed, name, names, opsets) for name in ("then_branch", "else_branch")]
    with reader.converting(node, opsets):
        for path, holds in zip(paths, (True, False), strict=True):
            path.explore(test, holds, dependent)
        count = _join(reader.emitter, paths, node, dependent, outputs)
        region, after = dependent[:count], dependent[count:]
        defined = [name for _, other in [indexed, *region] for name in other.output if name]
        used = {name for _, other in after for name in reads(other)} | set(outputs)
        live = [name for name in defined if name in used]
        reader.depth += 1
        try:
            then, otherwise = (partial(path.values, region, live) for path in paths)
            values = chosen(reader.emitter, test, (then, otherwise), [None] * len(live)) if live else []
        finally:
            reader.depth -= 1
    names.update(zip(live, values, strict=True))
    reader.nodes(after, names, outputs, opsets)
    return True


@dataclass
class _Path:
    """One branch of an If, or one case of another node, and the nodes after it."""

    reader: Reader
    indexed: IndexedNode
    branch: str
    names: Names
    opsets: Mapping[str, int]
    seen: dict[str, Any] = field(default_factory=dict[str, Any])
    """Values of the branch and of the nodes after it, as far as they can be read."""
    reached: int = 0
    """Number of nodes after the If that can be read."""
    misfits: bool = False
    """True if the next node, or the branch itself, does not fit its inputs."""

    def explore(self, test: RelaxExpr, holds: bool, rest: Sequence[IndexedNode]) -> None:
        """Read the branch and the nodes after it for their values, and drop the bindings."""
        g = self.reader.emitter
        self.reached = -1
        try:
            with g.branch(), g.builder.given(test, holds):
                inner = self._begin(self.seen)
                if not self._is_if:
                    self.reader.node(self.indexed[1], inner, self.opsets)
                for position, indexed in enumerate(rest):
                    self.reached = position
                    self.reader.nodes([indexed], inner, indexed[1].output, self.opsets)
                self.reached = len(rest)
                self.seen = {name: _Summary.of(g, value) for name, value in self.seen.items()}
        except DiagnosticError as error:
            self.misfits = is_misfit(error)
            self.seen = {name: _Summary.of(g, value) for name, value in self.seen.items()}

    def values(self, region: Sequence[IndexedNode], live: Sequence[str]) -> list[Value | None]:
        """Read the branch and some nodes after it into the open block; the values of the names in `live`."""
        inner = self._begin({})
        region = region if self._is_if else [self.indexed, *region]  # which may have more than two ranks
        self.reader.nodes(region, inner, live, self.opsets)
        return [inner[name] for name in live]

    def _begin(self, own: dict[str, Any]) -> Names:
        inner: Names = ChainMap(own, cast("dict[str, Value | None]", self.names))
        if self._is_if:
            _, node = self.indexed
            values = self.reader.read_subgraph(self.reader.attributes(node, self.names)[self.branch], ())
            inner.update((name, value) for name, value in zip(node.output, values, strict=False) if name)
        return inner

    @property
    def _is_if(self) -> bool:
        """True if the values are those of a branch; else the node itself is read, under the condition."""
        return self.indexed[1].op_type == "If"


@dataclass(frozen=True)
class _Summary:
    """The type of a value, and its elements if they are known."""

    type: Any
    elements: Elements | None

    @staticmethod
    def of(g: Emitter, value: Value | None) -> _Summary:
        return _Summary(None if value is None else type_of(g, value), value if isinstance(value, Elements) else None)

    def fits(self, g: Emitter, other: _Summary) -> bool:
        """True if one variable can hold either value, without the loss of known elements; its rank must be known."""
        if isinstance(self.type, TensorType) and self.type.ndim < 0:
            return False
        if self.elements is None or other.elements is None:
            return self.type == other.type and self.elements is other.elements
        return equal_elements(g, self.elements, other.elements)


def _join(
    g: Emitter, paths: Sequence[_Path], node: NodeProto, rest: Sequence[IndexedNode], outputs: Collection[str]
) -> int:
    """The number of nodes after the If that are read separately."""
    one, other = paths
    last_use = {name: position for position, (_, reader) in enumerate(rest) for name in reads(reader)}
    last_use.update(dict.fromkeys(outputs, len(rest)))
    differing: set[str] = set()
    for position in range(min(one.reached, other.reached) + 1):
        maker = rest[position - 1][1] if position else node
        differing.update(name for name in maker.output if name and not one.seen[name].fits(g, other.seen[name]))
        differing = {name for name in differing if last_use.get(name, -1) >= position}
        if not differing:
            return position
    ends = [path.reached + 1 for path in paths if path.misfits]  # a path that does not fit raises; the other goes on
    return min(ends, default=len(rest))


def _divided(node: NodeProto, rest: Sequence[IndexedNode]) -> tuple[list[IndexedNode], list[IndexedNode]]:
    """Nodes after an If that do not depend on its outputs, and those that do."""
    decided = set(node.output)
    free: list[IndexedNode] = []
    dependent: list[IndexedNode] = []
    for indexed in rest:
        if decided.isdisjoint(reads(indexed[1])):
            free.append(indexed)
        else:
            dependent.append(indexed)
            decided.update(indexed[1].output)
    return free, dependent


def reads(node: NodeProto) -> set[str]:
    """Return the names that a node reads, including free names of its subgraphs."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        for graph in subgraphs_of(attribute):
            inner = {name for inner_node in graph.node for name in reads(inner_node)} | {o.name for o in graph.output}
            own = {item.name for item in graph.input} | {t.name for t in graph.initializer}
            names |= inner - own - {output for inner_node in graph.node for output in inner_node.output}
    return names
