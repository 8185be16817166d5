"""Executables as shared libraries: values and errors are those of a machine, without one. See docs/deploy-from-cpp.md."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
import tvm_ffi
import tvm_ffi.libinfo

import relax
from relax.runtime.archive import read_archive
from relax.runtime.combine import combine
from relax.runtime.elf import SHN_UNDEF, parse_object
from relax.runtime.elf_writer import merged, write_object
from relax.runtime.executable import ExecutableError
from relax.runtime.export import library_object
from relax.runtime.native import load_object
from relax.runtime.system_linker import find_linker, link_library
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T
from support import PLAIN_LOOPS, numbers, parse

try:
    LINKER = find_linker()
except ExecutableError as error:
    pytest.skip(f"exporting is not tested: {error}", allow_module_level=True)


@relax.register_func("test.export.packed", override=True)
def packed(x):
    if x.shape == (5,):
        raise KeyError("five")
    return np.asfortranarray(np.stack([x.numpy()] * 2))[0] + 1


@I.ir_module
class Program:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, "m"), "float32")) -> R.Tensor(("n", "m"), "float32"):
        products = R.multiply(R.expand_dims(x, 2), R.expand_dims(w, 0))
        return R.add(R.nn.relu(R.sum(products, axis=1)), R.const([[0.5]], "float32"))

    @R.function
    def sizes(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("2 * n", "m"), "float32"), s: R.Shape(["m", 3])):
        n, m = T.int64(), T.int64()
        z = R.reshape(R.concat((x, y), axis=0), R.shape([3 * n * m]))
        return z, R.shape_of(z), R.full(R.shape([n + 7, m - 2]), R.const(2.0, "float32"), "float32")

    @R.function
    def scalars(a: R.Prim(value="k"), x: R.Tensor(("k + 1",), "float32"), f: R.Prim("float32"), b: R.Prim("int8")):
        k = T.int64()
        return R.prim_value(k * 2), f, b, R.str("text"), R.shape([k, 5])

    @R.function
    def tuples(p: R.Tuple(R.Tensor(("n",), "float32"), R.Tuple(R.Shape(["n"]), R.Prim("int64")))):
        x = p[0]
        q = p[1]
        return (q, x, (p, q[0], q[1]))

    @R.function
    def choice(b: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        if b:
            y = R.add(x, R.const(1.0, "float32"))
        else:
            y = R.multiply(x, x)
        return y

    @R.function
    def failing(b: R.Tensor((), "bool"), x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        if b:
            y = R.add(x, x)
        else:
            y = R.call_pure_packed("relax.run.fail", R.str("no such branch"), sinfo_args=R.Tensor((n,), "float32"))
        return y

    @R.function(pure=False)
    def calls(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        y = R.call_packed("test.export.packed", R.add(x, x), sinfo_args=R.Tensor((n,), "float32"))
        return R.add(y, y)

    @R.function
    def sum(n: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        stop = R.less(n, R.const(1, "int64"))
        if stop:
            y = R.const(0, "int64")
        else:
            z = Program.sum(R.subtract(n, R.const(1, "int64")))
            y = R.add(n, z)
        return y


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    file = tmp_path_factory.mktemp("export") / "program.so"
    relax.build(Program, PLAIN_LOOPS, exec_mode="compiled").export_library(file)
    return file


@pytest.fixture(scope="module")
def library(path):
    return tvm_ffi.load_module(str(path))


@pytest.fixture(scope="module")
def machine(path):
    return relax.VirtualMachine(relax.runtime.load_module(path), relax.cpu())


def argument(value):
    """A value as a program without relax passes it."""
    if isinstance(value, np.ndarray):
        return tvm_ffi.from_dlpack(value)
    is_tuple = isinstance(value, tuple) and not isinstance(value, tvm_ffi.Shape)
    return tuple(map(argument, value)) if is_tuple else value


def plain(value):
    """A result, from a machine or a library, for comparison."""
    if isinstance(value, tvm_ffi.Shape):
        return ("shape", *value)
    if isinstance(value, tuple | tvm_ffi.Array):
        return [plain(field) for field in value]
    if isinstance(value, str):
        return str(value)
    return np.from_dlpack(value).tolist() if hasattr(value, "__dlpack__") else value


def outcome(function, args):
    """The value of a call, or its error. A machine puts the function's name before what builtins say, a library does not."""
    try:
        return plain(function(*args))
    except Exception as error:  # noqa: BLE001
        return type(error), str(error).split(": a shape")[-1].removeprefix("a shape")


