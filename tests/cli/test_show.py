"""The picture of the dataflow: which nodes it has, where they stand, and the page they are on."""

from __future__ import annotations

import itertools
import random
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from relax.cli.flame_page import flame_page
from relax.cli.graph import Graph, GraphNode, graphs_of
from relax.cli.graph_page import graph_page
from relax.cli.layout import GAP, LAYER_HEIGHT, place, spread
from relax.script import from_source

VOID = {"meta", "path", "rect", "input", "br"}


class Page(HTMLParser):
    """A page, whose elements are closed in order, and what it refers to."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.references = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.references += [value for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def of_class(self, name):
        return [attrs for _, attrs in self.tags if name in (attrs.get("class") or "").split()]


def program(body, head='x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool")'):
    text = f"from relax.script import ir as I, relax as R\n@I.ir_module\nclass M:\n    @R.function\n    def main({head}):\n"
    return from_source(text + "\n".join("        " + line for line in body.splitlines()) + "\n", name="m.py")


def described(graph):
    """A graph in words: its nodes, and each edge by the names of its ends."""
    names = [node.name or node.title for node in graph.nodes]
    return [(node.kind, node.title, node.name) for node in graph.nodes], [(names[a], names[b]) for a, b in graph.edges]


def test_a_node_for_each_value():
    (graph,) = graphs_of(program("y = R.exp(x)\nz = R.add(y, R.const(1, 'float32'))\nreturn z"))
    nodes, edges = described(graph)
    assert nodes == [
        ("input", "input", "x"),
        ("input", "input", "c"),
        ("operator", "exp", "y"),
        ("operator", "add", "z"),
        ("output", "output", ""),
    ]
    assert edges == [("x", "y"), ("y", "z"), ("z", "output")]
    assert [node.constants for node in graph.nodes] == [(), (), (), ("1.0",), ()]
    assert [node.shape for node in graph.nodes][:3] == ["n x 4, float32", "scalar, bool", "n x 4, float32"]
    assert graph.nodes[2].text == 'R.exp(x)\nR.Tensor((n, 4), dtype="float32")\nat m.py:6:13'


def test_constants_are_folded_into_their_users():
    body = """w = R.const([[1.0, 2.0, 3.0, 4.0]], "float32")
y = R.concat((x, w, R.const([[0.5] * 4], "float32"), w), 0)
u = R.add(y, w)
if c:
    z = R.multiply(u, R.const(2.5, "float32"))
else:
    z = R.multiply(u, w)
