"""The kernel cache: what it keeps, what it refuses, and that nothing in it can break a build."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import pytest

from differential import mutate_cache
from relax import codegen
from relax.farm import cache


@pytest.fixture(scope="session")
def asked(kernels, tmp_path_factory):
    """LLVM's answers about machines are known to the process, and support code is compiled: entries of neither follow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELAX_CACHE_DIR", str(tmp_path_factory.mktemp("asked")))
        for target in (None, "llvm -opt-level=1"):
            codegen.build_module({"f": kernels.elementwise(lambda a: a - 1.0, ["float32"], "float32")}, target)


@pytest.fixture
def fresh(asked, tmp_path, monkeypatch):
    """An empty cache of the test's own, and statistics that start at nothing."""
    monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("RELAX_CACHE", raising=False)
    cache.statistics.reset()
    codegen.statistics.reset()
    return tmp_path / "cache" / "kernels"


@pytest.fixture
def func(kernels):
    return kernels.elementwise(lambda a: a + 1.0, ["float32"], "float32")


def works(module):
    out = np.zeros(2, "float32")
    module["f"](np.array([1, 2], "float32"), out)
    return out.tolist() == [2, 3]


def entry(folder):
    (only,) = folder.iterdir()
    return only


def within(seconds, function):
    """The result of a function that must not wait for ever."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()), daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "the build hangs"
    (result,) = results  # nothing, if it raised
    return result


# ------------------------------------------------------------------------- what is kept and found


def test_a_second_build_compiles_nothing(fresh, func):
    first = codegen.compile_module({"f": func})
    second = codegen.compile_module({"f": func})
    assert first == second
    assert codegen.statistics.llvm_runs == 1
    assert codegen.compile_count() == 2
    assert cache.statistics.hits == 1
    assert cache.statistics.misses == {"there is no cache yet": 1}


def test_running_compiles_nothing(fresh, func):
    module = codegen.build_module({"f": func})
    before = codegen.compile_count()
    for n in (0, 1, 5, 1000):
        module["f"](np.zeros(n, "float32"), np.zeros(n, "float32"))
    assert codegen.compile_count() == before


def test_other_code_another_target_or_a_new_version_is_another_entry(fresh, func, kernels, monkeypatch):
    codegen.compile_module({"f": func})
    codegen.compile_module({"f": kernels.elementwise(lambda a: a + 2.0, ["float32"], "float32")})
    codegen.compile_module({"f": func}, "llvm -opt-level=1")
    monkeypatch.setattr("relax.farm.versions.PIPELINE_VERSION", 0)
    codegen.compile_module({"f": func})
    assert codegen.statistics.llvm_runs == 4
    assert cache.statistics.misses["this code was not compiled before"] == 1
    assert cache.statistics.misses["it was compiled for another target or by another version"] == 2


@pytest.mark.skipif(os.name != "posix", reason="permissions")
def test_only_the_user_can_read_it(fresh, func):
    codegen.compile_module({"f": func})
    assert stat.S_IMODE(fresh.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry(fresh).stat().st_mode) == 0o600


@pytest.mark.parametrize("damage", [
    lambda data: b"", lambda data: data[:40], lambda data: data[:-1], lambda data: b"x" + data[1:],
    lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:],
])  # fmt: skip
def test_a_corrupted_entry_is_compiled_again(fresh, func, damage):
    codegen.compile_module({"f": func})
    path = entry(fresh)
    intact = path.read_bytes()
    path.write_bytes(damage(intact))
    assert works(codegen.build_module({"f": func}))
    assert cache.statistics.misses["its entry is corrupted"] == 1
    assert path.read_bytes() == intact


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files away")
def test_what_belongs_to_somebody_else_is_not_trusted(fresh, func):
    codegen.compile_module({"f": func})
    os.chown(entry(fresh), 12345, -1)
    assert works(codegen.build_module({"f": func}))
    os.chown(fresh, 12345, -1)
    assert works(codegen.build_module({"f": func}))
    assert codegen.statistics.llvm_runs == 3
    assert cache.statistics.problems == 1  # the last was not kept


@pytest.mark.skipif(os.name != "posix", reason="permissions")
def test_a_directory_others_can_write_to_is_not_used(fresh, func):
    fresh.mkdir(parents=True)
    fresh.chmod(0o777)
    assert works(codegen.build_module({"f": func}))
    assert not list(fresh.iterdir())
    assert "belongs to, or can be changed by, another user" in str(cache.statistics.misses) or (
        cache.statistics.problems == 1
    )


@pytest.mark.skipif(os.name != "posix", reason="symbolic links")
def test_a_link_in_place_of_an_entry_is_not_followed(fresh, func, tmp_path):
    codegen.compile_module({"f": func})
    path = entry(fresh)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    codegen.compile_module({"f": func})
    assert codegen.statistics.llvm_runs == 2


# ------------------------------------------------------------------------- entries under other names


def programs(kernels):
    """Kernels that are called in the same way and compute something else."""
    return [kernels.elementwise(lambda a, c=c: a + c, ["float32"], "float32") for c in (1.0, 2.0, 3.0)]


def result(func):
    out = np.zeros(2, "float32")
    codegen.build_module({"f": func})["f"](np.array([1, 2], "float32"), out)
    return out.tolist()


@pytest.mark.parametrize("put", [shutil.copyfile, os.link, os.replace], ids=["copy", "link", "rename"])
def test_an_entry_under_the_name_of_another_is_not_run(fresh, kernels, put):
    funcs = programs(kernels)
    paths = []
    for func in funcs:
        codegen.compile_module({"f": func})
        (added,) = [path for path in fresh.iterdir() if path not in paths]
        paths.append(added)
    contents = [path.read_bytes() for path in paths]
    for source, target in itertools.permutations(range(3), 2):
        for path, data in zip(paths, contents):
            path.unlink(missing_ok=True)
            path.write_bytes(data)
            path.chmod(0o600)
        paths[target].unlink()
        put(paths[source], paths[target])
        assert result(funcs[target]) == [1 + target + 1, 2 + target + 1]
        assert result(funcs[source]) == [1 + source + 1, 2 + source + 1]
    assert cache.statistics.misses["its entry is corrupted"] >= 6


def test_an_entry_of_another_target_is_not_run_here(fresh, func):
    """The name says the target; so does the checksum."""
    codegen.compile_module({"f": func}, "llvm -opt-level=1")
    first = entry(fresh)
    codegen.compile_module({"f": func})
    (second,) = [path for path in fresh.iterdir() if path != first]
    shutil.copyfile(first, second)
    cache.statistics.reset()
    assert works(codegen.build_module({"f": func}))
    assert cache.statistics.misses == {"its entry is corrupted": 1}


# ------------------------------------------------------------------------- what is no entry, no directory


def make_device(path):
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # /dev/zero: reading it never ends
    except OSError:
        pytest.skip("devices cannot be made here")


def make_socket(path):
    here = os.getcwd()
    os.chdir(path.parent)  # the path of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def make_endless(path):
    path.touch(mode=0o600)
    os.truncate(path, 1 << 40)  # sparse


THINGS = {
    "fifo": os.mkfifo,
    "device": make_device,
    "directory": os.mkdir,
    "full directory": lambda path: (path / "x").mkdir(parents=True),
    "socket": make_socket,
    "link to itself": lambda path: path.symlink_to(path.name),
    "link to nothing": lambda path: path.symlink_to("nothing"),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "unreadable file": lambda path: path.touch(mode=0o000),
    "a terabyte": make_endless,
    "empty file": lambda path: path.touch(),
}


@pytest.mark.skipif(os.name != "posix", reason="special files")
@pytest.mark.parametrize("thing", THINGS)
def test_what_is_no_entry_fails_no_build(fresh, func, thing):
    codegen.compile_module({"f": func})
    path = entry(fresh)
    path.unlink()
    THINGS[thing](path)
    assert within(600, lambda: works(codegen.build_module({"f": func})))
    assert codegen.statistics.llvm_runs == 2
    assert within(600, lambda: works(codegen.build_module({"f": func})))  # which may have replaced it
    within(600, cache.prune)
    within(600, cache.clear)


@pytest.mark.skipif(os.name != "posix", reason="special files")
@pytest.mark.parametrize("thing", [t for t in THINGS if "directory" not in t])
def test_what_is_no_directory_fails_no_build(fresh, func, thing):
    fresh.parent.mkdir(parents=True)
    THINGS[thing](fresh)
    assert within(600, lambda: works(codegen.build_module({"f": func})))
    assert within(600, lambda: works(codegen.build_module({"f": func})))
    within(600, cache.prune)
    within(600, cache.clear)


def test_a_directory_that_disappears_fails_no_build(fresh, func, monkeypatch):
    codegen.compile_module({"f": func})
    make = tempfile.mkstemp

    def too_late(**options):
        shutil.rmtree(fresh.parent)
        return make(**options)

    monkeypatch.setattr("relax.farm.store.tempfile.mkstemp", too_late)
    entry(fresh).unlink()
    assert works(codegen.build_module({"f": func}))
    assert cache.statistics.problems == 1
    assert cache.entries() == []


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_is_read_only_fails_no_build(fresh, func):
    fresh.mkdir(parents=True)
    fresh.chmod(0o500)
    assert works(codegen.build_module({"f": func}))
    assert cache.statistics.problems == 1


@pytest.mark.skipif(os.name != "posix", reason="HOME")
@pytest.mark.parametrize("home", [None, "relative", "/dev/null", "/proc/self"])
def test_no_home_fails_no_build(func, monkeypatch, tmp_path, home):
    monkeypatch.chdir(tmp_path)
    for name in ("RELAX_CACHE_DIR", "XDG_CACHE_HOME", "RELAX_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("HOME")
    if home is not None:
        monkeypatch.setenv("HOME", home)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: {}[uid])  # as for a container's user without an entry
    assert works(codegen.build_module({"f": func}))
    assert (cache.entries(), cache.clear()) == ([], 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="home directories")
def test_a_home_of_nobody_fails_no_build(fresh, func, monkeypatch):
    monkeypatch.setenv("RELAX_CACHE_DIR", "~no-user-has-this-name/cache")
    assert works(codegen.build_module({"f": func}))
    assert cache.statistics.problems == 1


def test_a_size_that_is_none_fails_no_build(fresh, func, monkeypatch):
    for text in ("inf", "-inf", "nan", "1e999", "infG", "0x10", "12 34", "١٢", "\udcff", "K", "B"):
        monkeypatch.setenv("RELAX_CACHE_SIZE", text)
        assert works(codegen.build_module({"f": func}))
        cache.prune()


def test_it_removes_only_files_of_its_own(fresh, func):
    """A user's folder may be called kernels too."""
    codegen.compile_module({"f": func})
    (fresh / "gemm.cu").write_text("kept")
    (fresh / "0123").write_text("kept")
    assert cache.prune(limit=0) == 1
    codegen.compile_module({"f": func})
    assert cache.clear() == 1
    assert {path.name for path in fresh.iterdir()} == {"gemm.cu", "0123"}