x3 = numbers(3)
CALLS = {
    "main": [
        (numbers(2, 4), numbers(4, 3)), (numbers(0, 4), numbers(4, 1)), (numbers(2, 4), numbers(4, 0)), (numbers(2, 4),),
        (numbers(2, 5), numbers(4, 3)), (numbers(2, 4).astype("float64"), numbers(4, 3)), (numbers(2), numbers(4, 3)),
        (3, None), ("a", (1,)), (True, 2.5), (numbers(4, 2).T, numbers(8, 3)[::2]), (tvm_ffi.Shape((2, 4)), len),
    ],
    "sizes": [
        (numbers(2, 3), numbers(4, 3), tvm_ffi.Shape((3, 3))), (numbers(0, 3), numbers(0, 3), tvm_ffi.Shape((3, 3))),
        (numbers(2, 3), numbers(3, 3), tvm_ffi.Shape((3, 3))), (numbers(2, 3), numbers(4, 3), tvm_ffi.Shape((4, 3))),
        (numbers(2, 3), numbers(4, 3), tvm_ffi.Shape((3, 4))), (numbers(2, 3), numbers(4, 3), tvm_ffi.Shape((3,))),
        (numbers(2, 3), numbers(4, 3), 7), (numbers(2, 1), numbers(4, 1), tvm_ffi.Shape((1, 3))),
    ],
    "scalars": [
        (2, x3, 0.5, 7), (3, x3, 0.5, 7), (-1, numbers(0), 0.5, 7), (2.5, x3, 1.0, 7), (2, x3, 1, 7), (2, x3, 1.5, 200),
        (1 << 50, x3, 1.0, 7), (1 << 47, x3, 1.0, 7), (2, x3, 1.5, True), (2, x3, None, 7),
    ],
    "tuples": [
        ((x3, (tvm_ffi.Shape((3,)), 7)),), ((x3, (tvm_ffi.Shape((4,)), 7)),), ((x3,),), (x3,),
        ((x3, (tvm_ffi.Shape((3,)), 7.5)),), ((x3, (tvm_ffi.Shape((3, 3)), 7)),),
    ],
    "choice": [(np.array(True), x3), (np.array(False), x3), (np.array(False), numbers(0)), (np.array([True]), x3)],
    "failing": [(np.array(True), x3), (np.array(False), x3)],
    "sum": [(np.array(5),), (np.array(0),), (np.array(60),)],
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_library_does_what_a_machine_does(library, machine, name):
    for args in CALLS[name]:
        expected = outcome(machine[name], args)
        assert outcome(library[name], tuple(map(argument, args))) == expected, args


def test_packed_functions_are_those_of_the_process(library):
    np.testing.assert_array_equal(np.from_dlpack(library["calls"](argument(x3))), 2 * (2 * x3 + 1))
    with pytest.raises(KeyError, match="five"):
        library["calls"](argument(numbers(5)))


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 2), (2, 0, 3)])
def test_an_empty_array_in_a_tuple(tmp_path, shape):
    """Its strides mean nothing: NumPy gives some that are 0."""
    ndim = len(shape)

    @R.function
    def main(p: R.Tuple(R.Tensor("float32", ndim=ndim), R.Prim("int64"))):
        return p[0], p[1]

    tensor, number = tvm_ffi.load_module(export(tmp_path, main))["main"]((np.zeros(shape, "float32"), 7))
    assert (tuple(tensor.shape), number) == (shape, 7)


@R.function
def doubled(x: R.Tensor(("n",), "float32")):
    return R.add(x, x)


def export(tmp_path, function, name="small.so"):
    """The path of a library with one function."""
    mod = relax.IRModule({"main": function}) if not isinstance(function, relax.IRModule) else function
    relax.build(mod, PLAIN_LOOPS, exec_mode="compiled").export_library(tmp_path / name)
    return str(tmp_path / name)


