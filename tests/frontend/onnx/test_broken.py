"""Broken models: a diagnostic with its code and place, never a traceback, a hang, memory without bound, or a read outside."""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import relax
from differential import mutate_onnx
from differential.bounds import bounded
from relax.frontend.onnx import converter, from_onnx
from support import PLAIN_LOOPS

FLOAT = TensorProto.FLOAT


def refused(model: Any, code: str, *texts: str, **options: Any) -> str:
    """Import a model, which must be refused with this code, all texts in the message; the message."""
    with bounded(), pytest.raises(relax.DiagnosticError) as caught:
        from_onnx(model, **options)
    message = str(caught.value)
    assert {d.code for d in caught.value.diagnostics} == {code}, message
    for text in texts:
        assert text in message
    return message


def parse(graph: str, opset: int = 20) -> ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}, "own": 1]>\n{graph}')


def relu() -> ModelProto:
    return parse("g (float[N] x) => (float[N] y) { y = Relu(x) }")


# ------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("part", [0.0, 0.2, 0.5, 0.9, 0.99])
def test_a_truncated_file(tmp_path, part):
    data = mutate_onnx.models()["network"].SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(data[: int(len(data) * part)])
    refused(path, "E6002", "model.onnx")


def test_a_file_of_something_else(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"PK\3\4 this is an archive")
    refused(path, "E6002", "is not an ONNX model", "is the file complete, and binary ONNX?")


def test_a_large_initializer_that_does_not_fit_its_shape():
    """Threads read large ones: the first broken one in the order of the model is told."""
    model = relu()
    for name, rows in (("small", 2), ("good", 1 << 10), ("short", 1 << 10), ("shorter", 1 << 10)):
        model.graph.initializer.append(numpy_helper.from_array(np.ones((rows, 1 << 9), "float32"), name))
    for tensor in model.graph.initializer[2:]:
        tensor.raw_data = tensor.raw_data[:-4]
    assert "shorter" not in refused(model, "E6002", "the tensor 'short' cannot be read")


def test_a_model_without_a_graph():
    refused(ModelProto(), "E6002", "the model has no graph with outputs")


# ------------------------------------------------------------------------------------- external data


@pytest.fixture
def external(tmp_path):
    """``external(location, offset=…, length=…)``: the path of a model whose weight of 12 bytes is in another file."""

    def write(location: str, dims: tuple[int, ...] = (3,), **entries: Any) -> Path:
        model = parse("g (float[3] x) => (float[3] y) { y = Add(x, w) }")
        tensor = model.graph.initializer.add(name="w", data_type=FLOAT, data_location=TensorProto.EXTERNAL)
        tensor.dims.extend(dims)
        for key, value in {"location": location, **entries}.items():
            tensor.external_data.add(key=key, value=str(value))
        folder = tmp_path / "models"
        folder.mkdir(exist_ok=True)
        (folder / "model.onnx").write_bytes(model.SerializeToString())
        np.arange(8, dtype="float32").tofile(folder / "weights.bin")
        return folder / "model.onnx"

    return write


def test_external_data_is_read(external):
    module = from_onnx(external("weights.bin", offset=4, length=12))
    assert "R.const([1.0, 2.0, 3.0]" in module.script()


@pytest.mark.parametrize(
    "location", ["../secret.bin", "/etc/passwd", "a/../../secret.bin", "link.bin", "folder/secret.bin", ".", ""]
)
def test_external_data_outside_of_the_folder_is_not_read(external, tmp_path, location):
    path = external(location)
    np.arange(3, dtype="float32").tofile(tmp_path / "secret.bin")
    (path.parent / "link.bin").symlink_to(tmp_path / "secret.bin")
    (path.parent / "folder").symlink_to(tmp_path)
    refused(path, "E6002", "external data lies outside of the model's folder", "tensor 'w'")


def test_a_link_in_a_circle(external):
    path = external("link.bin")
    (path.parent / "link.bin").symlink_to("link.bin")
    refused(path, "E6002", "external data is")


def test_a_pipe_is_not_waited_for(external):
    path = external("pipe")
    os.mkfifo(path.parent / "pipe")
    refused(path, "E6002", "external data is not there")


