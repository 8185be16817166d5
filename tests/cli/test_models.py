"""From a path to a program: kinds of files, broken ones, shapes, entry points."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import relax
from relax.cli.arguments import named_values
from relax.cli.models import chosen_entry, read_executable, read_module, read_program, signature_of
from relax.ir import Diagnostic
from relax.ir.diagnostics import emit_warning
from relax.ir.serialize import save_json


def shape_of(mod, index=0):
    return str(mod["main"].params[index].struct_info_)


def test_a_script_is_never_executed(folder):
    (folder / "evil.py").write_text("import os\nos.mkdir('made')\n", encoding="utf-8")
    with pytest.raises(relax.DiagnosticError):
        read_module(Path("evil.py"))
    assert not (folder / "made").exists()


def test_a_script_with_one_function(folder):
    text = "from relax.script import relax as R\n@R.function\ndef f(x: R.Tensor((2,), 'float32')):\n    return x\n"
    (folder / "f.py").write_text(text, encoding="utf-8")
    assert signature_of(read_module(Path("f.py")), None).name == "f"


def test_all_errors_of_a_script(command, folder):
    text = (folder / "model.py").read_text(encoding="utf-8")
    (folder / "model.py").write_text(text.replace("R.matmul", "R.matmull").replace("relu", "relo"), encoding="utf-8")
    said = command("check", "model.py")
    assert said.status == 1
    assert "model.py:9:17" in said.out
    assert "model.py:10:17" in said.out
    assert "model.py: 2 errors" in said.out


def test_saved_programs(folder):
    mod = read_module(Path("model.py"))
    Path("model.json").write_text(save_json(mod), encoding="utf-8")
    assert relax.ir.structural_equal(read_module(Path("model.json")), mod)
    Path("function.json").write_text(save_json(mod["main"]), encoding="utf-8")
    assert signature_of(read_module(Path("function.json")), None).name == "main"


@pytest.mark.parametrize(
    "name, contents, message",
    [
        ("model.txt", b"", "files called *.txt are no models"),
        ("model.pth", b"", "files called *.pth are no models\n  = help: save a program: torch.export.save("),
        ("model", b"", "files without a suffix are no models"),
        ("a.json", b"{", "not a saved relax program"),
        ("b.json", b"[1]", "not a saved relax program"),
        ("c.json", b'{"format":2,"root":3,"nodes":[]}', "it holds a int, expected an IRModule"),
        ("d.json", b"\xff\xfe", "it is not UTF-8 text"),
        ("e.py", b"\xff\xfe", "it is not UTF-8 text"),
        ("f.relax", b"no executable", "cannot load f.relax"),
    ],
)
def test_what_cannot_be_read(command, folder, name, contents, message):
    (folder / name).write_bytes(contents)
    said = command("run", name)
    assert said.status == 1
    assert said.err.startswith("error[E7001]: ")
    assert message in said.err


@pytest.mark.parametrize(
    "name, hint",
    [
        ("net.pt2", ""),
        ("model.pt2", "  = help: did you mean model.py?\n"),
        ("modle.py", "  = help: did you mean model.py?\n"),
        ("m.py", ""),
        ("notes.py", ""),
    ],
)
def test_a_file_that_does_not_exist(command, folder, name, hint):
    (folder / "notes.txt").write_text("no model", encoding="utf-8")
    assert command("run", name).err == f"error[E7001]: cannot read {name}: no such file or directory\n{hint}"


def test_a_folder_is_no_model(command, folder):
    (folder / "m.py").mkdir()
    assert "error[E7001]: cannot read m.py: is a directory" in command("check", "m.py").out


def test_shapes_fix_dimensions(folder):
    assert shape_of(read_module(Path("model.py"), {"x": (3, 4)})) == 'R.Tensor((3, 4), dtype="float32")'
    assert shape_of(read_module(Path("model.py"), {"n": (3,)})) == 'R.Tensor((3, 4), dtype="float32")'
    assert shape_of(read_module(Path("model.py"), {"x": ("n", 4)})) == 'R.Tensor((n, 4), dtype="float32")'


def test_values_make_constants_of_parameters(command, folder):
    mod = read_module(Path("model.py"), values={"w": [[1, 0], [0, 1], [0, 0], [0, 0]]})
    assert [param.name_hint for param in mod["main"].params] == ["x"]
    text = "from relax.script import relax as R\n@R.function\ndef f(n: R.Prim('int64'), s: R.Shape(['a', 'b'])):\n    return n\n"
    (folder / "f.py").write_text(text, encoding="utf-8")
    said = command("run", "f.py", "--value", "n=7,s=[2,3]")
    assert said.status == 0
    assert [line.split()[0] for line in said.out.splitlines()] == ["name", "output"]


@pytest.mark.parametrize(
    "word, message",
    [
        ("v=1", "--value v: main has no parameter 'v'\n  = help: the parameters are x, w"),
        ("x=true", "--value x: it is bool, expected float32"),
        ("x=1", "BindParams: the value of x does not fit"),
        ("x", "argument --value: 'x' is not of the form NAME=VALUE, such as sr=16000 or axes=[0,2]"),
        ("x=fast", "'x=fast' is not of the form NAME=VALUE"),
        ("x=", "'x=' is not of the form NAME=VALUE"),
    ],
)
def test_values_that_do_not_fit(command, word, message):
    said = command("compile", "model.py", "--value", word)
    assert said.status in (1, 2)
    assert message in said.err


@pytest.mark.parametrize(
    "text, values",
    [
        ("sr=16000", [("sr", 16000)]),
        ("on=true,scale=0.5", [("on", True), ("scale", 0.5)]),
        ("axes=[0,2],n=-1", [("axes", [0, 2]), ("n", -1)]),
        ("axes=0,2", [("axes", [0, 2])]),
        ("axes=[3]", [("axes", [3])]),
        ("axes=[]", [("axes", [])]),
    ],
)
def test_values_as_words(text, values):
    assert named_values(text) == values


@pytest.mark.parametrize(
    "word, message",
    [
        ("x=3,5", "--shape x: dimension 1 is 4, not 5"),
        ("x=3", "--shape x: 1 dimensions do not fit R.Tensor((n, 4)"),
        ("x=k,4", "--shape x: dimension 0 is n, not k"),
        ("v=3,4", "--shape v: main has no parameter 'v'"),
        ("k=3", "main has no shape variable 'k'"),
    ],
)
def test_shapes_that_do_not_fit(command, word, message):
    said = command("compile", "model.py", "--shape", word)
    assert said.status == 1
    assert message in said.err


def test_shapes_that_do_not_fit_are_all_reported(command):
    said = command("compile", "model.py", "--shape", "x=3,5", "--shape", "w=4,3")
    assert "dimension 1 is 4, not 5" in said.err
    assert "dimension 1 is 2, not 3" in said.err
    assert "gives x twice" in command("run", "model.py", "--shape", "x=1,4", "--shape", "x=2,4").err


def test_the_entry_point():
    assert chosen_entry(["f", "main"], None) == "main"
    assert chosen_entry(["f"], None) == "f"
    assert chosen_entry(["f", "g"], "g") == "g"
    with pytest.raises(relax.DiagnosticError, match="choose one of f, g with --entry"):
        chosen_entry(["f", "g"], None)
    with pytest.raises(relax.DiagnosticError, match="there is no entry point 'h'"):
        chosen_entry(["f", "g"], "h")
    with pytest.raises(relax.DiagnosticError, match="has no entry point"):
        chosen_entry([], None)


def test_compile_writes_an_executable_with_one_entry_point(command, folder):
    text = (folder / "model.py").read_text(encoding="utf-8")
    other = "\n    @R.function\n    def other(x: R.Tensor((2,), 'float32')):\n        y = R.exp(x)\n        return y\n"
    (folder / "model.py").write_text(text + other, encoding="utf-8")
    before = os.environ.get("RELAX_JOBS")
    assert command("compile", "model.py", "--entry", "other", "--jobs", "1").status == 0
    assert os.environ.get("RELAX_JOBS") == before
    assert read_executable(Path("model.relax")).entry_points == ["other"]
    said = command("compile", "model.py", "-o", "model.py")
    assert said.status == 1
    assert "model.py is the model itself" in said.err


@pytest.mark.parametrize(
    "words, message",
    [
        (["--target", "nosuch"], "error[E7004]: --target: "),
        (["--pipeline", "defaut"], "error[E4007]: there is no pipeline 'defaut'"),
        (["-o", "nowhere/model.relax"], "error: nowhere/"),
    ],
)
def test_compile_refuses(command, words, message):
    said = command("compile", "model.py", *words)
    assert said.status == 1
    assert message in said.err


def test_an_executable_is_no_program(command):
    assert command("compile", "model.py").status == 0
    for words in (["compile", "model.relax", "-o", "x.relax"], ["show", "model.relax", "--graph", "x.html"]):
        said = command(*words)
        assert said.status == 1
        assert "error[E7004]" in said.err
        assert "give the model it was compiled from" in said.err
    assert "the shapes of model.relax were fixed" in command("run", "model.relax", "--shape", "n=2").err
    assert "@main(%0: x, %1: w)" in command("show", "model.relax").out


# --------------------------------------------------------------------------------------------- ONNX


@pytest.fixture
def onnx_model(folder):
    """y = exp(x * w) + exp(x * w), and z = -exp(x * w), over an open dimension."""
    onnx = pytest.importorskip("onnx")
    import numpy as np

    h, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [
        h.make_node("Mul", ["x", "w"], ["scaled/out"], name="scale"),
        h.make_node("Exp", ["scaled/out"], ["act"], name="act"),
        h.make_node("Add", ["act", "act"], ["y"]),
        h.make_node("Neg", ["act"], ["z"]),
    ]
    values = [h.make_tensor_value_info(name, kind, ["batch", 4]) for name in "xyz"]
    w = onnx.numpy_helper.from_array(np.arange(4, dtype="float32") / 4, "w")
    graph = h.make_graph(nodes, "g", values[:1], values[1:], [w])
    path = folder / "model.onnx"
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=10), str(path))
    return path


def test_an_onnx_model(command, onnx_model):
    said = command("run", "model.onnx", "--size", "batch=3")
    assert said.status == 0
    assert [line.split()[0] for line in said.out.splitlines()] == ["name", "x", "y", "z"]
    assert command("compile", "model.onnx", "--shape", "x=2,4", "-o", "fixed.relax").status == 0
    assert "output[1]  2 x 4  float32" in command("run", "fixed.relax").out
    assert command("compile", "model.onnx", "--shape", "batch=2", "-o", "fixed.relax").status == 0
    assert "x          2 x 4" in command("run", "fixed.relax").out
    assert "model.onnx: no errors in main" in command("check", "model.onnx").out
    assert "a shape is given for 'v', which is no input" in command("check", "model.onnx", "--shape", "v=2,4").out


def test_values_of_inputs_of_an_onnx_model(command, folder):
    """An If on an input, of which a value leaves one branch."""
    onnx = pytest.importorskip("onnx")
    text = """<ir_version: 8, opset_import: ["": 18]>
    g (float[N] x, int64 rate) => (float[M] y) <int64 high = {16000}> {
      c = Equal(rate, high)
      y = If (c) <then_branch = g1 () => (float[K] a) { a = Concat<axis = 0>(x, x) },
                  else_branch = g2 () => (float[N] b) { b = Neg(x) }>
    }"""
    onnx.save(onnx.parser.parse_model(text), "model.onnx")
    said = command("run", "model.onnx", "--value", "rate=16000", "--size", "N=2")
    assert [line.split()[:2] for line in said.out.splitlines()] == [["name", "shape"], ["x", "2"], ["y", "4"]]
    said = command("run", "model.onnx", "--value", "rat=16000")
    assert "error[E6003]: a value is given for 'rat', which is no input" in said.err
    assert "did you mean 'rate'?" in said.err
    assert command("compile", "model.onnx", "--value", "rate=8000", "-o", "low.relax").status == 0
    assert "output  2" in command("run", "low.relax", "--size", "N=2").out
    assert "the values of low.relax were fixed" in command("run", "low.relax", "--value", "rate=1").err
    pytest.importorskip("onnxruntime")
    said = command("diff", "model.onnx", "onnxruntime", "compiled", "--value", "rate=16000", "--size", "N=3")
    assert "onnxruntime and compiled agree in 1 output" in said.out
    said = command("bench", "model.onnx", "--value", "rate=8000", "--size", "N=2", "--runs", "2")
    assert [line.split()[1] for line in said.out.splitlines()[1:]] == ["relax", "onnxruntime"]


@pytest.fixture
def inverse(folder):
    """An ONNX model with a node that is not supported."""
    onnx = pytest.importorskip("onnx")
    text = """<ir_version: 8, opset_import: ["": 18, "com.microsoft": 1]>
    g (float[N, 2, 2] x) => (float[N, 2, 2] y) { h = Exp(x)  y = com.microsoft.Inverse(h) }"""
    onnx.save(onnx.parser.parse_model(text), "inverse.onnx")
    return "inverse.onnx"


def test_onnx_runtime_runs_nodes_that_are_not_supported(command, inverse):
    pytest.importorskip("onnxruntime")
    said = command("run", inverse, "--size", "N=2").err
    assert "error[E6001]: the operator com.microsoft.Inverse is not supported" in said
    assert "  = help: let ONNX Runtime run it: --fallback onnxruntime\n" in said
    fallback = ("--fallback", "onnxruntime")
    said = command("run", inverse, "--size", "N=2", *fallback)
    assert said.err.startswith("warning[W6010]: 1 node of the model runs in ONNX Runtime")
    assert "  = help: nodes in ONNX Runtime are neither fused nor compiled\n" in said.err
    assert [line.split()[:2] for line in said.out.splitlines()] == [["name", "shape"], ["x", "2"], ["y", "2"]]
    said = command("diff", inverse, "onnxruntime", "compiled", "--size", "N=3", *fallback)
    assert "onnxruntime and compiled agree in 1 output" in said.out
    assert command("compile", inverse, "-o", "inverse.relax", *fallback).status == 0
    assert "output  3 x 2 x 2" in command("run", "inverse.relax", "--size", "N=3").out
    assert command("run", "inverse.relax", *fallback).err == (
        "error[E7004]: the fallback of inverse.relax was fixed when it was compiled\n"
        "  = help: give --fallback when the model is compiled\n"
    )
    assert (
        "ONNX cannot say the packed function onnx_Inverse_0"
        in command("convert", inverse, "-o", "o.onnx", *fallback).err
    )


def test_a_fallback_that_is_not_there(command, inverse, monkeypatch):
    said = command("run", inverse, "--fallback", "tvm")
    assert said.status == 2
    assert "argument --fallback: invalid choice: 'tvm' (choose from " in said.err
    assert command("run", "model.py", "--fallback", "onnxruntime").err == (
        "error[E7004]: --fallback onnxruntime: model.py is no ONNX model\n"
        "  = help: leave the option out: only nodes of ONNX may be unsupported\n"
    )
    assert command("compile", inverse, "-o", "inverse.relax", "--fallback", "onnxruntime").status == 0
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert command("run", inverse, "--fallback", "onnxruntime").err == (
        "error[E7003]: --fallback onnxruntime needs the package onnxruntime\n"
        "  = help: install it: pip install relax[onnxruntime]\n"
    )
    said = command("run", "inverse.relax", "--size", "N=2").err
    assert said.startswith("error: cannot load the module of kind 'onnxruntime' with the functions onnx_Inverse_0: it ")
    assert "needs the library onnxruntime: pip install" in said


def test_an_onnx_model_that_is_broken(command, onnx_model):
    onnx_model.write_bytes(onnx_model.read_bytes()[:40])
    said = command("run", "model.onnx")
    assert said.status == 1
    assert said.err.startswith("error[E6")
    assert "error[E7001]" in command("run", "missing.onnx").err


def test_hints_are_for_the_shell_in_commands_and_for_python_in_python(command, folder):
    """Squeeze without axes of five dynamic dimensions: it must be known which are 1."""
    onnx = pytest.importorskip("onnx")
    from relax.frontend.onnx import from_onnx

    h, kind = onnx.helper, onnx.TensorProto.FLOAT
    inputs = [h.make_tensor_value_info("x", kind, [*"abcde", 576]), h.make_tensor_value_info("w", kind, [576])]
    output = h.make_tensor_value_info("y", kind, None)
    graph = h.make_graph([h.make_node("Squeeze", ["x"], ["y"])], "g", inputs, [output])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=10), "squeeze.onnx")
    for said in (command("run", "squeeze.onnx").err, command("check", "squeeze.onnx").out):
        assert "  = help: give the size: --shape x=N,N,N,N,N,576\n" in said
        assert "shape_dict" not in said
    with pytest.raises(relax.DiagnosticError) as caught:
        from_onnx("squeeze.onnx")
    assert str(caught.value).endswith(
        '  = help: give the size: from_onnx(model, shape_dict={"x": [N, N, N, N, N, 576]})'
    )


def test_hints_of_warnings_are_for_the_shell_too(command, monkeypatch):
    warning = Diagnostic("W7001", "too small", hint="shape_dict={...}", level="warning", shell_hint="--shape x=N")

    def warned(*args):
        emit_warning(warning)
        return read_program(*args)

    monkeypatch.setattr("relax.cli.show.read_program", warned)
    assert command("show", "model.py").err == "warning[W7001]: too small\n  = help: --shape x=N\n\n"


def test_onnx_runtime_is_compared_with(command, onnx_model):
    pytest.importorskip("onnxruntime")
    said = command("bench", "model.onnx", "--size", "batch=2", "--runs", "2")
    assert said.status == 0
    assert [line.split()[1] for line in said.out.splitlines()[1:]] == ["relax", "onnxruntime"]
    assert said.out.splitlines()[0].split()[-1] == "ratio"
    alone = command("bench", "model.onnx", "--size", "batch=2", "--runs", "2", "--alone")
    assert "onnxruntime" not in alone.out
    said = command("diff", "model.onnx", "onnxruntime", "compiled", "--size", "batch=3")
    assert said.status == 0
    assert "onnxruntime and compiled agree in 2 outputs" in said.out
    both = command("diff", "model.onnx", "onnxruntime", "onnxruntime", "--size", "batch=3")
    assert "both sides are ONNX Runtime" in both.err


def test_the_onnx_node_that_differs(command, onnx_model, folder):
    pytest.importorskip("onnxruntime")
    import onnx

    model = onnx.load(str(onnx_model))
    model.graph.node[1].op_type = "Relu"
    onnx.save(model, str(folder / "other.onnx"))
    said = command("diff", "other.onnx", "onnxruntime", "model.onnx", "--size", "batch=2")
    assert said.status == 1
    assert "the first tensor that differs is act" in said.out
    assert 'model.onnx: Exp "act"' in said.out


@pytest.mark.parametrize("inner", ["h", "scales"])
def test_a_resize_that_onnx_runtime_rounds_otherwise(command, folder, inner):
    pytest.importorskip("onnxruntime")
    import onnx

    nodes = {
        "h": "h = Relu(x)  [up] y = Resize(h, , scales)",
        "scales": "scales = Identity(given)  [up] y = Resize(x, , scales)",
    }
    declared = {"h": "scales", "scales": "given"}[inner]
    text = f"""<ir_version: 8, opset_import: ["": 18]>
    g (float[1, 10] x) => (float[A, B] y) <float[2] {declared} = {{1, 2.3}}> {{ {nodes[inner]} }}"""
    onnx.save(onnx.parser.parse_model(text), str(folder / "resize.onnx"))
    said = command("diff", "resize.onnx", "onnxruntime", "compiled")
    assert said.status == 1
    message = "Resize 'up' has 23 elements in dimension 1 in ONNX Runtime, which rounds 10 * 2.3 in float32"
    assert f"{message}; they are 22 by the standard's reference" in said.out


def test_a_resize_that_is_not_the_reason(command, onnx_model, folder):
    pytest.importorskip("onnxruntime")
    import onnx

    text = """<ir_version: 8, opset_import: ["": 18]>
    g (float[1, 10] x) => (float[A, B] y) <float[2] scales = {1, 2.5}> { h = Relu(x)  y = Resize(h, , scales) }"""
    onnx.save(onnx.parser.parse_model(text), str(folder / "resize.onnx"))
    onnx.save(onnx.parser.parse_model(text.replace("Relu", "Neg")), str(folder / "other.onnx"))
    said = command("diff", "other.onnx", "onnxruntime", "resize.onnx")
    assert said.status == 1
    assert "Resize '" not in said.out
