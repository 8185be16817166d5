"""Loading object files: what LLVM emits runs; what is malformed is refused, whatever is wrong with it."""

from __future__ import annotations

import ctypes
import gc
import random
import struct

import llvmlite.binding as llvm
import numpy as np
import pytest
import tvm_ffi

from relax.runtime import machine_code, nd
from relax.runtime.elf import parse_object
from relax.runtime.linker import defined_symbols, link, plan_layout
from relax.runtime.native import ObjectFileError, host_machine, load_object, register_symbol

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()

X86_64, AARCH64 = machine_code.X86_64.elf_machine, machine_code.AARCH64.elf_machine
TRIPLES = {X86_64: "x86_64-unknown-linux-gnu", AARCH64: "aarch64-unknown-linux-gnu"}


def compile_ir(text, machine=None, reloc="pic", features="", opt=2, codemodel="small"):
    triple = TRIPLES[machine or host_machine()]
    target = llvm.Target.from_triple(triple).create_target_machine(
        opt=opt, reloc=reloc, codemodel=codemodel, features=features
    )
    module = llvm.parse_assembly(f'target triple = "{triple}"\n{text}')
    module.verify()
    return target.emit_object(module)


# A packed function that returns an integer: `body` computes %r from %a (the first argument) and so on.
PACKED = """
%any = type {{ i32, i32, i64 }}
declare void @TVMFFIErrorSetRaisedFromCStr(ptr, ptr)
{globals}
define i32 @{name}(ptr %self, ptr %args, i32 %n, ptr %ret) {{
  %p = getelementptr %any, ptr %args, i64 0, i32 2
  %a = load i64, ptr %p
{body}
  %t = getelementptr %any, ptr %ret, i64 0, i32 0
  store i32 1, ptr %t
  %v = getelementptr %any, ptr %ret, i64 0, i32 2
  store i64 %r, ptr %v
  ret i32 0
}}
"""


def packed(body, globals="", name="f"):
    return PACKED.format(body=body, globals=globals, name=name)


CASES = {
    "arithmetic": ("  %r = add i64 %a, 1", "", lambda a: a + 1),
    "constant table": (
        "  %i = and i64 %a, 3\n  %q = getelementptr [4 x i64], ptr @t, i64 0, i64 %i\n  %r = load i64, ptr %q",
        "@t = private constant [4 x i64] [i64 10, i64 20, i64 30, i64 40]",
        lambda a: (10, 20, 30, 40)[a & 3],
    ),
    "mutable global": (
        "  %o = load i64, ptr @g\n  %r = add i64 %o, %a\n  store i64 %r, ptr @g",
        "@g = global i64 5",
        lambda a: 5 + a,
    ),
    "zeroed memory": (
        "  store volatile i64 %a, ptr @z\n  %r = load volatile i64, ptr @z",
        "@z = internal global [1000 x i64] zeroinitializer",
        lambda a: a,
    ),
    "common symbol": ("  store i64 %a, ptr @c\n  %r = load i64, ptr @c", "@c = common global i64 0", lambda a: a),
    "function pointers": (
        "  %i = and i64 %a, 1\n  %q = getelementptr [2 x ptr], ptr @fs, i64 0, i64 %i\n"
        "  %fp = load ptr, ptr %q\n  %r = call i64 %fp(i64 %a)",
        "@fs = constant [2 x ptr] [ptr @one, ptr @two]\n"
        "define internal i64 @one(i64 %x) noinline { %y = mul i64 %x, 3\n ret i64 %y }\n"
        "define internal i64 @two(i64 %x) noinline { %y = mul i64 %x, 5\n ret i64 %y }",
        lambda a: a * (5 if a & 1 else 3),
    ),
    "call to libm": (
        "  %x = sitofp i64 %a to float\n  %e = call float @expf(float %x)\n  %r = fptosi float %e to i64",
        "declare float @expf(float)",
        lambda a: int(np.exp(np.float32(a))),
    ),
    "call to libc": (
        "  %m = alloca [64 x i8]\n  %d = call ptr @memset(ptr %m, i32 1, i64 64)\n"
        "  %l = load volatile i8, ptr %m\n  %w = zext i8 %l to i64\n  %r = add i64 %a, %w",
        "declare ptr @memset(ptr, i32, i64)",
        lambda a: a + 1,
    ),
    "address of an external": (
        "  store volatile ptr @sinf, ptr @slot\n  %f = load volatile ptr, ptr @slot\n"
        "  %c = icmp ne ptr %f, null\n  %z = zext i1 %c to i64\n  %r = add i64 %a, %z",
        "declare float @sinf(float)\n@slot = internal global ptr null",
        lambda a: a + 1,
    ),
    "weak external": (
        "  %c = icmp eq ptr @nobody_has_this, null\n  %z = zext i1 %c to i64\n  %r = add i64 %a, %z",
        "declare extern_weak void @nobody_has_this()",
        lambda a: a + 1,
    ),
    "jump table": (
        "  switch i64 %a, label %d [i64 0, label %x0 i64 1, label %x1 i64 2, label %x2 i64 3, label %x3\n"
        "    i64 4, label %x4 i64 5, label %x5]\n"
        "x0:\n br label %d\nx1:\n br label %d\nx2:\n br label %d\nx3:\n call void @side()\n br label %d\n"
        "x4:\n br label %d\nx5:\n call void @side()\n br label %d\n"
        "d:\n  %r = phi i64 [7, %0], [11, %x0], [-2, %x1], [33, %x2], [5, %x3], [9, %x4], [1, %x5]",
        "@s = internal global i64 0\ndefine internal void @side() noinline { store volatile i64 1, ptr @s\n ret void }",
        lambda a: {0: 11, 1: -2, 2: 33, 3: 5, 4: 9, 5: 1}.get(a, 7),
    ),
}


