"""relax diff: what agrees, what differs and where, and what cannot be told."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax.cli.probe import probed
from relax.script import from_source

HEAD = "from relax.script import ir as I, relax as R\n@I.ir_module\nclass M:\n"


def module(*functions):
    return from_source(
        HEAD + "\n".join("    " + line for f in functions for line in f.splitlines()) + "\n", name="m.py"
    )


MAIN = """\
@R.function
def main(x: R.Tensor(("n",), "float32")):
    with R.dataflow():
        y = R.exp(x)
        a = y
        z = R.add(y, a)
        R.output(z)
    w = R.negative(z)
    return w"""


def test_a_program_tells_its_values():
    told = probed(module(MAIN), "main")
    assert [name for name, _ in told.values] == ["y", "z", "w"]
    x = np.array([0, 1], "float32")
    result, values = relax.interpret(told.mod, "main", x)
    expected = [np.exp(x), 2 * np.exp(x), -2 * np.exp(x)]
    np.testing.assert_allclose([value.numpy() for value in values], expected, rtol=1e-6)
    np.testing.assert_allclose(result.numpy(), expected[-1], rtol=1e-6)
    compiled = relax.VirtualMachine(relax.build(told.mod), relax.cpu())["main"](x)
    np.testing.assert_allclose([value.numpy() for value in compiled[1]], expected, rtol=1e-5)


def test_a_program_whose_entry_point_is_called_tells_nothing():
    caller = '@R.function\ndef f(x: R.Tensor(("n",), "float32")):\n    y = M.main(x)\n    return y'
    assert probed(module(MAIN.replace("):", ') -> R.Tensor(("n",), "float32"):', 1), caller), "main") is None


def test_engines_agree(command):
    said = command("diff", "model.py", "--size", "n=3")
    assert (said.status, said.err) == (0, "")
    assert said.out.startswith("interpreter and compiled agree in 1 output (largest difference ")
    said = command("diff", "model.py", "interpreter:graph", "compiled:default", "--size", "n=3")
    assert said.out.startswith("interpreter:graph and compiled:default agree")


def test_the_first_tensor_that_differs(command, folder):
    text = (folder / "model.py").read_text(encoding="utf-8")
    (folder / "other.py").write_text(text.replace("R.matmul(x, w)", "R.matmul(R.exp(x), w)"), encoding="utf-8")
    said = command("diff", "model.py", "other.py", "--size", "n=8")
    assert said.status == 1
    assert said.out.startswith("model.py and other.py differ\n  result: expected ")
    assert "the first tensor that differs is h\n  h = R.matmul(x, w)\n  at model.py:9:17\n  h: expected " in said.out


def test_a_pipeline_that_is_wrong_is_found(command, folder, monkeypatch):
    monkeypatch.setattr(relax.pipeline, "_PIPELINES", dict(relax.pipeline._PIPELINES))

    @relax.register_pipeline("cli_test_wrong")
    def make():
        @relax.ir.transform.module_pass(opt_level=0, name="Wrong")
        def wrong(mod, _):
            return from_source(mod.script().replace("R.nn.relu", "R.nn.gelu"))

        return relax.ir.transform.Sequential([wrong])

    said = command("diff", "model.py", "interpreter", "interpreter:cli_test_wrong", "--size", "n=2")
    assert said.status == 1
    assert "the first tensor that differs is y" in said.out


def test_errors_are_compared(command, folder):
    text = (folder / "model.py").read_text(encoding="utf-8")
    body = 'y = R.match_cast(x, R.Tensor((3, 4), "float32"))'
    (folder / "cast.py").write_text(text.replace("y = R.nn.relu(h)", f"z = R.nn.relu(h)\n            {body}"))
    said = command("diff", "cast.py", "--size", "n=2")
    assert said.status == 0
    assert "both fail with ValueError: main: " in said.out
    said = command("diff", "model.py", "cast.py", "--size", "n=2")
    assert said.status == 1
    assert "expected no error, found ValueError" in said.out
    assert "the values that cast.py computes on the way cannot be told" in said.out


def test_the_tolerance(command, folder):
    text = (folder / "model.py").read_text(encoding="utf-8")
    (folder / "other.py").write_text(text.replace("R.nn.relu(h)", 'R.nn.relu(R.add(h, R.const(0.01, "float32")))'))
    assert command("diff", "model.py", "other.py", "--size", "n=8").status == 1
    assert command("diff", "model.py", "other.py", "--size", "n=8", "--tolerance", "0.1").status == 0


def test_an_executable_tells_no_values(command, folder):
    text = (folder / "model.py").read_text(encoding="utf-8")
    (folder / "other.py").write_text(text.replace("relu", "silu"), encoding="utf-8")
    assert command("compile", "other.py").status == 0
    said = command("diff", "other.relax", "model.py", "--size", "n=2")
    assert said.status == 1
    assert "the values that other.relax computes on the way cannot be told" in said.out
    assert command("diff", "other.relax", "other.relax", "--size", "n=2").status == 0


@pytest.mark.parametrize(
    "words, message",
    [
        (["interpretr"], "there is no engine 'interpretr'"),
        (["interpreter"], "two sides are compared, found 1"),
        (["interpreter", "compiled", "compiled"], "two sides are compared, found 3"),
        (["interpreter", "onnxruntime"], "ONNX Runtime runs .onnx files, not model.py"),
        (["interpreter", "compiled:non"], "there is no pipeline 'non'"),
        (["none.py"], "cannot read none.py"),
    ],
)
def test_sides_that_are_none(command, words, message):
    said = command("diff", "model.py", *words, "--size", "n=2")
    assert said.status == 1
    assert message in said.err
