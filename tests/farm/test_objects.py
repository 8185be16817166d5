"""An object per kernel: what shares one, what is compiled again, and that nobody sees who compiled it."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys

import numpy as np
import pytest

from relax import codegen, tir
from relax.codegen import resolve, support_objects
from relax.codegen.module import kernel_texts
from relax.codegen.support_objects import any_processor, cell_support, expect_kernels, keep_shared
from relax.farm import cache, host, worker, worker_processes
from relax.farm.objects import machine_of
from relax.ir import GlobalVar
from relax.runtime.archive import read_archive
from support import wait_until


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """An empty cache of the test's own, and statistics that start at nothing."""
    monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("RELAX_CACHE", raising=False)
    monkeypatch.delenv("RELAX_JOBS", raising=False)
    cache.statistics.reset()
    codegen.statistics.reset()


def adding(kernels, constant):
    return kernels.elementwise(lambda a: a + constant, ["float32"], "float32")


def model(kernels, count):
    """Kernels none of which is like another."""
    return {f"k{i}": adding(kernels, float(i)) for i in range(count)}


def renamed(size, source, target):
    """Copies a buffer; the arguments are names."""
    n, i = tir.Var(size, "int64"), tir.Var("i", "int64")
    a, b = tir.decl_buffer((n,), "float32", source), tir.decl_buffer((n,), "float32", target)
    params = (tir.Var("p", "handle"), tir.Var("q", "handle"))
    loop = tir.For(i, 0, n, "serial", tir.BufferStore(b, a[i], [i]))
    return tir.PrimFunc(params, loop, buffer_map={params[0]: a, params[1]: b})


# ------------------------------------------------------------------------------------- what shares an object


def test_names_are_no_part_of_a_kernel():
    """Two kernels alike but for the names of function, buffers and variables are one object."""
    module = codegen.build_module({"f": renamed("n", "A", "B"), "g": renamed("size", "input", "output")})
    assert codegen.statistics.llvm_runs == 1
    assert len(read_archive(module.data).objects) == 2  # the support code is the other
    long, short, out = np.ones(3, "float32"), np.ones(2, "float32"), np.zeros(3, "float32")
    for name in ("f", "g"):
        out[:] = 0
        module[name](long, out)
        assert out.tolist() == [1, 1, 1]
    message = r"^f: argument B: dimension 0 is 2, expected n = 3 \(n was bound by A, dimension 0\)$"
    with pytest.raises(ValueError, match=message):
        module["f"](long, short)
    message = r"^g: argument output: dimension 0 is 2, expected size = 3 \(size was bound by input, dimension 0\)$"
    with pytest.raises(ValueError, match=message):
        module["g"](long, short)
    with pytest.raises(TypeError, match="^g: argument input: expected a tensor, found an int$"):
        module["g"](1, out)
    with pytest.raises(TypeError, match="^f: expected 2 arguments, found 1$"):
        module["f"](long)


@pytest.mark.parametrize("name", ["50% off", 'quo"te\\', "größe", "new\nline", "zero\0byte", "relax.raise"])
def test_any_name(name):
    module = codegen.build_module({name: renamed("n", name, "B"), "other": renamed("n", "A", "B")})
    assert codegen.statistics.llvm_runs == 1
    shown = name.replace("\0", "\\0")
    with pytest.raises(ValueError, match="argument B") as caught:
        module[name](np.zeros(3, "float32"), np.zeros(2, "float32"))
    bound = f"n was bound by {shown}, dimension 0"
    assert str(caught.value) == f"{shown}: argument B: dimension 0 is 2, expected n = 3 ({bound})"
    with pytest.raises(TypeError) as caught:
        module[name](None, np.zeros(2, "float32"))
    assert str(caught.value) == f"{shown}: argument {shown}: expected a tensor, found None"


def test_editing_one_kernel_compiles_one(kernels):
    before = model(kernels, 12)
    codegen.compile_module(before)
    assert codegen.statistics.llvm_runs == 12
    after = {**before, "k7": adding(kernels, -1.0)}
    module = codegen.build_module(after)
    assert codegen.statistics.llvm_runs == 13
    assert cache.statistics.hits == 11
    for name, expected in (("k6", 7), ("k7", 0), ("k8", 9)):
        out = np.zeros(1, "float32")
        module[name](np.ones(1, "float32"), out)
        assert out.tolist() == [expected]


