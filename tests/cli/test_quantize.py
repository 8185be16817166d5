"""``relax quantize``: language models as GGUF files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from small_models import small_model

from relax.frontend import gguf


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("small"))


def test_a_folder_becomes_a_file(command, folder, small):
    said = command("quantize", small, "-o", "model.gguf", "--type", "Q8_0")
    assert said.status == 0
    assert said.out.splitlines() == [
        "type     tensors     size", "q8_0          14  30.7 kB", "float16        2  6.14 kB", "float32        5    640 B",
        f"model.gguf: q8_0, {(folder / 'model.gguf').stat().st_size / 1000:.3g} kB",
    ]  # fmt: skip
    assert gguf.read(folder / "model.gguf").metadata["general.file_type"] == 7
    assert command("info", "model.gguf").status == 0


def test_a_file_becomes_another_file(command, folder, small):
    assert command("quantize", small, "-o", "model-f16.gguf", "--type", "f16").status == 0
    said = command("quantize", "model-f16.gguf", "-o", "model.gguf")
    assert said.out.splitlines()[-1].startswith("model.gguf: q4_k_m, ")
    assert command("complete", "model.gguf", "Hello", "-n", "2").status == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("missing", "-o", "x.gguf"), "error[E7001]: missing cannot be read: No such file or directory"),
        (("SMALL", "-o", "x.bin"), "error[E7004]: cannot write x.bin: the format is GGUF"),
        (("model.py", "-o", "x.gguf"), "error[E6011]"),
        (("empty", "-o", "x.gguf"), "config.json: No such file or directory"),
        (("SMALL", "-o", "nowhere/x.gguf"), "nowhere/"),
        (("relu", "-o", "x.gguf"), "error[E7004]: relu is not written as GGUF: GGUF files of llama models have the "),
    ],
)
def test_errors(command, folder, small, words, message):
    (folder / "empty").mkdir()
    shutil.copytree(small, folder / "relu")
    config = folder / "relu" / "config.json"
    config.write_text(config.read_text().replace("{", '{"hidden_act": "relu", ', 1))
    said = command("quantize", *(small if word == "SMALL" else word for word in words))
    assert said.status == 1
    assert message in said.err
    assert not (folder / "x.gguf").exists()


def test_an_unknown_type(command, small):
    said = command("quantize", small, "-o", "x.gguf", "--type", "q9")
    assert said.status == 2
    assert "there is no type 'q9'; there are float32, float16, bfloat16, q8_0, q6_k, q5_k_m" in said.err
