"""Graphs as a self-contained HTML page: SVG, and JavaScript to zoom, pan and search."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from html import escape
from pathlib import Path

from .graph import Graph, GraphNode
from .layout import GraphLayout, place

LINE_HEIGHT = 16.0
MARGIN = 8.0
"""Space above the first line of a node, and below the last one."""
TALLEST = 2 * MARGIN + 3 * LINE_HEIGHT
"""Height of a node with constant operands."""
CHARACTER = 6.8
"""Width of a character of a node's text."""
LONGEST_LINE = 36

_TEMPLATE = Path(__file__).with_name("graph_page.html")


def graph_page(title: str, graphs: Sequence[Graph]) -> str:
    """HTML page of the graphs."""
    choices = "".join(f'<option value="{i}">{escape(g.name)}</option>' for i, g in enumerate(graphs))
    drawn = "\n".join(_drawn(index, graph) for index, graph in enumerate(graphs))
    page = _TEMPLATE.read_text(encoding="utf-8")
    for mark, text in (("@title@", escape(title)), ("@choices@", choices), ("@graphs@", drawn)):
        page = page.replace(mark, text)
    return page


def _drawn(index: int, graph: Graph) -> str:
    """One graph as an SVG group; hidden unless it is the first."""
    widths = [_width(node) for node in graph.nodes]
    layout = place(widths, graph.edges)
    hidden = ' style="display:none"' if index else ""
    size = f'data-width="{layout.width:.0f}" data-height="{layout.height:.0f}"'
    edges = "\n".join(_edge(i, edge, graph, layout) for i, edge in enumerate(graph.edges))
    nodes = "\n".join(
        _node(i, node, width, layout.places[i]) for i, (node, width) in enumerate(zip(graph.nodes, widths, strict=True))
    )
    start_x, start_y = _start(graph, layout)
    start = f'data-start-x="{start_x:.1f}" data-start-y="{start_y:.1f}"'
    return f'<g class="graph" {size} {start}{hidden}>\n{edges}\n{nodes}\n</g>'


def _start(graph: Graph, layout: GraphLayout) -> tuple[float, float]:
    """Position at which the page opens: the first used input of the topmost layer with one, or the top of the graph."""
    used = {source for source, _ in graph.edges}
    inputs = [layout.places[i] for i, node in enumerate(graph.nodes) if node.kind == "input" and i in used]
    return min(inputs, key=lambda place: place[1], default=(layout.width / 2, 0.0))


def _lines(node: GraphNode) -> list[str]:
    """The lines of a node: its name and expression, its constant operands if it has some, and its shape."""
    first = node.title if not node.name else f"{node.name} = {node.title}"
    if node.kind == "input":
        first = node.name
    constants = [_cut("const " + "; ".join(node.constants))] if node.constants else []
    return [_cut(first), *constants, _cut(node.shape)]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_LINE else text[: LONGEST_LINE - 1] + "…"


def _width(node: GraphNode) -> float:
    return max(64.0, max(map(len, _lines(node))) * CHARACTER + 20)


def _height(node: GraphNode) -> float:
    return 2 * MARGIN + LINE_HEIGHT * len(_lines(node))


def _node(number: int, node: GraphNode, width: float, centre: tuple[float, float]) -> str:
    first, *others = _lines(node)
    x, y = centre
    height = _height(node)
    words = " ".join((node.name, node.title, node.shape, *node.constants)).lower()
    details = "\n".join([node.text, *(f"constant operand: {text}" for text in node.constants)]).strip("\n")
    baseline = MARGIN + 0.75 * LINE_HEIGHT - height / 2
    texts = f'<text y="{baseline:.1f}">{escape(first)}</text>'
    for index, line in enumerate(others, 1):
        kind = "shape" if index == len(others) else "constants"
        texts += f'<text y="{baseline + index * LINE_HEIGHT:.1f}" class="{kind}">{escape(line)}</text>'
    return (
        f'<g class="node {node.kind}" data-node="{number}" data-words="{escape(words)}" tabindex="0" '
        f'transform="translate({x:.1f} {y:.1f})"><title>{escape(f"{first}: {node.shape}")}</title>'
        f'<rect x="{-width / 2:.1f}" y="{-height / 2:.1f}" width="{width:.1f}" height="{height:.0f}" rx="6"/>'
        f"{texts}<desc>{escape(details)}</desc></g>"
    )


def _edge(index: int, edge: tuple[int, int], graph: Graph, layout: GraphLayout) -> str:
    source, target = edge
    (x1, y1), (x2, y2) = layout.places[source], layout.places[target]
    half = TALLEST / 2
    beside = [(x, y + side) for x, y in layout.bends[index] for side in (-half, half)]  # straight past the nodes
    above, below = (_height(graph.nodes[node]) / 2 for node in edge)
    points = [(x1, y1 + above), *beside, (x2, y2 - below - 3)]
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (ax, ay), (bx, by) in itertools.pairwise(points):
        middle = (ay + by) / 2
        path += f"C{ax:.1f} {middle:.1f} {bx:.1f} {middle:.1f} {bx:.1f} {by:.1f}"
    shown = graph.nodes[source]
    label = escape(f"{shown.name or shown.title}: {shown.shape}")
    return f'<path class="edge" data-from="{source}" data-to="{target}" d="{path}"><title>{label}</title></path>'
