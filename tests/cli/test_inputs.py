"""Inputs from files and random ones; outputs summarised and saved."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.cli.images import arranged, image_layout
from relax.cli.inputs import random_array, random_value
from relax.cli.outputs import named_parts, parts_of, save, summary
from relax.cli.tables import byte_size, duration, figure
from relax.runtime import ShapeTuple
from relax.runtime.info import FuncInfo, ObjectInfo, PrimInfo, ShapeInfo, TensorInfo, TupleInfo


def test_inputs_by_name_and_outputs_saved(command, folder):
    x = np.arange(8, dtype="float32").reshape(2, 4)
    w = np.ones((4, 2), "float32")
    np.save("x.npy", x)
    np.savez("all.npz", w=w)
    said = command("run", "model.py", "--input", "x=x.npy", "--input", "all.npz", "-o", "out.npz")
    assert said.status == 0
    assert "x.npy" in said.out
    assert "random" not in said.out
    np.testing.assert_allclose(np.load("out.npz")["output"], x @ w)
    assert command("run", "model.py", "-i", "all.npz", "--size", "n=2", "-o", "out.npy").status == 0
    assert np.load("out.npy").shape == (2, 2)


def test_random_inputs_are_those_of_their_seed(command):
    words = "run", "model.py", "--size", "n=2"
    assert command(*words).out == command(*words, "--seed", "0").out
    assert command(*words).out != command(*words, "--seed", "1").out


def test_a_size_is_told_by_a_file(command):
    np.save("x.npy", np.ones((5, 4), "float32"))
    assert "output  5 x 2" in command("run", "model.py", "--input", "x=x.npy").out
    said = command("run", "model.py", "--input", "x=x.npy", "--size", "n=3")
    assert said.status == 1
    assert "--size n=3: n is 5 in the inputs from files" in said.err


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "x: the size n is open in R.Tensor((n, 4)"),
        (["--size", "m=2"], "--size m=2: main has no open dimension 'm'"),
        (["--size", "n=2", "--size", "n=3"], "--size gives n twice"),
        (["--input", "x.npy"], "it is not said which input this is"),
        (["--input", "v=x.npy", "--size", "n=1"], "the model has no input 'v'"),
        (["--input", "x=x.npy", "--input", "x=x.npy"], "x is given twice"),
        (["--input", "x=none.npy"], "cannot read it: no such file or directory"),
        (["--input", "x=model.py"], "inputs are read from .npy, .npz"),
        (["--input", "bad.npz"], "cannot read it"),
        (["--input", "pickled.npz"], "cannot read it"),
        (["--input", "x=two.npz"], "it holds a, b, and no 'x'"),
        (["--input", "two.npz"], "the model has no input 'a'"),
        (["--size", "n=99999999999"], "has too many elements"),
        (["--size", "n=2", "-o", "out.txt"], "outputs are saved to a .npz file"),
    ],
)
def test_what_does_not_fit(command, words, message):
    np.save("x.npy", np.ones((2, 4), "float32"))
    np.savez("two.npz", a=np.ones(2), b=np.ones(2))
    np.savez("pickled.npz", x=np.array([{}], dtype=object))
    with open("bad.npz", "wb") as file:
        file.write(b"PK\x03\x04 not an archive")
    said = command("run", "model.py", *words)
    assert said.status == 1
    assert said.err.startswith("error[E700")
    assert message in said.err


@pytest.mark.parametrize("words", [["run"], ["bench"], ["profile"], ["bench", "--size", "m=1,2"]])
def test_sizes_are_checked_before_anything_is_compiled(command, monkeypatch, words):
    compiled = []
    monkeypatch.setattr("relax.cli.models.build", lambda *args, **_: compiled.append(args))
    said = command(words[0], "model.py", *words[1:])
    assert said.status == 1
    assert said.err.startswith("error[E7002]")
    assert compiled == []


POOL = """
from relax.script import ir as I, relax as R

@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((1, 1, "h", 8), "float32")):
        with R.dataflow():
            pooled = R.nn.max_pool2d(x, (3, 3))
            y = R.mean(pooled)
            R.output(y)
        return y
"""
ZERO_ROWS = """\
  --> pool.py:9:22
  |
9 |             pooled = R.nn.max_pool2d(x, (3, 3))
  |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^
  = x: R.Tensor((1, 1, 2, 8), "float32")
  = help: these sizes are too small: h=2
