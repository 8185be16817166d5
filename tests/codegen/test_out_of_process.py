"""Kernels that helper processes lower and write: that nobody sees who did, and what is done here all the same."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

import relax
from relax import codegen, te, tir
from relax.codegen import out_of_process
from relax.codegen.module import kernel_texts
from relax.farm import cache, worker, worker_processes
from relax.farm.objects import machine_of
from relax.ir import DiagnosticError, GlobalVar, IRModule
from relax.vm import lowering
from support import wait_until

COUNT = 2 * worker_processes.TEXTS_PER_HELPER
N = te.var("n", "int64")


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """An empty cache of the test's own, and two processes."""
    monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("RELAX_CACHE_PROGRAMS", "0")
    monkeypatch.delenv("RELAX_CACHE", raising=False)
    monkeypatch.setenv("RELAX_JOBS", "2")
    cache.statistics.reset()
    codegen.statistics.reset()


@pytest.fixture
def done(monkeypatch):
    """The answers of helpers to errands; this process leaves them all errands, if there may be any helper."""
    answers = []
    take_back = worker_processes._Shared.take_back

    def patient(shared, errand):
        if worker_processes.job_limit() > 1:
            wait_until(lambda: errand.answer is not None)
        if errand.answer is not None:
            answers.append(errand.answer)
        return take_back(shared, errand)

    monkeypatch.setattr(worker_processes._Shared, "take_back", patient)
    return answers


def adding(number, size=N):
    """B = A + number."""
    a = te.placeholder((size,), "float32", "A")
    return te.create_prim_func([a, te.compute((size,), lambda i: a[i] + te.const(number, "float32"), "B")])


def program(kernels):
    """A chain of kernels."""
    builder = relax.BlockBuilder()
    n = tir.SizeVar("n", "int64")
    info = relax.TensorStructInfo((n,), "float32")
    x = relax.Var("x", info)
    with builder.function("main", [x]):
        y = x
        for name, kernel in kernels.items():
            function = builder.add_func(kernel, name)
            y = builder.emit(relax.call_tir(function, [y], info))
        builder.emit_func_output(y)
    return builder.get()


def built(kernels, target="llvm -num-cores=2"):
    return relax.build(program(kernels), target, pipeline=relax.transform.CallTIRRewrite())


def several(count=COUNT):
    return {f"k{i}": adding(float(i)) for i in range(count)}


# ------------------------------------------------------------------------------------------ orders and answers


def text_of(name, func, target):
    """The text of a kernel, as a helper answers with it."""
    order = out_of_process._ordering(name, func, target)()
    return out_of_process._read(out_of_process.answer(order))


@pytest.mark.parametrize("size", [0, 1, 7, 100_003, N])
@pytest.mark.parametrize("cores", [1, 2])
def test_a_text_does_not_depend_on_who_wrote_it(size, cores):
    """Its names and messages, the functions of its parallel loops and the support code it needs included."""
    target = codegen.resolve(f"llvm -num-cores={cores}")
    func = relax.schedules.schedule(adding(2.0, size), target, relax.schedules.cpu.RULES)
    here = kernel_texts(
        {g.name_hint: f for g, f in tir.lower(IRModule({"größe": func}), target).functions.items()}, target
    )
    assert text_of("größe", func, target) == here[0]


def test_a_helper_has_the_target_of_the_build():
    """The description of its machine too, which no text of a target holds."""
    target = codegen.resolve("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1 -num-cores=64")
    assert 'target triple = "aarch64' in text_of("f", adding(1.0), target).text


def test_no_answer_for_a_kernel_with_an_error():
    target = codegen.resolve()
    n = tir.Var("n", "int64")
    b = tir.decl_buffer((n,), "float32", "B")
    handle = tir.Var("p", "handle")
    wrong = tir.PrimFunc(
        (handle,), tir.BufferStore(b, tir.Call("float32", "no_such_thing", ()), [0]), buffer_map={handle: b}
    )
    assert out_of_process.answer(out_of_process._ordering("f", wrong, target)()) == b""


