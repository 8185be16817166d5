"""Executables as shared libraries, which C, C++ and Rust programs call without Python.

    Executable.export_library("model.so")

The library has the kernels, the compiled functions, their support code and the file that ``Executable.save`` writes,
from which it reads its constants, and from which `relax.runtime.load_module` makes the executable again. Each entry
point is a function of tvm-ffi's C ABI:

    int __tvm_ffi_main(void *self, const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result)

so that ``tvm::ffi::Module::LoadFromFile`` finds it. Packed functions that the program calls are those of the process,
by their names in tvm-ffi's registry. What a machine does in Python, a library does natively (`BUILTIN_FORMS`), or
leaves to the C++ headers of this package, which register builtins such as those of KV caches (`IN_HEADERS`). A program
with other calls is refused by an error that names them.
"""

from __future__ import annotations

import struct
from dataclasses import field, replace
from typing import Any, Final, Protocol

import tvm_ffi

from .archive import Archive, Unit, read_archive
from .builtin_table import BUILTINS
from .bytecode import Const, Func, Imm, Operand, Program
from .combine import combine
from .compiled import COMPILED_PREFIX
from .dtypes import DLPACK_CODES, canonical_dtype, itemsize
from .elf import (
    SHF_ALLOC,
    SHF_WRITE,
    SHN_UNDEF,
    STB_GLOBAL,
    STB_LOCAL,
    ObjectFile,
    ObjectFileError,
    Relocation,
    Section,
    Symbol,
)
from .elf_writer import merged, write_object
from .encoding import ExecutableError
from .format import section_offset
from .machine_code import OBJECTS
from .modules import Module
from .names import split
from .native import PACKED_PREFIX
from .records import dataclass
from .tensor import ALIGNMENT

LIBRARY: Final = "relax.library.v1."
"""The prefix of the support code of libraries (`relax.codegen.support.library`)."""
PROGRAM: Final = "relax.program.v1"
"""Symbol of the records from which a library builds its table."""
_STACK_BYTES: Final = 1 << 20
"""Stack limit in bytes of compiled functions in a library, where no bytecode can take over."""
_MOST_CALLS: Final = 100_000

BUILTIN_FORMS: Final = {
    "vm.builtin.on_heap": "on_heap",
    "vm.builtin.match_shape_value": "match_shape_value",
    "vm.builtin.make_shape": "make_shape",
    "vm.builtin.alloc_tensor": "alloc_tensor",
    "vm.builtin.alloc_storage": "alloc_storage",
    "vm.builtin.reshape": "reshape",
    "vm.builtin.copy_tensor": "copy_tensor",
    "vm.builtin.shape_of": "shape_of",
    "vm.builtin.tuple_getitem": "tuple_getitem",
    "relax.run.fail": "raise_message",
}
"""Builtins that a library implements natively, with the symbols of those implementations."""

_REGISTER: Final = "register it before the first call"
_REGISTER_BUILTIN: Final = (
    "in C++, include relax/kv_cache.h and relax/sampling.h and call relax::register_kv_cache() and register_samplers() "
    "before the first call; in Python, load the library by relax.runtime.load_module"
)
"""Hints of the error about a packed function that a process does not have."""

REFUSALS: Final = {
    "vm.builtin.alloc_tensor_in": ("ValueError", "a tensor lies outside of its storage"),
    "vm.builtin.read_if_cond": ("TypeError", "the condition of an if is no bool"),
}
"""Builtins that compiled functions call only to raise an error, with the error's kind and message in a library."""

IN_HEADERS: Final = frozenset(f"vm.builtin.{name}" for name in (
    "paged_attention_kv_cache_create", "kv_state_clear", "kv_state_add_sequence", "kv_state_remove_sequence",
    "kv_state_fork_sequence", "kv_state_popn", "kv_state_begin_forward", "kv_state_end_forward",
    "attention_kv_cache_attention_with_fused_qkv", "attention_kv_cache_get_query_positions",
    "attention_kv_cache_get_num_available_pages", "attention_kv_cache_get_total_sequence_length",
    "attention_kv_cache_empty", "attention_kv_cache_enable_sliding_window_for_seq", "attention_kv_cache_debug_get_kv",
    "sample_top_p_from_logits", "sample_top_p_from_prob", "multinomial_from_uniform", "apply_repetition_penalty",
    "apply_presence_and_frequency_penalty", "apply_softmax_with_temperature",
))  # fmt: skip
"""Builtins that a C++ program registers by including the headers of `include/relax`; a library looks them up."""

