"""Architectures as values: LLVM and the C headers confirm the facts, all fields are read, and nobody compares names."""

from __future__ import annotations

import ast
import ctypes
import dataclasses
import functools
import platform
import re
import sys
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

import relax
from relax.codegen import explain, resolve, support_texts
from relax.codegen.dot_products import _instruction
from relax.codegen.support_texts import pool_text
from relax.farm import host, worker
from relax.farm.objects import machine_of
from relax.ir import DiagnosticError
from relax.native.ffi_layouts import POINTER_BITS
from relax.runtime import ExecutableError, machine_code
from relax.script import from_source
from relax.target import Machine, Target
from relax.target.c_structs import STRUCTS
from relax.target.isa import ISA, ISAS, RISCV64, WASM32, X86_64, description, isa_of
from relax.target.isa.products import DOTS, TILES, Dot, kind_of

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()

SOURCE = Path(relax.__file__).parent
ABOUT_ARCHITECTURES = (SOURCE / "target" / "isa", SOURCE / "runtime" / "machine_code.py")
"""The only places where the name of an architecture stands in code."""

RISCV = "llvm -mtriple=riscv64-linux-gnu -mattr=+m,+a,+f,+d,+c,+v"
ARM64 = "llvm -mtriple=arm64-linux-gnu -mcpu=neoverse-n2"


def triple_of(isa: ISA) -> str:
    return f"{isa.name}-unknown-{'unknown' if isa is WASM32 else 'linux-gnu'}"


def machine_for(isa: ISA, features: str):
    target = llvm.Target.from_triple(triple_of(isa)).create_target_machine(features=features, opt=3)
    target.set_asm_verbosity(True)
    return target


def assembly(isa: ISA, text: str, features: str = "") -> str:
    module = llvm.parse_assembly(f'target triple = "{triple_of(isa)}"\n{text}')
    return machine_for(isa, features).emit_assembly(module)


def called(isa: ISA, result: str, name: str, arguments: str, features: str) -> str:
    """The assembly of a function that hands its arguments on to an intrinsic."""
    types = [part.strip() for part in re.split(r",\s*(?![^<]*>)", arguments)]
    given = ", ".join(f"{type_} %a{i}" for i, type_ in enumerate(types))
    value, end = ("%r = ", f"ret {result} %r") if result != "void" else ("", "ret void")
    return assembly(
        isa,
        f"""declare {result} @{name}({arguments})
define {result} @f({given}) {{
  {value}call {result} @{name}({given})
  {end}
}}""",
        features,
    )


# ------------------------------------------------------------------------------ names


def test_names_of_architectures():
    assert [isa.name for isa in ISAS] == ["aarch64", "riscv64", "wasm32", "x86_64"]
    for isa in ISAS:
        assert all(isa_of(f"{name}-unknown-linux-gnu") is isa for name in isa.names)
    names = [name for isa in ISAS for name in isa.names]
    assert len(names) == len(set(names))
    assert Target("llvm").with_machine(Machine("amd64-linux-gnu", "", "")).isa is X86_64


def test_an_architecture_that_is_not_described_has_nothing():
    other = isa_of("loongarch64-linux-gnu")
    assert (other.names, other.pointer_bits) == (("loongarch64",), 64)
    assert (other.vectors, other.dots, other.tiles, other.pool, other.machine_code) == ((), (), None, None, None)
    assert other.widest == 0
    assert other.dot("u8s8") is None
    machine = Machine("loongarch64-linux-gnu", "", "")
    assert not machine.multiplies_tiles("u8s8")


def test_the_runtime_and_the_compiler_call_an_architecture_the_same():
    loaded = [isa for isa in ISAS if isa.machine_code is not None]
    assert {isa.machine_code.elf_machine for isa in loaded} == set(machine_code.ARCHITECTURES)
    for isa in loaded:
        assert set(isa.names) == set(isa.machine_code.names)
        assert all(machine_code.architecture_named(name.upper()) is isa.machine_code for name in isa.names)
        data = bytes(machine_for(isa, "").emit_object(llvm.parse_assembly(f'target triple = "{triple_of(isa)}"')))
        assert int.from_bytes(data[18:20], "little") == isa.machine_code.elf_machine
    assert machine_code.architecture_named("riscv64") is None
    assert machine_code.title(243) == "RISC-V"
    assert machine_code.title(258) == "another machine"


