"""Random ONNX models with branches of several ranks agree with ONNX Runtime. `make fuzz` runs more."""

from __future__ import annotations

from collections import Counter

import pytest

from differential import onnx_branches
from differential.onnx_branches import CHANGES, SHAPES, Graph, Step, check, check_graph, random_graph
from differential.properties import Failure


@pytest.mark.parametrize("first", range(0, 12, 4))
def test_random_models(first):
    outcomes = Counter()
    for seed in range(first, first + 4):
        outcomes.update(check(f"tests:{seed}"))
    assert outcomes["equal"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12, 112))
def test_more_random_models(seed):
    check(f"tests:{seed}")


def test_the_same_seed_makes_the_same_model():
    graph = random_graph("tests:7")
    assert random_graph("tests:7").model() == graph.model()
    assert len(graph.calls("tests:7")) == len(SHAPES) << graph.conditions


def test_every_form_of_a_branch_occurs():
    """Nodes that change a rank; two results; an If in a branch; a condition that is an input or is computed."""
    text = "\n".join(random_graph(f"tests:{seed}").text for seed in range(100))
    for change in CHANGES:
        name = change.partition(" = ")[2].partition("(")[0]
        assert f"= {name}(" in text
    for form in ("h, h_b = If", "h_0 = If", "If (c0)", "If (h_c)"):
        assert form in text


GRAPH = Graph(
    rank=2,
    conditions=1,
    steps=[
        Step(
            "h = If (c0) <then_branch = g () => (float[] a) { a = Unsqueeze(x, at0) },"
            " else_branch = f () => (float[] b) { b = Identity(x) }>",
            ("h",),
        ),
        Step("v0 = Tanh(h)", ("v0",)),
        Step("v1 = Flatten(h)", ("v1",)),
    ],
)


def test_the_branches_are_compared_in_every_call():
    assert check_graph(GRAPH, "0") == {"equal": 2 * 2 * len(SHAPES)}


def test_a_converter_that_is_wrong_is_found_and_the_model_reduced(monkeypatch):
    right = onnx_branches.from_onnx

    def without_tanh(model):
        for node in model.graph.node:
            node.op_type = node.op_type.replace("Tanh", "Relu")
        return right(model)

    monkeypatch.setattr(onnx_branches, "from_onnx", without_tanh)
    monkeypatch.setattr(onnx_branches, "random_graph", lambda seed: GRAPH)
    with pytest.raises(Failure) as failure:
        check("0")
    assert failure.value.kind == "compiled values"
    assert "v0 = Tanh(h)" in str(failure.value)
    assert "v1 = Flatten(h)" not in str(failure.value)


def test_a_model_that_is_rejected_though_it_runs_is_a_failure(monkeypatch):
    accepted = Graph(2, steps=[Step("v0 = Flatten(x)", ("v0",))])
    rejected = Graph(2, steps=[Step("v0 = Flatten<axis = 3>(x)", ("v0",))])
    right = onnx_branches.from_onnx
    monkeypatch.setattr(onnx_branches, "from_onnx", lambda model: right(rejected.model()))
    with pytest.raises(Failure, match="rejected with E6003"):
        check_graph(accepted, "0")