class Stranger:
    """No class of this package."""


def test_a_helper_makes_no_objects_of_a_users_classes():
    """To import a user's module may do anything."""
    target = codegen.resolve()
    order = pickle.dumps(("f", adding(1.0).with_attr("of", Stranger()), target, target.machine))
    assert out_of_process.answer(order) == b""


def test_no_order_for_a_kernel_that_cannot_be_pickled():
    assert out_of_process._ordering("f", adding(1.0).with_attr("of", lambda: 0), codegen.resolve())() == b""


# ------------------------------------------------------------------------------------------ offers


def calling(name):
    """A kernel that calls another function."""
    n = tir.Var("n", "int64")
    a = tir.decl_buffer((n,), "float32", "A")
    handle = tir.Var("p", "handle")
    call = tir.Call("int32", GlobalVar(name), (a.data,)) if name else tir.call_extern("int32", "abs", tir.const(1))
    return tir.PrimFunc((handle,), tir.Evaluate(call), buffer_map={handle: a})


def test_a_kernel_that_depends_on_others_is_not_offered():
    target = codegen.resolve()
    with worker_processes.Compilers(machine_of(target), 1) as compilers:
        kernels = out_of_process.KernelsApart(target, compilers)
        offered = {"f": adding(1.0), "g": calling("f"), "h": calling("")}
        assert [kernels.offer(name, func) for name, func in offered.items()] == [True, False, False]
        assert not any(kernels.has_begun(name, func) for name, func in offered.items())


def test_a_kernel_is_offered_once_and_its_successor_in_its_place():
    target = codegen.resolve()
    first, second = adding(1.0), adding(2.0)
    with worker_processes.Compilers(machine_of(target), 1) as compilers:
        shared, kernels = compilers._shared, out_of_process.KernelsApart(target, compilers)
        assert [kernels.offer("f", func) for func in (first, first, second)] == [True, False, True]
        assert len(shared._errands) == 1
        shared.next_work(True).done(b"")
        assert kernels.has_begun("f", second)
        assert kernels.has_ended("f")
        assert kernels.text("f") is None
        kernels.offer("g", first)
        shared.next_work(True)
        assert not kernels.has_begun("g", second), "of the name, but another function"


def test_kernels_that_are_not_wanted_are_taken_back():
    target = codegen.resolve()
    with worker_processes.Compilers(machine_of(target), 1) as compilers:
        kernels = out_of_process.KernelsApart(target, compilers)
        for name, func in several(3).items():
            kernels.offer(name, func)
        kernels.keep({"k1"})
        assert len(compilers._shared._errands) == 1


# ------------------------------------------------------------------------------------------ builds


def test_a_program_does_not_depend_on_who_lowered_its_kernels(done, monkeypatch):
    kernels = several()
    with cache.disabled():
        there = built(kernels)
        assert len(done) == COUNT
        assert all(done)
        monkeypatch.setenv("RELAX_JOBS", "1")
        assert built(kernels).to_bytes() == there.to_bytes()
    assert len(done) == COUNT
    result = relax.VirtualMachine(there, relax.cpu())["main"](np.zeros(7, "float32"))
    assert result.numpy().tolist() == [sum(range(COUNT))] * 7


def test_kernels_of_one_text_are_compiled_once(done):
    built({f"k{i}": adding(float(i % 3)) for i in range(COUNT)})
    assert len(done) == COUNT
    assert codegen.statistics.llvm_runs == 3 + 1, "the compiled function is the fourth"


def test_what_was_compiled_before_is_no_errand(done, monkeypatch):
    first = built(several())
    monkeypatch.setattr("relax.farm.worker_processes.subprocess.Popen", None)  # to start a helper would fail
    assert built(several()).to_bytes() == first.to_bytes()
    assert len(done) == COUNT


