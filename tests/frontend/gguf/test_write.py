"""Written GGUF files: our reader and that of the package gguf find what was given; what GGUF cannot hold is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf as package
import ml_dtypes
import numpy as np
import pytest

from relax.frontend.gguf import GGUFFile, Stored, StringArray, read, write
from relax.transform.quantize_rows import quantize_rows

METADATA: dict[str, Any] = {
    "general.architecture": "llama",
    "small": 7,
    "negative": -3,
    "large": 1 << 40,
    "half": 0.5,
    "yes": True,
    "exact": np.float64(0.1),
    "short": np.int16(-2),
    "texts": ["a", "", "größer"],
    "numbers": [1, 2, 3],
    "flags": np.array([True, False]),
    "bytes": np.arange(5, dtype=np.uint8),
    "no texts": np.array([], np.str_),
    "nested": (np.array([1.5], np.float32), np.array([1, 2], np.uint32)),
}
TYPES = {
    "general.architecture": "string", "small": "uint32", "negative": "int32", "large": "uint64", "half": "float32",
    "yes": "bool", "exact": "float64", "short": "int16", "texts": "array of string", "numbers": "array of uint32",
    "flags": "array of bool", "bytes": "array of uint8", "no texts": "array of string", "nested": "array of array",
}  # fmt: skip


def plain(value: Any) -> Any:
    """A metadata value in terms of Python."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [plain(item) for item in value] if isinstance(value, list | tuple | StringArray) else value


def written(folder: Path, metadata: dict[str, Any], tensors: dict[str, Any] | None = None, **options: Any) -> GGUFFile:
    write(folder / "model.gguf", metadata, tensors or {}, **options)
    return read(folder / "model.gguf")


def test_metadata_is_read_again_with_its_types(tmp_path: Path) -> None:
    file = written(tmp_path, METADATA)
    assert file.version == 3
    assert dict(file.value_types) == TYPES
    assert {key: plain(value) for key, value in file.metadata.items()} == {
        key: plain(value) for key, value in METADATA.items()
    }


def test_metadata_of_a_file_is_written_with_its_types(tmp_path: Path) -> None:
    kinds = {"a": "uint8", "b": "int64", "c": "float64", "d": "uint16"}
    file = written(tmp_path, {"a": 1, "b": 2, "c": 0.1, "d": 65535}, value_types=kinds)
    write(tmp_path / "again.gguf", file.metadata, {}, value_types=file.value_types)
    assert (tmp_path / "again.gguf").read_bytes() == (tmp_path / "model.gguf").read_bytes()
    assert dict(file.value_types) == kinds


def test_the_package_gguf_reads_metadata_and_tensors(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(6, 512)).astype(np.float32)
    tensors = {
        "norm.weight": rng.normal(size=5).astype(np.float32),
        "half.weight": weights[:, :3].astype(np.float16),
        **{name: Stored(name, weights.shape, quantize_rows(weights, name)) for name in ("q8_0", "q4_k", "q6_k")},
    }
    file = written(tmp_path, {key: METADATA[key] for key in METADATA if key != "nested"}, tensors)
    other = package.GGUFReader(tmp_path / "model.gguf")
    assert other.get_field("large").contents() == 1 << 40
    assert other.get_field("texts").contents() == ["a", "", "größer"]
    assert [tensor.name for tensor in other.tensors] == list(tensors)
    for tensor in other.tensors:
        assert tuple(reversed(tensor.shape.tolist())) == file.tensors[tensor.name].shape
        np.testing.assert_array_equal(tensor.data, file[tensor.name])
        if tensor.name.startswith("q"):
            found = package.dequantize(tensor.data, tensor.tensor_type)
            assert np.abs(found - weights).max() < 0.5


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int8", "int16", "int32", "int64"])
def test_numbers_of_every_type(tmp_path: Path, dtype: str) -> None:
    array = np.arange(-3, 3).reshape(2, 3).astype(getattr(ml_dtypes, dtype, dtype))
    file = written(tmp_path, {}, {"first": array, "no dims": array[0, 0, ...], "empty": array[:0]})
    assert file.tensors["first"].dtype == dtype
    for name, expected in (("first", array), ("no dims", array[0, 0, ...]), ("empty", array[:0])):
        assert file[name].shape == expected.shape
        np.testing.assert_array_equal(file[name], expected)


