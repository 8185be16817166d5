"""JSON graphs that somebody else wrote: each is read, or refused by a message."""

from __future__ import annotations

import copy
import json
import random
from typing import ClassVar

import numpy as np
import pytest

import relax
from relax.runtime import Executable, ExecutableError
from relax.runtime.json_graph import JSONRuntime, read_graph
from relax.runtime.modules import Module

GRAPH = {
    "nodes": [
        {"op": "input", "name": "x", "attrs": {"dtype": [["float32"]], "shape": [[["n"]]]}},
        {"op": "const", "name": "c", "attrs": {"dtype": [["float32"]], "shape": [[[]]]}},
        {"op": "kernel", "name": "add", "inputs": [[0, 0, 0], [1, 0, 0]], "attrs": {"dtype": [["float32"]], "times": [["2"]]}},
        {"op": "kernel", "name": "two", "inputs": [[2, 0, 0]], "attrs": {"dtype": [["float32", "float32"]]}},
    ],
    "arg_nodes": [0, 1],
    "heads": [[3, 1, 0], [2, 0, 0]],
    "node_row_ptr": [0, 1, 2, 3, 5],
}  # fmt: skip


class Runtime(JSONRuntime):
    operators: ClassVar = {"add": lambda node, a, b: node.number("times") * (a + b), "two": lambda node, a: (a, -a)}


def module(graph, **constants):
    """A module of the graph."""
    return Module("test", json.dumps(graph).encode(), ("f",), constants)


def test_a_graph_runs():
    runtime = Runtime(module(GRAPH, c=np.full((), 3, "float32")))
    x = np.arange(3, dtype="float32")
    outputs = [relax.nd.array(np.zeros(3, "float32")) for _ in range(2)]
    runtime.run(relax.nd.array(x), *outputs)
    np.testing.assert_array_equal(outputs[0].numpy(), -2 * (x + 3))
    np.testing.assert_array_equal(outputs[1].numpy(), 2 * (x + 3))
    assert (runtime.get_symbol(), runtime.get_const_vars()) == ("f", ["c"])
    with pytest.raises(TypeError, match="f takes 1 inputs and 2 outputs, found 1 arguments"):
        runtime.run(relax.nd.array(x))
    with pytest.raises(ValueError, match=r"an output has the shape \(3,\), expected \(2,\)"):
        runtime.run(relax.nd.array(x), *[relax.nd.array(np.zeros(2, "float32"))] * 2)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ((), [], "it has no entry 'nodes'"),
        (("nodes",), 3, "'nodes' is no list"),
        (("nodes", 0, "op"), "tvm_op", "'tvm_op' is no kind of node"),
        (("nodes", 0, "name"), 3, "'name' is no text"),
        (("nodes", 2, "inputs", 0), [2, 0, 0], "2 in 'inputs' is no number below 2"),
        (("nodes", 3, "inputs", 0), [2, 1, 0], "1 in 'inputs' is no number below 1"),
        (("nodes", 2, "inputs", 0), [0], "no reference to the output of a node"),
        (("nodes", 2, "attrs"), [], "'attrs' is no object"),
        (("nodes", 2, "attrs", "times"), [[2]], "'times' is no text"),
        (("arg_nodes",), [0, 1, 2], "'arg_nodes' has the node 2 1 times"),
        (("arg_nodes",), [0], "'arg_nodes' has the node 1 0 times"),
        (("arg_nodes",), [0, 1, 1], "'arg_nodes' has the node 1 2 times"),
        (("arg_nodes",), [True], "True in 'arg_nodes' is no number below 4"),
        (("heads", 0), [3, 2, 0], "2 in 'inputs' is no number below 2"),
    ],
)
def test_graphs_that_are_malformed(path, value, message):
    graph = copy.deepcopy(GRAPH)
    if path:
        *parents, last = path
        at = graph
        for key in parents:
            at = at[key]
        at[last] = value
    else:
        graph = value
    with pytest.raises(ExecutableError, match=f"the JSON graph is malformed: .*{message}"):
        read_graph(json.dumps(graph))


