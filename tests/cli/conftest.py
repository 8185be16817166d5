"""A model in a folder of its own, and the command called as a shell would call it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from relax.cli.main import main

MODEL = """\
from relax.script import ir as I, relax as R


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 2), "float32")):
        with R.dataflow():
            h = R.matmul(x, w)
            y = R.nn.relu(h)
            R.output(y)
        return y
"""


@dataclass
class Said:
    """What a command left behind."""

    status: int
    out: str
    err: str


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with model.py in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    return tmp_path


@pytest.fixture
def command(folder, capsys):
    """``command("run", "model.py")``: its status, and what it printed; never a traceback."""

    def call(*words):
        capsys.readouterr()
        status = main([str(word) for word in words])
        said = Said(status, *capsys.readouterr())
        assert "Traceback" not in said.out + said.err
        assert "internal error" not in said.err
        return said

    return call