@pytest.mark.parametrize(
    "entries, text",
    [
        ({"location": "missing.bin"}, "there is no file 'missing.bin' beside the model"),
        ({"offset": 24}, "external data has 8 bytes, 12 are declared"),
        ({"offset": 1 << 60}, "external data has 0 bytes, 12 are declared"),
        ({"offset": -4}, "external data"),
        ({"length": 8}, "external data of 8 bytes is declared, its shape has 12"),
        ({"length": 1 << 60}, "is declared, its shape has 12"),
        ({"length": "many"}, "external data is declared wrong"),
        ({"dims": (1 << 50,)}, "external data has 32 bytes, 4503599627370496 are declared"),
        ({"dims": (1 << 62, 1 << 62)}, "external data has 32 bytes"),
        ({"dims": (-3,)}, "external data is no tensor of numbers"),
        ({"location": "a\0b"}, "external data is declared wrong"),
    ],
)
def test_external_data_that_does_not_fit(external, entries, text):
    refused(external(**{"location": "weights.bin", **entries}), "E6002", text)


def test_external_data_of_a_message_is_not_looked_for(external, monkeypatch):
    path = external("weights.bin")
    monkeypatch.chdir(path.parent)  # where onnx would look
    refused(onnx.load(path, load_external_data=False), "E6002", "is in another file", "give the path of the model")


def test_one_file_does_not_stand_for_memory_without_end(external):
    path = external("weights.bin")
    model = onnx.load(path, load_external_data=False)
    for index in range(20):
        model.graph.initializer.add().CopyFrom(model.graph.initializer[0])
        model.graph.initializer[-1].name = f"w{index}"
    path.write_bytes(model.SerializeToString())
    refused(path, "E6002", "the external data of many tensors is the same")


def test_external_data_in_nodes_and_functions(external):
    path = external("../secret.bin")
    tensor = onnx.load(path, load_external_data=False).graph.initializer[0]
    model = parse("g (float[3] x) => (float[3] y) { y = own.f(x) }")
    constant = helper.make_node("Constant", [], ["w"], value=tensor)
    opsets = [helper.make_opsetid("", 20)]
    nodes = [constant, helper.make_node("Add", ["a", "w"], ["b"])]
    model.functions.append(helper.make_function("own", "f", ["a"], ["b"], nodes, opsets))
    path.write_bytes(model.SerializeToString())
    refused(path, "E6002", "external data lies outside of the model's folder")


# ------------------------------------------------------------------------------------- tensors


def with_weight(**fields: Any) -> ModelProto:
    model = parse("g (float[N] x) => (float[N] y) { y = Add(x, w) }")
    model.graph.initializer.append(TensorProto(name="w", **fields))
    return model


@pytest.mark.parametrize(
    "fields",
    [
        {"data_type": FLOAT, "dims": [1 << 50]},
        {"data_type": FLOAT, "dims": [1 << 40, 1 << 40]},
        {"data_type": FLOAT, "dims": [3], "raw_data": b"12345"},
        {"data_type": FLOAT, "dims": [3], "raw_data": bytes(16)},
        {"data_type": FLOAT, "dims": [3], "float_data": [1, 2]},
        {"data_type": FLOAT, "dims": [-1], "float_data": [1, 2]},
        {"data_type": FLOAT, "dims": [3], "int64_data": [1, 2, 3]},
        {"data_type": TensorProto.INT4, "dims": [9], "raw_data": b"12"},
        {"data_type": TensorProto.STRING, "dims": [2], "string_data": [b"\xff\xfe", b"a"]},
        {"data_type": 99, "dims": [1], "raw_data": b"1"},
        {"data_type": 0, "dims": [1], "float_data": [1]},
    ],
    ids=str,
)
def test_a_tensor_whose_data_do_not_fit(fields):
    refused(with_weight(**fields), "E6002")


def test_a_tensor_of_a_dtype_that_there_is_not():
    complex64 = with_weight(data_type=TensorProto.COMPLEX64, dims=[1], float_data=[1, 2])
    refused(complex64, "E6001", "the element type complex64 is not supported")


