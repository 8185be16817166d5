"""Files in the format safetensors: dtypes, shards with an index, corrupt files. The package writes and checks them."""

from __future__ import annotations

import importlib
import json
import struct

import gguf_files as gg
import ml_dtypes
import numpy as np
import pytest

from relax import DiagnosticError
from relax.frontend.safetensors import DTYPES, read
from relax.runtime.dtypes import NUMPY_DTYPES

pytest.importorskip("safetensors")


def file_bytes(entries, data=b"", metadata=None):
    """A file of entries (name, dtype, shape, first byte, last byte), which are not checked."""
    header = {"__metadata__": metadata} if metadata else {}
    header |= {n: {"dtype": d, "shape": s, "data_offsets": [first, last]} for n, d, s, first, last in entries}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def shard(name, *numbers):
    return file_bytes([(name, "U8", [len(numbers)], 0, len(numbers))], bytes(numbers))


@pytest.fixture
def folder(tmp_path):
    """A model of two shards: its folder."""
    (tmp_path / "a.safetensors").write_bytes(shard("x", 1, 2))
    (tmp_path / "b.safetensors").write_bytes(shard("y", 3))
    write_index(tmp_path, {"x": "a.safetensors", "y": "b.safetensors"})
    return tmp_path


def write_index(folder, weight_map):
    content = {"metadata": {"total_size": 3}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(content), encoding="utf-8")


def refused(path, code, *texts):
    with pytest.raises(DiagnosticError) as caught:
        read(path)
    assert [d.code for d in caught.value.diagnostics] == [code]
    for text in texts:
        assert text in str(caught.value)


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes(tmp_path, name):
    dtype = NUMPY_DTYPES[DTYPES[name]]
    values = np.arange(6).reshape(2, 3).astype(dtype)
    path = tmp_path / "model.safetensors"
    path.write_bytes(file_bytes([("t", name, [2, 3], 0, values.nbytes)], values.tobytes(), {"format": "np"}))
    file = read(path)
    assert dict(file.metadata) == {"format": "np"}
    assert (file.tensors["t"].shape, file.tensors["t"].dtype, file.tensors["t"].layout) == ((2, 3), dtype.name, "plain")
    assert file["t"].dtype == dtype
    assert file["t"].tobytes() == values.tobytes()
    assert not file["t"].flags.writeable
    assert not file["t"].flags.owndata


def test_a_file_of_the_package(tmp_path):
    numpy = pytest.importorskip("safetensors.numpy")
    rng = np.random.default_rng(0)
    arrays = {
        "w": rng.standard_normal((5, 3)).astype("f4"),
        "b": rng.standard_normal(3).astype(ml_dtypes.bfloat16),
        "s": np.array(2.5),
        "none": np.zeros((0, 4), "i8"),
    }
    path = tmp_path / "model.safetensors"
    numpy.save_file(arrays, path)
    file = read(path)
    assert set(file) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(file[name], array)
        assert file[name].dtype == array.dtype


@pytest.mark.parametrize("name", ["", "model.safetensors.index.json"])
def test_shards(folder, name):
    file = read(folder / name)
    assert {name: file[name].tolist() for name in file} == {"x": [1, 2], "y": [3]}
    assert file.metadata == {"total_size": 3}
    assert len(file.paths) == 2


def test_a_folder_with_one_file(tmp_path):
    refused(tmp_path, "E6013", "the folder has no weights", "model.safetensors or model.safetensors.index.json")
    (tmp_path / "model.safetensors").write_bytes(shard("x", 1))
    assert read(tmp_path)["x"].tolist() == [1]


def test_a_missing_shard(folder):
    (folder / "b.safetensors").unlink()
    refused(folder, "E6013", "the shard b.safetensors cannot be opened: No such file")


def test_a_tensor_in_two_shards(folder):
    (folder / "b.safetensors").write_bytes(shard("x", 3))
    refused(folder, "E6013", "the tensor 'x' is in two shards", "a.safetensors, too")


