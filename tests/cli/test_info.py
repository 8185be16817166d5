"""`relax info`: metadata and tensors of files of weights."""

from __future__ import annotations

import gguf_files as gg
import numpy as np


def write(folder):
    keys = [
        gg.key("general.architecture", gg.STRING, "llama\x1b[2J"),
        gg.key("tokenizer.ggml.tokens", gg.ARRAY, (gg.STRING, ["a", "b"])),
        gg.key("llama.block_count", 4, 12),
    ]
    tensors = [
        gg.tensor("norm", (4,), 0, 0),
        gg.tensor("a.weight", (64, 2), 2, 32),
        gg.tensor("b.weight", (32, 2), 2, 128),
    ]
    (folder / "model.gguf").write_bytes(gg.file(keys, tensors, np.zeros(164, np.uint8).tobytes()))


def test_a_summary(command, folder):
    write(folder)
    said = command("info", "model.gguf")
    assert said.status == 0
    assert said.out.splitlines() == [
        "key                    type             value",
        r"general.architecture   string           'llama\x1b[2J'",
        "tokenizer.ggml.tokens  array of string  2 values",
        "llama.block_count      uint32           12",
        "",
        "type     tensors  elements   size",
        "q4_0           2       192  108 B",
        "float32        1         4   16 B",
        "3 tensors, 124 B, in 1 file",
    ]


def test_each_tensor(command, folder):
    write(folder)
    lines = command("info", "model.gguf", "--tensors").out.splitlines()
    assert "a.weight  q4_0     2 x 64  72 B" in lines
    assert "norm      float32  4       16 B" in lines


def test_files_that_cannot_be_read(command, folder):
    said = command("info", "missing.gguf")
    assert said.status == 1
    assert said.err == "error[E7001]: missing.gguf cannot be read: No such file or directory\n"
    (folder / "wrong.gguf").write_bytes(b"PK\3\4")
    said = command("info", "wrong.gguf")
    assert said.status == 1
    assert said.err.startswith("error[E6011]: the file is not GGUF\n  --> wrong.gguf\n")
