"""An If whose branches have different ranks: what follows is imported for each rank, up to the join."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import relax
from relax.frontend.onnx.continuation import DEEPEST
from support import MODES, numbers, plain_machine

from .conftest import parse

SQUEEZED = """
    agraph (float[N, L] x) => (OUTPUTS) <int64 one = {1}, int64[1] at = {1}, int64[2] column = {-1, 1}, int64 zero = {0}> {
      d = Shape(x)
      n = Gather(d, one)
      c = Equal(n, one)
      h = If (c) <then_branch = g1 () => (float[N] a) { a = Squeeze(x, at) },
                  else_branch = g2 () => (float[N, L] b) { b = Identity(x) }>
      NODES
    }"""
"""As PyTorch exports ``x.squeeze(1)``."""


def squeezed(nodes: str, outputs: str) -> str:
    return SQUEEZED.replace("OUTPUTS", outputs).replace("NODES", nodes)


def sizes(*shapes: tuple[int, int]) -> list[dict[str, np.ndarray]]:
    return [{"x": numbers(*shape)} for shape in shapes]


def test_a_node_that_needs_the_rank(agrees):
    text = squeezed("y = Neg(h)\n s = Shape(y)", "float[A] y, int64[K] s")
    mod = agrees(text, *sizes((2, 1), (2, 3), (0, 1), (1, 1)))
    assert mod.script().count("R.negative") == 2


def test_both_modes_and_the_interpreter(imported):
    text = squeezed("y = Softmax<axis = -1>(h)\n s = Shape(y)", "float[A] y, int64[K] s")
    mod = imported(text)
    functions = [plain_machine(mod, mode)["main"] for mode in MODES]
    functions.append(lambda *args: relax.interpret(mod, "main", *args))
    for x in (numbers(2, 1), numbers(2, 3)):
        expected = ReferenceEvaluator(parse(text)).run(None, {"x": x})
        for function in functions:
            for found, right in zip(function(x), expected, strict=True):
                np.testing.assert_allclose(found.numpy(), right, 1e-5)


def test_the_rest_is_read_once_after_the_join(agrees):
    text = squeezed("s = Softmax<axis = 0>(h)\n r = Reshape(s, column)\n e = Exp(r)\n y = Add(e, e)", "float[M, 1] y")
    script = agrees(text, *sizes((2, 1), (2, 3)), rtol=1e-5).script()
    assert (script.count("R.nn.softmax"), script.count("R.exp"), script.count("R.add")) == (2, 1, 1)


def test_nodes_that_the_if_does_not_decide_are_read_once(agrees):
    text = squeezed(
        "e = Exp(x)\n s = Softmax<axis = 0>(h)\n r = Reshape(s, column)\n t = ReduceSum(e, at)\n y = Add(r, t)",
        "float[M, 1] y",
    )
    script = agrees(text, *sizes((2, 1), (3, 1))).script()
    assert (script.count("R.nn.softmax"), script.count("R.exp"), script.count("R.sum")) == (2, 1, 1)


def test_sizes_that_agree_stay_known_after_the_join(imported):
    text = squeezed(
        "d2 = Shape(h)\n m = Gather(d2, zero)\n k = Add(m, one)\n q = Unsqueeze(k, at0)\n y = ConstantOfShape(q)",
        "float[M] y",
    )
    mod = imported(text.replace("int64 zero", "int64[1] at0 = {0}, int64 zero"))
    assert str(mod["main"].ret_struct_info) == 'R.Tensor((N + 1,), dtype="float32")'


def test_a_path_that_does_not_fit_raises(imported):
    """The LSTM of silero-vad is such a node: it fits one of the ranks."""
    text = squeezed("t = Pad(h, borders)\n y = Exp(t)", "float[N, M] y").replace(
        "int64 zero", "int64[4] borders = {0, 1, 0, 1}, int64 zero"
    )
    mod = imported(text)
    assert str(mod["main"].ret_struct_info) == 'R.Tensor((N, L + 2), dtype="float32")'
    assert mod.script().count("R.exp") == 1
    vm = plain_machine(mod)
    np.testing.assert_allclose(vm["main"](numbers(2, 3)).numpy(), np.exp(np.pad(numbers(2, 3), ((0, 0), (1, 1)))), 1e-5)
    with pytest.raises(ValueError, match=r'^Pad "t": pads must have 2 elements, found 4 \(E6003\)'):
        vm["main"](numbers(2, 1))


def test_conditions_on_the_rank_are_decided(agrees):
    text = squeezed(
        """r = Shape(h)
        z = Size(r)
        two = Add(one, one)
        is2 = Equal(z, two)
        y = If (is2) <then_branch = g3 () => (float[N, L] p) { p = Transpose<perm = [1, 0]>(h) },
                      else_branch = g4 () => (float[1, N] q) { q = Unsqueeze(h, at0) }>""",
        "float[A, B] y",
    ).replace("int64 zero", "int64[1] at0 = {0}, int64 zero")
    script = agrees(text, *sizes((2, 1), (2, 3))).script()
    assert script.count("if ") == 1


def chain(count: int) -> str:
    """An If after another, each of which may add a dimension, and a node that needs the rank."""
    names = ", ".join(f"bool c{i}" for i in range(count))
    ifs = "\n".join(
        f"h{i + 1} = If (c{i}) <then_branch = a{i} () => (float[A] p{i}) {{ p{i} = Unsqueeze(h{i}, at) }},"
        f" else_branch = b{i} () => (float[B] q{i}) {{ q{i} = Neg(h{i}) }}>"
        for i in range(count)
    )
    return f"""agraph (float[N] x, {names}) => (float[K, L] s) <int64[1] at = {{0}}> {{
      h0 = Identity(x)
      {ifs}
      s = Flatten(h{count})
    }}"""


def test_several_ifs(imported):
    mod = imported(chain(3))
    vm = plain_machine(mod)
    for case in range(8):
        flags = [np.array(bool(case >> i & 1)) for i in range(3)]
        assert vm["main"](numbers(4), *flags).numpy().shape == (1 if case else 4, 4 if case else 1)


def test_more_ifs_than_paths_are_imported_for(imported):
    with pytest.raises(relax.DiagnosticError) as error:
        imported(chain(DEEPEST + 1))
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.code == "E6004"
    assert diagnostic.message == 'Flatten "s": the rank of an input is not known'
    assert 'output 0 of If "h5" has 6 or 5 dimensions' in diagnostic.notes


def test_an_input_of_unknown_rank(imported):
    model = parse("agraph (float[N] x) => (float[M, K] y) { h = Neg(x)\n y = Flatten(h) }")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(relax.DiagnosticError) as error:
        relax.frontend.onnx.from_onnx(model)
    (diagnostic,) = error.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == ("E6004", 'Flatten "y": the rank of an input is not known')
    assert diagnostic.hint == 'give the shape of the model\'s inputs: from_onnx(model, shape_dict={"x": [N, ...]})'


def test_inside_of_a_branch_and_of_a_loop(agrees):
    text = """
    agraph (float[N, L] x, int64 m, bool f) => (float[L] y) <int64 one = {1}, int64[1] at = {1}, int64[1] first = {0}, bool k = {1}> {
      y0 = ReduceSum<keepdims = 0>(x, first)
      y = Loop (m, k, y0) <body = b (int64 i, bool ci, float[L] v) => (bool co, float[L] vo) {
        co = Identity(ci)
        w = If (f) <then_branch = o1 () => (float p) {
            d = Shape(x)
            n = Gather(d, one)
            c = Equal(n, one)
            h = If (c) <then_branch = g1 () => (float[N] a) { a = Squeeze(x, at) },
                        else_branch = g2 () => (float[N, L] b0) { b0 = Identity(x) }>
            p = ReduceMax<keepdims = 0>(h) },
          else_branch = o2 () => (float q) { q = ReduceSum<keepdims = 0>(y0) }>
        vo = Add(v, w) }>
    }"""
    calls = [
        {"x": numbers(2, n), "m": np.array(m), "f": np.array(f)} for n in (1, 3) for m in (0, 2) for f in (True, False)
    ]
    agrees(text, *calls, opset=17)


def test_an_if_in_a_function(imported):
    model = parse(squeezed("y = Neg(h)\n s = Shape(y)", "float[A] y, int64[K] s"))
    plain = relax.frontend.onnx.from_onnx(model)
    body = relax.frontend.onnx.from_onnx(as_function(model))
    for x in (numbers(2, 1), numbers(2, 3)):
        found, right = (plain_machine(mod)["main"](x) for mod in (body, plain))
        assert [f.numpy().tolist() for f in found] == [r.numpy().tolist() for r in right]


def as_function(model):
    """The graph of a model as the body of a function that another graph calls."""
    import onnx

    graph = model.graph
    constants = [onnx.helper.make_node("Constant", [], [t.name], value=t) for t in graph.initializer]
    function = onnx.helper.make_function(
        "own", "f", ["x"], ["y", "s"], [*constants, *graph.node], list(model.opset_import)
    )
    call = onnx.helper.make_graph(
        [onnx.helper.make_node("f", ["x"], ["y", "s"], domain="own")], "g", list(graph.input), list(graph.output)
    )
    imports = [*model.opset_import, onnx.helper.make_opsetid("own", 1)]
    return onnx.helper.make_model(call, opset_imports=imports, functions=[function], ir_version=9)