def test_an_index_that_names_what_is_not_there(folder):
    write_index(folder, {"x": "a.safetensors", "y": "b.safetensors", "z": "b.safetensors"})
    refused(folder, "E6013", "the tensor 'z' is in b.safetensors, where it is not", "no shard has it")


def test_an_index_that_names_another_shard(folder):
    write_index(folder, {"x": "b.safetensors", "y": "a.safetensors"})
    refused(folder, "E6013", "the tensor 'x' is in b.safetensors, where it is not", "it is in ", "a.safetensors")


def test_an_index_that_leaves_out_a_tensor(folder):
    write_index(folder, {"x": "a.safetensors"})
    (folder / "a.safetensors").write_bytes(file_bytes([("x", "U8", [1], 0, 1), ("y", "U8", [1], 1, 2)], b"ab"))
    refused(folder, "E6013", "the index does not name the tensor 'y'")


@pytest.mark.parametrize("name", ["../a.safetensors", "/etc/passwd", "", "a\0", "\ud800"])
def test_shards_outside_of_the_folder(folder, name):
    write_index(folder, {"x": name})
    refused(folder, "E6013", f"the index names the shard {name!r}, which is not in its folder")


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "the index is not JSON"),
        ('{"weight_map": ', "the index is not JSON"),
        ("[" * 100_000, "the index is not JSON"),
        ('{"weight_map": {"x": "a", "x": "b"}}', "two members of an object have one name"),
        ("[]", "no map from tensors to files"),
        ('{"weight_map": {"x": 1}}', "no map from tensors to files"),
    ],
    ids=range(6),
)
def test_a_corrupt_index(folder, text, message):
    (folder / "model.safetensors.index.json").write_text(text, encoding="utf-8")
    refused(folder, "E6011", message)


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "header too small"),
        (b"\xff" * 16, "header too large"),
        (struct.pack("<Q", 5) + b'{"a":', "invalid JSON in header"),
        (file_bytes([("t", "U8", [2], 0, 2)], b"a"), "the file is not safetensors"),
        (file_bytes([("t", "U8", [3], 0, 2)], b"ab"), "the file is not safetensors"),
        (file_bytes([("t", "U8", [1], 0, 1), ("u", "U8", [2], 0, 2)], b"ab"), "the file is not safetensors"),
        (file_bytes([("t", "U9", [1], 0, 1)], b"a"), "the file is not safetensors"),
    ],
    ids=range(7),
)
def test_corrupt_files(tmp_path, data, message):
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)
    refused(path, "E6011", message, str(path), "at byte 0: found")


def test_complex_numbers_are_not_read(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(file_bytes([("t", "C64", [1], 0, 8)], bytes(8)))
    refused(path, "E6012", "the dtype of tensor 't' is not read", "found C64, expected one of BOOL")


def test_without_the_package(tmp_path, monkeypatch):
    def missing(name):
        raise ImportError(name)

    path = tmp_path / "model.safetensors"
    path.write_bytes(shard("x", 1))
    monkeypatch.setattr(importlib, "import_module", missing)
    refused(path, "E6012", "needs the package safetensors", "pip install relax[llm]")


@pytest.mark.parametrize("seeds", [range(500), pytest.param(range(500, 10_000), marks=pytest.mark.slow)], ids=str)
def test_mutated_files(tmp_path, seeds):
    entries = [("w", "F32", [2, 3], 0, 24), ("b", "BF16", [4], 24, 32), ("i", "I8", [], 32, 33)]
    data = file_bytes(entries, bytes(range(33)), {"format": "pt"})
    path = tmp_path / "model.safetensors"
    valid, refusals = 0, []
    for seed in seeds:
        path.write_bytes(gg.mutated(data, seed))
        try:
            file = read(path)
        except DiagnosticError as error:
            refusals.append(error.diagnostics[0])
            continue
        valid += 1
        for name, array in file.items():
            assert len(array.tobytes()) == file.tensors[name].nbytes, seed
    assert 0 < valid < len(seeds)
    assert {refusal.code for refusal in refusals} <= {"E6011", "E6012"}