# ------------------------------------------------------------------------------ facts, as LLVM sees them

ADD = """define void @add(ptr %a) "prefer-vector-width"="512" {
  %x = load <16 x float>, ptr %a
  %y = fadd <16 x float> %x, %x
  store <16 x float> %y, ptr %a
  ret void
}"""


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
def test_vector_registers_are_those_of_the_feature(isa):
    assert [one.bits for one in isa.vectors] == sorted((one.bits for one in isa.vectors), reverse=True)
    assert isa.widest == isa.vectors[0].bits
    for vectors in isa.vectors:
        text = assembly(isa, ADD, vectors.features)
        shown = next(one for one in isa.vectors if re.search(one.pattern, text))
        assert shown is vectors


def test_risc_v_without_vectors_has_none_of_these_registers():
    for isa in (RISCV64, WASM32):
        text = assembly(isa, ADD)
        assert not any(re.search(vectors.pattern, text) for vectors in isa.vectors)


@pytest.mark.parametrize("features, bits", [("", 128), ("+v", 128), ("+v,+zvl256b", 256), ("+v,+zvl512b", 512)])
def test_the_vectors_of_risc_v(features, bits):
    machine = host.probe("riscv64-linux-gnu", "", features)
    assert (machine.vector_bits, machine.vector_registers, machine.fma) == (bits, 32, "+v" in features)
    assert (machine.dot_products, machine.tiles, machine.isa) == (frozenset(), frozenset(), RISCV64)


PRODUCT = """declare float @llvm.fmuladd.f32(float, float, float)
define float @f(float %x, float %y, float %z) {
  %r = call float @llvm.fmuladd.f32(float %x, float %y, float %z)
  ret float %r
}"""


@pytest.mark.parametrize(
    "isa, features",
    list(zip(ISAS, ("", "+f", "+simd128,+relaxed-simd", "+fma"), strict=True)),
    ids=lambda value: value.name if isinstance(value, ISA) else value,
)
def test_fused_multiply_add(isa, features):
    text = assembly(isa, PRODUCT, features)
    if isa.fma is None:
        assert "f32.mul" in text
        assert "f32.add" in text
    else:
        assert len(re.findall(isa.fma, text)) == 1


DOT_FEATURES = {
    "vpdpbusd": "+avx512vnni,+avx512vl",
    "vpmaddubsw": "+avx512bw,+avx512vl",
    "vpdpbssd": "+avx10.2",
    "vpdpbuud": "+avx10.2",
    "vdpbf16ps": "+avx512bf16,+avx512vl",
    "usdot": "+dotprod,+i8mm",
    "sdot": "+dotprod",
    "udot": "+dotprod",
    "bfdot": "+bf16",
}


@pytest.mark.parametrize(
    "isa, instruction, bits",
    [(isa, dot, bits) for isa in ISAS for dot in isa.dots for bits in dot.intrinsics],
    ids=lambda value: getattr(value, "mnemonic", getattr(value, "name", value)),
)
def test_an_intrinsic_is_the_instruction(isa, instruction, bits):
    dot = instruction.dot
    sums = f"<{bits // 32} x {'float' if dot.sums == 'float32' else 'i32'}>"
    narrow = "bfloat" if dot.left == "bfloat16" else "i8"
    words = f"<{bits // 32 * dot.group} x {narrow}>"
    arguments = f"{sums}, {words}, {words}"
    if instruction.pairs:  # sums of two products, as int16
        sums, arguments = f"<{bits // 16} x i16>", f"{words}, {words}"
    text = called(isa, sums, instruction.intrinsics[bits], arguments, DOT_FEATURES[instruction.mnemonic])
    assert re.search(rf"\b{instruction.mnemonic}\b", text)
    probed = host.probe(triple_of(isa), "", DOT_FEATURES[instruction.mnemonic])
    if instruction.mnemonic not in ("vpdpbssd", "vpdpbuud"):  # LLVM does not find these in sums of products
        assert kind_of(dot) in probed.dot_products
    assert isa.dot(kind_of(dot)) is instruction


def test_code_takes_the_instruction_of_the_machines_vectors():
    wide = host.probe("x86_64-unknown-linux-gnu", "cooperlake", "")
    assert _instruction("u8s8", wide, 16) == "llvm.x86.avx512.vpdpbusd.512"
    assert _instruction("u8s8", wide, 32) is None
    assert _instruction("s8s8", wide, 16) is None  # the processor has no such instruction
    assert _instruction("s16s16", wide, 16) is None
    half = dataclasses.replace(wide, vector_bits=256)
    assert _instruction("bf16", half, 8) == "llvm.x86.avx512bf16.dpbf16ps.256"
    assert _instruction("bf16", half, 16) is None