def test_what_an_operator_gets_and_returns():
    graph = copy.deepcopy(GRAPH)
    del graph["nodes"][2]["attrs"]["times"]
    tensors = [relax.nd.array(np.zeros(3, "float32")) for _ in range(3)]
    with pytest.raises(ValueError, match="the node add has no attribute 'times'"):
        Runtime(module(graph, c=np.ones((), "float32"))).run(*tensors)
    graph["nodes"][2]["attrs"]["times"] = [["1", "2"]]
    with pytest.raises(ValueError, match="the attribute 'times' of the node add has 2 values, expected 1"):
        Runtime(module(graph, c=np.ones((), "float32"))).run(*tensors)
    graph = copy.deepcopy(GRAPH)
    graph["nodes"][3]["attrs"]["dtype"] = [["float32"] * 3]
    with pytest.raises(ValueError, match="two returned 2 outputs, expected 3"):
        Runtime(module(graph, c=np.ones((), "float32"))).run(*tensors)


def test_what_a_module_lacks():
    with pytest.raises(ExecutableError, match="the JSON graph has a constant 'c', which the module lacks"):
        Runtime(module(GRAPH))
    with pytest.raises(ExecutableError, match="modules of kind 'test' have no operator add, two"):
        JSONRuntime(module(GRAPH))
    with pytest.raises(ExecutableError, match="the JSON graph is malformed: it is no JSON"):
        Runtime(Module("test", b"\xff{", ("f",)))
    with pytest.raises(ExecutableError, match="a JSON graph is one function, and the module has 2"):
        Runtime.load(Module("test", b"{}", ("f", "g")))


def mutants(value, rng):
    """The value with one part replaced by something else."""
    value = copy.deepcopy(value)
    places = []

    def visit(item):
        keys = list(item) if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else ()
        for key in keys:
            places.append((item, key))
            visit(item[key])

    visit(value)
    item, key = rng.choice(places)
    if rng.random() < 0.2:
        del item[key]
    else:
        item[key] = rng.choice([None, True, -1, 0, 2**63, 1.5, "", "kernel", [], [[]], [0, 0, 0], {}, {"op": "input"}])
    return value


def test_mutants_of_a_graph_run_or_are_refused():
    rng = random.Random(37)
    refused = 0
    x = relax.nd.array(np.ones(3, "float32"))
    for _ in range(2500):
        try:
            runtime = Runtime(module(mutants(GRAPH, rng), c=np.ones((), "float32")))
        except ExecutableError:
            refused += 1
            continue
        try:
            runtime.run(x, *[relax.nd.array(np.zeros(3, "float32")) for _ in runtime.graph.heads])
        except (TypeError, ValueError):
            refused += 1
    assert refused > 1000


@pytest.fixture(scope="module")
def saved():
    """A saved executable with modules."""
    mod = relax.script.from_source("""from relax.script import ir as I, relax as R
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        return x
""")
    modules = [module(GRAPH, c=np.ones((2, 2), "float32")), Module("other", b"abc", ("g", "h"))]
    return relax.build(relax.extern_modules.with_extern_modules(mod, modules)).to_bytes()


def test_mutants_of_the_section_of_modules_are_read_or_refused(saved, monkeypatch):
    monkeypatch.setattr("relax.runtime.format.checksum_of_rest", lambda file: saved[24:56])
    loaded = Executable.from_bytes(saved)
    assert [m.symbols for m in loaded.modules] == [("f",), ("g", "h")]
    assert loaded.modules[1].data == b"abc"
    start = saved.index(b"\x04test")
    rng, refused = random.Random(38), 0
    for _ in range(2500):
        data = bytearray(saved)
        for _ in range(rng.choice([1, 1, 2, 5])):
            data[rng.randrange(start - 1, min(start + 60, len(data)))] = rng.choice([0, 1, 5, 127, 128, 255])
        try:
            Executable.from_bytes(bytes(data))
        except ExecutableError:
            refused += 1
    assert refused > 500