def test_a_packed_function_that_is_not_there_is_asked_for_again(tmp_path):
    @R.function(pure=False)
    def main(x: R.Tensor((3,), "float32")) -> R.Object:
        return R.call_packed("test.export.later", x, sinfo_args=R.Object)

    main_ = tvm_ffi.load_module(export(tmp_path, main))["main"]
    with pytest.raises(ValueError, match="calls the packed function test.export.later, which this process has not"):
        main_(argument(x3))
    relax.register_func("test.export.later", lambda x: x.shape[0], override=True)
    assert main_(argument(x3)) == 3
    relax.runtime.remove_global_func("test.export.later")


def test_a_name_of_a_library_is_that_of_a_registered_function(tmp_path):
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        return R.call_dps_packed("torch.export_test", (x,), R.Tensor((3,), "float32"))

    main_ = tvm_ffi.load_module(export(tmp_path, main))["main"]
    with pytest.raises(ValueError, match=r"calls the packed function torch\.export_test, which this process has not"):
        main_(argument(x3))
    relax.register_func("torch.export_test", lambda x, y: y.copyfrom(x.numpy() + 1), override=True)
    np.testing.assert_array_equal(np.from_dlpack(main_(argument(x3))), x3 + 1)
    relax.runtime.remove_global_func("torch.export_test")


def test_too_deep_recursion_is_an_error(library):
    assert int(np.from_dlpack(library["sum"](argument(np.array(300))))) == 45150
    with pytest.raises(RecursionError, match="^sum: too many calls are under way$"):
        library["sum"](argument(np.array(100_000)))