def test_errors_are_those_of_a_build_by_one_process(done, monkeypatch):
    def wrong(index):
        n = tir.Var("n", "int64")
        a, b = (tir.decl_buffer((n,), "float32", name) for name in "AB")
        handles = tir.Var("p", "handle"), tir.Var("q", "handle")
        body = tir.BufferStore(b, tir.Call("float32", "no_such_thing", ()), [index])
        return tir.PrimFunc(handles, body, buffer_map=dict(zip(handles, (a, b))))

    def build():
        with pytest.raises(DiagnosticError) as caught:
            built({**several(), "k3": wrong(0), "k11": wrong(1)})
        return [str(diagnostic) for diagnostic in caught.value.diagnostics]

    there = build()
    assert len(done) == COUNT
    assert sum(map(bool, done)) == COUNT - 2
    monkeypatch.setenv("RELAX_JOBS", "1")
    assert build() == there
    assert len(there) == 2


BROKEN = {
    "it dies at its errand": "import sys; sys.stdout.buffer.write(b'\\x11\\0\\0\\0ready for errands'); "
    "sys.stdout.flush(); sys.stdin.buffer.read(1000); sys.exit(1)",
    "it never does its errand": "import sys, time; sys.stdout.buffer.write(b'\\x11\\0\\0\\0ready for errands'); "
    "sys.stdout.flush(); time.sleep(600)",
    "it cannot do errands": "import sys; sys.path[:] = __import__('json').loads(sys.argv[1]); "
    "sys.modules['relax'] = None; __import__('runpy').run_path(sys.argv[2], run_name='__main__')",
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_helper_is_not_missed(monkeypatch, how):
    with cache.disabled():
        alone = built(several()).to_bytes()
        monkeypatch.setattr(worker_processes, "START", BROKEN[how])
        monkeypatch.setattr(worker_processes, "PATIENCE", 1.0)
        begun = []
        feed = worker_processes._keep_busy
        monkeypatch.setattr(
            worker_processes, "_keep_busy", lambda *args, **options: begun.append(1) or feed(*args, **options)
        )
        take_back = worker_processes._Shared.take_back

        def patient(shared, errand):
            """Until the helper has begun with something."""
            if how != "it cannot do errands":
                wait_until(lambda: begun or not shared._errands)
            return take_back(shared, errand)

        monkeypatch.setattr(worker_processes._Shared, "take_back", patient)
        assert built(several()).to_bytes() == alone


@pytest.mark.parametrize(
    "errands", [("relax.codegen.nowhere", ""), ("relax.codegen.out_of_process", "another/file.py")]
)
def test_errands_are_for_the_compiler_that_runs(errands):
    assert worker._doer(worker.Errands(*errands)) is None
    assert worker._doer(lowering.ERRANDS) is out_of_process.answer


_UNGUARDED = """
import os
os.environ.update(RELAX_CACHE="0", RELAX_JOBS="2")
import relax
from relax import te
from relax.farm import worker_processes
begun = []
keep_busy = worker_processes._keep_busy
worker_processes._keep_busy = lambda *args, **options: begun.append(args) or keep_busy(*args, **options)
builder = relax.BlockBuilder()
x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
with builder.function("main", [x]):
    y = x
    for i in range(60):
        y = builder.emit_te(lambda a, i=i: te.compute((4,), lambda j: a[j] + float(i)), y)
    builder.emit_func_output(y)
executable = relax.build(builder.get(), "llvm", pipeline=relax.transform.CallTIRRewrite())
print("built once", relax.VirtualMachine(executable, relax.cpu())["main"](__import__("numpy").zeros(4, "float32")))
"""


def test_a_main_module_without_a_guard_is_not_run_again(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(_UNGUARDED)
    run = subprocess.run(
        [sys.executable, "-W", "ignore", path], capture_output=True, text=True, check=True, timeout=600
    )
    assert run.stdout.count("built once") == 1
    assert "1770" in run.stdout