_CONSTANTS, _RECORDS, _FILE = 1, 2, 3
"""The sections of the object with the records, and their symbols."""
_NO_DTYPE: Final = (3, 0)
"""DLPack code and bits that stand for any dtype."""
_VALUE, _STRING, _TENSOR, _SHAPE, _GLOBAL, _NATIVE = range(6)
"""The kinds of records."""


class Exportable(Protocol):
    """The part of an executable that a library is made of."""

    program: Program
    native: bytes
    modules: tuple[Module, ...]

    def to_bytes(self) -> bytes:
        """Return the contents of the file that ``save`` writes."""
        ...


def library_object(executable: Exportable) -> bytes:
    """The object that a linker makes a library of. Raises ExecutableError for a program that needs Python."""
    program = executable.program
    if executable.modules:
        kinds = ", ".join(dict.fromkeys(module.kind for module in executable.modules))
        raise ExecutableError(f"its modules ({kinds}) are loaded by Python; save it, and load it there")
    entry_points = [function.name for function in program.functions.values() if function.exported]
    _require_compiled(program, entry_points)
    archive = read_archive(executable.native)
    data = executable.to_bytes()
    machine, flags = _machine(archive)
    records = _Records(data, _tensor_places(program, section_offset(data, "DATA")))
    _fill(records, program)
    units = (*archive.units, Unit(len(archive.objects)))
    archive = Archive((*archive.objects, write_object(records.object_file(machine, flags))), units)
    return write_object(merged(_exported(combine(archive, PACKED_PREFIX), entry_points)))


def _machine(archive: Archive) -> tuple[int, int]:
    """Return the number of the architecture and the flags in ELF headers.

    Raises ExecutableError for an architecture or a convention for floats that is not exported.
    """
    (machine,) = struct.unpack_from("<H", archive.objects[0], 18)
    (flags,) = struct.unpack_from("<I", archive.objects[0], 48)
    objects = OBJECTS.get(machine)
    if objects is None:
        possible = ", ".join(f"{known.title} ({known.triple})" for known in OBJECTS.values())
        raise ExecutableError(
            f"it is compiled for an architecture that is not exported (ELF number {machine}); "
            f"libraries are made for {possible}; save() and load() keep it as it is"
        )
    abi = objects.float_abi
    if abi is not None and flags & abi.mask != abi.value:
        raise ExecutableError(
            f"it is compiled for {objects.title} without registers for floats, and libraries of Linux need them; "
            f"build it for 'llvm -mtriple={objects.triple} -mattr={abi.features}'"
        )
    return machine, flags


def _require_compiled(program: Program, entry_points: list[str]) -> None:
    """Raise ExecutableError listing every obstacle unless the program can run without Python."""
    problems = [
        f"{name} stays bytecode, which Python carries out" for name in entry_points if name not in program.compiled
    ]
    for operand in program.table:
        if isinstance(operand, Func):
            entry = program.entries[operand.index]
            if entry.kind == "vm" and entry.name not in program.compiled:
                if entry.name not in entry_points:
                    problems.append(f"{entry.name} stays bytecode, which Python carries out")
            elif entry.name in BUILTINS and entry.name not in BUILTIN_FORMS.keys() | REFUSALS.keys() | IN_HEADERS:
                problems.append(f"it calls {entry.name}, which is Python")
        elif isinstance(operand, Const) and not _is_plain(program.constants[operand.index]):
            problems.append(f"it has a constant of type {type(program.constants[operand.index]).__name__}")
    if problems:
        raise ExecutableError(f"the program needs Python: {'; '.join(problems)}; save() and load() keep it as it is")


def _is_plain(value: Any) -> bool:
    return isinstance(value, tvm_ffi.Tensor | tvm_ffi.Shape | tvm_ffi.dtype | str | bool | int | float | None)


def _tensor_places(program: Program, start: int) -> dict[int, int]:
    """The offset in the file of each tensor's elements, by the number of the constant (see `format.write_constant`)."""
    offsets: dict[int, int] = {}
    at = 0
    for number, value in enumerate(program.constants):
        if isinstance(value, tvm_ffi.Tensor):
            at += -at % ALIGNMENT
            offsets[number] = start + at
            at += value.numel() * itemsize(canonical_dtype(value.dtype))
    return offsets


