"""``relax cache``: what it lists, removes, exports and imports."""

from __future__ import annotations

import re
import shlex
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

from relax import codegen
from relax.farm import cache, packed_weights, transfer
from relax.farm.transfer import imported

PAGE = Path(__file__).parents[2] / "docs" / "run-and-deploy.md"


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    """An empty cache of the test's own."""
    for name in ("RELAX_CACHE", "RELAX_CACHE_PROGRAMS", "RELAX_CACHE_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path / "cache"))
    cache.statistics.reset()
    return tmp_path / "cache" / "kernels"


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A function that changes to an empty cache, as that of another machine."""

    def change():
        monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path / "other"))
        cache.statistics.reset()
        codegen.statistics.reset()

    return change


@pytest.fixture
def filled(command, own):
    """A cache with the model."""
    assert command("compile", "model.py", "-o", "model.relax").status == 0
    return own


def test_an_empty_cache(command, own):
    for words in (["cache"], ["cache", "list"]):
        said = command(*words)
        assert (said.status, said.out) == (0, f"{own}: no entries\n")
    assert command("cache", "clear").out == f"0 entries removed, 0 B left in {own}\n"
    assert not own.exists()


def test_the_list(command, filled):
    lines = command("cache").out.splitlines()
    assert lines[0].split() == ["kind", "entries", "size", "last", "used"]
    counts = {re.match(r"\D+?(?=  )", line)[0]: int(re.search(r"\d+", line)[0]) for line in lines[1:-1]}
    assert counts["programs"] == counts["notes on programs"] == 1
    assert counts["notes on kernels"] >= 2  # the kernel, and digests of the compiler's files
    assert counts["objects of kernels"] >= 2  # the kernel, and support code
    assert counts["all"] == len(cache.entries()) == sum(counts.values()) - counts["all"]
    assert re.fullmatch(re.escape(str(filled)) + r": [\d.]+ kB of 2.15 GB", lines[-1])


def test_a_cache_that_is_not_used_is_said_to_be(command, filled, monkeypatch):
    monkeypatch.setenv("RELAX_CACHE", "0")
    assert command("cache").out.endswith("; not used: it is switched off (RELAX_CACHE=0)\n")
    said = command("cache", "export", "x")
    assert said.status == 1
    assert said.err.startswith("error[E7005]: the cache is not used: it is switched off (RELAX_CACHE=0)\n")
    monkeypatch.delenv("RELAX_CACHE")
    filled.chmod(0o777)
    assert "; not used: " in command("cache").out
    assert "can be changed by, another user" in command("cache", "import", "x").err


def test_clear_and_prune(command, filled):
    count = len(cache.entries())
    assert command("cache", "prune", "--limit", "1G").out.startswith("0 entries removed, ")
    said = command("cache", "prune", "--limit", "100K")
    assert said.status == 0
    left = len(cache.entries())
    assert 0 < left < count
    assert said.out.startswith(f"{count - left} entr")
    assert command("cache", "clear").out == f"{left} entr{'y' if left == 1 else 'ies'} removed, 0 B left in {filled}\n"
    assert command("cache", "prune", "--limit", "much").status == 2


def test_weights_of_language_models_are_listed_and_cleared(command, filled, monkeypatch):
    monkeypatch.delenv("RELAX_WEIGHTS_SIZE", raising=False)
    part = packed_weights.Part("w", (1000,), "uint8", "", lambda: np.zeros(1000, np.uint8))
    packed_weights.load([part], "a file")
    said = command("cache", "list").out.splitlines()
    assert said[-1] == f"{filled.parent / 'weights'}: weights of 1 language model, 1.04 kB of 21.5 GB"
    command("cache", "clear")
    assert packed_weights.entries() == []
    assert "language model" not in command("cache", "list").out


def test_what_cannot_be_removed_is_an_error(command, filled, monkeypatch):
    def refused(path, missing_ok=False):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("pathlib.Path.unlink", refused)
    said = command("cache", "clear")
    assert said.status == 1
    assert said.err == f"error: {len(cache.entries())} entries could not be removed\n"


def test_kernels_go_to_another_machine(command, filled, elsewhere):
    said = command("cache", "export", "kernels.cache")
    assert said.status == 0
    assert re.fullmatch(r"kernels.cache: \d+ entries, [\d.]+ kB for llvm on .* with \d+ cores?\n", said.out)
    elsewhere()
    said = command("cache", "import", "kernels.cache")
    assert said.status == 0
    assert f" imported to {cache.directory()}\n" in said.out
    assert said.err == ""
    assert command("compile", "model.py", "-o", "other.relax").status == 0
    assert codegen.statistics.llvm_runs == 0
    assert cache.statistics.programs == 0
    assert cache.statistics.hits == 2  # the kernel, and the function that calls it


def test_programs_do_too(command, filled, elsewhere):
    command("cache", "export", "all.cache", "--programs")
    elsewhere()
    assert command("cache", "import", "all.cache").status == 0
    assert command("compile", "model.py", "-o", "other.relax").status == 0
    assert cache.statistics.programs == 1
    assert codegen.statistics.llvm_runs == 0
    assert Path("model.relax").read_bytes() == Path("other.relax").read_bytes()


def test_only_entries_for_the_target_are_exported(command, filled):
    command("compile", "model.py", "-o", "other.relax", "--target", "llvm -num-cores=3 -opt-level=1")
    counts = []
    for words in ([], ["--target", "llvm -num-cores=3 -opt-level=1"], ["--all"]):
        assert command("cache", "export", "x.cache", *words).status == 0
        with imported(Path("x.cache")) as file:
            counts.append(len(file.keys()))
    assert max(counts[:2]) < counts[2] == len([key for key in cache.entry_keys() if key.kind in ("", ".note")])
    said = command("cache", "export", "y.cache", "--target", "llvm -mcpu=skylake")
    assert said.status == 1
    assert said.err.startswith("error[E7005]: the cache has no entry for llvm -mcpu=skylake on skylake with ")
    assert not Path("y.cache").exists()


MODEL = """
from relax.script import ir as I, relax as R

@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((2, SIZE), "float32")):
        with R.dataflow():
            y = R.nn.relu(R.negative(x))
            R.output(y)
        return y
