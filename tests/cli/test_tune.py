"""``relax tune``: records of a model's kernels, shown and exported."""

from __future__ import annotations

import json

import pytest

from relax.farm.tuning_records import Database

MODEL = """\
from relax.script import relax as R

@R.function
def main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 16), "float32")):
    y = R.matmul(x, w)
    return y
"""


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    return tmp_path


def test_a_model_is_tuned(command, model):
    said = command(
        "tune", "model.py", "--size", "n=2,20", "--seconds", "3", "--trials", "2", "--database", "t.sqlite",
        "--export", "records.jsonl", "--show",
    )  # fmt: skip
    assert said.status == 0, said.err
    assert "matmul: " in said.out
    assert "times as fast, by estimate; records: t.sqlite\n" in said.out
    assert "records.jsonl: 1 records\n" in said.out
    (found,) = Database(model / "t.sqlite").records()
    assert [dict(sizes) for sizes in found.sizes] == [{"n": 2}, {"n": 20}]
    assert json.loads((model / "records.jsonl").read_text())["name"] == "matmul"
    again = command("tune", "--import", "records.jsonl", "--database", "other.sqlite", "--show")
    assert again.out.startswith("other.sqlite: 1 records added\nmatmul: ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tune"], "there is no model to tune"),
        (["tune", "model.py", "--target", "llvm -mtriple=aarch64-linux-gnu"], "this machine cannot run code for"),
        (["tune", "model.py", "--database", "model.py"], "file is not a database"),
        (["tune", "--import", "model.py", "--database", "t.sqlite"], "line 1 is no record"),
    ],
)
def test_what_is_refused(command, model, words, message):
    said = command(*words)
    assert said.status == 1
    assert message in said.err
