"""Files as memory: what is mapped, that it is the program's own, and that it is given back."""

from __future__ import annotations

import gc
import io
from pathlib import Path

import numpy as np
import pytest

import relax
from relax.runtime import mapping
from relax.runtime.executable import Executable, ExecutableError
from relax.runtime.files import write_parts
from relax.runtime.mapping import LEAST, mapped
from relax.runtime.tensor import LARGE_PAGE, numpy_view

DATA = np.random.default_rng(0).integers(0, 256, LEAST + LARGE_PAGE + 12345, dtype="uint8")


@pytest.fixture
def any_pages(monkeypatch):
    """Take memory in small pages for as good as that in large ones, which not every system has."""
    monkeypatch.setattr(mapping, "_FAULTS", 1 << 20)
    monkeypatch.setattr(mapping, "_is_local", lambda descriptor: True)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file"
    with path.open("wb") as file:
        write_parts(file, [DATA])
    return path


def is_mapped(path):
    return str(path) in Path("/proc/self/maps").read_text(encoding="utf-8")


def memory_of(path):
    with path.open("rb") as file:
        return mapped(file)


@pytest.mark.parametrize("cut", [0, 1, 4096, 12345])
@pytest.mark.usefixtures("any_pages")
def test_memory_is_the_file_to_its_last_byte(path, cut):
    data = DATA[: DATA.size - cut]
    path.write_bytes(data)
    memory = memory_of(path)
    assert memory.data_ptr() % LARGE_PAGE == 0
    np.testing.assert_array_equal(numpy_view(memory), data)


@pytest.mark.usefixtures("any_pages")
def test_what_is_written_to_memory_is_not_in_the_file(path):
    first, second = memory_of(path), memory_of(path)
    numpy_view(first)[...] = 0
    np.testing.assert_array_equal(numpy_view(second), DATA)
    assert path.read_bytes() == DATA.tobytes()


@pytest.mark.usefixtures("any_pages")
def test_memory_outlives_the_name_of_the_file(path):
    memory = memory_of(path)
    path.unlink()
    np.testing.assert_array_equal(numpy_view(memory), DATA)


@pytest.mark.usefixtures("any_pages")
def test_memory_is_given_back_with_its_last_tensor(path):
    memory = memory_of(path)
    part = relax.runtime.tensor_of(memory)
    del memory
    gc.collect()
    assert is_mapped(path)
    assert part.numel() == DATA.size
    del part
    gc.collect()
    assert not is_mapped(path)


def test_what_is_small_or_no_file_is_read(path):
    path.write_bytes(DATA[: LEAST - 1])
    assert memory_of(path) is None
    assert mapped(io.BytesIO(DATA)) is None


def test_a_file_in_small_pages_is_read(path, monkeypatch, any_pages):
    """And it is not mapped any more."""
    monkeypatch.setattr(mapping, "_FAULTS", 0)
    assert memory_of(path) is None
    gc.collect()
    assert not is_mapped(path)


def test_a_file_of_another_machine_is_read(path, monkeypatch, any_pages):
    monkeypatch.undo()
    monkeypatch.setattr(mapping, "_FAULTS", 1 << 20)
    monkeypatch.setattr(mapping, "_LOCAL", frozenset({0x6969}))
    assert memory_of(path) is None


# ------------------------------------------------------------------------- executables


def constants():
    """A program of two large constants, a small one, and one without elements."""
    rng = np.random.default_rng(1)
    table = rng.standard_normal((1 << 20,)).astype("float32")
    arrays = [table, table[::-1].copy(), np.arange(3, dtype="int8"), np.zeros((0, 4), "float64")]
    fields = relax.Tuple([relax.const(array) for array in arrays])
    return arrays, relax.build(relax.Function([], fields).with_attr("global_symbol", "main"))


def results(executable):
    return [part.numpy() for part in relax.VirtualMachine(executable, relax.cpu())["main"]()]


@pytest.mark.usefixtures("any_pages")
def test_constants_of_an_executable_are_parts_of_its_file(path):
    arrays, executable = constants()
    executable.save(path)
    with path.open("rb") as file:
        memory = mapped(file)
        loaded = Executable.read(file, "it", memory)
        copied = Executable.read(file, "it")
    for found in (results(loaded), results(copied)):
        for array, expected in zip(found, arrays, strict=True):
            np.testing.assert_array_equal(array, expected)
    inside = range(memory.data_ptr(), memory.data_ptr() + memory.numel())
    tensors = [value for value in loaded.constants if hasattr(value, "data_ptr") and value.numel()]
    assert len(tensors) == 3
    assert all(value.data_ptr() in inside for value in tensors)
    assert loaded.to_bytes() == executable.to_bytes()


@pytest.mark.usefixtures("any_pages")
def test_the_checksum_of_a_mapped_file_counts(path):
    constants()[1].save(path)
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    with path.open("rb") as file, pytest.raises(ExecutableError, match="its checksum does not match"):
        Executable.read(file, "it", mapped(file))