@dataclass
class _Records:
    """The records of a table while they are written, and what they refer to."""

    file: bytes
    tensors: dict[int, int]
    constants: bytearray = field(default_factory=bytearray)
    data: bytearray = field(default_factory=lambda: bytearray(16))
    relocations: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    """Places in the data, symbols, offsets from those."""
    wanted: dict[str, int] = field(default_factory=dict[str, int])
    """Symbols of the support code, and their numbers."""

    def add(
        self, kind: int, number: int, address: tuple[int, int] | int = 0, second: tuple[int, int] | int = 0
    ) -> None:
        """Add a record; an address is a symbol and an offset, or a number."""
        start = len(self.data)
        self.data += struct.pack("<QQQQ", kind, 0, number, 0)
        for at, value in ((start + 8, address), (start + 24, second)):
            self.point(at, value)

    def point(self, at: int, value: tuple[int, int] | int) -> None:
        """Write an address into the data."""
        if isinstance(value, int):
            struct.pack_into("<Q", self.data, at, value & (1 << 64) - 1)
        else:
            self.relocations.append((at, *value))

    def bytes(self, data: bytes) -> tuple[int, int]:
        """The address of constant bytes, which end in zero."""
        self.constants += bytes(-len(self.constants) % 8)
        at = len(self.constants)
        self.constants += data + b"\0"
        return _CONSTANTS, at

    def dims(self, dims: Any) -> tuple[int, int]:
        """The address of sizes."""
        return self.bytes(b"".join(struct.pack("<q", int(dim)) for dim in dims))

    def native(self, form: str, second: tuple[int, int] | int = 0) -> None:
        """Add a record of a function of the support code."""
        self._symbol(f"{LIBRARY}{form}", second)

    def kernel(self, name: str) -> None:
        """Add a record of a kernel of the program, which is passed on as a value."""
        self._symbol(f"{PACKED_PREFIX}{name}")

    def _symbol(self, name: str, second: tuple[int, int] | int = 0) -> None:
        """Add a record of a function by the name of its symbol."""
        symbol = self.wanted.setdefault(name, 5 + len(self.wanted))
        self.add(_NATIVE, 0, (symbol, 0), second)

    def refusal(self, kind: str, message: str, pairs: list[tuple[tuple[int, int], tuple[int, int]]]) -> None:
        """Add a record of a function that raises an error; `pairs` are written behind the records."""
        pairs.append((self.bytes(kind.encode()), self.bytes(message.encode())))
        self.native("refuse", (-len(pairs), 0))

    def object_file(self, machine: int, flags: int) -> ObjectFile:
        """The object with the records and the file."""
        kind = OBJECTS[machine].absolute
        sections = (
            Section("", 0, 0, 1, 0, memoryview(b"")),
            Section(".rodata", 1, SHF_ALLOC, 8, len(self.constants), memoryview(bytes(self.constants))),
            Section(".data", 1, SHF_ALLOC | SHF_WRITE, 8, len(self.data), memoryview(bytes(self.data))),
            Section(".rodata.file", 1, SHF_ALLOC, ALIGNMENT, len(self.file), memoryview(self.file)),
        )
        symbols = [Symbol("", SHN_UNDEF, 0, 0, STB_LOCAL, 0)]
        symbols += [Symbol("", number, 0, 0, STB_LOCAL, 0) for number in (_CONSTANTS, _RECORDS, _FILE)]
        symbols.append(Symbol(PROGRAM, _RECORDS, 0, 16, STB_GLOBAL, 1))
        symbols += [Symbol(name, SHN_UNDEF, 0, 0, STB_GLOBAL, 0) for name in self.wanted]
        relocations = tuple(Relocation(at, kind, symbol, offset) for at, symbol, offset in self.relocations)
        return ObjectFile(machine, sections, tuple(symbols), {_RECORDS: relocations}, flags)