def test_an_alias_of_an_architecture_has_its_instructions():
    machine = resolve(ARM64).machine
    assert _instruction("s8s8", machine, 4) == "llvm.aarch64.neon.sdot.v4i32.v16i8"
    assert "@syscall" in pool_text(machine.triple)


def test_tile_registers_are_those_of_amx():
    tiles = X86_64.tiles
    assert tiles.prefix == machine_code.X86_64.tiles.prefix
    assert set(tiles.products) == set(TILES)
    assert all(product.dot == TILES[kind] for kind, product in tiles.products.items())
    features = {tiles.feature, *(product.feature for product in tiles.products.values())}
    enabled = ",".join(f"+{tiles.prefix}{name}" for name in sorted(features))
    assert host.probe("x86_64-unknown-linux-gnu", "", enabled).tiles == features - {tiles.feature}
    text = f"""declare void @{tiles.configure}(ptr)
declare void @{tiles.release}()
declare void @{tiles.load}(i8, ptr, i64)
declare void @{tiles.store}(i8, ptr, i64)
define void @f(ptr %c, i64 %d) {{
  call void @{tiles.configure}(ptr %c)
  call void @{tiles.load}(i8 1, ptr %c, i64 %d)
  call void @{tiles.store}(i8 1, ptr %c, i64 %d)
  call void @{tiles.release}()
  ret void
}}"""
    code = assembly(X86_64, text, enabled)
    assert all(word in code for word in ("ldtilecfg", "tileloadd", "tilestored", "tilerelease"))
    for product in tiles.products.values():
        call = f"call void @{product.intrinsic}(i8 0, i8 1, i8 2)"
        text = f"declare void @{product.intrinsic}(i8, i8, i8)\ndefine void @f() {{\n  {call}\n  ret void\n}}"
        assert product.intrinsic.rpartition(".")[2] in assembly(X86_64, text, enabled)


def test_instructions_for_functions():
    math, features = X86_64.math, "+avx512f,+avx512vl,+avx512bf16"
    of_lanes, indices = "<16 x float>", "<16 x i32>"
    assert math.bits == 32 * 16
    assert "vpermps" in called(X86_64, of_lanes, math.permute, f"{of_lanes}, {indices}", features)
    two = f"{of_lanes}, {indices}, {of_lanes}"
    assert re.search("vperm[it]2ps", called(X86_64, of_lanes, math.permute_two, two, features))
    text = f"""declare {of_lanes} @{math.scale}({of_lanes}, {of_lanes}, {of_lanes}, i16, i32)
define {of_lanes} @f({of_lanes} %x, {of_lanes} %n) {{
  %r = call {of_lanes} @{math.scale}({of_lanes} %x, {of_lanes} %n, {of_lanes} zeroinitializer, i16 -1, i32 4)
  ret {of_lanes} %r
}}"""
    assert "vscalefps" in assembly(X86_64, text, features)
    rounding = X86_64.bfloat_rounding
    for lanes in (8, 16):
        assert 32 * lanes <= rounding.bits
        narrow = f"<{lanes} x bfloat>"
        assert "vcvtneps2bf16" in called(X86_64, narrow, rounding.of(lanes), f"<{lanes} x float>", features)


@pytest.mark.parametrize("isa", [isa for isa in ISAS if isa.comment is not None], ids=lambda isa: isa.name)
def test_comments_of_assembly(isa):
    assert re.search(rf"{isa.comment} -- Begin function f", assembly(isa, "define void @f() {\n  ret void\n}"))


def test_the_width_of_pointers():
    for isa in ISAS:
        layout = machine_for(isa, "").target_data
        type_ = "{ ptr, i32, i32, i32, i32, ptr, ptr, i64 }"
        module = llvm.parse_assembly(f'target triple = "{triple_of(isa)}"\n@t = global {type_} zeroinitializer')
        tensor = module.get_global_variable("t").global_value_type
        offsets = STRUCTS["DLTensor"].layout(isa.pointer_bits).offsets
        fields = [offset for name, offset in offsets.items() if name != "code"]
        assert fields == [layout.get_element_offset(tensor, field) for field in range(len(fields))]
        assert fields[1] == isa.pointer_bits // 8  # behind the first field, an address
    assert resolve("llvm").machine.pointer_bits == POINTER_BITS