def test_a_sparse_tensor_of_a_great_shape():
    model = parse("g (float[N] x) => (float[N] y) { y = Add(x, w) }")
    values = numpy_helper.from_array(np.ones(1, "float32"), "w")
    places = numpy_helper.from_array(np.zeros(1, "int64"), "")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [1 << 50]))
    refused(model, "E6001", "a sparse tensor of more than 67,108,864 elements")


def test_sizes_that_no_memory_has():
    text = """g (float[N] x) => (float y)
    <int64[1] big = {1125899906842624}, int64 far = {1125899906842624}, int64 zero = {0}, int64 one = {1}> {
      a = ConstantOfShape(big)
      b = Range(zero, far, one)
      c = Tile(one1, big)
      y = ReduceSum<keepdims=0>(a)
    }""".replace("int64 one = {1}>", "int64 one = {1}, int64[1] one1 = {1}>")
    assert mutate_onnx.verdict(parse(text), build=True) == "module"


# ------------------------------------------------------------------------------------- nodes


def test_unknown_operators_are_listed_at_once():
    text = """g (float[N] x) => (float[N] y) {
      a = own.Alpha(x)
      [second] b = Beta(a)
      c = own.Alpha(b)
      y = Relu(c)
    }"""
    message = refused(parse(text), "E6001", 'nodes: own.Alpha "a", own.Alpha "c"', 'nodes: Beta "second"')
    assert message.count("is not supported") == 2
    assert "register a converter: relax.frontend.onnx.converter('Alpha', domain='own')" in message


def test_an_operator_in_the_body_of_a_loop_is_listed_too():
    text = """g (float[N] x, bool c) => (float[N] y) {
      y = If (c) <then_branch = t () => (float[N] a) { a = Unheard(x) },
                  else_branch = e () => (float[N] b) { b = Relu(x) }>
    }"""
    refused(parse(text), "E6001", 'nodes: Unheard "a"')


@pytest.mark.parametrize(
    "node, code, text",
    [
        ("y = Relu(x, x)", "E6002", 'Relu "y": it has 2 inputs, expected 1'),
        ("y = Add(x)", "E6002", 'Add "y": it has 1 input, expected 2'),
        ("y, z = Relu(x)", "E6002", 'Relu "y": it has 2 outputs, expected at most 1'),
        ("y = Add(x, )", "E6002", 'Add "y": '),
        ("y = Softmax<axis = 1.5>(x)", "E6002", 'Softmax "y": the attribute axis is FLOAT, expected INT'),
        ("y = Softmax<axis = [1]>(x)", "E6002", "the attribute axis is INTS, expected INT"),
        ('y = Softmax<axis = "a">(x)', "E6002", "the attribute axis is STRING, expected INT"),
        ("y = Softmax<axis = 7>(x)", "E3104", "axis 7 is out of range: expected from -2 to 1"),
        ("y = Slice<axes = 1.5>(x, s, e)", "E6002", "the attribute axes is FLOAT, expected INT or INTS"),
        ('y = Slice<axes = "q">(x, s, e)', "E6002", "the attribute axes is STRING, expected INT or INTS"),
        (
            'y = Clip<max = "q">(x)',
            "E6002",
            "the attribute max is STRING, expected INT or INTS or FLOAT or FLOATS or TENSOR",
        ),
        ("y = LpNormalization<p = 0>(x)", "E6003", 'LpNormalization "y": p must be from 1 to 2147483647, found 0'),
        ("y = GlobalLpPool<p = -1>(x)", "E6003", "p must be from 1 to 2147483647, found -1"),
        ("y = DepthToSpace<blocksize = 4294967296>(w)", "E6003", "blocksize must be from 1 to 2147483647"),
        ("y = SpaceToDepth<blocksize = 4294967296>(w)", "E6003", "blocksize must be from 1 to 2147483647"),
        ("y = CumSum(x, u)", "E6003", 'CumSum "y": axis is 18446744073709551615, which int64 cannot hold'),
        ("y = Cast(x)", "E6002", 'Cast "y": the attribute to is missing'),
        ("y = Cast<to = 77>(x)", "E6002", "77 is no element type"),
        ("y = Relu(nothing)", "E6002", "the input 'nothing' is computed by no node before it"),
        ("z = Relu(x)", "E6002", "the output 'y' of a graph is computed by no node"),
        ("y = MatMul(x, v)", "E3102", "MatMul"),
        ("y = Add(x, i)", "E3103", "x1 and x2 must have one dtype, found float32 and int64"),
        (
            "y = LSTM<hidden_size = 3, direction = 'up'>(x, x, x)".replace("'", '"'),
            "E3105",
            "expected one of 'forward', 'reverse'",
        ),
    ],
)
def test_a_node_that_does_not_fit_its_operator(node, code, text):
    inputs = "float[2, 3] x, float[5] v, int64[2, 3] i, int64[1] s, int64[1] e, float[1, 4, 4, 4] w"
    model = parse(f"g ({inputs}) => (float[2, 3] y) {{ {node} }}")
    model.graph.initializer.append(numpy_helper.from_array(np.array(2**64 - 1, "uint64"), "u"))
    with pytest.raises(relax.DiagnosticError) as caught:
        from_onnx(model)
    assert text in str(caught.value)
    assert caught.value.diagnostics[0].code == code, str(caught.value)


