"""Executables: text, statistics, saving and loading, and every way a file can be wrong."""

from __future__ import annotations

import itertools
import random
import struct
import sys

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest
import tvm_ffi

from relax.runtime import ExecBuilder, Executable, ExecutableError, ShapeTuple, VirtualMachine, load_executable
from relax.runtime.dtypes import DLPACK_CODES, NUMPY_DTYPES
from relax.runtime.format import pack_sections, unpack_sections
from relax.runtime.info import FuncInfo, ObjectInfo, PrimInfo, ShapeInfo, TensorInfo, TupleInfo
from relax.runtime.tensor import LARGE_PAGE, numpy_view

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()

TRIPLE = llvm.get_default_triple()


def kernel_object():
    """next(x) -> x + 1"""
    module = llvm.parse_assembly("""
%any = type { i32, i32, i64 }
define i32 @next(ptr %self, ptr %args, i32 %n, ptr %ret) {
  %p = getelementptr %any, ptr %args, i64 0, i32 2
  %a = load i64, ptr %p
  %r = add i64 %a, 1
  store i32 1, ptr %ret
  %v = getelementptr %any, ptr %ret, i64 0, i32 2
  store i64 %r, ptr %v
  ret i32 0
}
""")
    return llvm.Target.from_triple(TRIPLE).create_target_machine(reloc="pic").emit_object(module)


INFOS = (
    ObjectInfo(),
    PrimInfo("int64", "n"),
    PrimInfo("float32"),
    PrimInfo("float64", 2.5),
    ShapeInfo(("n", 4, ("*", 2, "n"))),
    ShapeInfo(ndim=3),
    TensorInfo(("n", ("slot", 2)), "float32", 2, "cpu"),
    TensorInfo(),
    TupleInfo((ObjectInfo(), TupleInfo(()))),
    FuncInfo((ObjectInfo(),), TensorInfo(None, "int8", 1), False),
    FuncInfo(None, ObjectInfo(), False),
)


def build():
    ib = ExecBuilder()
    weights = np.arange(6, dtype="float32").reshape(2, 3)
    with ib.function("main", params=["x", "y"], param_infos=[PrimInfo("int64"), ObjectInfo()], pure=False):
        ib.location = "model.py:3:5"
        ib.emit_call("next", [ib.r(0)], ib.r(2))
        ib.emit_call("vm.builtin.read_if_cond", [ib.r(1)], ib.r(3))
        test = ib.emit_if(ib.r(3))
        ib.emit_call("helper", [ib.r(2), -7, ib.f("helper")], ib.r(4))
        end = ib.emit_goto()
        ib.patch(test)
        ib.location = "model.py:4:5"
        ib.emit_call("vm.builtin.make_tuple", [weights, ShapeTuple((2, 3)), "text", 2.5, None, True], ib.r(4))
        ib.patch(end)
        ib.emit_ret(ib.r(4))
    with ib.function("helper", 3, exported=False):
        ib.emit_call("vm.builtin.null_value")
        ib.emit_ret(ib.r(0))
    ib.declare_function("next", "kernel", FuncInfo((PrimInfo("int64"),), PrimInfo("int64"), True))
    return ib.get(kernel_object(), TRIPLE, ["sse2"] if "x86" in TRIPLE else [])


TEXT = """\
# Relax executable: 2 functions, 6 constants, 1 kernel (for {triple}, {size} bytes of native code)
c0 = tensor float32 (2, 3)
c1 = shape (2, 3)
c2 = 'text'
c3 = 2.5
c4 = None
c5 = True

@main(%0: x, %1: y):  # 5 registers
  0  call  %2 = next(%0)
  1  call  %3 = vm.builtin.read_if_cond(%1)
  2  if    %3 else +3
  3  call  %4 = @helper(%2, -7, @helper)
  4  goto  +2
  5  call  %4 = vm.builtin.make_tuple(c0, c1, 'text', 2.5, None, True)
  6  ret   %4

private @helper(%0: arg0, %1: arg1, %2: arg2):  # 3 registers
  0  call  vm.builtin.null_value()
  1  ret   %0
"""


def test_text():
    ex = build()
    assert ex.as_text() == TEXT.format(triple=TRIPLE, size=len(ex.native))