@pytest.mark.skipif(sys.platform != "linux", reason="numbers of system calls of Linux")
def test_numbers_of_system_calls():
    isa = isa_of(platform.machine())
    if isa.pool is None:
        pytest.skip("no pool on this architecture")
    call = ctypes.CDLL(None, use_errno=True).syscall
    assert call(isa.pool.sched_yield) == 0
    word, wake = ctypes.c_int32(0), 129
    assert call(isa.pool.futex, ctypes.byref(word), ctypes.c_long(wake), ctypes.c_long(1)) == 0  # nobody waits


@pytest.mark.parametrize("isa", [isa for isa in ISAS if isa.pool is not None], ids=lambda isa: isa.name)
def test_the_pools_parts_are_instructions(isa):
    """A clock, a pause and the control register, in a pool that LLVM compiles."""
    text = assembly(isa, pool_text(triple_of(isa)))
    words = {"x86_64": ("rdtsc", "pause", "stmxcsr"), "aarch64": ("CNTVCT_EL0", "yield", "FPCR")}
    assert all(word in text for word in words[isa.name])


# ------------------------------------------------------------------------------ meaning


@pytest.mark.parametrize("kind", sorted({*DOTS, *TILES}))
def test_the_meaning_of_a_dot_product(kind):
    dot = {**DOTS, **TILES}[kind]
    assert kind_of(dot) == kind
    generator = np.random.default_rng(0)
    dtype = {"bfloat16": "float32"}.get(dot.left, dot.left)
    left = generator.integers(-100 if dot.left[0] != "u" else 0, 100, dot.group).astype(dtype)
    right = generator.integers(-100 if dot.right[0] != "u" else 0, 100, dot.group).astype(
        {"bfloat16": "float32"}.get(dot.right, dot.right)
    )

    def word(numbers, dtype):
        return numbers.astype(relax.ir.DataType(dtype).numpy()).view(np.int32)[0]

    expected = 7 + int((left.astype("int64") * right.astype("int64")).sum())
    assert dot.value(7, word(left, dot.left), word(right, dot.right)) == expected
    assert kind_of(Dot("int8", "int16")) == ""


# ------------------------------------------------------------------------------ what is not supported


@pytest.fixture(scope="module")
def on_risc_v():
    func = from_source("""@R.function
def main(x: R.Tensor((8192,), "float32")):
    with R.dataflow():
        y = R.nn.relu(R.exp(x))
        R.output(y)
    return y
""")
    return relax.build(func, RISCV)


def test_code_for_an_architecture_without_loader_is_written(on_risc_v):
    assert on_risc_v.triple.startswith("riscv64")
    with pytest.raises(ValueError, match="it is for RISC-V, this machine is "):
        relax.VirtualMachine(on_risc_v, relax.cpu())


def test_such_code_is_not_loaded(on_risc_v, tmp_path):
    on_risc_v.save(tmp_path / "program")
    with pytest.raises(ExecutableError, match="it is compiled for riscv64-linux-gnu, this machine is"):
        relax.runtime.load_executable(tmp_path / "program")


def test_kernels_in_vectors_of_risc_v():
    func = from_source("""@T.prim_func
def f(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
    for i in range(1024):
        with T.block("B"):
            v = T.axis.spatial(1024, i)
            B[v] = A[v] * A[v]
""")
    [report] = explain(func, RISCV).loops
    assert "vfmul.vv" in report.main.assembly


def test_parallel_loops_without_a_pool_run_on_the_calling_thread():
    assert "@syscall" not in pool_text("riscv64-unknown-linux-gnu")
    machine = machine_of(resolve(RISCV))
    assert worker.emit_object(f'target triple = "{machine.triple}"\n{pool_text(machine.triple)}', machine)


def test_tiles_without_tile_registers():
    func = from_source("""@T.prim_func
def f(A: T.Buffer((512,), "int32"), B: T.Buffer((512,), "int32"), C: T.Buffer((1024,), "int32")):
    T.tile_dot_u8s8(T.address_of(C[0]), 32, T.address_of(A[0]), 16, T.address_of(B[0]), 32, 32, 32, 1)
""")
    with pytest.raises(DiagnosticError, match="the architecture of the target has no instruction for them"):
        explain(func, RISCV)
    with pytest.raises(DiagnosticError, match=r"-mattr=\+amx-tile,\+amx-int8"):
        explain(func, "llvm -mtriple=x86_64-unknown-linux-gnu")