def test_all_broken_nodes_are_listed_at_once():
    text = "g (float[N] x) => (float[N] y) { a = Relu(x, x)  b = Cast(a)  y = Relu(b) }"
    message = refused(parse(text), "E6002")
    assert 'Relu "a": it has 2 inputs' in message
    assert 'Cast "b": the attribute to is missing' in message


def test_an_attribute_that_is_given_twice():
    model = parse("g (float[N, 3] x) => (float[N, 3] y) { y = Softmax<axis = 1>(x) }")
    model.graph.node[0].attribute.append(helper.make_attribute("axis", 0))
    refused(model, "E6002", "the attribute axis is given twice")


def test_attributes_of_an_operator_of_ones_own_are_checked_by_its_converter():
    @converter("Scaled", domain="own.broken")
    def scaled(g: Any, x: Tensor, *, by: float) -> Tensor:  # type: ignore[name-defined]
        return relax.op.multiply(x, relax.const(by, "float32"))

    model = parse("g (float[N] x) => (float[N] y) { y = own.broken.Scaled<by = 2>(x) }")
    model.opset_import.append(helper.make_opsetid("own.broken", 1))
    refused(model, "E6002", "the attribute by is INT, expected FLOAT")
    del model.graph.node[0].attribute[:]
    refused(model, "E6002", 'own.broken.Scaled "y": the attribute by is missing')


# ------------------------------------------------------------------------------------- mistakes of converters


@converter("Shrunk", domain="own.broken")
def shrunk(g: Any, x: Tensor, *, by: float) -> Tensor:  # type: ignore[name-defined]
    return relax.op.multiply(x, relax.const(1 / by, "float32"))


def shrunk_in_a_branch() -> ModelProto:
    model = parse("""g (float[N] x, bool c) => (float[N] y) {
      y = If (c) <then_branch = t () => (float[N] a) { a = own.broken.Shrunk<by = 0.0>(x) },
                  else_branch = e () => (float[N] b) { b = Relu(x) }>
    }""")
    model.opset_import.append(helper.make_opsetid("own.broken", 1))
    return model


def test_an_unexpected_exception_is_a_diagnostic_for_users(monkeypatch):
    monkeypatch.delenv("RELAX_RAISE_UNEXPECTED")
    with pytest.raises(relax.DiagnosticError) as caught:
        from_onnx(shrunk_in_a_branch())
    message = 'error[E6007]: own.broken.Shrunk "a": its conversion failed: ZeroDivisionError: float division by zero'
    assert message in str(caught.value)
    assert "1 | a = Shrunk<by=0>(x)" in str(caught.value)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_unexpected_exception_fails_tests():
    with pytest.raises(ZeroDivisionError):
        from_onnx(shrunk_in_a_branch())


# ------------------------------------------------------------------------------------- graphs


def test_nodes_in_a_circle():
    text = "g (float[N] x) => (float[N] y) { a = Add(x, b)  b = Relu(a)  y = Relu(b) }"
    refused(parse(text), "E6002", "nodes depend on each other in a circle", 'Add "a", Relu "b"')