def test_renaming_and_reordering_compile_nothing(kernels):
    codegen.compile_module(model(kernels, 4))
    codegen.compile_module({f"other{i}": adding(kernels, float(i)) for i in (3, 1, 0, 2)})
    assert codegen.statistics.llvm_runs == 4


def test_functions_that_call_each_other_are_one_object(kernels):
    n = tir.Var("n", "int64")
    a = tir.decl_buffer((n,), "float32", "A")
    calling = kernels.over(tir.Evaluate(tir.Call("int32", GlobalVar("callee"), (a.data,))), a)
    m, i = tir.Var("m", "int64"), tir.Var("i", "int64")
    b = tir.decl_buffer((m,), "float32", "B")
    callee = kernels.over(tir.For(i, 0, m, "serial", tir.BufferStore(b, b[i] + 1.0, [i])), b)
    funcs = {"caller": calling, "alone": adding(kernels, 2.0), "callee": callee}
    texts = kernel_texts(funcs, resolve())
    assert [text.names for text in texts] == [("caller", "callee"), ("alone",)]
    module = codegen.build_module(funcs)
    data = np.zeros(2, "float32")
    module["caller"](data)
    module["callee"](data)
    assert data.tolist() == [2, 2]
    assert module.functions == ("caller", "callee", "alone")


def test_support_code_is_in_no_kernel(kernels):
    archive = read_archive(codegen.compile_module(model(kernels, 5)))
    assert len(archive.objects) == 6
    for text in (b"snprintf", b"its data is not aligned"):
        assert [text in data for data in archive.objects] == [True] + [False] * 5


def test_the_source_shows_names_and_messages():
    module = codegen.build_module({"f": renamed("n", "A", "B")})
    for kind, symbol in (("ll", "@__tvm_ffi_f("), ("opt", "@__tvm_ffi_f("), ("asm", "__tvm_ffi_f:")):
        source = module.get_source(kind)
        assert symbol in source
        assert "ValueError: f: argument B: dimension 0 is %lld, expected n = %lld" in source


# --------------------------------------------------------------------------------- who compiles, and how many


def test_any_number_of_jobs_gives_the_same_bytes(kernels):
    funcs = model(kernels, 3 * worker_processes.TEXTS_PER_HELPER)
    with cache.disabled():
        alone = codegen.compile_module(funcs, jobs=1)
        assert codegen.compile_module(funcs, jobs=2) == alone
        assert codegen.compile_module(funcs, jobs=4) == alone


def texts(kernels, count=2 * worker_processes.TEXTS_PER_HELPER):
    target = resolve()
    return [kernel.text for kernel in kernel_texts(model(kernels, count), target)], machine_of(target)


def started(monkeypatch):
    """The helper processes that are started from now on."""
    processes = []
    popen = subprocess.Popen

    def start(*arguments, **options):
        processes.append(popen(*arguments, **options))
        return processes[-1]

    monkeypatch.setattr("relax.farm.worker_processes.subprocess.Popen", start)
    return processes


def test_a_helper_compiles(kernels, monkeypatch):
    """All texts, if this process does nothing before its helper is through."""
    sources, machine = texts(kernels)
    alone = worker_processes.emit_objects(sources, machine, 1)
    shared = worker_processes._Shared(sources, machine)
    helper = worker_processes._Helper(shared)
    helper._thread.join(600)
    helper.finish()
    assert shared.objects == alone


def test_helpers_are_started_for_many_texts_only(kernels, monkeypatch):
    processes = started(monkeypatch)
    sources, machine = texts(kernels)
    worker_processes.emit_objects(sources[: worker_processes.TEXTS_PER_HELPER - 1], machine, 4)
    assert processes == []
    worker_processes.emit_objects(sources, machine, 1)
    assert processes == []
    worker_processes.emit_objects(sources, machine, 8)
    assert len(processes) == 2
    assert all(process.returncode is not None for process in processes), "a helper is left"
    assert all(process.stdin.closed and process.stdout.closed for process in processes)