def test_stats():
    ex = build()
    assert ex.stats() == (
        "Relax executable\n"
        "  entry points      main\n"
        "  functions         2\n"
        "  constants         6, of which 1 tensors with 24 bytes\n"
        "  instructions      9, of which 5 calls\n"
        f"  kernels           1, {len(ex.native)} bytes of native code\n"
        "  packed functions  3\n"
        "  most called       next x1, vm.builtin.read_if_cond x1, @helper x1, vm.builtin.make_tuple x1,"
        " vm.builtin.null_value x1\n"
    )


def check(ex):
    main = VirtualMachine(ex)["main"]
    assert main(41, True) == 42
    tensor, *rest = main(0, False)
    assert tensor.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert rest == [ShapeTuple((2, 3)), "text", 2.5, None, True]


def test_save_and_load(tmp_path):
    ex = build()
    check(ex)
    path = tmp_path / "model.rlx"
    ex.save(path)
    ex.save(path)
    loaded = load_executable(path)
    assert loaded.as_text() == ex.as_text()
    assert loaded.functions == ex.functions
    assert loaded.program.entries == ex.program.entries
    assert loaded.to_bytes() == ex.to_bytes()
    check(loaded)
    check(Executable.load(str(path)))
    assert [p.name for p in tmp_path.iterdir()] == ["model.rlx"]


def constants_of(values):
    ib = ExecBuilder()
    operands = [ib.convert_constant(v) for v in values]
    with ib.function("main", 0):
        ib.emit_ret(0)
    assert len(operands) == len(values)
    return Executable.from_bytes(ib.get().to_bytes()).constants


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0), (2, 3)])
@pytest.mark.parametrize("dtype", DLPACK_CODES)
def test_tensors_of_every_dtype_are_kept(dtype, shape):
    value = np.asarray(np.random.default_rng(0).integers(0, 2, shape)).astype(NUMPY_DTYPES[dtype])
    (kept,) = constants_of([value])
    assert (kept.shape, kept.dtype) == (shape, dtype)
    assert kept.data_ptr() % 64 == 0
    assert numpy_view(kept).tobytes() == value.tobytes()


def test_constants_that_fill_large_pages_together_are_in_one_allocation():
    """Each of them is smaller, and would have an allocation of its own in small pages."""
    sizes = [LARGE_PAGE // 16 + 5, 0, 3, LARGE_PAGE // 8, LARGE_PAGE // 4, 1]
    values = [np.full(size, i, "float32") for i, size in enumerate(sizes)]
    kept = constants_of(values)
    for tensor, value in zip(kept, values, strict=True):
        np.testing.assert_array_equal(numpy_view(tensor), value)
    places = [tensor.data_ptr() for tensor in kept if tensor.numel()]
    assert all(place % 64 == 0 for place in places)
    assert places == sorted(places)
    gaps = [b - a for a, b in itertools.pairwise(places)]
    lengths = [value.nbytes for value in values if value.size]
    assert all(gap < length + 64 for gap, length in zip(gaps, lengths, strict=False))


def test_other_constants_are_kept():
    nan, low = float("nan"), np.array([np.nan, -0.0, np.inf], ml_dtypes.bfloat16)
    values = ["", "größe \ud800", 1.5, -0.0, True, None, ShapeTuple(()), tvm_ffi.dtype("float32"), *INFOS]
    assert constants_of(values) == values
    assert [str(v) for v in constants_of([0.0, -0.0, nan])] == ["0.0", "-0.0", "nan"]
    assert numpy_view(constants_of([low])[0]).tobytes() == low.tobytes()


def test_equal_constants_are_kept_once():
    assert constants_of_count(["a", "a", 1.5, 1.5, 1, True, True, ShapeTuple((1,)), ShapeTuple((1,))]) == 4


def constants_of_count(values):
    ib = ExecBuilder()
    for v in values:
        ib.convert_constant(v)
    with ib.function("main", 0):
        ib.emit_ret(0)
    return len(ib.get().constants)


# ------------------------------------------------------------------------------------ wrong files


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "it is no Relax executable"),
        (b"hello world" * 20, "it is no Relax executable"),
        (b"\x89RELAX\r\n", "it is truncated"),
        (b"\x89RELAX\n\n" + bytes(100), "it was changed in transfer"),
    ],
)
def test_foreign_files(data, message, tmp_path):
    path = tmp_path / "x.rlx"
    path.write_bytes(data)
    with pytest.raises(ExecutableError, match=f"cannot load .*x.rlx: {message}$"):
        load_executable(path)