def test_a_node_that_reads_itself():
    refused(parse("g (float[N] x) => (float[N] y) { y = Add(x, y) }"), "E6002", "in a circle: Add")


@pytest.mark.parametrize(
    "text, message",
    [
        ("g (float[N] x) => (float[N] y) { y = Relu(x)  y = Neg(x) }", "two nodes compute 'y'"),
        ("g (float[N] x) => (float[N] x) { x = Relu(x) }", "computes 'x', which is an input of its graph"),
        ("g (float[N] x, float[N] x) => (float[N] y) { y = Relu(x) }", "two inputs have one name"),
        (
            "g (float[N] x) => (float[N] y) <float w = {1}, float w = {2}> { y = Add(x, w) }",
            "two initializers of a graph have one name",
        ),
    ],
)
def test_names_that_are_used_twice(text, message):
    refused(parse(text), "E6002", message)


def test_shapes_that_contradict_each_other():
    text = "g (float[2, 3] x, float[4, 5] z) => (float[2, 5] y) { y = MatMul(x, z) }"
    refused(parse(text), "E3102", 'MatMul "y"')


def test_an_argument_that_names_no_input():
    refused(relu(), "E6003", "a shape is given for 'z'", "the inputs are x", shape_dict={"z": [1]})


@pytest.mark.parametrize("dim", [-1, None, 2.5, True, 2**60])
def test_an_argument_that_is_no_size(dim):
    refused(relu(), "E6003", f"{dim!r} is no size of an input", "a number from 0 on", shape_dict={"x": [dim]})


@pytest.mark.parametrize("shape", ["n", 5, None])
def test_an_argument_that_is_no_shape(shape):
    refused(relu(), "E6003", f"shape_dict gives {shape!r} for 'x'", "a shape is a list", shape_dict={"x": shape})


def test_arguments_that_are_no_dtype_and_no_opset():
    model = relu()
    model.graph.input[0].type.tensor_type.elem_type = 0
    refused(model, "E6003", "dtype_dict gives 'floot' for 'x'", 'as in "float32"', dtype_dict="floot")
    refused(relu(), "E6003", "opset is -3", "the versions that are known", opset=-3)


def test_dtypes_of_other_inputs_or_other_than_declared():
    refused(relu(), "E6003", "dtype_dict names 'z'", "the inputs are x", dtype_dict={"z": "int8"})
    message = "dtype_dict gives 'float16' for 'x', which is float32"
    refused(relu(), "E6003", message, "leave it out: the model declares", dtype_dict={"x": "float16"})
    assert from_onnx(relu(), dtype_dict={"x": "float32"}).functions


@pytest.mark.parametrize(
    "name, value, expected",
    [
        ("opset", "13", "a number"),
        ("opset", True, "a number"),
        ("shape_dict", [("x", [1])], "a dictionary of shapes by names of inputs"),
        ("dtype_dict", None, "a dtype, or a dictionary of dtypes by names of inputs"),
    ],
)
def test_arguments_of_another_kind(name, value, expected):
    with pytest.raises(TypeError, match=f"from_onnx: {name} is {expected}, found {type(value).__name__}"):
        from_onnx(relu(), **{name: value})


def test_negative_dimensions_of_inputs_are_open():
    model = relu()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    assert "x_0" in from_onnx(model).script()


def test_an_input_of_no_element_type():
    model = relu()
    model.graph.input[0].type.tensor_type.elem_type = 99
    refused(model, "E6002", "input 'x'", "99 is no element type")


@pytest.mark.parametrize("version", [0, -2, 1 << 40])
def test_a_version_that_there_is_not(version):
    model = relu()
    model.opset_import[0].version = version
    refused(model, "E6002", f"version {version} of the domain '' is none")


def test_a_version_that_is_newer_than_the_package_onnx():
    model = relu()
    model.opset_import[0].version = 1000
    refused(model, "E6001", "version 1000 of ONNX's operators is newer than", "update the package onnx")


# ------------------------------------------------------------------------------------- names


def not_utf8(model: ModelProto, name: str) -> ModelProto:
    """The model with every `name` replaced by bytes of the same length that are not UTF-8."""
    data = model.SerializeToString()
    assert name.encode() in data
    changed = ModelProto()
    changed.ParseFromString(data.replace(name.encode(), b"\xff\xfe\xfd"[: len(name)].ljust(len(name), b"\xff")))
    return changed