@pytest.mark.parametrize("reloc, codemodel", [("pic", "small"), ("static", "large")])
@pytest.mark.parametrize("case", CASES)
def test_what_llvm_emits_runs(case, reloc, codemodel):
    body, globals, expected = CASES[case]
    for a in (3, 4):
        f = load_object(compile_ir(packed(body, globals), reloc=reloc, codemodel=codemodel)).get_function("f")
        assert f(a) == expected(a)


@pytest.mark.skipif(host_machine() != X86_64, reason="x86-64 vectors")
@pytest.mark.parametrize("features", ["", "+avx2,+fma"])
def test_vector_constants_are_aligned(features):
    numbers = ", ".join(f"i32 {i * i}" for i in range(64))
    f = load_object(
        compile_ir(
            packed(
                "  %s = trunc i64 %a to i32\n  %v0 = insertelement <64 x i32> poison, i32 %s, i32 0\n"
                "  %vs = shufflevector <64 x i32> %v0, <64 x i32> poison, <64 x i32> zeroinitializer\n"
                f"  %m = mul <64 x i32> %vs, <{numbers}>\n"
                "  %sum = call i32 @llvm.vector.reduce.add.v64i32(<64 x i32> %m)\n  %r = sext i32 %sum to i64",
                "declare i32 @llvm.vector.reduce.add.v64i32(<64 x i32>)",
            ),
            features=features,
        )
    ).get_function("f")
    assert f(3) == 3 * sum(i * i for i in range(64))