def _fill(records: _Records, program: Program) -> None:
    """Write the fixed cells of a table (see `compiled`), and those that the program names."""
    pairs: list[tuple[tuple[int, int], tuple[int, int]]] = []
    records.native("import")
    records.add(_VALUE, 0)  # nobody is told the places an error passes
    records.add(_VALUE, 6, _device(_index(program, 0)))
    records.native("import")
    records.add(_VALUE, 1, _MOST_CALLS)
    records.add(_VALUE, 1, _STACK_BYTES)
    records.add(_VALUE, 0)  # nobody asks for counts of storages
    for operand in program.table:
        _record(records, program, operand, pairs)
    struct.pack_into("<Q", records.data, 0, (len(records.data) - 16) // 32)
    records.point(8, (_RECORDS, 16))
    end = len(records.data)
    records.relocations = [
        (at, _RECORDS, end - 16 * (symbol + 1)) if symbol < 0 else (at, symbol, offset)
        for at, symbol, offset in records.relocations
    ]
    for kind, message in pairs:
        at = len(records.data)
        records.data += bytes(16)
        records.point(at, kind)
        records.point(at + 8, message)


def _device(index: int) -> int:
    return 1 | index << 32


def _index(program: Program, number: int) -> int:
    """The index of a device of the program: 1 of ``"cpu:1"``."""
    name = program.devices[number] if number < len(program.devices) else ""
    index = name.rpartition(":")[2]
    return int(index) if index.isdigit() else 0


def _record(
    records: _Records, program: Program, operand: Operand, pairs: list[tuple[tuple[int, int], tuple[int, int]]]
) -> None:
    match operand:
        case Const(index):
            _constant(records, program.constants[index], records.tensors.get(index, 0))
        case Imm(number):
            records.add(_VALUE, 6, _device(_index(program, number)))
        case Func(index):
            name = program.entries[index].name
            if program.entries[index].kind == "kernel":
                records.kernel(name)
            elif name in program.compiled:
                records.refusal("RecursionError", f"{name}: too many calls are under way", pairs)
            elif name in BUILTIN_FORMS:
                records.native(BUILTIN_FORMS[name])
            elif name in REFUSALS:
                records.refusal(*REFUSALS[name], pairs)
            else:
                encoded = split(name)[0].encode()
                hint = _REGISTER_BUILTIN if name in IN_HEADERS else _REGISTER
                records.add(_GLOBAL, len(encoded), records.bytes(encoded), records.bytes(hint.encode()))
        case _:
            raise AssertionError("a register is no part of a table")


def _constant(records: _Records, value: Any, offset: int) -> None:
    match value:
        case tvm_ffi.Tensor():
            code, bits = DLPACK_CODES[canonical_dtype(value.dtype)]
            word = code | bits << 8 | 1 << 16 | value.ndim << 32
            records.add(_TENSOR, word, (_FILE, offset), records.dims(value.shape))
        case tvm_ffi.Shape():
            records.add(_SHAPE, len(value), 0, records.dims(value))
        case tvm_ffi.dtype():
            code, bits = DLPACK_CODES[canonical_dtype(value)] if value else _NO_DTYPE
            records.add(_VALUE, 5, code | bits << 8 | bool(bits) << 16)
        case str():
            encoded = str(value).encode()
            records.add(_STRING, len(encoded), records.bytes(encoded))
        case bool() | int():
            records.add(_VALUE, 2 if isinstance(value, bool) else 1, int(value))
        case float():
            records.add(_VALUE, 3, struct.unpack("<Q", struct.pack("<d", value))[0])
        case _:
            records.add(_VALUE, 0)


def _exported(obj: ObjectFile, entry_points: list[str]) -> ObjectFile:
    """The object with no symbols for others but the entry points, and no names that nothing in it refers to."""
    used = {relocation.symbol for group in obj.relocations.values() for relocation in group}
    compiled = {f"{PACKED_PREFIX}{COMPILED_PREFIX}{name}": name for name in entry_points}
    symbols: list[Symbol] = []
    exports: list[Symbol] = []
    for index, symbol in enumerate(obj.symbols):
        if symbol.name in compiled and symbol.section != SHN_UNDEF:
            exports.append(symbol._replace(name=f"{PACKED_PREFIX}{compiled[symbol.name]}", binding=STB_GLOBAL))
        if symbol.section != SHN_UNDEF:
            symbols.append(symbol._replace(binding=STB_LOCAL))
        else:
            symbols.append(symbol if index in used else obj.symbols[0])
    missing = len(compiled) - len(exports)
    if missing:
        raise ObjectFileError(f"{missing} of the compiled functions have no machine code")
    return replace(obj, symbols=(*symbols, *exports))