@pytest.mark.parametrize("name", ["inp", "siz", "Rel", "mid", "nam", "axi", "dom", "dim"])
def test_names_that_are_not_utf8(name):
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 20, "dom": 1]>'
        "g (float[dim, siz] inp) => (float[dim, siz] out) { [nam] mid = Relu(inp)  out = Softmax<axis = 1>(mid) }"
    )
    refused(not_utf8(model, name), "E6002", "is not UTF-8")


# ------------------------------------------------------------------------------------- nesting


def test_a_function_that_calls_itself():
    model = parse("g (float[N] x) => (float[N] y) { y = own.f(x) }")
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    for name, other in (("f", "h"), ("h", "f")):
        node = helper.make_node(other, ["a"], ["b"], domain="own")
        model.functions.append(helper.make_function("own", name, ["a"], ["b"], [node], opsets))
    refused(model, "E6002", "the function f calls itself")


def chained(count: int, calls: int) -> ModelProto:
    """Functions f0, f1, …: each calls the next so many times."""
    model = parse("g (float[N] x) => (float[N] y) { y = own.f0(x) }")
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    for index in range(count):
        names = ["a", *(f"v{i}" for i in range(calls - 1)), "b"]
        last = index == count - 1
        nodes = [
            helper.make_node("Neg" if last else f"f{index + 1}", [x], [y], domain="" if last else "own")
            for x, y in pairwise(names)
        ]
        model.functions.append(helper.make_function("own", f"f{index}", ["a"], ["b"], nodes, opsets))
    return model


def test_functions_that_stand_for_nodes_without_end():
    refused(chained(30, 2), "E6001", "more than 1,000,000 nodes")


def test_functions_may_be_nested_to_a_depth():
    assert mutate_onnx.verdict(chained(20, 1), build=True) == "module"
    refused(chained(2000, 1), "E6001", "nested more than 32 deep")


def nested(depth: int) -> ModelProto:
    """Ifs in each other, in their first branches."""
    model = parse("g (float[N] x, bool c) => (float[N] y) { y = Relu(x) }")
    branch = parse("g () => (float[N] y) { y = Neg(x) }").graph
    graph = model.graph
    for _ in range(depth):
        del graph.node[:]
        node = graph.node.add(op_type="If", input=["c"], output=["y"])
        node.attribute.add(name="else_branch", type=onnx.AttributeProto.GRAPH).g.CopyFrom(branch)
        then = node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH)
        then.g.CopyFrom(branch)
        graph = then.g
    return model


def test_graphs_may_be_nested_to_a_depth(tmp_path):
    assert mutate_onnx.verdict(nested(25), build=True) == "module"
    refused(nested(40), "E6001", "nested more than 32 deep")
    refused(nested(5000), "E6001", "nested more than 32 deep")


def test_a_call_with_too_many_inputs():
    model = chained(1, 1)
    model.graph.node[0].input.append("x")
    refused(model, "E6002", 'own.f0 "y": it has 2 inputs, expected at most 1')


def test_loops_whose_body_does_not_fit():
    text = """g (float[4] s, float[N, 4] xs) => (float[4] t, float[N, 4] all) {
      t, all = Scan <num_scan_inputs = 1, body = b (float[4] s) => (float[4] t, float[4] o)
        { t = Identity(s)  o = Identity(s) }> (s, xs)
    }"""
    refused(parse(text), "E6002", "its graph has 1 inputs, 2 are passed")
    text = """g (float[4] s, bool c) => (float[4] t) {
      t = If (c) <then_branch = a () => (float[4] p, float[4] q) { p = Identity(s)  q = Identity(s) },
                  else_branch = b () => (float[4] p) { p = Identity(s) }>
    }"""
    refused(parse(text), "E6002", "its branches have different numbers of outputs")


