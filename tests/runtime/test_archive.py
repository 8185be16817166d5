"""Archives of kernels: what is in one runs under its names; what is malformed is refused, whatever is wrong with it."""

from __future__ import annotations

import random

import llvmlite.binding as llvm
import pytest

from relax.runtime.archive import MAGIC, Archive, Unit, read_archive, write_archive
from relax.runtime.combine import combine
from relax.runtime.elf import SHN_UNDEF, STB_GLOBAL
from relax.runtime.linker import link, plan_layout
from relax.runtime.native import ObjectFileError, load_object

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()


def compile_ir(text):
    triple = llvm.get_default_triple()
    target = llvm.Target.from_triple(triple).create_target_machine(reloc="pic", codemodel="small")
    return target.emit_object(llvm.parse_assembly(f'target triple = "{triple}"\n{text}'))


SUPPORT = compile_ir("""
@relax.calls = hidden global i64 0
declare void @TVMFFIErrorSetRaisedFromCStr(ptr, ptr)
define hidden void @relax.fail(ptr %kind) {
  %n = load i64, ptr @relax.calls
  %m = add i64 %n, 1
  store i64 %m, ptr @relax.calls
  %text = getelementptr i8, ptr %kind, i64 11
  call void @TVMFFIErrorSetRaisedFromCStr(ptr %kind, ptr %text)
  ret void
}
""")

KERNEL = compile_ir("""
@relax.messages = external hidden constant i8
@state = internal global i64 0
declare hidden void @relax.fail(ptr)
define i32 @relax.function.0(ptr %self, ptr %args, i32 %n, ptr %ret) {
  call void @relax.fail(ptr @relax.messages)
  ret i32 -1
}
define i32 @relax.function.1(ptr %self, ptr %args, i32 %n, ptr %ret) {
  %old = load i64, ptr @state
  %new = add i64 %old, 1
  store i64 %new, ptr @state
  store i32 1, ptr %ret
  %at = getelementptr i8, ptr %ret, i64 8
  store i64 %new, ptr %at
  ret i32 0
}
""")

UNITS = [
    (SUPPORT, (), ()),
    (KERNEL, ("a", "a.count"), ("ValueError", "of a")),
    (KERNEL, ("größe", "count"), ("ValueError", "of größe")),
]


def test_units_of_one_object():
    """An object is kept once; each unit has its own names, messages and memory."""
    data = write_archive(UNITS)
    assert len(read_archive(data).objects) == 2
    library = load_object(data)
    assert library.functions == ["__tvm_ffi_a", "__tvm_ffi_a.count", "__tvm_ffi_count", "__tvm_ffi_größe"]
    for name in ("a", "größe"):
        with pytest.raises(ValueError, match=f"^of {name}$"):
            library.get_function(name)()
    assert [library.get_function("a.count")() for _ in range(3)] == [1, 2, 3]
    assert library.get_function("count")() == 1


def test_what_units_share_is_not_seen_outside():
    library = load_object(write_archive(UNITS))
    for symbol in ("relax.fail", "relax.calls", "relax.messages", "relax.function.0", "state"):
        assert symbol not in library


def test_units_without_end_have_room():
    """More sections than an object file has numbers for."""
    units = [(KERNEL, (f"f{i}", f"g{i}"), ("ValueError", f"of {i}")) for i in range(300)]
    library = load_object(write_archive([UNITS[0], *units]))
    with pytest.raises(ValueError, match="^of 299$"):
        library.get_function("f299")()
    assert library.get_function("g150")() == 1


# ------------------------------------------------------------------------------------- malformed archives


def refused(units, message):
    with pytest.raises(ObjectFileError, match=f"^cannot load x: {message}"):
        load_object(write_archive(units), "x")


def archive_of(objects, units):
    """An archive as its table says, right or wrong."""
    data = bytearray(MAGIC)
    numbers = [len(objects)]
    for value in numbers:
        data += _uint(value)
    for contents in objects:
        data += _uint(len(contents)) + contents
    data += _uint(len(units))
    for index, names, messages in units:
        data += _uint(index)
        for texts in (names, messages):
            data += _uint(len(texts)) + b"".join(_uint(len(t)) + t for t in texts)
    return bytes(data)


def _uint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


GOOD = ([SUPPORT, KERNEL], [(0, (), ()), (1, (b"a", b"b"), (b"ValueError", b"text"))])


def test_the_table_by_hand():
    assert archive_of(*GOOD) == write_archive([UNITS[0], (KERNEL, ("a", "b"), ("ValueError", "text"))])


