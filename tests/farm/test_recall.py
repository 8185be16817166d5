"""Kernels that were compiled before are neither lowered nor written again: what is recalled, and what never is."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import tvm_ffi

import relax
from relax import codegen, tir
from relax.farm import cache
from relax.farm.kernel_text import MARK, symbol_name
from relax.ir import GlobalVar, IRModule
from relax.ir.transform import PassContext, TimingInstrument
from relax.runtime.archive import read_archive
from relax.runtime.native import load_object
from relax.script import ir as I
from relax.script import relax as R

notes = importlib.import_module("relax.farm.recall")
versions = importlib.import_module("relax.farm.versions")


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """An empty cache of the test's own, and statistics that start at nothing."""
    monkeypatch.setenv("RELAX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("RELAX_CACHE", raising=False)
    cache.statistics.reset()
    codegen.statistics.reset()
    return tmp_path / "cache" / "kernels"


@pytest.fixture
def written(monkeypatch):
    """The names of the functions whose code is written, build after build."""
    names = []
    write = codegen.build.written_kernels
    monkeypatch.setattr(
        codegen.build,
        "written_kernels",
        lambda funcs, target, later, lowering, elsewhere: (
            names.append([name for name in (*funcs, *later.names) if "_parallel" not in name])
            or write(funcs, target, later=later, lowering=lowering, elsewhere=elsewhere)
        ),
    )
    return names


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 6), "float32"), w: R.Tensor((6, 4), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.softmax(a)
            R.output(b)
        return b


def built(mod=Model, target="llvm", **options):
    return relax.build(mod, target, exec_mode="bytecode", **options)


def test_a_second_build_writes_no_kernel(written):
    first, second = built(), built()
    assert [len(names) for names in written if names] == [2]
    assert first.to_bytes() == second.to_bytes()
    assert (codegen.statistics.functions, codegen.statistics.llvm_runs) == (4, 2)
    assert cache.statistics.hits == 2
    x, w = np.ones((3, 6), "float32"), np.eye(6, 4, dtype="float32")
    for executable in (first, second):
        result = relax.VirtualMachine(executable, relax.cpu())["main"](x, w)
        np.testing.assert_allclose(result.numpy(), np.full((3, 4), 0.25), rtol=1e-6)


def test_compiled_functions_keep_their_place_among_recalled_kernels():
    first, second = (relax.build(Model, "llvm") for _ in range(2))
    assert first.to_bytes() == second.to_bytes()


def test_an_edit_lowers_the_kernels_that_changed(written):
    @I.ir_module
    class Edited:
        @R.function
        def main(x: R.Tensor(("n", 6), "float32"), w: R.Tensor((6, 4), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.nn.log_softmax(a)
                R.output(b)
            return b

    built()
    built(Edited)
    assert written[1] == ["log_softmax"]


def test_what_else_decides_the_code_is_part_of_the_key(written):
    built(target="llvm -num-cores=1")
    built(target="llvm -num-cores=2")
    built(target="llvm -num-cores=2 -opt-level=1")
    assert all(written)


@I.ir_module
class SameKernels:
    """The kernels of `Model`, called otherwise and with other names, and one more."""

    @R.function
    def main(inputs: R.Tensor(("batch", 6), "float32"), weights: R.Tensor((6, 4), "float32")):
        with R.dataflow():
            t = R.tanh(inputs)
            scores = R.matmul(t, weights)
            result = R.nn.softmax(scores)
            R.output(result)
        return result


def test_models_share_kernels(written):
    built()
    built(SameKernels)
    assert written[1] == ["tanh", "shape_func"]
    assert codegen.statistics.llvm_runs == 4


def test_a_shared_kernel_speaks_of_the_program_at_hand():
    """A program gets the same archive, messages included, whether its kernels come from another's, its own, or none."""
    built()
    shared = built(SameKernels)
    cache.clear()
    first, second = built(SameKernels), built(SameKernels)
    with cache.disabled():
        compiled = built(SameKernels)
    assert shared.native == first.native == second.native == compiled.native
    texts = " ".join(text for unit in read_archive(shared.native).units for text in unit.messages)
    assert "expected batch = %lld (batch was bound by" in texts
    assert MARK not in texts


def scaled(name="A", size="m"):
    """Doubles a buffer of m elements."""
    m, i = tir.Var(size, "int64"), tir.Var("i", "int64")
    a = tir.decl_buffer((m,), "float32", name)
    handle = tir.Var("p", "handle")
    loop = tir.For(i, 0, m, "serial", tir.BufferStore(a, a[i] * 2.0, [i]))
    return tir.PrimFunc((handle,), loop, buffer_map={handle: a})


def compiled(funcs):
    """Compile kernels as a build does; the names of those that were recalled."""
    target = codegen.resolve()
    memory = codegen.KernelMemory(target).recall(IRModule(funcs))

    def lowering(group):
        return {g.name_hint: f for g, f in tir.lower(IRModule(group), target).functions.items()}

    archive = codegen.compile_module(funcs, target, remembered=memory, lowering=lowering)
    for unit in read_archive(archive).units:
        assert all(f"{name}: expected" in " ".join(unit.messages) for name in unit.names)
    return sorted(memory.recalled)


def test_names_do_not_count():
    assert compiled({"f": scaled()}) == []
    assert compiled({"f": scaled(), "g": scaled()}) == ["f", "g"]
    assert compiled({"f": scaled("B"), "%d": scaled("100%", "size of it")}) == ["%d", "f"]


def test_equal_names_count_since_equal_messages_are_one():
    assert compiled({"f": scaled("m")}) == []
    assert compiled({"f": scaled("A")}) == []
    assert compiled({"f": scaled("n", "n")}) == ["f"]


def test_errors_of_a_shared_kernel_have_the_names_of_its_caller():
    compiled({"f": scaled()})
    funcs = {"h%s": scaled("X%d", "rows\0")}
    memory = codegen.KernelMemory(codegen.resolve()).recall(IRModule(funcs))
    assert list(memory.recalled) == ["h%s"]
    archive = codegen.compile_module(funcs, codegen.resolve(), remembered=memory)
    function = load_object(archive, "test").get_function(symbol_name("h%s"))
    with pytest.raises(TypeError, match="^h%s: expected 1 argument, found 2$"):
        function(1, 2)
    with pytest.raises(ValueError, match=r"^h%s: argument X%d: has 2 dimensions, expected 1$"):
        function(tvm_ffi.from_dlpack(np.zeros((2, 2), "float32")))


def test_a_kernel_that_uses_the_mark_has_no_note():
    assert compiled({"f": scaled(MARK)}) == []
    assert compiled({"f": scaled(MARK)}) == []
    asserting = scaled()
    text = f"{MARK}0{MARK} is not right"
    asserting = asserting.replace(body=tir.AssertStmt(tir.const(True, "bool"), text, asserting.body))
    assert compiled({"f": asserting}) == []
    assert compiled({"f": asserting}) == []


def test_what_cannot_be_compiled_is_told_with_its_names():
    wrong, a, n = scaled("values", "rows"), tir.decl_buffer((4,), "float32", "unbound"), tir.Var("k", "int64")
    wrong = wrong.replace(body=tir.SeqStmt((wrong.body, tir.BufferStore(a, tir.const(1.0, "float32"), [n]))))
    with pytest.raises(relax.DiagnosticError) as raised:
        compiled({"wrong": wrong})
    text = str(raised.value)
    assert "wrong" in text
    assert "unbound" in text
    assert MARK not in text


def test_functions_that_call_each_other_are_lowered_each_time(kernels):
    n = tir.Var("n", "int64")
    a = tir.decl_buffer((n,), "float32", "A")
    calling = kernels.over(tir.Evaluate(tir.Call("int32", GlobalVar("callee"), (a.data,))), a)
    funcs = {"caller": calling, "alone": scaled(), "callee": scaled()}
    compiled(funcs)
    assert compiled(funcs) == ["alone"]


def test_a_c_function_must_not_have_a_name_of_the_module(kernels):
    n = tir.Var("n", "int64")
    a = tir.decl_buffer((n,), "float32", "A")
    calling = kernels.over(tir.Evaluate(tir.call_extern("int32", "abs", tir.const(1))), a)
    compiled({"f": calling})
    assert compiled({"f": calling}) == []


def test_a_loop_that_runs_in_parallel_is_recalled_with_its_body():
    i = tir.Var("i", "int64")
    a = tir.decl_buffer((64,), "float32", "A")
    handle = tir.Var("p", "handle")
    loop = tir.For(i, 0, 64, "parallel", tir.BufferStore(a, a[i] * 2.0, [i]))
    func = tir.PrimFunc((handle,), loop, buffer_map={handle: a})
    assert compiled({"f": func}) == []
    assert compiled({"f": func}) == ["f"]


@pytest.mark.parametrize("harm", ["removed", "damaged", "replaced"])
def test_an_entry_that_is_no_good_is_compiled_again(fresh, harm):
    compiled({"f": scaled()})
    contents = [path.read_bytes() for path in fresh.iterdir()]
    for path in fresh.iterdir():
        if harm == "removed":
            path.unlink()
        elif harm == "damaged":
            path.write_bytes(path.read_bytes()[:-1] + b"?")
        else:
            path.write_bytes(next(other for other in contents if other != path.read_bytes()))
    assert compiled({"f": scaled()}) == []
    assert compiled({"f": scaled()}) == ["f"]


def test_a_note_without_its_object_is_no_use(fresh):
    compiled({"f": scaled()})
    for path in fresh.iterdir():
        if b"\x7fELF" in path.read_bytes():
            path.unlink()
    assert compiled({"f": scaled()}) == []


def test_nothing_is_recalled_where_passes_are_watched_or_left_out(written):
    built()
    times = TimingInstrument()
    for context in (PassContext(instruments=[times]), PassContext(disabled_pass=["StaticPlanBlockMemory"])):
        with context:
            built()
    assert [len(names) for names in written] == [2, 2, 2]
    assert "VectorizeLoop" in {name for name, _, _ in times.times}


def test_nothing_is_recalled_by_a_compiler_that_was_edited_since_it_was_loaded(monkeypatch):
    compiled({"f": scaled()})
    monkeypatch.setattr(versions, "_LOADED", 0.0)
    versions.compiler_files.cache_clear()
    assert compiled({"f": scaled()}) == []
    monkeypatch.undo()
    versions.compiler_files.cache_clear()


def test_nothing_is_recalled_without_the_cache(written):
    with cache.disabled():
        built()
        built()
    assert [len(names) for names in written] == [2, 2]
