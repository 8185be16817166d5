"""Weights kept on disk in the order of their use."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from relax.farm import packed_weights
from relax.farm.packed_weights import Part

MADE: list[str] = []


def part(name: str, array: np.ndarray, made_as: str = "as it is") -> Part:
    def make() -> np.ndarray:
        MADE.append(name)
        return array

    return Part(name, array.shape, str(array.dtype), made_as, make)


PARTS = [
    part("table", np.arange(12, dtype=np.int32).reshape(3, 4)),
    part("empty", np.zeros((0, 5), np.float32)),
    part("norm", np.linspace(-1, 1, 7, dtype=np.float32)),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("RELAX_CACHE", raising=False)
    monkeypatch.delenv("RELAX_WEIGHTS_SIZE", raising=False)
    MADE.clear()
    return tmp_path / "weights"


def loaded(parts: list[Part] = PARTS, identity: str = "a file") -> list[np.ndarray]:
    return [np.from_dlpack(tensor) for tensor in packed_weights.load(parts, identity)]


def assert_equal(arrays: list[np.ndarray]) -> None:
    for array, expected in zip(arrays, PARTS, strict=True):
        np.testing.assert_array_equal(array, expected.make(), strict=True)


def test_weights_are_made_once(folder: Path) -> None:
    assert_equal(loaded())
    MADE.clear()
    second = loaded()
    assert MADE == []
    assert_equal(second)
    assert len(list(folder.iterdir())) == 1


def test_tensors_lie_in_one_arena_each_on_a_cache_line() -> None:
    first, _, last = packed_weights.load(PARTS, "")
    assert last.data_ptr() - first.data_ptr() == 64
    assert first.data_ptr() % 64 == 0


@pytest.mark.parametrize(
    ("parts", "identity"),
    [
        pytest.param(PARTS, "another file", id="another file"),
        pytest.param([part("table", np.arange(12, dtype=np.int32).reshape(3, 4), "packed"), *PARTS[1:]], "a file",
                     id="made in another way"),
    ],
)  # fmt: skip
def test_other_weights_are_made_again(parts: list[Part], identity: str) -> None:
    loaded()
    MADE.clear()
    loaded(parts, identity)
    assert MADE == ["table", "empty", "norm"]


@pytest.mark.parametrize("damage", ["cut", "longer", "end"])
def test_a_damaged_file_is_made_again(folder: Path, damage: str) -> None:
    loaded()
    (file,) = folder.iterdir()
    data = file.read_bytes()
    file.write_bytes({"cut": data[:-5], "longer": data + b"x", "end": data[:-1] + b"x"}[damage])
    MADE.clear()
    arrays = loaded()
    assert MADE == ["table", "empty", "norm"]
    assert_equal(arrays)
    MADE.clear()
    loaded()
    assert MADE == []


@pytest.mark.parametrize(
    ("name", "value"), [("RELAX_WEIGHTS_SIZE", "0"), ("RELAX_WEIGHTS_SIZE", "50"), ("RELAX_CACHE", "0")]
)
def test_nothing_is_kept_where_the_user_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert_equal(loaded())
    assert not folder.exists() or not list(folder.iterdir())


def test_a_folder_that_cannot_be_written_is_no_error(folder: Path) -> None:
    folder.write_text("a file in the place of the folder")
    assert_equal(loaded())


def test_progress_counts_bytes() -> None:
    calls: list[tuple[str, int, int]] = []
    packed_weights.load(PARTS, "", lambda *call: calls.append(call))
    assert calls == [("table", 48, 128), ("empty", 48, 128), ("norm", 76, 128)]


def test_an_array_of_another_shape_is_refused() -> None:
    wrong = Part("table", (3, 4), "int32", "", lambda: np.zeros((4, 3), np.int32))
    with pytest.raises(ValueError, match=r"table: expected int32 \(3, 4\), found int32 \(4, 3\)"):
        packed_weights.load([wrong], "")


def test_the_identity_of_a_file_changes_when_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"one")
    before = packed_weights.identity_of([path])
    assert packed_weights.identity_of([path]) == before
    path.write_bytes(b"two")
    os.utime(path, ns=(1, 1))
    assert packed_weights.identity_of([path]) != before