def test_a_helper_compiles_while_texts_are_made(kernels, monkeypatch):
    """Before the last text is there, a helper has compiled the first."""
    sources, machine = texts(kernels)
    alone = worker_processes.emit_objects(sources, machine, 1)
    shared = []
    make = worker_processes._Shared
    monkeypatch.setattr(
        worker_processes, "_Shared", lambda *args, **options: shared.append(make(*args, **options)) or shared[0]
    )

    def slowly():
        yield from sources[:-1]
        wait_until(lambda: any(shared[0].objects))
        yield sources[-1]

    assert worker_processes.emit_objects(slowly(), machine, 2) == alone


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_object_is_told_once_when_it_is_there(kernels, jobs):
    sources, machine = texts(kernels)
    told = []
    with worker_processes.Compilers(machine, jobs) as compilers:
        objects = compilers.emit(sources, lambda index, data: told.append((index, data)))
    assert sorted(told) == list(enumerate(objects))


def test_helpers_start_before_the_texts_are_there(kernels, monkeypatch):
    """And compile in the meantime what may be compiled aside, for a machine of its own."""
    processes = started(monkeypatch)
    sources, machine = texts(kernels)
    other = machine._replace(opt_level=0)
    with worker_processes.Compilers(machine, 2) as compilers:
        compilers.expect(len(sources), [(sources[0], other), ("define nonsense", other)])
        assert len(processes) == 1
        wait_until(lambda: len(compilers.done_aside) >= 2)
        assert compilers.done_aside == {
            (sources[0], other): worker.emit_object(sources[0], other),
            ("define nonsense", other): b"",
        }
        assert compilers.emit(sources) == worker_processes.emit_objects(sources, machine, 1)
    assert [process.returncode is not None for process in processes] == [True]


def test_the_longest_text_is_given_out_first(kernels):
    _, machine = texts(kernels, 1)
    shared = worker_processes._Shared(["b", "dddd", "a", "ccc"], machine)
    assert [shared.texts[index] for index in shared] == ["dddd", "ccc", "b", "a"]


def test_an_error_before_the_texts_leaves_no_helper(kernels, monkeypatch):
    processes = started(monkeypatch)
    _, machine = texts(kernels, 1)

    def build():
        with worker_processes.Compilers(machine, 2) as compilers:
            compilers.expect(worker_processes.TEXTS_PER_HELPER)
            raise ValueError("a pass")

    with pytest.raises(ValueError, match="a pass"):
        build()
    assert [process.returncode is not None for process in processes] == [True]


def test_support_code_compiled_aside_is_kept(kernels, monkeypatch, tmp_path):
    """The first build on a machine: helpers compile what all programs share, while kernels are lowered."""
    monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path))
    target = resolve()
    with worker_processes.Compilers(machine_of(target), 2) as compilers:
        expect_kernels(compilers, worker_processes.TEXTS_PER_HELPER, target)
        wait_until(lambda: len(compilers.done_aside) >= 3)
        keep_shared(compilers, target)
    with worker_processes.Compilers(machine_of(target), 2) as compilers:
        expect_kernels(compilers, 1, target)
        assert compilers._shared.aside == [], "it is in the cache"
    cell_support.cache_clear()
    before = cache.statistics.hits
    assert cell_support(any_processor(target)).data
    assert cache.statistics.hits == before + 1


def test_support_code_of_another_version_is_used_if_its_text_is_the_same(monkeypatch):
    """Whether this process compiles it, or would let helpers do so."""
    target = resolve()
    names = ("kernel_support", "thread_pool", "cell_support", "library_support")
    functions = [getattr(support_objects, name) for name in names]

    def support_code(files):
        monkeypatch.setattr(support_objects, "_files", lambda: files)
        for function in functions:
            function.cache_clear()
        return [*support_objects._shared(target), support_objects.kernel_support(machine_of(target))]

    compiled = []
    emit = worker.emit_object
    monkeypatch.setattr(worker, "emit_object", lambda *text: compiled.append(text) or emit(*text))
    first = [code.data for code in support_code("one version")]
    assert len(compiled) == 4
    assert [code.data for code in support_code("another version")] == first
    codes = support_code("a third one")
    with worker_processes.Compilers(machine_of(target), 2) as compilers:
        expect_kernels(compilers, worker_processes.TEXTS_PER_HELPER, target)
        assert compilers._shared.aside == []
    assert all(cache.load(code.key) for code in codes[:-1])
    assert len(compiled) == 4
    support_code("one version")  # forgets the keys of the others