@pytest.mark.parametrize(
    "objects, units, message",
    [
        ([SUPPORT], [(1, (), ())], "a unit is made of object 1 of 1"),
        ([SUPPORT], [(1 << 40, (), ())], "a unit is made of object 1099511627776 of 1"),
        ([], [], "it has no objects"),
        ([SUPPORT, KERNEL], [(0, (), ()), (1, (b"a", b"a"), ())], "two kernels are called a"),
        ([SUPPORT, KERNEL], [(0, (), ()), (1, (b"a", b"b"), ()), (1, (b"c", b"a"), ())], "two kernels are called a"),
        ([SUPPORT, KERNEL], [(0, (), ()), (1, (b"a", b"b", b"c"), ())], "object 1 does not define all of .*: c"),
        ([SUPPORT, KERNEL], [(0, (), ()), (0, (), ())], "two units define relax.(calls|fail)"),
        ([SUPPORT, KERNEL], [(0, (), ()), (1, (), ()), (1, (), ())], "two units define relax.function.0"),
        ([KERNEL], [(0, (b"a", b"b"), ())], "it needs symbols nobody here defines: relax.fail"),
        ([SUPPORT, KERNEL], [(0, (), ()), (1, (b"a", b"b"), (b"a\0b",))], "a message contains a zero byte"),
        ([SUPPORT, KERNEL], [(0, (), ()), (1, (b"\xff", b"b"), ())], "section NATV is malformed at byte .*UTF-8"),
        ([SUPPORT, KERNEL[:-1]], GOOD[1], "it is truncated: the section table ends at"),
        ([SUPPORT, b"hello" * 100], GOOD[1], "it is no ELF file"),
        ([SUPPORT, b""], GOOD[1], "it is truncated"),
    ],
)  # fmt: skip
def test_wrong_tables(objects, units, message):
    with pytest.raises(ObjectFileError, match=f"^cannot load x: {message}"):
        load_object(archive_of(objects, units), "x")


def test_a_kernel_that_is_no_function():
    data = compile_ir("@relax.function.0 = global i64 7")
    refused([(data, ("f",), ())], "the kernel f is no function")
    common = compile_ir("@relax.function.0 = common global i64 0")
    refused([(common, ("f",), ())], "the kernel f is no function")
    absolute = compile_ir("@relax.function.0 = extern_weak global i64\n@f = global ptr @relax.function.0")
    refused([(absolute, ("f",), ())], "object 0 does not define all of its kernels: f")


def test_more_than_is_there():
    """A short table that asks for much memory."""
    huge = MAGIC + _uint(1) + _uint(1 << 62)
    for data in (huge, MAGIC + _uint(1 << 62), MAGIC + b"\xff" * 20):
        with pytest.raises(ObjectFileError, match="section NATV is malformed"):
            load_object(data)
    units = [(1, (), ())] * ((1 << 28) // len(KERNEL) + 1)
    with pytest.raises(ObjectFileError, match="its units are made of .* bytes of objects, more than"):
        load_object(archive_of([SUPPORT, KERNEL], units))


def test_truncated_anywhere():
    data = write_archive(UNITS)
    for end in range(len(MAGIC), len(data), 5):
        with pytest.raises(ObjectFileError):
            load_object(data[:end])
    with pytest.raises(ObjectFileError, match="section NATV is malformed .*: 1 bytes are left over"):
        load_object(data + b"x")


def test_corrupted_anywhere_never_crashes():
    """Linking stays inside the image whatever the archive says; only the loader's own error comes out."""
    data = write_archive(UNITS)
    rng = random.Random(2)
    refusals = 0
    for _ in range(1500):
        broken = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 8))):
            broken[rng.randrange(len(MAGIC), len(broken))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        try:
            obj = combine(read_archive(bytes(broken)), "")
            layout = plan_layout(obj)
            if layout.size < 1 << 24:
                link(obj, layout, bytearray(layout.size), 0x7F00_0000_0000, {"TVMFFIErrorSetRaisedFromCStr": 1})
        except ObjectFileError:
            refusals += 1
    assert refusals > 100


def test_symbols_found_in_other_units_are_not_asked_for():
    obj = combine(Archive((SUPPORT, KERNEL), (Unit(0), Unit(1, ("f", "g"), ("k", "t")))), "p.")
    used = {r.symbol for group in obj.relocations.values() for r in group}
    wanted = {obj.symbols[i].name for i in used if obj.symbols[i].section == SHN_UNDEF}
    assert wanted == {"TVMFFIErrorSetRaisedFromCStr"}
    assert {s.name for s in obj.symbols if s.binding == STB_GLOBAL and s.section} == {"p.f", "p.g"}


def test_a_weak_definition_gives_way_to_another_in_its_own_unit_too():
    asking = compile_ir("""
define weak hidden i64 @relax.answer() {
  ret i64 1
}
define i32 @relax.function.0(ptr %self, ptr %args, i32 %n, ptr %ret) {
  %answer = call i64 @relax.answer()
  store i32 1, ptr %ret
  %at = getelementptr i8, ptr %ret, i64 8
  store i64 %answer, ptr %at
  ret i32 0
}
""")
    answering = compile_ir("define hidden i64 @relax.answer() {\n  ret i64 2\n}")
    asked = asking, ("ask",), ()
    for units, answer in (([asked], 1), ([asked, (answering, (), ())], 2), ([(answering, (), ()), asked], 2)):
        assert load_object(write_archive(units)).get_function("__tvm_ffi_ask")() == answer