@pytest.mark.parametrize("version", [6, 99])
def test_other_versions(version):
    data = bytearray(build().to_bytes())
    struct.pack_into("<I", data, 8, version)
    message = f"format version {version}, this runtime reads version 9: build it again with this release$"
    with pytest.raises(ExecutableError, match=message):
        Executable.from_bytes(bytes(data))


def test_truncated_anywhere():
    data = build().to_bytes()
    for end in range(0, len(data), 13):
        with pytest.raises(ExecutableError, match="truncated|no Relax executable"):
            Executable.from_bytes(data[:end])
    with pytest.raises(ExecutableError, match="followed by something else"):
        Executable.from_bytes(data + b"x")


def test_corrupted_anywhere():
    data = build().to_bytes()
    rng = random.Random(0)
    for _ in range(200):
        broken = bytearray(data)
        at = rng.randrange(64, len(data))
        broken[at] ^= 1 << rng.randrange(8)
        with pytest.raises(ExecutableError, match="corrupted: its checksum does not match"):
            Executable.from_bytes(bytes(broken))


@pytest.mark.parametrize("section", ["META", "CNST", "FUNC", "DATA", "NATV"])
def test_wrong_contents_with_a_right_checksum(section):
    """Even a file somebody made wrong on purpose is refused, or is a program that can run."""
    sections = {tag: bytes(contents) for tag, contents in unpack_sections(build().to_bytes()).items()}
    rng = random.Random(section)
    refused = 0
    for _ in range(600):
        broken = bytearray(sections[section])
        for _ in range(rng.choice((1, 1, 3))):
            broken[rng.randrange(len(broken))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        try:
            Executable.from_bytes(pack_sections({**sections, section: bytes(broken)}))
        except ExecutableError:
            refused += 1
        try:
            cut = rng.randrange(len(broken))
            Executable.from_bytes(pack_sections({**sections, section: bytes(broken[:cut])}))
        except ExecutableError:
            refused += 1
    assert refused > 100
    with pytest.raises(ExecutableError, match=f"it has no section {section}"):
        Executable.from_bytes(pack_sections({t: c for t, c in sections.items() if t != section}))


def retarget(triple, features):
    ex = build()
    ex.triple, ex.features = triple, features
    return ex.to_bytes()


def test_other_machines():
    other = "riscv64-unknown-linux-gnu"
    with pytest.raises(ExecutableError, match=f"it is compiled for {other}, this machine is"):
        Executable.from_bytes(retarget(other, ()))


@pytest.mark.skipif("x86_64" not in TRIPLE, reason="x86-64 features")
def test_other_processors(monkeypatch):
    monkeypatch.setattr("relax.runtime.cpu_features._flags", lambda: frozenset({"sse2", "avx"}))
    Executable.from_bytes(retarget(TRIPLE, ("sse2", "avx", "64bit", "some-tuning")))
    with pytest.raises(ExecutableError, match="uses instructions this processor does not have: avx2, avx512bf16$"):
        Executable.from_bytes(retarget(TRIPLE, ("avx", "avx2", "avx512bf16")))


def test_what_cannot_be_saved():
    ib = ExecBuilder()
    ib.convert_constant(frozenset([1]))
    with ib.function("main", 0):
        ib.emit_ret(0)
    with pytest.raises(ExecutableError, match="a constant of type frozenset cannot be saved"):
        ib.get().to_bytes()


def test_loading_unpickles_nothing(monkeypatch):
    """Neither Python's objects nor its code are in a file."""
    data = build().to_bytes()

    def forbidden(*args, **options):
        raise AssertionError("this could run code of the file's")

    for name in ("pickle.load", "pickle.loads", "pickle.Unpickler", "marshal.loads", "numpy.load", "builtins.eval",
                 "builtins.exec", "builtins.compile", "importlib.import_module"):  # fmt: skip
        monkeypatch.setattr(name, forbidden)
    before = set(sys.modules)
    executable = Executable.from_bytes(data)
    VirtualMachine(executable)
    monkeypatch.undo()
    assert set(sys.modules) == before
    assert executable.as_text() == build().as_text()
