"""Kernels that a wheel carries: who finds them, and what is done with damaged or foreign files."""

from __future__ import annotations

import json

import numpy as np
import pytest

import relax
from relax.codegen import build as kernels
from relax.farm import cache
from relax.farm.host import resolve
from relax.farm.transfer import Imported
from relax.library import shipped
from relax.library.shipped import described_target, description_of, file_name, level_target, shipped_target
from relax.target.isa import isa_of
from relax.vm import shipping
from relax.vm.shipping import write_level
from support import main

HOST = resolve("llvm")
ISA = HOST.isa
FEATURES = {word[1:] for word in HOST.features.split(",") if word.startswith("+")}
LEVELS = [level for level in ISA.levels if level.features <= FEATURES]

pytestmark = pytest.mark.skipif(
    not LEVELS or level_target(ISA, LEVELS[0]).attrs["mtriple"] != HOST.triple,
    reason="no level is described for this machine",
)

CALLS = ["nn.relu | a b |", "multiply | a b, a b |"]
PROGRAM = main("z = R.multiply(R.nn.relu(x), x)\nreturn z", 'x: R.Tensor(("n", 4), "float32")')
X = np.arange(-6, 6, dtype="float32").reshape(3, 4)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with the file of the lowest level of this machine."""
    folder = tmp_path_factory.mktemp("compiled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELAX_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        write_level(folder, ISA, LEVELS[-1], CALLS)
    return folder


@pytest.fixture
def package(tmp_path, monkeypatch):
    """``package(folder)``: what the package carries is in a folder, and the user's cache is empty."""
    monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_others", [])
    shipped._for_host.cache_clear()
    yield lambda folder: monkeypatch.setattr(shipped, "FOLDER", folder)
    shipped._for_host.cache_clear()


def compiled(target="llvm"):
    """How often LLVM runs in a build of tier "now", whose results are checked."""
    before = kernels.statistics.llvm_runs
    vm = relax.VirtualMachine(relax.build(PROGRAM, target, tier="now"), relax.cpu())
    np.testing.assert_array_equal(vm["main"](X).numpy(), np.maximum(X, 0) * X)
    return kernels.statistics.llvm_runs - before


def path_in(folder):
    return folder / file_name(ISA, LEVELS[-1])


def test_a_build_with_an_empty_cache_compiles_nothing(package, written):
    package(written)
    assert compiled() == 0


def test_without_files_kernels_are_compiled(package, tmp_path):
    package(tmp_path)
    assert compiled() > 0
    assert shipped_target(HOST) is HOST


def test_the_target_is_that_of_the_highest_level_with_a_file(package, written):
    package(written)
    assert str(shipped_target(HOST)) == str(level_target(ISA, LEVELS[-1]))


@pytest.mark.parametrize("target", ["llvm -num-cores=2", "llvm -opt-level=1"])
def test_a_target_that_says_more_than_this_machine_stays(target, package, written):
    package(written)
    assert shipped_target(resolve(target)).attrs == resolve(target).attrs
    assert compiled(target) > 0


def test_a_cpu_without_the_features_compiles_its_own(package, written):
    package(written)
    feature = min(LEVELS[-1].features)
    features = HOST.features.replace(f"+{feature}", f"-{feature}")
    assert shipped._for_host(written, HOST.triple, features) is None


def test_another_system_compiles_its_own(package, written):
    package(written)
    assert shipped._for_host(written, HOST.triple.replace("linux-gnu", "freebsd"), HOST.features) is None


def test_the_cache_is_switched_off(package, written, monkeypatch):
    package(written)
    monkeypatch.setenv("RELAX_CACHE", "0")
    assert shipped_target(HOST) is HOST
    assert compiled() > 0


def test_another_version_of_the_package(package, written, monkeypatch):
    package(written)
    monkeypatch.setattr(shipped, "library_environments", lambda target: {"0" * 16})
    assert shipped_target(HOST) is HOST


def test_a_file_that_ends_too_early_or_is_no_file_of_entries(package, written, tmp_path):
    contents = path_in(written).read_bytes()
    package(tmp_path)
    for damaged in (b"", b"relax cache 1\n", contents[: len(contents) // 2], b"x" + contents):
        path_in(tmp_path).write_bytes(damaged)
        shipped._for_host.cache_clear()
        assert shipped_target(HOST) is HOST


@pytest.mark.parametrize("wrong", ["{", "[]", '{"caches": 1}'])
def test_a_description_that_cannot_be_read(wrong, package, written, tmp_path):
    contents = path_in(written).read_bytes()
    text = json.dumps(description_of(resolve(level_target(ISA, LEVELS[-1])))).encode()
    other = json.dumps({"target": "llvm", "machine": wrong}).encode()
    assert text in contents
    package(tmp_path)
    length = len(other).to_bytes(4, "little")
    path_in(tmp_path).write_bytes(contents.replace(len(text).to_bytes(4, "little") + text, length + other))
    assert shipped_target(HOST) is HOST


def test_damaged_entries_are_compiled_again(package, written, tmp_path):
    contents = bytearray(path_in(written).read_bytes())
    with open(path_in(written), "rb") as file:
        entries = Imported(file)
        objects = [place for key, place in entries.ranges.items() if key.kind == cache.KERNEL]
    for place in objects:
        contents[place.offset + place.size - 1] ^= 1
    package(tmp_path)
    path_in(tmp_path).write_bytes(contents)
    assert shipped_target(HOST) is not HOST
    assert compiled() > 0


def test_a_saved_program_says_which_features_it_needs(package, written, tmp_path):
    package(written)
    relax.build(PROGRAM, tier="now").export_library(tmp_path / "program.relax")
    assert set(relax.runtime.load_module(tmp_path / "program.relax").features) == LEVELS[-1].features


def test_an_architecture_without_levels_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        shipping.main([str(tmp_path), "sparc"])
    assert "invalid choice: 'sparc'" in capsys.readouterr().err


def test_each_level_is_described_in_its_file():
    for isa in (isa_of("x86_64"), isa_of("aarch64")):
        for level in isa.levels:
            target = resolve(level_target(isa, level))
            again = described_target(description_of(target))
            assert (again, again.machine) == (target, target.machine)