def test_tensors_errors_and_several_functions():
    library = load_object(
        compile_ir(
            """
%any = type { i32, i32, i64 }
@kind = private constant [11 x i8] c"ValueError\\00"
@message = private constant [9 x i8] c"bad luck\\00"
declare void @TVMFFIErrorSetRaisedFromCStr(ptr, ptr)
define i32 @fails(ptr %self, ptr %args, i32 %n, ptr %ret) {
  call void @TVMFFIErrorSetRaisedFromCStr(ptr @kind, ptr @message)
  ret i32 -1
}
define i32 @doubles(ptr %self, ptr %args, i32 %n, ptr %ret) {
  %p = getelementptr %any, ptr %args, i64 0, i32 2
  %t = load ptr, ptr %p
  %dl = getelementptr i8, ptr %t, i64 24
  %d = load ptr, ptr %dl
  %x = load float, ptr %d
  %y = fadd float %x, %x
  store float %y, ptr %d
  ret i32 0
}
"""
        ),
        "kernels",
    )
    assert library.functions == ["doubles", "fails"]
    assert "doubles" in library
    assert "absent" not in library
    with pytest.raises(ValueError, match="^bad luck$"):
        library.get_function("fails")()
    x = nd.array(np.array([1.5], "float32"))
    assert library.get_function("doubles")(x) is None
    assert x.numpy().tolist() == [3.0]
    with pytest.raises(AttributeError, match="kernels defines no symbol nothing; it has doubles, fails"):
        library.get_function("nothing")


def test_a_function_keeps_its_library():
    f = load_object(compile_ir(packed(*CASES["constant table"][:2]))).get_function("f")
    gc.collect()
    assert [f(i) for i in range(4)] == [10, 20, 30, 40]
    kept = tvm_ffi.convert((f,))
    del f
    gc.collect()
    assert kept[0](2) == 30


def test_a_big_function():
    lines, last = [], "%a"
    for i in range(20_000):
        lines.append(f"  %x{i} = {('add', 'xor', 'mul')[i % 3]} i64 {last}, {i * 7 + 1}")
        last = f"%x{i}"
    f = load_object(compile_ir(packed("\n".join(lines) + f"\n  %r = add i64 {last}, 0"), opt=0)).get_function("f")
    value = 12345
    for i in range(20_000):
        value = (lambda v, k: (v + k, v ^ k, v * k)[i % 3])(value, i * 7 + 1) & (1 << 64) - 1
    assert f(12345) & (1 << 64) - 1 == value


def test_registered_symbols():
    callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda x: x * 10)
    register_symbol("relax_test_times_ten", ctypes.cast(callback, ctypes.c_void_p).value)
    ir = packed("  %r = call i64 @relax_test_times_ten(i64 %a)", "declare i64 @relax_test_times_ten(i64)")
    assert load_object(compile_ir(ir)).get_function("f")(4) == 40


def test_missing_symbols_are_named_all_at_once():
    ir = packed(
        "  %b = call i64 @relax_no_such_a(i64 %a)\n  %r = call i64 @relax_no_such_b(i64 %b)",
        "declare i64 @relax_no_such_a(i64)\ndeclare i64 @relax_no_such_b(i64)",
    )
    with pytest.raises(
        ObjectFileError, match="^cannot load k: it needs symbols nobody here defines: relax_no_such_a, relax_no_such_b$"
    ):
        load_object(compile_ir(ir), "k")


def test_code_is_not_writable_and_data_not_executable():
    body, globals, _ = CASES["mutable global"]
    library = load_object(compile_ir(packed(body, globals)))
    protections = {}
    with open("/proc/self/maps") as maps:
        for line in maps:
            low, high = (int(x, 16) for x in line.split()[0].split("-"))
            for symbol in ("f", "g"):
                if low <= library.address(symbol) < high:
                    protections[symbol] = line.split()[1]
    assert protections == {"f": "r-xp", "g": "rw-p"}


# ------------------------------------------------------------------------------------- other machines


def words(image, offset, count):
    return struct.unpack_from(f"<{count}I", image, offset)


def test_foreign_machine():
    other = AARCH64 if host_machine() == X86_64 else X86_64
    with pytest.raises(ObjectFileError, match="it is for .*, this machine is "):
        load_object(compile_ir(packed("  %r = add i64 %a, 1"), machine=other))


