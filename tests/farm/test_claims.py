"""Processes that build at the same time: each kernel is compiled by one of them, and none waits for ever."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from relax import codegen
from relax.farm import cache, claims, objects
from relax.farm.claims import Claims

pytestmark = pytest.mark.skipif(os.name != "posix", reason="record locks")

KEY, OTHER = cache.key_of("a kernel"), cache.key_of("another kernel")

BUILD = """
import json, os, sys, time
import numpy as np
import relax
from relax import codegen
from relax.farm import cache
from relax.script import from_source
module = from_source('''
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 16), "float32"), w: R.Tensor((16, 16), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.softmax(a)
            c = R.cumsum(b, axis=1)
            d = R.sort(c, axis=1)
            R.output(d)
        return d
''')
codegen.resolve()
print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.005)
executable = relax.build(module, "llvm")
result = relax.VirtualMachine(executable, relax.cpu())["main"](np.ones((2, 16), "float32"), np.eye(16, dtype="float32"))
assert np.isfinite(result.numpy()).all()
print(json.dumps([codegen.statistics.llvm_runs, cache.statistics.stored, cache.statistics.problems]))
"""

HOLD = """
import sys, time
from relax.farm import cache
from relax.farm.claims import Claims
print(*[Claims().take(cache.Key(*word.split("-"))) for word in sys.argv[1:]], flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """An empty cache of the test's own."""
    monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("RELAX_CACHE_PROGRAMS", "0")
    monkeypatch.setenv("RELAX_JOBS", "1")
    monkeypatch.delenv("RELAX_CACHE", raising=False)
    cache.statistics.reset()
    codegen.statistics.reset()
    return tmp_path / "cache"


@contextlib.contextmanager
def holder(*keys):
    """Another process that has claimed keys."""
    words = [key.name for key in keys]
    process = subprocess.Popen([sys.executable, "-c", HOLD, *words], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().split() == ["True"] * len(keys)
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.communicate()


def built_at_once(count, start):
    """Let processes build a module at the same time, with an empty cache; what each has to say of it."""
    processes = [
        subprocess.Popen([sys.executable, "-c", BUILD, str(start)], stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * count
    start.touch()
    answers = [json.loads(process.communicate()[0]) for process in processes]
    assert [process.returncode for process in processes] == [0] * count
    return answers


def test_processes_that_start_at_once_compile_each_kernel_once(tmp_path, monkeypatch):
    monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path / "alone"))
    ((runs, stored, problems),) = built_at_once(1, tmp_path / "one")
    assert runs >= 5  # four kernels, and the functions compiled with them
    assert stored > runs  # support code, too
    monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path / "together"))
    answers = built_at_once(6, tmp_path / "six")
    assert sum(answer[0] for answer in answers) == runs
    assert sum(answer[1] for answer in answers) == stored
    assert sum(answer[2] for answer in answers) == problems == 0


# ------------------------------------------------------------------------- claims


def test_a_key_is_claimed_by_one_process_at_a_time():
    with holder(KEY) as process, Claims() as own:
        assert not own.take(KEY)
        assert own.take(OTHER)
        process.kill()
        process.wait()
        assert own.take(KEY)


def test_and_by_one_thread():
    with Claims() as own, Claims() as others:
        assert own.take(KEY)
        assert not own.take(KEY)
        assert not others.take(KEY)
        assert claims.is_claimed_here(KEY)
        others.release(KEY)  # is not theirs
        assert not others.take(KEY)
        own.release(KEY)
        assert others.take(KEY)
    assert not claims.is_claimed_here(KEY)


def test_the_end_of_a_build_releases_its_claims():
    with contextlib.suppress(KeyError), Claims() as own:
        assert own.take(KEY)
        raise KeyError
    with holder(KEY):  # which can take it
        assert not claims.is_claimed_here(KEY)


def test_another_directory_is_another_matter(tmp_path, monkeypatch):
    with holder(KEY), Claims() as own:
        monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path / "other"))
        assert own.take(KEY)