def test_threads_make_one_table(tmp_path):
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return R.add(x, R.const([1.0, 2.0, 3.0], "float32"))

    main_ = tvm_ffi.load_module(export(tmp_path, main))["main"]
    results = []
    barrier = threading.Barrier(8)

    def work():
        barrier.wait()
        results.extend(np.from_dlpack(main_(argument(x3))) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 160
    for result in results:
        np.testing.assert_array_equal(result, x3 + np.float32([1, 2, 3]))


def test_arguments_and_results_are_released(library):
    array = numbers(6, 4)
    gone = weakref.ref(array)
    for args in ((array, numbers(4, 2)), (array, numbers(3, 2)), (array.T, numbers(4, 2)), (array[::2], numbers(4, 2))):
        outcome(library["main"], tuple(map(argument, args)))
    del array, args
    gc.collect()
    assert gone() is None


def test_a_library_runs_without_relax(path):
    """Only tvm-ffi and NumPy are loaded."""
    code = f"""
        import sys, numpy as np, tvm_ffi
        main = tvm_ffi.load_module({str(path)!r})["choice"]
        tvm_ffi.register_global_func("test.export.packed", lambda x: x)
        y = main(tvm_ffi.from_dlpack(np.array(True)), tvm_ffi.from_dlpack(np.ones(3, "float32")))
        assert np.from_dlpack(y).tolist() == [2, 2, 2]
        assert "relax" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


# ------------------------------------------------------------------------------------------ the file


def test_the_executable_is_in_the_library(path):
    executable = relax.runtime.load_module(path)
    names = ["main", "sizes", "scalars", "tuples", "choice", "failing", "calls", "sum"]
    assert relax.Executable.from_bytes(executable.to_bytes()).compiled_functions == names
    assert executable.to_bytes() in path.read_bytes()


def test_only_entry_points_are_seen(path, library):
    for name in ("add", "__vmtir__main", relax.runtime.load_module(path).kernels[0]):
        with pytest.raises(AttributeError, match=f"no function '{name}'"):
            library[name]


def test_an_object_is_written_as_it_was_read():
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        return R.multiply(x, x)

    # At this level no loop is parallel: the object needs no thread pool, which another test may have loaded or not.
    executable = relax.build(relax.IRModule({"main": main}), PLAIN_LOOPS, exec_mode="bytecode")
    archive = read_archive(executable.native)
    data = write_object(merged(combine(archive, "__tvm_ffi_")))
    out = np.zeros(3, "float32")
    load_object(data).get_function("multiply")(*map(argument, (x3, x3, out)))
    np.testing.assert_array_equal(out, x3 * x3)


def test_without_compiled_functions_the_file_is_that_of_save(tmp_path):
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        return R.add(x, x)

    executable = relax.build(relax.IRModule({"main": main}), "llvm", exec_mode="bytecode")
    executable.export_library(tmp_path / "model.so")
    assert (tmp_path / "model.so").read_bytes() == executable.to_bytes()


def test_a_program_that_needs_python_is_refused(tmp_path):
    @I.ir_module
    class Mixed:
        @R.function
        def main(x: R.Tensor(("n",), "int64")) -> R.Tensor(ndim=1, dtype="int64"):
            return R.unique(R.add(x, x))

        @R.function(pure=False)
        def closure(x: R.Tensor(("n",), "float32"), f: R.Callable) -> R.Object:
            return f(x)

    executable = relax.build(Mixed, PLAIN_LOOPS, exec_mode="compiled")
    with pytest.raises(ExecutableError) as info:
        executable.export_library(tmp_path / "mixed.so")
    assert str(info.value) == (
        f"cannot export {tmp_path / 'mixed.so'}: the program needs Python: closure stays bytecode, which Python carries "
        "out; it calls relax.run.unique, which is Python; save() and load() keep it as it is"
    )
    assert list(tmp_path.iterdir()) == []


def test_builtins_that_no_header_has_are_refused(tmp_path):
    """The headers register most builtins of KV caches (tests/cpp); attention among the new tokens is not one of them."""

    @R.function(pure=False)
    def main(state: R.Object, q: R.Tensor((2, 4, 4), "float32")) -> R.Tensor((2,), "int32"):
        out = R.zeros((2, 4, 4), "float32")
        lse = R.zeros((2, 4), "float32")
        _ = R.call_packed(
            "vm.builtin.attention_kv_cache_self_attention",
            state, R.prim_value(0), R.prim_value(1.0), q, q, q, out, lse, sinfo_args=R.Tuple(),
        )  # fmt: skip
        positions = R.call_packed(
            "vm.builtin.attention_kv_cache_get_query_positions", state, sinfo_args=R.Tensor((2,), "int32")
        )
        return positions

    with pytest.raises(ExecutableError) as info:
        relax.build(relax.IRModule({"main": main}), PLAIN_LOOPS).export_library(tmp_path / "attention.so")
    assert str(info.value).partition(": ")[2] == (
        "the program needs Python: it calls vm.builtin.attention_kv_cache_self_attention, which is Python; save() and "
        "load() keep it as it is"
    )


def test_linkers(tmp_path, path, monkeypatch):
    executable = relax.runtime.load_module(path)
    with pytest.raises(ExecutableError, match=r"the linker false fails: it ends with status 1"):
        executable.export_library(tmp_path / "a.so", linker="false")
    with pytest.raises(ExecutableError, match=r"the linker /no/such does not run: "):
        executable.export_library(tmp_path / "a.so", linker=["/no/such"])
    monkeypatch.setenv("RELAX_LINKER", "false")
    with pytest.raises(ExecutableError, match=r"the linker false fails"):
        executable.export_library(tmp_path / "a.so")
    monkeypatch.delenv("RELAX_LINKER")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ExecutableError, match=r"there is no linker here: .*pip install 'relax\[linker\]' brings one"):
        executable.export_library(tmp_path / "a.so")
    assert list(tmp_path.iterdir()) == []


def test_another_file_holds_no_executable(tmp_path):
    (tmp_path / "other.so").write_bytes(b"\x7fELF" + bytes(100))
    with pytest.raises(ExecutableError, match=r"it is a shared library without a Relax executable of this release"):
        relax.runtime.load_module(tmp_path / "other.so")


@pytest.mark.parametrize("name", ["a,b.so", "a 'b\".so", "-dash.so", "n" * 240 + ".so"])
def test_any_name_of_a_file(tmp_path, name):
    executable = relax.build(relax.IRModule.from_expr(doubled), PLAIN_LOOPS)
    executable.export_library(tmp_path / name)
    twice = tvm_ffi.load_module(str(tmp_path / name))
    assert np.from_dlpack(twice[executable.entry_points[0]](tvm_ffi.from_dlpack(np.ones(2, "float32")))).tolist() == [
        2,
        2,
    ]


@pytest.mark.parametrize("write", ["save", "export_library"])
def test_files_are_replaced_and_nothing_else(tmp_path, write):
    executable = relax.build(relax.IRModule.from_expr(doubled), PLAIN_LOOPS)
    real, link, pipe = (tmp_path / name for name in ("real.so", "link.so", "pipe"))
    real.write_bytes(b"")
    link.symlink_to("real.so")
    getattr(executable, write)(link)
    assert link.is_symlink()
    assert real.stat().st_size
    relax.runtime.load_module(link)
    os.mkfifo(pipe)
    with pytest.raises(FileExistsError, match="it is no regular file"):
        getattr(executable, write)(pipe)
    assert pipe.is_fifo()
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        getattr(executable, write)(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.so", "pipe", "real.so"]


def test_a_linker_that_writes_nothing(tmp_path):
    executable = relax.build(relax.IRModule.from_expr(doubled), PLAIN_LOOPS)
    with pytest.raises(ExecutableError, match="the linker true ends well and writes no library"):
        executable.export_library(tmp_path / "none.so", linker="true")


# --------------------------------------------------------------------------------------- other machines

FOREIGN = {
    "aarch64-linux-gnu": "llvm -mtriple=aarch64-linux-gnu",
    "riscv64-linux-gnu": "llvm -mtriple=riscv64-linux-gnu -mattr=+m,+a,+f,+d,+c",
}
FFI_C = """
#include <stdio.h>
#include <stdlib.h>
#define UNUSED(name) int name(void) { printf(#name " is called\\n"); exit(1); }
UNUSED(TVMFFIErrorSetRaisedFromCStr) UNUSED(TVMFFIErrorMoveFromRaised) UNUSED(TVMFFIErrorSetRaised)
UNUSED(TVMFFIAnyViewToOwnedAny)
UNUSED(TVMFFIFunctionGetGlobal) UNUSED(TVMFFIDataTypeToString)
int TVMFFIObjectDecRef(void *object) { return 0; }
int TVMFFIFunctionCreate(void *self, void *call, void (*deleter)(void *), void **out) {
    void **object = calloc(5, sizeof(void *));  // header: count, type, deleter; cell: call, self
    object[3] = call, object[4] = self;
    *out = object;
    return 0;
}
int TVMFFIFunctionCall(void **function, void *args, int count, void *result) {
    return ((int (*)(void *, void *, int, void *))function[3])(function[4], args, count, result);
}
int TVMFFIStringFromByteArray(void **text, void **out) {
    void **object = calloc(5, sizeof(void *));  // cell: data, size
    object[3] = text[0], object[4] = text[1];
    out[0] = (void *)65, out[1] = object;  // kTVMFFIStr
    return 0;
}
"""
MAIN_C = """
#include <stdio.h>
#include <tvm/ffi/c_api.h>
int __tvm_ffi_main(void *self, const TVMFFIAny *args, int32_t count, TVMFFIAny *result);
_Alignas(64) float x[6] = {-2, 1, 2, 3, 4, -5}, w[3] = {0.5, 2, 4};
int main(void) {
    int64_t sizes[2] = {2, 3};
    DLTensor tensors[2] = {{x, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, sizes}, {w, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, sizes + 1}};
    TVMFFIAny args[2] = {{.type_index = kTVMFFIDLTensorPtr}, {.type_index = kTVMFFIDLTensorPtr}}, result = {0};
    for (int i = 0; i < 2; i++) args[i].v_ptr = &tensors[i];
    if (__tvm_ffi_main(0, args, 2, &result)) return 1;
    DLTensor *y = (DLTensor *)((char *)result.v_obj + sizeof(TVMFFIObject));
    for (int i = 0; i < 2; i++) printf("%g ", ((float *)y->data)[i]);
    return 0;
}
"""
DOT = """
@R.function
def main(x: R.Tensor(("n", "k"), "float32"), w: R.Tensor(("k",), "float32")):
    with R.dataflow():
        y = R.nn.relu(R.matmul(x, w))
        R.output(y)
    return y
"""


def foreign(triple):
    return relax.build(parse(DOT), FOREIGN[triple])


@pytest.mark.parametrize("triple", FOREIGN)
def test_a_library_for_another_machine_is_linked_and_runs(tmp_path, triple):
    pytest.importorskip("ziglang", reason="the linker for other machines, ziglang, is not installed")
    foreign(triple).export_library(tmp_path / "model.so")
    header = (tmp_path / "model.so").read_bytes()[:20]
    assert (header[:4], header[16]) == (b"\x7fELF", 3)  # a shared object
    emulator = shutil.which(f"qemu-{triple.partition('-')[0]}")
    system = os.environ.get("QEMU_LD_PREFIX", f"/usr/{triple}")
    if emulator is None or not Path(system, "lib", "libc.so.6").exists():
        pytest.skip(f"linked, but not run: qemu-user or its C library in {system} is not installed")
    (tmp_path / "ffi.c").write_text(FFI_C)
    (tmp_path / "main.c").write_text(MAIN_C)
    compiler = [sys.executable, "-m", "ziglang", "cc", "-target", triple, "-I", tvm_ffi.libinfo.find_include_path()]
    compiler += ["-I", tvm_ffi.libinfo.find_dlpack_include_path()]
    for words in (
        ["-shared", "-fPIC", "ffi.c", "-o", "libtvm_ffi.so"],
        ["main.c", "model.so", "libtvm_ffi.so", "-o", "main"],
    ):
        subprocess.run([*compiler, *words], cwd=tmp_path, check=True)
    command = [emulator, "-L", system, "-E", f"LD_LIBRARY_PATH={tmp_path}", "main"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.returncode) == (["9", "0"], 0), done.stderr


@pytest.mark.parametrize("triple", FOREIGN)
def test_the_interface_of_tvm_ffi_is_linked_for_another_machine(tmp_path, triple):
    """The linker is a script that notes its arguments, and copies the object."""
    linker = tmp_path / "cc"
    linker.write_text('#!/bin/sh\necho "$@" >> "$0.log"\nfor word; do case $word in *.o) cp $word "$0.$(basename $word)";; esac\n'
                      'out=$word; done; : > "$out"\n')  # fmt: skip
    linker.chmod(0o755)
    foreign(triple).export_library(tmp_path / "model.so", linker=[str(linker)])
    interface, library = (tmp_path / "cc.log").read_text().splitlines()
    assert "-soname=libtvm_ffi.so" in interface
    assert "libtvm_ffi.so -lm -o " in library
    program = parse_object((tmp_path / "cc.program.o").read_bytes())
    stub = parse_object((tmp_path / "cc.interface.o").read_bytes())
    wanted = {s.name for s in program.symbols if s.section == SHN_UNDEF and s.name.startswith("TVMFFI")}
    assert {s.name for s in stub.symbols if s.name} == wanted
    assert (stub.machine, stub.flags) == (program.machine, program.flags)


def test_without_a_linker_for_another_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("RELAX_LINKER", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    message = (
        r"there is no linker for AArch64 here: aarch64-linux-gnu-gcc is not on the path; pip install 'relax\[linker\]'"
    )
    with pytest.raises(ExecutableError, match=message):
        link_library(library_object(foreign("aarch64-linux-gnu")), tmp_path / "model.so")


def test_other_architectures_are_told_what_is_possible(tmp_path):
    soft = relax.build(parse(DOT), "llvm -mtriple=riscv64-linux-gnu")
    with pytest.raises(
        ExecutableError, match=r"build it for 'llvm -mtriple=riscv64-linux-gnu -mattr=\+m,\+a,\+f,\+d,\+c'"
    ):
        soft.export_library(tmp_path / "model.so")
    other = relax.build(parse(DOT), "llvm -mtriple=loongarch64-linux-gnu")
    message = (
        r"an architecture that is not exported \(ELF number 258\); libraries are made for x86-64 \(x86_64-linux-gnu\), "
        r"AArch64 \(aarch64-linux-gnu\), RISC-V \(riscv64-linux-gnu\); save\(\) and load\(\) keep it"
    )
    with pytest.raises(ExecutableError, match=message):
        other.export_library(tmp_path / "model.so")
