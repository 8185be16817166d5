"""Files of torch.export.save in the commands that take a model."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")


class Scores(torch.nn.Module):
    """Scores of rows, and the number of rows seen."""

    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(4, 3)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, x, rows):
        self.seen += x.shape[0]
        return {"logits": self.dense(x), "rows": rows.reshape(-1, 8)}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    torch.manual_seed(0)
    path, module = tmp_path_factory.mktemp("torch") / "scores.pt2", Scores()
    shapes = {"x": {0: torch.export.Dim("batch", max=64)}, "rows": {0: 8 * torch.export.Dim("n")}}
    program = torch.export.export(module, (torch.ones(3, 4), torch.ones(32)), dynamic_shapes=shapes, strict=False)
    torch.export.save(program, path)
    return path, module


SIZES = ("--shape", "x=batch,4", "--size", "batch=3", "--size", "rows_0=16")


def test_run_names_inputs_outputs_and_sizes(command, folder, saved):
    path, module = saved
    np.save("x.npy", np.ones((3, 4), "float32"))
    said = command("run", path, *SIZES, "--input", "x=x.npy", "-o", "out.npz", "--tier", "now")
    assert said.status == 0, said.err
    out = np.load("out.npz")
    assert set(out) == {"logits", "rows", "b_seen"}
    np.testing.assert_allclose(out["logits"], module(torch.ones(3, 4), torch.ones(8))["logits"].detach(), rtol=1e-5)
    assert (out["rows"].shape, out["b_seen"]) == ((2, 8), 3)
    assert [line.split()[0] for line in said.out.splitlines()[1:4]] == ["x", "rows", "b_seen"]
    assert "in the model" in said.out


def test_sizes_out_of_their_range(command, saved):
    said = command("run", saved[0], "--shape", "x=batch,4", "--size", "batch=65,rows_0=16", "--tier", "now")
    assert (said.status, "dimension 0 of x (batch) is 65, expected at most 64" in said.err) == (1, True)
    said = command("run", saved[0], "--shape", "x=batch,4", "--size", "batch=6,rows_0=15", "--tier", "now")
    assert (said.status, "dimension 0 of rows is 15, expected 8*s" in said.err) == (1, True)


def test_open_sizes_are_asked_for(command, saved):
    said = command("run", saved[0], "--shape", "x=batch,4")
    assert "x: the size batch is open in" in said.err
    assert "choose N: --size batch=N" in said.err


@pytest.mark.parametrize("verb", ["profile", "memory"])
def test_verbs_that_run(command, saved, verb):
    said = command(verb, saved[0], *SIZES)
    assert (said.status, said.err) == (0, "")


def test_check_show_diff_compile_and_convert(command, folder, saved):
    assert "no errors in main" in command("check", saved[0]).out
    assert "dimension 0 of x (s" in command("show", saved[0]).out
    assert "agree in 3 outputs" in command("diff", saved[0], "interpreter", "compiled", *SIZES).out
    assert "scores.relax: main" in command("compile", saved[0], "-o", "scores.relax").out
    if pytest.importorskip("onnx"):
        assert "scores.onnx: main" in command("convert", saved[0], "-o", "scores.onnx").out


@pytest.mark.parametrize(
    "word, message",
    [
        ("y=n,4", "error[E7004]: --shape: there is no input 'y' that is a tensor; there are x, rows"),
        ("x=n,m", "error[E7004]: --shape: dimension 1 of x is 4 in the program, and cannot be named 'm'"),
        ("x=n", "error[E7004]: --shape: x has 2 dimensions, found 1 names"),
        ("x=3,5", "error[E7004]: --shape x: dimension 1 is 4, not 5"),
    ],
)
def test_shapes_that_do_not_fit(command, saved, word, message):
    assert command("check", saved[0], "--shape", word).out.startswith(message)


def test_files_that_are_none(command, folder):
    (folder / "broken.pt2").write_bytes(b"PK")
    said = command("run", "broken.pt2")
    assert said.err.startswith("error[E7001]: cannot read broken.pt2: torch rejects it: ")
    assert "help: write it with torch.export.save" in said.err
    assert command("run", "none.pt2").err.startswith("error[E7001]: cannot read none.pt2: no such file")