@pytest.mark.parametrize("text, expected", [("3", 3), ("0", 1), ("", None), ("many", None), ("-2", None), ("²", None)])
def test_the_number_of_jobs(monkeypatch, text, expected):
    monkeypatch.setenv("RELAX_JOBS", text)
    assert worker_processes.job_limit() == (expected or host.host_cores())


BROKEN = {
    "it cannot be started": "no such program",
    "it ends at once": "import sys; sys.exit(1)",
    "it says something else": "print('hello' * 100)",
    "it never answers": "import time; time.sleep(600)",
    "it dies while it compiles": "import sys; sys.stdout.buffer.write(b'\\5\\0\\0\\0ready'); sys.stdout.flush(); "
    "sys.stdin.buffer.read(1000); sys.exit(1)",
    "it never ends compiling": "import sys, time; sys.stdout.buffer.write(b'\\5\\0\\0\\0ready'); "
    "sys.stdout.flush(); time.sleep(600)",
    "its answer is cut off": "import sys, time; sys.stdout.buffer.write(b'\\5\\0\\0\\0ready\\xff\\0\\0\\0abc')",
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_helper_is_not_missed(kernels, monkeypatch, how):
    sources, machine = texts(kernels)
    alone = worker_processes.emit_objects(sources, machine, 1)
    monkeypatch.setattr(worker_processes, "START", BROKEN[how])
    monkeypatch.setattr(worker_processes, "PATIENCE", 1.0)
    if how == "it cannot be started":
        monkeypatch.setattr(sys, "executable", "/nowhere/python3")
    assert worker_processes.emit_objects(sources, machine, 3) == alone


@pytest.mark.parametrize("executable", [None, "", "/usr/bin/blender"])
def test_no_helper_without_an_interpreter(kernels, monkeypatch, executable):
    """In a program that embeds Python, `sys.executable` is not Python."""
    processes = started(monkeypatch)
    monkeypatch.setattr(sys, "executable", executable)
    sources, machine = texts(kernels)
    assert len(worker_processes.emit_objects(sources, machine, 4)) == len(sources)
    assert processes == []


def test_an_error_of_llvm_is_the_same_from_a_helper(kernels):
    sources, machine = texts(kernels)
    sources[-1] = "define nonsense"
    for jobs in (1, 3):
        with pytest.raises(RuntimeError, match="LLVM IR parsing error"):
            worker_processes.emit_objects(sources, machine, jobs)


def test_an_interrupt_leaves_no_helper(kernels, monkeypatch):
    processes = started(monkeypatch)
    sources, machine = texts(kernels)

    def interrupted(text, machine):
        raise KeyboardInterrupt

    monkeypatch.setattr(worker, "emit_object", interrupted)
    with pytest.raises(KeyboardInterrupt):
        worker_processes.emit_objects(sources, machine, 2)
    assert [process.returncode is not None for process in processes] == [True]


_DAEMON = """
import multiprocessing, os
os.environ["RELAX_CACHE"] = "0"
from relax import codegen, te, tir
n = te.var("n", "int64")
a = te.placeholder((n,), name="A")
funcs = {f"f{i}": tir.lower(te.create_prim_func([a, te.compute((n,), lambda j: a[j] + float(i))])) for i in range(16)}
def build(results):
    results.put(len(codegen.compile_module(funcs, jobs=2)))
# no `if __name__ == "__main__"`: nothing imports this program again
results = multiprocessing.get_context("fork").Queue()
process = multiprocessing.get_context("fork").Process(target=build, args=(results,), daemon=True)
process.start()
assert results.get(timeout=500) == len(codegen.compile_module(funcs, jobs=2))
"""


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="fork")
def test_in_a_daemonic_process_and_without_a_main_module():
    subprocess.run([sys.executable, "-W", "ignore", "-c", _DAEMON], check=True, timeout=600)