"""


def test_a_tensor_without_elements_is_a_warning_that_names_its_node(command, folder):
    (folder / "pool.py").write_text(POOL, encoding="utf-8")
    said = command("run", "pool.py", "--size", "h=2")
    assert said.status == 0
    empty, nan = said.err.strip().split("\n\n")
    head = 'pooled: R.Tensor((1, 1, 0, 6), "float32") has no elements, but its operands have'
    assert empty.strip() == f"warning[W7001]: {head}\n{ZERO_ROWS}".strip()
    assert nan.strip().startswith("warning[W7002]: output is NaN everywhere\n  --> pool.py:10:17\n")
    assert "first NaN: y = mean gives nan of its result" in nan
    assert command("run", "pool.py", "--size", "h=3").err == ""


def test_the_sizes_of_a_file_are_looked_at_too(command, folder):
    (folder / "pool.py").write_text(POOL, encoding="utf-8")
    np.save("x.npy", np.ones((1, 1, 2, 8), "float32"))
    assert "warning[W7001]: pooled: " in command("run", "pool.py", "--input", "x.npy").err


def test_what_an_executable_makes_of_too_small_sizes(command, folder):
    (folder / "pool.py").write_text(POOL.replace("(pooled)", "(pooled, axis=3)"), encoding="utf-8")
    assert command("compile", "pool.py").status == 0
    said = command("run", "pool.relax", "--size", "h=2")
    assert said.status == 0
    assert "warning[W7001]: the result of " in said.err
    assert "  --> pool.py:9:22\n  = operand: (1, 1, 2, 8) float32" in said.err


def test_an_output_of_nan_alone_is_a_warning(command, folder):
    text = (folder / "model.py").read_text(encoding="utf-8")
    (folder / "model.py").write_text(text.replace("R.nn.relu(h)", "R.sqrt(R.negative(R.exp(h)))"), encoding="utf-8")
    said = command("run", "model.py", "--size", "n=2")
    assert said.err.startswith("warning[W7002]: output is NaN everywhere\n  --> model.py:10:17")
    assert "NaN" not in command("run", "model.py", "--size", "n=0").err


def test_an_empty_operand_makes_no_warning(command):
    assert command("run", "model.py", "--size", "n=0").err == ""


def test_an_array_of_another_dtype_is_refused_by_the_program(command):
    np.save("x.npy", np.ones((2, 4), "float64"))
    said = command("run", "model.py", "--input", "x=x.npy")
    assert said.status == 1
    assert said.err.startswith("error: main: parameter x: ")
    assert "float64" in said.err


def test_narrow_floats_survive_files(command, folder):
    text = (folder / "model.py").read_text(encoding="utf-8").replace("float32", "bfloat16")
    (folder / "model.py").write_text(text, encoding="utf-8")
    first = command("run", "model.py", "--size", "n=4", "-o", "x.npz")
    assert first.status == 0
    assert np.load("x.npz")["output"].dtype.kind == "V"  # what NumPy's files keep of it
    assert command("run", "model.py", "--input", "w=x.npz", "--size", "n=1").status == 0


def test_random_values_of_every_kind():
    random = np.random.default_rng(0)
    for dtype in ("float16", "bfloat16", "float8_e4m3fn", "int8", "uint64", "int4", "uint2", "bool"):
        array = random_array((50,), dtype, random)
        assert array.dtype.name == dtype
        assert len(np.unique(array.astype("float32"))) > 1
        if "int" in dtype:
            assert array.astype("int64").min() >= 0
            assert array.astype("int64").max() == {"int4": 7, "uint2": 3}.get(dtype, 9)
    value = random_value("t", TupleInfo((TensorInfo((2, 3), "int32"), ShapeInfo((4, 5)), PrimInfo("int64"))), random)
    assert value[0].shape == (2, 3)
    assert value[1] == (4, 5)
    assert isinstance(value[2], int)
    assert random_value("p", PrimInfo("int64", 7), random) == 7


@pytest.mark.parametrize(
    "info, message",
    [
        (TensorInfo(None, "float32", 2), "x: no random value is made for R.Tensor"),
        (TensorInfo((2,), ""), "x: no random value is made"),
        (TensorInfo((("+", "n", 1), "m"), "float32"), "choose N: --size m=N --size n=N"),
        (TensorInfo((("unknown",),), "float32"), "the sizes of R.Tensor"),
        (TensorInfo((-2,), "float32"), "has a negative dimension"),
        (PrimInfo("int64", "n"), "choose N: --size n=N"),
        (ObjectInfo(), "no random value is made for R.Object"),
        (FuncInfo(None, ObjectInfo(), False), "no random value is made for R.Callable"),
        (TupleInfo((ObjectInfo(),)), r"x\[0\]: no random value"),
    ],
)
def test_what_has_no_random_value(info, message):
    with pytest.raises(relax.DiagnosticError, match=message.replace("(", r"\(")):
        random_value("x", info, np.random.default_rng(0))


# -------------------------------------------------------------------------------------------- images


@pytest.mark.parametrize(
    "dims, expected",
    [
        ((1, 3, 8, 6), ("NCHW", 3, (8, 6))),
        (("n", 1, "h", "w"), ("NCHW", 1, (0, 0))),
        ((1, 8, 6, 4), ("NHWC", 4, (8, 6))),
        ((3, 8, "w"), ("CHW", 3, (8, 0))),
    ],
)
def test_where_an_image_goes(dims, expected):
    assert image_layout("cat.png", TensorInfo(dims, "float32")) == expected


@pytest.mark.parametrize("dims", [(2, 3, 8, 8), (1, 7, 8, 9), (3, 8), None])
def test_where_no_image_goes(dims):
    with pytest.raises(relax.DiagnosticError, match="an image does not fit"):
        image_layout("cat.png", TensorInfo(dims, "float32"))


def test_pixels_in_a_layout():
    pixels = np.arange(24, dtype="uint8").reshape(2, 4, 3) * 10
    image = arranged(pixels, "NCHW", "float32")
    assert image.shape == (1, 3, 2, 4)
    assert image.dtype == np.float32
    assert image[0, 1, 0, 1] == np.float32(40) / 255
    assert np.array_equal(arranged(pixels, "HWC", "uint8"), pixels)
    assert arranged(pixels[:, :, 0], "NHWC", "uint8").shape == (1, 2, 4, 1)


def test_an_image_without_pillow(command, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    monkeypatch.setitem(__import__("sys").modules, "PIL.Image", None)
    said = command("run", "model.py", "--input", "x=cat.png")
    assert said.status == 1
    assert "error[E7003]: reading cat.png needs the package PIL.Image" in said.err
    assert "pip install relax[images]" in said.err


def test_an_image_with_pillow(command, folder):
    pillow = pytest.importorskip("PIL.Image")
    text = (folder / "model.py").read_text(encoding="utf-8")
    (folder / "image.py").write_text(text.replace('("n", 4)', "(1, 3, 8, 4)"), encoding="utf-8")
    pillow.new("RGB", (10, 10), (255, 0, 0)).save("red.png")
    assert command("run", "image.py", "--input", "x=red.png").status == 0


# ------------------------------------------------------------------------------------------- outputs


def test_the_parts_of_a_result():
    parts = dict(parts_of((1, (2.5, ShapeTuple((3, 4)))), "output"))
    assert parts == {"output[0]": 1, "output[1][0]": 2.5, "output[1][1]": (3, 4)}
    assert dict(named_parts((1, (2, 3)), ("a", "b"))) == {"a": 1, "b[0]": 2, "b[1]": 3}
    assert dict(named_parts(1, ("a",))) == {"a": 1}
    assert dict(named_parts((1, 2), ("a",))) == {"a[0]": 1, "a[1]": 2}
    assert dict(named_parts(1, ())) == {"output": 1}


def test_a_summary_of_odd_values():
    values = [
        ("nan", np.array([np.nan, 1, 3], "float32")),
        ("all", np.array([np.nan], "float32")),
        ("none", np.ones((0, 2), "int8")),
        ("inf", np.array([np.inf, 0])),
        ("number", 3),
        ("null", None),
    ]
    lines = summary([(name, value, "") for name, value in values]).splitlines()
    assert lines[0].split() == ["name", "shape", "dtype", "min", "mean", "max", "nan"]
    assert [line.split()[1:] for line in lines[1:]] == [
        ["3", "float32", "1", "2", "3", "1"],
        ["1", "float32", "nan", "nan", "nan", "1"],
        ["0", "x", "2", "int8"],
        ["2", "float64", "0", "inf", "inf", "0"],
        ["scalar", "int64", "3", "3", "3", "0"],
        ["null"],
    ]


def test_what_cannot_be_saved(tmp_path):
    with pytest.raises(relax.DiagnosticError, match="several outputs are saved to a .npz file"):
        save(tmp_path / "x.npy", [("a", 1), ("b", 2)])
    with pytest.raises(relax.DiagnosticError, match="it is a str, not an array"):
        save(tmp_path / "x.npz", [("a", "text")])


def test_figures():
    assert [duration(s) for s in (2.5, 0.0123, 4.56e-5, 7e-9)] == ["2.5 s", "12.3 ms", "45.6 us", "7 ns"]
    assert [byte_size(n) for n in (12, 3100, 2e6, 5.5e9)] == ["12 B", "3.1 kB", "2 MB", "5.5 GB"]
    assert [figure(n) for n in (3.0, 0.12345, float("inf"), 1e9)] == ["3", "0.1235", "inf", "1e+09"]