return (z, w)"""
    outer, true, false = graphs_of(program(body))
    assert [(node.title, node.constants) for node in outer.nodes if node.kind != "input"] == [
        ("concat", ("w: 1 x 4, float32", "1 x 4, float32")),
        ("add", ("w: 1 x 4, float32",)),
        ("if", ("w: 1 x 4, float32",)),
        ("output", ("w: 1 x 4, float32",)),
    ]
    assert described(outer)[1] == [("x", "y"), ("y", "u"), ("c", "z"), ("u", "z"), ("z", "output")]
    assert [node.constants for node in true.nodes if node.title == "multiply"] == [("2.5",)]
    assert ("input", "input", "w") in described(false)[0]


def test_tuples_and_aliases_are_no_nodes():
    body = "y = R.exp(x)\nt = (y, (x, y))\na = t[1]\nb = a[1]\nz = R.negative(b)\nreturn (z, a[0])"
    (graph,) = graphs_of(program(body))
    nodes, edges = described(graph)
    assert [name for _, _, name in nodes if name] == ["x", "c", "y", "z"]
    assert edges == [("x", "y"), ("y", "z"), ("z", "output"), ("x", "output")]


def test_branches_are_graphs_of_their_own():
    body = "if c:\n    y = R.exp(x)\nelse:\n    y = R.negative(x)\nreturn y"
    outer, true, false = graphs_of(program(body))
    assert described(outer)[1] == [("c", "y"), ("x", "y"), ("y", "output")]
    assert (true.name, false.name) == ("main > y, if true", "main > y, if false")
    assert [title for _, title, _ in described(true)[0]] == ["input", "exp", "output"]
    assert [title for _, title, _ in described(false)[0]] == ["input", "negative", "output"]


def test_kernels_have_the_names_of_their_functions():
    import relax

    lowered = relax.transform.LegalizeOps()(program("y = R.exp(x)\nreturn y"))
    (graph,) = graphs_of(lowered)
    assert ("call", "exp", "y") in described(graph)[0]


# -------------------------------------------------------------------------------------------- layout


def random_graph(seed, count=60):
    chosen = random.Random(seed)
    edges = {(chosen.randrange(max(0, b - 12), b), b) for b in range(1, count) for _ in range(chosen.choice([0, 1, 2]))}
    return [chosen.uniform(60, 200) for _ in range(count)], sorted(edges)


@pytest.mark.parametrize("seed", range(20))
def test_edges_go_down_and_nothing_overlaps(seed):
    widths, edges = random_graph(seed)
    layout = place(widths, edges)
    for index, (source, target) in enumerate(edges):
        path = [layout.places[source], *layout.bends[index], layout.places[target]]
        heights = [y for _, y in path]
        assert all(b - a == LAYER_HEIGHT for a, b in itertools.pairwise(heights))
    boxes = [(y, x - w / 2, x + w / 2) for (x, y), w in zip(layout.places, widths)]
    boxes += [(y, x, x) for bends in layout.bends for x, y in bends]
    boxes.sort()
    for (y1, _, right), (y2, left, _) in itertools.pairwise(boxes):
        assert y1 != y2 or left - right >= GAP - 1e-6
    assert all(0 <= x <= layout.width and 0 <= y <= layout.height for x, y in layout.places)


def test_a_chain_is_a_straight_line():
    layout = place([100.0, 60.0, 140.0], [(0, 1), (1, 2)])
    assert len({round(x, 6) for x, _ in layout.places}) == 1


def test_spreading_moves_as_little_as_possible():
    x = [0.0, 0.0, 500.0]
    spread([0, 1, 2], [10.0, 10.0, 10.0], x)
    assert x == [-17.0, 17.0, 500.0]


def test_an_empty_graph_has_a_place():
    assert place([], []).places == []


# --------------------------------------------------------------------------------------------- pages


def self_contained(text):
    page = Page(text)
    assert page.open == []
    assert page.references == []
    assert not re.search(r"https?:|@import|url\((?!#)", text)
    return page


def test_the_page_of_a_graph():
    nodes = [GraphNode("input", "input", "<x>", 'n & "m"', "</desc>"), GraphNode("operator", "exp", "y", "n")]
    page = self_contained(graph_page("<b>", [Graph("f", nodes, [(0, 1)]), Graph("g > if", nodes, [(0, 1)])]))
    assert len(page.of_class("node")) == 4
    assert len(page.of_class("edge")) == 2
    assert len(page.of_class("graph")) == 2
    assert [attrs.get("style") for attrs in page.of_class("graph")] == [None, "display:none"]
    assert page.of_class("node")[0]["data-words"] == '<x> input n & "m"'


def test_a_constant_is_a_line_of_the_node_that_uses_it():
    add = GraphNode("operator", "add", "y", "n", "R.add(x, w)", ("w: <4>, float32", "1.0"))
    text = graph_page("t", [Graph("f", [GraphNode("input", "input", "x", "n"), add], [(0, 1)])])
    page = self_contained(text)
    assert len(page.of_class("node")) == 2
    assert '<text y="4.0" class="constants">const w: &lt;4&gt;, float32; 1.0</text>' in text
    assert "<desc>R.add(x, w)\nconstant operand: w: &lt;4&gt;, float32\nconstant operand: 1.0</desc>" in text
    assert page.of_class("operator")[0]["data-words"] == "y add n w: <4>, float32 1.0"


def test_the_page_opens_at_the_inputs():
    nodes = [GraphNode("input", "input", name, "n") for name in ("late", "x", "unused")]
    nodes += [GraphNode("operator", "add", f"v{i}", "n") for i in range(100)]
    edges = [(1, 3), *((i, i + 1) for i in range(3, 102)), (0, 102)]
    page = self_contained(graph_page("t", [Graph("f", nodes, edges)]))
    (graph,) = page.of_class("graph")
    x = page.of_class("input")[1]
    assert f"translate({graph['data-start-x']} {graph['data-start-y']})" == x["transform"]
    assert float(graph["data-start-y"]) < LAYER_HEIGHT < float(graph["data-height"])


def test_a_thousand_nodes():
    nodes = [GraphNode("operator", "add", f"v{i}", "n x 4, float32") for i in range(1000)]
    edges = [(max(0, i - back), i) for i in range(1, 1000) for back in (1, 7)]
    page = self_contained(graph_page("big", [Graph("main", nodes, edges)]))
    assert len(page.of_class("node")) == 1000


def test_the_page_of_a_flame_graph():
    stacks = {("main", "m.py:1", "<k>"): 3e-3, ("main", "m.py:1", "b"): 1e-3, ("(virtual machine)",): 4e-3}
    page = self_contained(flame_page("<m>", stacks))
    labels = [attrs["title"] for tag, attrs in page.tags if tag == "button"]
    assert labels == [
        "all: 8 ms, 100.0%",
        "(virtual machine): 4 ms, 50.0%",
        "main: 4 ms, 50.0%",
        "m.py:1: 4 ms, 50.0%",
        "<k>: 3 ms, 37.5%",
        "b: 1 ms, 12.5%",
    ]
    widths = [attrs["style"] for attrs in page.of_class("box")]
    assert widths == [
        f"width:{share}%" for share in ("100.0000", "50.0000", "50.0000", "100.0000", "75.0000", "25.0000")
    ]


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
@pytest.mark.parametrize("page", [graph_page("t", []), flame_page("t", {})], ids=["graph", "flame"])
def test_the_script_of_a_page_parses(page, tmp_path):
    script = tmp_path / "page.js"
    script.write_text(re.search(r"<script>(.*)</script>", page, re.DOTALL)[1], encoding="utf-8")
    subprocess.run(["node", "--check", str(script)], check=True)


def test_the_command(command, folder):
    assert command("show", "model.py").out.count("R.matmul") == 1
    assert "R.call_tir" in command("show", "model.py", "--pipeline", "zero", "--function", "main").out
    said = command("show", "model.py", "--function", "mian")
    assert said.status == 1
    assert "the functions are: main" in said.err
    assert "no pipeline 'non'" in command("show", "model.py", "--pipeline", "non").err
    assert command("show", "model.py", "--graph", "m.html").out == "m.html: 5 nodes in 1 graph\n"
    self_contained((folder / "m.html").read_text(encoding="utf-8"))


CONVOLUTION = """
from relax.script import ir as I, relax as R


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((1, 32, 28, 28), "float32"), w: R.Tensor((64, 32, 1, 1), "float32")):
        with R.dataflow():
            h = R.nn.conv2d(x, w)
            y = R.add(R.nn.conv2d(x, w), h)
            R.output(y)
        return y
"""


def test_kernels_and_their_rules(command, folder):
    (folder / "conv.py").write_text(CONVOLUTION, encoding="utf-8")
    said = command("show", "conv.py", "--kernels")
    assert said.status == 0
    header, *lines = said.out.splitlines()
    assert header.split() == ["kernel", "calls", "schedule", "rule"]
    assert [line.split() for line in lines if "not " not in line] == [["fused_conv2d_add", "1", "Pointwise"]]
    assert "not Depthwise: a single group, or groups of several input channels" in said.out
    assert command("show", "conv.py", "--kernels", "--function", "main").out == said.out
    assert command("show", "conv.py", "--kernels", "--function", "fused_conv2d_add").out == said.out
    assert "there is no function 'conv'" in command("show", "conv.py", "--kernels", "--function", "conv").err
    assert "give the model it was compiled from" in command("show", "m.relax", "--kernels").err