def test_a_place_that_cannot_be_written_fails_no_build(fresh, func, tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    monkeypatch.setenv("RELAX_CACHE_DIR", str(blocked))
    assert works(codegen.build_module({"f": func}))
    assert cache.statistics.problems == 1


@pytest.mark.parametrize("call", ["os.replace", "tempfile.mkstemp", "open"])
def test_a_full_disk_fails_no_build_and_leaves_nothing(fresh, func, monkeypatch, call):
    def full(*arguments, **options):
        if call == "open":
            os.close(arguments[0])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"relax.farm.store.{call}", full, raising=False)
    assert works(codegen.build_module({"f": func}))
    assert list(fresh.iterdir()) == []
    assert cache.statistics.problems == 1


def test_it_can_be_switched_off(fresh, func, monkeypatch):
    with cache.disabled():
        codegen.compile_module({"f": func})
        assert not cache.enabled()
    monkeypatch.setenv("RELAX_CACHE", "0")
    codegen.compile_module({"f": func})
    assert not fresh.exists()
    assert cache.statistics.misses == {"the cache is switched off": 2}


def test_it_can_be_cleared(fresh, func, kernels):
    codegen.compile_module({"f": func})
    codegen.compile_module({"f": kernels.elementwise(lambda a: a - 1.0, ["float32"], "float32")})
    assert cache.clear() == 2
    assert cache.clear() == 0
    codegen.compile_module({"f": func})
    assert codegen.statistics.llvm_runs == 3