def test_a_forked_child_has_no_claims():
    with Claims() as own:
        assert own.take(KEY)
        pid = os.fork()
        if pid == 0:
            os._exit(int(claims.is_claimed_here(KEY)) + 2 * int(Claims().take(KEY)))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_file_that_was_removed_is_made_again(fresh):
    with Claims() as own:
        assert own.take(KEY)
        own.release(KEY)
        (fresh / claims.FILE).unlink()
        assert own.take(KEY)
        assert (fresh / claims.FILE).exists()


@pytest.mark.parametrize("obstacle", ["no locks", "no fcntl", "no cache", "a link", "a directory"])
def test_without_locks_everybody_compiles(fresh, monkeypatch, obstacle):
    path = fresh / claims.FILE
    fresh.mkdir()
    if obstacle == "no locks":

        def refused(*_):
            raise OSError(37, "No locks available")

        monkeypatch.setattr("fcntl.lockf", refused)
    elif obstacle == "no fcntl":
        monkeypatch.setattr(claims, "_fcntl", None)
    elif obstacle == "no cache":
        monkeypatch.setenv("RELAX_CACHE", "0")
    elif obstacle == "a link":
        path.symlink_to(fresh / "elsewhere")
    else:
        path.mkdir()
    with Claims() as own, Claims() as others:
        assert own.take(KEY)
        assert others.take(KEY)
    assert not (fresh / "elsewhere").exists()


# ------------------------------------------------------------------------- waiting


@pytest.fixture
def key_of_f(kernels, tmp_path, monkeypatch):
    """A kernel, and the key of its object, which is the only one the cache is without."""
    func = kernels.elementwise(lambda a: a + 1.0, ["float32"], "float32")
    codegen.compile_module({"f": kernels.elementwise(lambda a: a - 1.0, ["float32"], "float32")})  # support code
    before = {entry.path.name for entry in cache.entries()}
    codegen.compile_module({"f": func})
    ((name, data),) = [(e.path.name, e.path.read_bytes()) for e in cache.entries() if e.path.name not in before]
    (cache.directory() / name).unlink()
    cache.statistics.reset()
    codegen.statistics.reset()
    return func, cache.Key(*name.split("-")), data


def test_an_object_that_another_process_makes_is_awaited(key_of_f, monkeypatch):
    func, key, data = key_of_f
    with holder(key) as process:
        looks = []

        def pause(_):
            looks.append(None)
            if len(looks) == 3:  # the other process has it
                (cache.directory() / key.name).write_bytes(data)
                process.kill()
                process.wait()

        monkeypatch.setattr(objects.time, "sleep", pause)
        codegen.compile_module({"f": func})
    assert len(looks) >= 3
    assert codegen.statistics.llvm_runs == 0
    assert cache.statistics.hits == 1
    assert cache.statistics.stored == 0


def test_an_object_whose_process_is_killed_is_compiled(key_of_f, monkeypatch):
    func, key, _ = key_of_f
    with holder(key) as process:
        monkeypatch.setattr(objects.time, "sleep", lambda _: process.kill() or process.wait())
        codegen.compile_module({"f": func})
    assert codegen.statistics.llvm_runs == 1
    assert cache.load(key) is not None


def test_a_process_that_stands_still_is_not_awaited_for_ever(key_of_f, monkeypatch):
    func, key, _ = key_of_f
    with holder(key) as process:
        process.send_signal(signal.SIGSTOP)
        waited = []
        now = time.monotonic()
        monkeypatch.setattr(objects.time, "monotonic", lambda: now + len(waited) / 4)
        monkeypatch.setattr(objects.time, "sleep", lambda _: waited.append(None))
        codegen.compile_module({"f": func})
    assert codegen.statistics.llvm_runs == 1
    assert 2 * objects._SHORTEST <= len(waited) / 4 <= 2 * objects._SHORTEST + 1


def test_code_that_llvm_rejects_releases_its_key(key_of_f, monkeypatch):
    func, key, _ = key_of_f

    def rejected(*_):
        raise RuntimeError("no such instruction")

    monkeypatch.setattr(objects.worker, "emit_object", rejected)
    with pytest.raises(codegen.build.DiagnosticError, match="no such instruction"):
        codegen.compile_module({"f": func})
    with holder(key):  # which can take it
        assert not claims.is_claimed_here(key)