def test_tensors_are_made_one_by_one_in_pieces(tmp_path: Path) -> None:
    made: list[str] = []
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)

    def pieces(name: str) -> Any:
        def make() -> Any:
            made.append(name)
            return (rows[first : first + 2] for first in (0, 2))

        return make

    said: list[tuple[str, int, int, int]] = []
    file = written(
        tmp_path, {}, {name: Stored("float32", (4, 3), pieces(name)) for name in ("a", "b")},
        progress=lambda name, done, total: said.append((name, done, total, len(made))),
    )  # fmt: skip
    assert said == [("a", 0, 96, 0), ("b", 48, 96, 1)]
    np.testing.assert_array_equal(file["b"], rows)


def test_tensors_are_aligned(tmp_path: Path) -> None:
    tensors = {name: np.ones(size, np.float32) for name, size in (("a", 3), ("b", 9), ("c", 1))}
    assert {info.offset % 32 for info in written(tmp_path, {}, tensors).tensors.values()} == {0}
    file = written(tmp_path, {"general.alignment": 256}, tensors)
    assert {info.offset % 256 for info in file.tensors.values()} == {0}
    assert (tmp_path / "model.gguf").stat().st_size % 256 == 0


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"a": None}, "the value of 'a' is of NoneType, which GGUF has no type for"),
        ({"a": []}, "the value of 'a' is an empty list, which has no type"),
        ({"a": [1, "b"]}, "the value of 'a' is of int and str, which GGUF has no type for"),
        ({"a": 1 << 64}, "the value of 'a' is 18446744073709551616, which is no uint64"),
        ({"a": 1e300}, "which is no float32"),
        ({"a": np.float16(1)}, "the value of 'a' has the type float16"),
        ({"a": np.ones((2, 2))}, "the value of 'a' has 2 dimensions, expected one"),
        ({"": 1}, "the key '' has 0 bytes"),
        ({"general.alignment": 12}, "general.alignment is 12, expected a power of two from 8 on"),
    ],
)
def test_metadata_that_is_refused(tmp_path: Path, metadata: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        write(tmp_path / "model.gguf", metadata, {})
    assert not list(tmp_path.iterdir())


ONE = np.ones((2, 16), np.float32)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (ONE.astype(np.complex64), "GGUF has no tensors of 'complex64'; there are float32, "),
        (Stored("q4_9", (2, 32), ONE), "GGUF has no tensors of 'q4_9'"),
        (ONE.reshape(1, 2, 2, 2, 4), "the tensor 'x' has 5 dimensions, expected at most 4"),
        (Stored("q8_0", (2, 16), ONE), "rows of 16 elements, expected a multiple of 32 for q8_0"),
        (Stored("q8_0", (2, 32), ONE), "the tensor 'x' is of q8_0, its contents of float32, not uint8"),
        (Stored("float32", (3, 16), ONE), r"contents of 128 bytes, expected 192 for the shape \(3, 16\)"),
    ],
)
def test_tensors_that_are_refused(tmp_path: Path, tensor: Any, message: str) -> None:
    (tmp_path / "model.gguf").write_bytes(b"before")
    with pytest.raises(ValueError, match=message):
        write(tmp_path / "model.gguf", {}, {"x": tensor})
    assert [path.name for path in tmp_path.iterdir()] == ["model.gguf"]
    assert (tmp_path / "model.gguf").read_bytes() == b"before"


def test_names_of_tensors_that_ggml_does_not_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has 64 bytes, expected 1 to 63"):
        write(tmp_path / "model.gguf", {}, {"x" * 64: ONE})