def test_pointers_of_32_bits_are_rejected():
    assert Machine("wasm32-unknown-unknown", "", "").pointer_bits == 32
    message = "target triple 'wasm32-unknown-unknown': only 64-bit little-endian machines are supported"
    with pytest.raises(ValueError, match=message):
        resolve("llvm -mtriple=wasm32-unknown-unknown")


# ------------------------------------------------------------------------------ the sources


@functools.cache
def texts():
    """The texts of the files outside of the places about architectures, by path."""
    paths = (path for path in sorted(SOURCE.rglob("*.py")) if not {path, *path.parents} & {*ABOUT_ARCHITECTURES})
    return {path: path.read_text(encoding="utf-8") for path in paths}


def sources(pattern):
    """Those of the files whose text matches, parsed: to parse all of them takes seconds."""
    return ((path, ast.parse(text)) for path, text in texts().items() if re.search(pattern, text))


def docstrings(tree):
    """The constants that are statements, hence prose."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


NAMES = sorted({*(name for isa in ISAS for name in isa.names), "x86", "i386", "i686", "riscv", "riscv32", "wasm"})
PROSE = ("ir/tvm_names/", "farm/_generator.py")
"""Texts about TVM, whose modules have such names, and a list of files."""
OF_LLVM = {"worker.py": r"@llvm\.x86\."}
"""Intrinsics in a file that helper processes run by its path, so that it imports nothing of relax."""


def test_no_other_file_has_the_name_of_an_architecture():
    named = []
    for path, tree in sources(rf"(?i)\b({'|'.join(NAMES)})\b"):
        place = path.relative_to(SOURCE).as_posix()
        if place.startswith(PROSE):
            continue
        prose = docstrings(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
                text = re.sub(OF_LLVM.get(path.name, "(?!)"), "", node.value)
                if re.search(rf"\b({'|'.join(NAMES)})\b", text.lower()):
                    named.append(f"{place}:{node.lineno}: {node.value[:60]!r}")
    assert not named


def test_no_other_file_compares_architectures():
    """Neither by `isa is X86_64`, nor by `isa.name`, nor by the beginning of a triple."""
    constants = {isa.name.upper() for isa in ISAS}
    found = []
    for path, tree in sources(rf"\b({'|'.join(constants)})\b|\bisa\s*\.\s*name|\btriple\s*\.\s*startswith"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                named = {getattr(side, "id", getattr(side, "attr", "")) for side in sides}
                by_name = any(
                    isinstance(side, ast.Attribute) and side.attr == "name" and _is(side.value, "isa") for side in sides
                )
                wrong = bool(named & constants) or by_name
            else:
                is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                wrong = is_call and node.func.attr == "startswith" and _is(node.func.value, "triple")
            if wrong:
                found.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert not found


def _is(node, name):
    return getattr(node, "id", getattr(node, "attr", "")) == name


def test_every_field_is_read():
    """Outside of the descriptions themselves. (Names are read by `isa_of` and `architecture_named`, which stand there.)"""
    classes = [
        value
        for module in (description, machine_code)
        for value in vars(module).values()
        if isinstance(value, type) and dataclasses.is_dataclass(value) and value.__module__ == module.__name__
    ]
    assert len(classes) >= 12
    fields = [(cls.__name__, field.name) for cls in classes for field in dataclasses.fields(cls)]
    unread = {name for _, name in fields}
    for text in texts().values():
        if unread and re.search(rf"\.({'|'.join(unread)})\b", text):
            unread -= {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}
    assert {field for field in fields if field[1] in unread} <= {("ISA", "aliases"), ("Architecture", "names")}


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
def test_support_code_is_written_for_the_width_of_pointers(isa):
    """Sizes of C are as wide as a pointer, and so are the fields that hold addresses."""
    for write in (support_texts.support_text, support_texts.cells_text, support_texts.library_text):
        text = write(triple_of(isa))
        assert assembly(isa, text)
        assert f"declare i{isa.pointer_bits} @strlen(ptr)" in text
        assert re.search(rf"load ptr, ptr %v\d+, align {isa.pointer_bits // 8}\n", text)