def test_the_least_recently_used_entries_go_first(fresh):
    for i in range(10):
        key = cache.key_of(f"module {i}")
        cache.store(key, bytes(1000))
        os.utime(fresh / key.name, (time.time() - 1000 + i,) * 2)
    assert cache.load(cache.key_of("module 0")) is not None  # used just now
    assert cache.prune(limit=5500) == 6
    left = {i for i in range(10) if (fresh / cache.key_of(f"module {i}").name).exists()}
    assert left == {0, 7, 8, 9}
    assert cache.statistics.evicted == 6


def test_it_stays_within_its_size(fresh, monkeypatch):
    monkeypatch.setenv("RELAX_CACHE_SIZE", "20K")
    for i in range(200):
        cache.store(cache.key_of(str(i)), bytes(1000))
    cache.prune()
    assert sum(size for _, size, _ in cache.entries()) <= 20 << 10
    cache.store(cache.key_of("large"), bytes(30 << 10))  # never larger than the cache itself
    assert cache.load(cache.key_of("large")) is None


@pytest.mark.parametrize(
    "text, size", [("", 2 << 30), ("100", 100), ("2k", 2048), ("1.5M", 3 << 19), ("1GB", 1 << 30), ("lots", 2 << 30),
                   ("-5", 0), ("inf", 2 << 30), ("nan", 2 << 30), ("1e999G", 2 << 30), ("1e400", 2 << 30)]
)  # fmt: skip
def test_sizes(monkeypatch, text, size):
    monkeypatch.setenv("RELAX_CACHE_SIZE", text)
    assert cache.size_limit() == size


