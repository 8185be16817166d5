"""Layout of a graph's nodes, in layers from top to bottom.

Every edge leads to a lower layer. An edge that spans several layers is led past the nodes between by bends, one a
layer. Within a layer, nodes are ordered to have few crossings (each near the mean of its neighbours, swept down and
up), then moved as near to their neighbours as their widths allow.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import field

from ..runtime.records import dataclass

GAP = 24.0
"""Space between neighbours in a layer."""
LAYER_HEIGHT = 96.0
BEND_WIDTH = 4.0
SWEEPS = 6
MOST_BENDS = 30_000
"""Maximum bends of a graph; further edges are straight."""


@dataclass
class GraphLayout:
    """Centres of the nodes, bends of the edges, and size of the whole."""

    places: list[tuple[float, float]]
    bends: list[list[tuple[float, float]]]
    width: float
    height: float


@dataclass
class _Layers:
    """Nodes and bends (numbered after the nodes) by layer, and their neighbours above and below."""

    rows: list[list[int]]
    widths: list[float]
    above: list[list[int]] = field(default_factory=list[list[int]])
    below: list[list[int]] = field(default_factory=list[list[int]])


def place(widths: Sequence[float], edges: Sequence[tuple[int, int]]) -> GraphLayout:
    """Lay out nodes of these widths. Edges go from lower to higher indices."""
    layer = _layers_of(len(widths), edges)
    layers, chains = _with_bends(list(widths), edges, layer)
    _reduce_crossings(layers)
    x = _positions(layers)
    y = [0.0] * len(layers.widths)
    for index, row in enumerate(layers.rows):
        for item in row:
            y[item] = (index + 0.5) * LAYER_HEIGHT
    left = min((x[i] - layers.widths[i] / 2 for i in range(len(x))), default=0.0) - GAP
    right = max((x[i] + layers.widths[i] / 2 for i in range(len(x))), default=0.0) + GAP
    centres = [(x[i] - left, y[i]) for i in range(len(widths))]
    bends = [[(x[i] - left, y[i]) for i in chain] for chain in chains]
    return GraphLayout(centres, bends, right - left, len(layers.rows) * LAYER_HEIGHT)


def _layers_of(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Layer of each node: below all its operands; a node without operands, right above its first user."""
    layer = [0] * count
    users: list[list[int]] = [[] for _ in range(count)]
    uses: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        users[source].append(target)
        uses[target].append(source)
    for node in range(count):
        layer[node] = 1 + max((layer[source] for source in uses[node]), default=-1)
    for node in range(count):
        if not uses[node] and users[node]:
            layer[node] = min(layer[user] for user in users[node]) - 1
    return layer


def _with_bends(
    widths: list[float], edges: Sequence[tuple[int, int]], layer: list[int]
) -> tuple[_Layers, list[list[int]]]:
    """Layers including bends, and the bends of each edge."""
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for node, index in enumerate(layer):
        rows[index].append(node)
    layers = _Layers(rows, widths, [[] for _ in widths], [[] for _ in widths])
    chains: list[list[int]] = []
    for source, target in edges:
        chain: list[int] = []
        if len(widths) - len(layer) + layer[target] - layer[source] <= MOST_BENDS:
            for index in range(layer[source] + 1, layer[target]):
                chain.append(len(widths))
                widths.append(BEND_WIDTH)
                layers.above.append([])
                layers.below.append([])
                rows[index].append(chain[-1])
            ends = [source, *chain, target]
            for upper, lower in itertools.pairwise(ends):
                layers.below[upper].append(lower)
                layers.above[lower].append(upper)
        chains.append(chain)
    return layers, chains


def _reduce_crossings(layers: _Layers) -> None:
    rank = [0.0] * len(layers.widths)
    for row in layers.rows:
        for index, item in enumerate(row):
            rank[item] = float(index)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        neighbours = layers.above if down else layers.below
        for row in layers.rows if down else reversed(layers.rows):
            means = {item: _mean([rank[n] for n in neighbours[item]], rank[item]) for item in row}
            row.sort(key=means.__getitem__)
            for index, item in enumerate(row):
                rank[item] = float(index)


def _positions(layers: _Layers) -> list[float]:
    """Horizontal centre of every item."""
    x = [0.0] * len(layers.widths)
    for row in layers.rows:
        spread(row, layers.widths, x)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        neighbours = layers.above if down else layers.below
        for row in layers.rows if down else reversed(layers.rows):
            for item in row:
                x[item] = _mean([x[n] for n in neighbours[item]], x[item])
            spread(row, layers.widths, x)
    return x


def spread(row: Sequence[int], widths: Sequence[float], x: list[float]) -> None:
    """Move the items of a row apart with the least sum of squared shifts, so that they keep their order without
    overlaps.

    Without widths, this is isotonic regression: conflicting neighbours are pooled at their mean.
    """
    offsets: list[float] = []
    offset = 0.0
    for index, item in enumerate(row):
        if index:
            offset += (widths[row[index - 1]] + widths[item]) / 2 + GAP
        offsets.append(offset)
    groups: list[tuple[float, int]] = []  # mean, members
    for item, offset in zip(row, offsets, strict=True):
        mean, members = x[item] - offset, 1
        while groups and groups[-1][0] > mean:
            other, more = groups.pop()
            mean, members = (mean * members + other * more) / (members + more), members + more
        groups.append((mean, members))
    shifts = [mean for mean, members in groups for _ in range(members)]
    for item, offset, shift in zip(row, offsets, shifts, strict=True):
        x[item] = offset + shift


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default