"""


def test_warm_kernels_serve_another_size(command, tmp_path):
    small, large = tmp_path / "small.py", tmp_path / "large.py"
    small.write_text(MODEL.replace("SIZE", "3"))
    large.write_text(MODEL.replace("SIZE", "1000"))
    assert "2 kernels compiled" in command("cache", "warm", small).out
    assert "0 kernels compiled" in command("cache", "warm", large).out
    codegen.statistics.reset()
    assert "output  2 x 1000  float32" in command("run", large, "--tier", "now").out
    assert not codegen.statistics.llvm_runs


def test_warm_kernels_go_to_another_machine(command, tmp_path, elsewhere):
    model = tmp_path / "model.py"
    model.write_text(MODEL.replace("SIZE", "3"))
    command("cache", "warm", model)
    assert command("cache", "export", "warm.cache").status == 0
    elsewhere()
    assert command("cache", "import", "warm.cache").status == 0
    codegen.statistics.reset()
    assert command("run", model, "--tier", "now").status == 0
    assert not codegen.statistics.llvm_runs


def test_a_file_for_another_machine_is_rejected(command, filled, elsewhere):
    command("cache", "export", "k.cache")
    elsewhere()
    said = command("cache", "import", "k.cache", "--target", "llvm -mcpu=skylake")
    assert said.status == 1
    assert re.match(
        r"error\[E7005\]: none of the \d+ entries of k.cache is for llvm -mcpu=skylake on skylake", said.err
    )
    assert "= target: llvm; here llvm -mcpu=skylake\n" in said.err
    assert "= help: give the --target that models are compiled for; --all imports the entries nonetheless" in said.err
    assert cache.entries() == []
    assert command("cache", "import", "k.cache", "--all", "--target", "llvm -mcpu=skylake").status == 0
    assert cache.entries() != []


def test_kernels_for_other_cores_are_told(command, filled, elsewhere):
    command("cache", "export", "k.cache")
    elsewhere()
    said = command("cache", "import", "k.cache", "--target", "llvm -num-cores=7")
    assert said.status == 0
    assert "; 1 entry for other machines or versions left out" in said.out
    assert said.err.startswith(
        "warning: the kernels were scheduled for another target; few may be found here\n  = target: "
    )
    assert "7 cores" in said.err


@pytest.fixture
def support_code():
    """Support code whose keys are not known yet, and are forgotten at the end."""
    functions = [getattr(codegen.support_objects, name) for name in ("kernel_support", "thread_pool", "cell_support")]

    def forget():
        for function in (*functions, codegen.support_objects.library_support):
            function.cache_clear()

    yield forget
    forget()


def test_another_version_of_the_generator_is_told(command, filled, elsewhere, monkeypatch, support_code):
    command("cache", "export", "k.cache")
    elsewhere()
    monkeypatch.setattr("relax.farm.recall.generator_files", lambda: "another")
    monkeypatch.setattr("relax.cli.cache_files.generator_files", lambda: "another")
    said = command("cache", "import", "k.cache")
    assert said.status == 0
    assert re.search(r"warning: .*\n  = generator: [0-9a-f]{32}; here another\n", said.err)
    monkeypatch.setattr("relax.farm.versions.PIPELINE_VERSION", 0)
    monkeypatch.setattr("relax.codegen.support_objects.compiler_version", lambda: "another")
    monkeypatch.setattr("relax.farm.objects.compiler_version", lambda: "another")
    support_code()
    said = command("cache", "import", "k.cache")
    assert said.status == 1
    assert "= compiler: pipeline " in said.err


def test_a_damaged_file_changes_nothing(command, filled, elsewhere):
    command("cache", "export", "k.cache")
    data = Path("k.cache").read_bytes()
    Path("k.cache").write_bytes(data[:-100] + b"?" + data[-99:])
    elsewhere()
    said = command("cache", "import", "k.cache")
    assert said.status == 1
    assert re.match(r"error\[E7005\]: cannot import k.cache: the entry [0-9a-f-]+ is damaged\n", said.err)
    assert cache.entries() == []
    assert command("cache", "import", "model.py").err.startswith(
        "error[E7005]: cannot import model.py: it was not written"
    )
    assert command("cache", "import", "nothing").err == "error: nothing: no such file or directory\n"
    assert command("cache", "export", "no/folder", "--all").status == 1


def test_a_hostile_name_is_not_written(command, own, tmp_path):
    head = transfer.MAGIC + struct.pack("<I", 2) + b"{}"
    Path("evil").write_bytes(
        head + b"\x09../../bad" + struct.pack("<Q", 3) + b"bad" + bytes(32) + b"\0" + struct.pack("<Q", 1)
    )
    said = command("cache", "import", "evil", "--all")
    assert said.err.startswith("error[E7005]: cannot import evil: entry 0 has a name that no entry has\n")
    assert {path.name for path in tmp_path.iterdir()} == {"model.py", "evil"}


def test_entries_that_the_cache_has_no_room_for(command, filled, elsewhere, monkeypatch):
    command("cache", "export", "k.cache")
    elsewhere()
    monkeypatch.setenv("RELAX_CACHE_SIZE", "10K")
    said = command("cache", "import", "k.cache")
    assert said.status == 1
    assert "and the cache has room for 10.2 kB\n  = help: set RELAX_CACHE_SIZE" in said.err


@pytest.mark.parametrize("words", [["frob"], ["export"], ["import", "a", "b"], ["prune", "--limit"]])
def test_a_wrong_command_line(command, words):
    assert command("cache", *words).status == 2


# ------------------------------------------------------------------------- docs/run-and-deploy.md


def stages(dockerfile):
    """The stages of a Dockerfile, each a list of (instruction, words); a line that ends in a backslash goes on."""
    found = []
    for line in dockerfile.replace("\\\n", " ").splitlines():
        instruction, *words = shlex.split(line, comments=True) or [""]
        if instruction == "FROM":
            found.append([])
        elif instruction:
            found[-1].append((instruction, words))
    return found


def test_the_dockerfile_of_the_documentation(command, tmp_path, monkeypatch):
    """Its commands run as they are, the stages in a folder with a cache each; the second stage compiles nothing."""
    (text,) = re.findall(r"^```dockerfile\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    folders = [tmp_path / "build", tmp_path / "run"]
    ran = []
    for folder, stage in zip(folders, stages(text), strict=True):
        folder.mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setenv("RELAX_CACHE_DIR", str(folder / "cache"))
        codegen.statistics.reset()
        cache.statistics.reset()
        for instruction, words in stage:
            if instruction == "COPY":
                source = folders[0] if words[0].startswith("--from=") else tmp_path
                shutil.copy(source / Path(words[-2]).name, folder / words[-1])
            elif instruction == "RUN" and words[0] == "relax":
                said = command(*words[1:])
                assert said.status == 0, said.err
                ran.append((folder.name, *words[1:3]))
            else:
                assert (instruction, *words[:2]) in (
                    ("RUN", "pip", "install"),
                    ("WORKDIR", "/app"),
                    ("CMD", "relax", "compile"),
                )
    assert ("build", "cache", "export") in ran
    assert ("run", "cache", "import") in ran
    assert cache.directory() == folders[1] / "cache" / "kernels"
    (run,) = [words for instruction, words in stages(text)[1] if instruction == "CMD"]
    assert command(*run[1:]).status == 0
    assert cache.statistics.programs == 1
    assert codegen.statistics.llvm_runs == 0
