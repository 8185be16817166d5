"""Groups of nodes to fuse in a graph of kernels, by post-dominators.

A node's post-dominator is the first node that everything computed from it goes through. A node joins its post-dominator
if all that lies between can be fused as well; so a group has one result, and nothing outside reads what is inside.

    exp ──► add ──► mul        exp joins mul over both paths: add is between, and elementwise
      └──────────────▲

Phases, each over all nodes in order:

0. elementwise and broadcasting nodes join what is injective or reduces; reductions and contractions join the
   elementwise nodes behind them, one of each in a group
1. injective nodes join injective nodes
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import field

from ...runtime.records import dataclass
from ...tir.op_pattern import OpPatternKind

Kind = OpPatternKind


@dataclass
class FusionNode:
    """A binding of a block."""

    kind: OpPatternKind
    consumers: list[tuple[int, OpPatternKind]] = field(default_factory=list[tuple[int, OpPatternKind]])
    """Users of the result by number, with the kind of operand it is to each."""
    is_external: bool = False
    """True if the result is visible outside of the block."""
    place: Hashable = None
    """Fusion region: nodes of different regions are never fused, since a write or a device change lies between."""


@dataclass
class _Group:
    members: list[int]
    kind: OpPatternKind


@dataclass(frozen=True)
class _Dominator:
    parent: int | None
    depth: int
    kind: OpPatternKind
    """The greatest kind of an edge on the way to the parent."""


def fusion_groups(nodes: Sequence[FusionNode], max_depth: int) -> list[list[int]]:
    """The groups of more than one node, each in order; the last of a group is the one whose result is used."""
    groups = _Partition(nodes, max_depth).run()
    return [group for group in groups if len(group) > 1 and _has_one_result(nodes, group)]


def _has_one_result(nodes: Sequence[FusionNode], group: list[int]) -> bool:
    """True if only the last member is seen outside of the group."""
    members = set(group)
    return all(
        not nodes[i].is_external and all(consumer in members for consumer, _ in nodes[i].consumers) for i in group[:-1]
    )


def post_dominators(nodes: Sequence[FusionNode]) -> list[_Dominator]:
    """The post-dominator of each node. Consumers come behind producers."""
    tree: list[_Dominator] = [_Dominator(None, 1, Kind.OPAQUE)] * len(nodes)
    for number in reversed(range(len(nodes))):
        node = nodes[number]
        if node.is_external or not node.consumers:
            continue
        (parent, kind), *rest = node.consumers
        common: int | None = parent
        for consumer, edge in rest:
            common, path = _common(tree, common, consumer)
            kind = max(kind, edge, path)
        if common is None:
            continue
        tree[number] = _Dominator(common, tree[common].depth + 1, kind)
    return tree


def _common(tree: Sequence[_Dominator], a: int | None, b: int | None) -> tuple[int | None, OpPatternKind]:
    """The nearest node that both lead to, and the greatest kind on the way."""
    kind = Kind.ELEMWISE
    while a != b:
        if a is None or b is None:
            return None, Kind.OPAQUE
        if tree[a].depth >= tree[b].depth:
            kind, a = max(kind, tree[a].kind), tree[a].parent
        else:
            kind, b = max(kind, tree[b].kind), tree[b].parent
    return a, kind


class _Partition:
    def __init__(self, nodes: Sequence[FusionNode], max_depth: int) -> None:
        self.nodes = nodes
        self.max_depth = max_depth
        self.dominators = post_dominators(nodes)
        self.groups = [_Group([number], node.kind) for number, node in enumerate(nodes)]
        """The group of each node; nodes of one group share the object."""

    def run(self) -> list[list[int]]:
        for phase in (0, 1):
            for number in range(len(self.nodes)):
                self.join(number, phase)
        unique = {id(group): group for group in self.groups}
        return [sorted(group.members) for group in unique.values()]

    def join(self, number: int, phase: int) -> None:
        """Join a node with its post-dominator if the phase allows it."""
        dominator, group = self.dominators[number], self.groups[number]
        if dominator.parent is None or group is self.groups[dominator.parent]:
            return
        allowed = self.allowed(group.kind, dominator.kind, phase)
        if allowed is None:
            return
        between = self.between(number, dominator.parent, allowed)
        if between is None:
            return
        merged = {id(g): g for g in map(self.groups.__getitem__, (*between, number, dominator.parent))}
        if sum(len(g.members) for g in merged.values()) <= self.max_depth:
            self.merge(list(merged.values()))

    def allowed(
        self, kind: OpPatternKind, path: OpPatternKind, phase: int
    ) -> Callable[[OpPatternKind, bool], bool] | None:
        """The condition on the kinds between a node and its post-dominator, which is last; None: they stay apart."""
        if kind in (Kind.COMM_REDUCE, Kind.OUT_ELEMWISE_FUSABLE):
            if phase == 0 and path == Kind.ELEMWISE:
                return lambda between, is_last: between <= Kind.BROADCAST
        elif kind <= Kind.BROADCAST:
            if path <= Kind.COMM_REDUCE:
                return lambda between, is_last: between <= (Kind.OUT_ELEMWISE_FUSABLE if is_last else Kind.INJECTIVE)
        elif kind == Kind.INJECTIVE and phase == 1:
            return lambda between, is_last: between <= Kind.INJECTIVE
        return None

    def between(self, first: int, last: int, allowed: Callable[[OpPatternKind, bool], bool]) -> set[int] | None:
        """The nodes on the ways from one to its post-dominator, that included; None if one is not allowed."""
        seen: set[int] = set()
        pending = [consumer for consumer, _ in self.nodes[first].consumers]
        while pending:
            number = pending.pop()
            if number in seen:
                continue
            seen.add(number)
            if self.nodes[number].place != self.nodes[first].place:
                return None
            if not allowed(self.groups[number].kind, number == last):
                return None
            if number != last:
                pending += [consumer for consumer, _ in self.nodes[number].consumers]
        return seen

    def merge(self, groups: Sequence[_Group]) -> None:
        members = [number for group in groups for number in group.members]
        whole = _Group(members, max(group.kind for group in groups))
        for number in members:
            self.groups[number] = whole
