"""``relax tune``: records of a model's kernels, shown and exported."""

from __future__ import annotations

import json
import sys

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
        "tune", "model.py", "--size", "n=2,20", "--seconds", "3600", "--trials", "2", "--database", "t.sqlite",
        "--export", "records.jsonl", "--show", "--page", "page.html",
    )  # fmt: skip
    assert said.status == 0, said.err
    assert "matmul: " in said.out
    assert "times as fast, by estimate; records: t.sqlite\n" in said.out
    assert "records.jsonl: 1 records\n" in said.out
    assert "page.html: curves and loops\n" in said.out
    page = (model / "page.html").read_text(encoding="utf-8")
    assert "<h1>Tuning of model.py</h1>" in page
    assert "<h2>matmul</h2>" in page
    assert "<td>n=2</td>" in page
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
        (["tune", "--show", "--page", "page.html"], "--page shows what tuning a model does"),
        (["tune", "model.py", "--page", "folder/page.html"], "--page: there can be no file folder/page.html"),
        (["tune", "--import", "model.py", "--database", "t.sqlite"], "line 1 is no record"),
    ],
)
def test_what_is_refused(command, model, words, message):
    said = command(*words)
    assert said.status == 1
    assert message in said.err


def test_a_cluster_without_ray(command, model, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    said = command("tune", "model.py", "--size", "n=2", "--database", "t.sqlite", "--cluster", "auto")
    assert said.status == 1
    assert "error[E7003]: tuning on a cluster needs the package ray\n" in said.err
    assert "pip install relax[ray]" in said.err


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("auto", "--cluster auto: "),
        ("127.0.0.1:1", "--cluster 127.0.0.1:1: there is no Ray cluster at 127.0.0.1:1: "),
        ("ray://head:10001", "the address 'ray://head:10001' of a Ray cluster is neither auto nor HOST:PORT"),
        ("head", "the address 'head' of a Ray cluster is neither auto nor HOST:PORT"),
    ],
)
def test_a_cluster_that_is_not_there(command, model, monkeypatch, address, message):
    pytest.importorskip("ray", reason="ray is not installed: pip install relax[ray]")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    said = command("tune", "model.py", "--size", "n=2", "--database", "t.sqlite", "--cluster", address)
    assert said.status == 1
    assert "error[E7004]: " in said.err
    assert message in said.err
    assert "ray start --head" in said.err