# ------------------------------------------------------------------------------------- run time


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions take notes from Python 3.11 on")
@pytest.mark.parametrize(
    "text, arguments, error, message",
    [
        (
            "g (float[N] x, int64[K] i) => (float[K] y) { [pick] y = Gather(x, i) }",
            (np.ones(3, "float32"), np.array([7])),
            IndexError,
            'model: Gather "pick"',
        ),
        (
            "g (float[N] x) => (float[A, B] y) <int64[2] s = {-1, 4}> { z = Exp(x)  [rows] y = Reshape(z, s) }",
            (np.ones(3, "float32"),),
            AssertionError,
            'model: Reshape "rows"',
        ),
        (
            "g (float[N, M] x, float[K, L] z) => (float[N, L] y) { y = MatMul(x, z) }",
            (np.ones((2, 3), "float32"), np.ones((4, 5), "float32")),
            AssertionError,
            'model: MatMul "y"',
        ),
    ],
)
def test_an_error_at_run_time_names_the_node(text, arguments, error, message):
    vm = relax.VirtualMachine(relax.build(from_onnx(parse(text)), PLAIN_LOOPS), relax.cpu())
    with pytest.raises(error) as caught:
        vm["main"](*arguments)
    assert any(message in note for note in caught.value.__notes__)


# ------------------------------------------------------------------------------------- shapes


def test_shape_arithmetic_does_not_grow_without_end():
    lines = ["v0 = Add(s, s)"] + [f"v{i} = Mul(v{i - 1}, v{i - 1})" for i in range(1, 40)]
    text = "g (float[N, M] x) => (int64[2] y) { s = Shape(x)\n" + "\n".join(lines) + "\ny = Identity(v39) }"
    assert mutate_onnx.verdict(parse(text)) == "module"


@pytest.mark.parametrize(
    "nodes",
    [
        "y = Tile(s, s)",
        "y = Expand(s, s)",
        "q = Squeeze(s)  y = Range(zero, q, one)",
        "q = Squeeze(s)  c = ConstantOfShape(s)  y = Shape(c)",
        "q = Concat<axis = 0>(s, s)  r = Mul(q, q)  y = Tile(r, s)",
    ],
)
def test_elements_of_great_tensors_are_not_listed(nodes):
    text = f"""g (float[{1 << 40}] x) => (int64[K] y) <int64 zero = {{0}}, int64 one = {{1}}> {{
      s = Shape(x)
      {nodes}
    }}"""
    assert mutate_onnx.verdict(parse(text)) == "module"


def test_long_shape_arithmetic_is_computed_by_tensors():
    steps = "".join(f"d{i} = Div(v{i - 1}, m)  q{i} = Add(d{i}, n)  v{i} = Max(q{i}, v{i - 1})\n" for i in range(1, 14))
    text = f"""g (float[N, M] x) => (float[K] y) <int64 zero = {{0}}, int64 one = {{1}}, int64[1] first = {{0}}> {{
      s = Shape(x)
      n = Gather(s, zero)
      m = Gather(s, one)
      v0 = Add(n, m)
      {steps}
      u = Unsqueeze(v13, first)
      y = ConstantOfShape(u)
    }}"""
    module = from_onnx(parse(text))
    assert "R.maximum" in module.script()
    vm = relax.VirtualMachine(relax.build(module, PLAIN_LOOPS), relax.cpu())
    assert vm["main"](np.ones((6, 2), "float32")).shape == (11,)


@pytest.mark.parametrize("bins", [0, -1, 1 << 40])
def test_a_matrix_of_weights_that_there_is_not(bins):
    text = f"""g () => (float[K, L] y) <int64 bins = {{{bins}}}, int64 length = {{16}}, int64 rate = {{8192}},
      float low = {{0}}, float high = {{4096}}> {{ y = MelWeightMatrix(bins, length, rate, low, high) }}"""
    refused(parse(text), "E6003", "there is no matrix of weights")


# ------------------------------------------------------------------------------------- mutations


@pytest.mark.parametrize("name", sorted(mutate_onnx.models()))
def test_the_good_models_are_good(name):
    assert mutate_onnx.verdict(mutate_onnx.models()[name]) == "module"


@pytest.mark.parametrize("part", range(8))
def test_mutants_are_modules_or_refused(part):
    verdicts = {mutate_onnx.check(f"fixed:{part}:{index}", build=index % 50 == 0) for index in range(50)}
    assert {"module", "E6002"} <= verdicts
