"""Nodes that are not supported run in ONNX Runtime: alone, at every size, saved, and said in one warning."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import relax
from relax.frontend.onnx import converter, from_onnx
from relax.frontend.onnx.registry import _CONVERTERS
from relax.ir import RelaxWarning
from relax.runtime import Executable
from support import numbers

MICROSOFT = "com.microsoft"


def info(name, dims=None, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, dims)


def model_of(nodes, inputs, outputs, functions=()):
    domains = {"": 21, MICROSOFT: 1, **{function.domain: 1 for function in functions}}
    imports = [helper.make_opsetid(domain, version) for domain, version in domains.items()]
    graph = helper.make_graph(nodes, "graph", inputs, outputs)
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=10)


def imported(model):
    """A program, and the text of its one warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mod = from_onnx(model, fallback="onnxruntime")
    (warning,) = (entry for entry in caught if issubclass(entry.category, RelaxWarning))
    return mod, str(warning.message)


def check(model, mod, *feeds):
    """A program, interpreted and compiled, saved and loaded, agrees with ONNX Runtime."""
    run = relax.VirtualMachine(Executable.from_bytes(relax.build(mod).to_bytes()))["main"]
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for feed in feeds:
        expected = session.run(None, feed)
        for found in (run(*feed.values()), relax.interpret(mod, "main", *feed.values())):
            results = found if isinstance(found, (tuple, list)) else [found]
            for actual, right in zip(results, expected, strict=True):
                array = actual.numpy()
                assert (array.dtype, array.shape) == (right.dtype, right.shape)
                np.testing.assert_allclose(array, right, 1e-4, 1e-5)


def test_between_other_nodes():
    model = model_of(
        [
            helper.make_node("Exp", ["x"], ["e"]),
            helper.make_node("Inverse", ["e"], ["i"], domain=MICROSOFT, name="inverse"),
            helper.make_node("MatMul", ["i", "x"], ["y"]),
        ],
        [info("x", ["n", 3, 3])], [info("y")],
    )  # fmt: skip
    mod, warning = imported(model)
    assert "warning[W6010]: 1 node of the model runs in ONNX Runtime" in warning
    assert 'com.microsoft.Inverse "inverse": the operator com.microsoft.Inverse is not supported' in warning
    text = mod["main"].script()
    assert text.count("R.call_pure_packed") == 1
    assert 'R.call_pure_packed("onnx_Inverse_0", e, sinfo_args=(R.Tensor((n, 3, 3), dtype="float32"),))' in text
    check(model, mod, *({"x": numbers(n, 3, 3)} for n in (2, 1, 0)))


def test_results_whose_sizes_the_data_tell():
    model = model_of(
        [
            helper.make_node("Unique", ["x"], ["u", "indices", "count"], domain=MICROSOFT),
            helper.make_node("Add", ["u", "u"], ["y"]),
            helper.make_node("CDist", ["f", "f"], ["d"], domain=MICROSOFT, metric="euclidean"),
            helper.make_node("Relu", ["d"], ["z"]),
        ],
        [info("x", ["n"]), info("f", ["m", 4])], [info("y"), info("count", None, TensorProto.INT64), info("z")],
    )  # fmt: skip
    mod, warning = imported(model)
    assert "2 nodes of the model run in ONNX Runtime" in warning
    feeds = [{"x": np.arange(n, dtype="float32") % 3, "f": numbers(m, 4)} for n, m in ((7, 3), (1, 1), (0, 2))]
    check(model, mod, *feeds)


def test_constants_and_captured_values():
    """A node that holds a graph reads values of the graph around it."""
    inner = helper.make_graph(
        [helper.make_node("Inverse", ["outer"], ["t"], domain=MICROSOFT)], "then", [], [info("t")]
    )
    other = helper.make_graph([helper.make_node("Identity", ["outer"], ["f"])], "else", [], [info("f")])
    model = model_of(
        [
            helper.make_node("Constant", [], ["two"], value=helper.make_tensor("v", TensorProto.FLOAT, [], [2.0])),
            helper.make_node("Mul", ["x", "two"], ["outer"]),
            helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=other),
        ],
        [info("x", [2, "n", "n"]), info("c", [], TensorProto.BOOL)], [info("y")],
    )  # fmt: skip
    mod, _ = imported(model)
    check(model, mod, *({"x": numbers(2, 3, 3), "c": np.array(c)} for c in (True, False)))


def test_within_a_function_of_the_model():
    function = helper.make_function(
        "mine", "inverted", ["a"], ["b"],
        [helper.make_node("Inverse", ["a"], ["i"], domain=MICROSOFT), helper.make_node("Neg", ["i"], ["b"])],
        [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)],
    )  # fmt: skip
    model = model_of(
        [helper.make_node("inverted", ["x"], ["y"], domain="mine")], [info("x", [3, 3])], [info("y")], [function]
    )
    mod, warning = imported(model)
    assert "1 node of the model" in warning
    check(model, mod, {"x": numbers(3, 3)})


def test_a_form_that_a_converter_refuses(monkeypatch):
    monkeypatch.setitem(_CONVERTERS, (MICROSOFT, "Inverse"), [])

    @converter("Inverse", domain=MICROSOFT)
    def inverse(g, x: "Tensor"):
        g.unsupported("a matrix of floats")

    model = model_of([helper.make_node("Inverse", ["x"], ["y"], domain=MICROSOFT)], [info("x", [2, 2])], [info("y")])
    with pytest.raises(relax.DiagnosticError, match="a matrix of floats is not supported"):
        from_onnx(model)
    mod, warning = imported(model)
    assert 'com.microsoft.Inverse "y": a matrix of floats is not supported' in warning
    check(model, mod, {"x": numbers(2, 2)})


def test_nothing_to_run_is_no_warning():
    model = model_of([helper.make_node("Exp", ["x"], ["y"])], [info("x", ["n"])], [info("y")])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RelaxWarning)
        mod = from_onnx(model, fallback="onnxruntime")
    assert "external_mods" not in mod.attrs


def test_what_onnx_runtime_does_not_run_either():
    model = model_of(
        [helper.make_node("Inverse", ["x"], ["y"], domain=MICROSOFT, name="i")], [info("x", [3], TensorProto.INT32)], [info("y")],
    )  # fmt: skip
    with pytest.raises(relax.DiagnosticError, match="E6001.*com.microsoft.Inverse") as caught:
        from_onnx(model, fallback="onnxruntime")
    assert "fallback: ONNX Runtime does not run it: " in str(caught.value)
    model.graph.node[0].domain = "nobody.knows"
    model.opset_import.append(helper.make_opsetid("nobody.knows", 1))
    with pytest.raises(relax.DiagnosticError, match="nobody.knows.Inverse is of an unknown domain|is not supported"):
        from_onnx(model, fallback="onnxruntime")


def test_a_broken_node_is_an_error():
    model = model_of([helper.make_node("Exp", ["x", "x"], ["y"])], [info("x", ["n"])], [info("y")])
    with pytest.raises(relax.DiagnosticError, match="E6002"):
        from_onnx(model, fallback="onnxruntime")


def test_wrong_arguments(monkeypatch):
    model = model_of([helper.make_node("Exp", ["x"], ["y"])], [info("x", ["n"])], [info("y")])
    with pytest.raises(relax.DiagnosticError, match="E6003.*fallback is 'openvino'") as caught:
        from_onnx(model, fallback="openvino")
    assert "there is 'onnxruntime'" in str(caught.value)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r"it needs the library onnxruntime: pip install relax\[onnxruntime\]"):
        from_onnx(model, fallback="onnxruntime")