def test_where_it_is(monkeypatch, tmp_path):
    monkeypatch.delenv("RELAX_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.directory() == tmp_path / "relax" / "kernels"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/paths/do/not/count")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.directory() == tmp_path / ".cache" / "relax" / "kernels"


def test_what_dead_writers_left_is_removed(fresh, func):
    codegen.compile_module({"f": func})
    old, new = fresh / ".new-old", fresh / ".new-new"
    old.write_bytes(b"half")
    new.write_bytes(b"half")
    os.utime(old, (time.time() - 10_000,) * 2)
    cache.prune()
    assert not old.exists()
    assert new.exists()


_BUILD = """
import numpy as np
from relax import codegen, te
n = te.var("n", "int64")
a = te.placeholder((n,), name="A")
funcs = {f"f{i}": te.create_prim_func([a, te.compute((n,), lambda j: a[j] + float(i))]) for i in range(3)}
for _ in range(3):
    codegen.cache.clear()
    module = codegen.build_module(funcs)
    out = np.zeros(2, "float32")
    module["f2"](np.zeros(2, "float32"), out)
    assert out.tolist() == [2, 2]
"""


def test_concurrent_builds(fresh):
    """Processes that write, read and remove the same entries at the same time."""
    workers = [subprocess.Popen([sys.executable, "-c", _BUILD], stderr=subprocess.PIPE) for _ in range(4)]
    for worker in workers:
        _, errors = worker.communicate(timeout=600)
        assert worker.returncode == 0, errors.decode()


def test_it_says_what_it_does(fresh, func):
    code = _BUILD.replace("codegen.cache.clear()", "pass").replace("range(3)", "range(2)").replace("f2", "f1")
    code = code.replace("[2, 2]", "[1, 1]")
    environment = {**os.environ, "RELAX_CACHE_DEBUG": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    *compiled, support, found0, found1 = done.stderr.splitlines()
    assert compiled == [f"relax cache: {name}: compiled, since there is no cache yet" for name in ("f0", "f1")]
    assert support == "relax cache: support code of kernels: compiled, since this code was not compiled before"
    assert found0.startswith("relax cache: f0: found ")
    assert found1.startswith("relax cache: f1: found ")


# ------------------------------------------------------------------------- mutations


def test_mutated_caches_change_nothing(fresh):
    """Entries cut short, changed, exchanged, and replaced by what cannot be read (`tools/differential/mutate_cache`)."""
    with mutate_cache.good_cache() as (folder, expected):
        for number in range(40):
            assert mutate_cache.verdict(folder, expected, f"test:{number}") == "right"