def test_aarch64_relocations():
    """Linked for a made-up address; the patched instructions are decoded here by the architecture's rules."""
    text = """
@g = internal global i64 5
@far = external global i64
declare i64 @callee(i64)
define internal i64 @local(i64 %x) noinline { %v = load volatile i64, ptr @g
  %r = add i64 %x, %v
  ret i64 %r }
define i64 @h(i64 %x) {
  %a = call i64 @callee(i64 %x)
  %b = call i64 @local(i64 %a)
  %c = load i64, ptr @far
  %d = add i64 %b, %c
  ret i64 %d
}
"""
    obj = parse_object(compile_ir(text, AARCH64))
    layout = plan_layout(obj)
    base, external = 0x7F12_3450_0000, {"callee": 0x1234_5678_9ABC, "far": 0x7000_0000_1238}
    image = bytearray(layout.size)
    link(obj, layout, image, base, external)
    names = {s.name: i for i, s in enumerate(obj.symbols)}
    stub, entry = layout.stubs[names["callee"]], layout.addresses[names["far"]]
    assert struct.unpack_from("<Q", image, stub + 8)[0] == external["callee"]
    assert struct.unpack_from("<Q", image, entry)[0] == external["far"]
    start = defined_symbols(obj, layout)["h"][0]
    code = words(image, start, 40)
    calls = [
        base + start + 4 * i + 4 * ((w & 0x3FFFFFF) - ((w & 0x2000000) << 1))
        for i, w in enumerate(code)
        if w >> 26 == 0b100101
    ]
    section = obj.symbols[names["local"]]
    local = base + layout.sections[section.section] + section.value
    assert calls[:2] == [base + stub, local]
    adrp = next(i for i, w in enumerate(code) if w & 0x9F000000 == 0x90000000)
    immediate = ((code[adrp] >> 5 & 0x7FFFF) << 2) | (code[adrp] >> 29 & 3)
    page = (base + start + 4 * adrp >> 12) + (immediate - ((immediate & 1 << 20) << 1)) << 12
    load = next(w for w in code[adrp:] if w & 0xFFC00000 == 0xF9400000)
    assert page + ((load >> 10 & 0xFFF) << 3) == base + entry


# ------------------------------------------------------------------------------------- malformed files


def good_object():
    return compile_ir(packed(*CASES["function pointers"][:2]))


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "it is truncated: 0 bytes are less than an ELF header"),
        (b"hello" * 100, "it is no ELF file"),
        (b"\x7fELF\x01\x01" + bytes(100), "it is no 64-bit little-endian ELF file"),
    ],
)
def test_no_object(data, message):
    with pytest.raises(ObjectFileError, match=f"^cannot load x: {message}"):
        load_object(data, "x")


def test_a_shared_library_is_refused():
    with pytest.raises(ObjectFileError, match="it is no relocatable object"):
        load_object(open(tvm_ffi.libinfo.find_libtvm_ffi(), "rb").read())


def test_truncated_anywhere():
    data = good_object()
    for end in range(0, len(data) - 1, 7):
        with pytest.raises(ObjectFileError):
            load_object(data[:end])


def test_corrupted_anywhere_never_crashes():
    """Linking must stay inside the image whatever the file says; only its own error may come out."""
    data = good_object()
    rng = random.Random(1)
    refused = 0
    for _ in range(4000):
        broken = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 8))):
            broken[rng.randrange(len(broken))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        try:
            obj = parse_object(bytes(broken))
            layout = plan_layout(obj)
            if layout.size < 1 << 24:
                link(obj, layout, bytearray(layout.size), 0x7F00_0000_0000, {})
        except ObjectFileError:
            refused += 1
    assert refused > 100


def test_thread_local_data_is_refused():
    ir = packed(
        "  %q = call ptr @llvm.threadlocal.address.p0(ptr @t)\n  %r = load i64, ptr %q",
        "@t = internal thread_local global i64 7\ndeclare nonnull ptr @llvm.threadlocal.address.p0(ptr nonnull)",
    )
    with pytest.raises(ObjectFileError, match="thread-local"):
        load_object(compile_ir(ir))
