"""The file format of executables: tagged, bounds-checked, without pickle.

    file      magic (8 bytes) | version u32 | sections u32 | length of the file u64 | checksum of the rest (32)
              then per section: tag (4 bytes) | zeros u32 | offset u64 | size u64; then the sections
              (the checksum is made of SHA-256s: files.py)
    META      target triple, CPU features, devices
    CNST      the constants, tagged; tensors refer to DATA
    FUNC      the function table and the code
    DATA      the contents of tensors, each at a multiple of 64 bytes
    NATV      the compiled kernels: an archive (archive.py), or one object file

Within sections, numbers and strings are encoded as encoding.py says. All fixed-width fields are little-endian.
"""

from __future__ import annotations

import enum
import io
import struct
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, cast

import tvm_ffi

from .bytecode import (
    Call,
    Const,
    Func,
    FunctionCode,
    FunctionEntry,
    Goto,
    If,
    Imm,
    Instruction,
    Operand,
    Program,
    Reg,
    Ret,
)
from .dtypes import DLPACK_CODES, canonical_dtype, itemsize
from .encoding import ExecutableError, Pieces, Reader, Writer
from .files import checksum, checksum_of_rest, read_places
from .info import Dim, FuncInfo, Info, ObjectInfo, PrimInfo, ShapeInfo, TensorInfo, TupleInfo
from .records import dataclass
from .sizes import shape_value
from .tensor import ALIGNMENT, LARGE_PAGE, check_shape, new_tensor, numpy_view, view_tensor

MAGIC: Final = b"\x89RELAX\r\n"  # the \r\n shows a file mangled by a text-mode transfer
VERSION: Final = 9

_HEADER = struct.Struct("<8sIIQ32s")
_ENTRY = struct.Struct("<4sIQQ")

# ---------------------------------------------------------------------- structural information


def _write_dim(w: Writer, dim: Dim) -> None:
    match dim:
        case int():
            w.data.append(0)
            w.int(dim)
        case str():
            w.data.append(1)
            w.text(dim)
        case float():
            w.data.append(3)
            w.double(dim)
        case _:
            w.data.append(2)
            w.text(dim[0])
            w.uint(len(dim) - 1)
            with w.nested():
                for operand in dim[1:]:
                    _write_dim(w, operand)


def _read_dim(r: Reader) -> Dim:
    match r.byte():
        case 0:
            return r.int()
        case 1:
            return r.text()
        case 2:
            return (r.text(), *r.many(_read_dim))
        case 3:
            return r.double()
        case tag:
            raise r.fail(f"there is no kind of dimension {tag}")


def _write_dims(w: Writer, dims: tuple[Dim, ...] | None) -> None:
    w.bool(dims is not None)
    if dims is not None:
        w.uint(len(dims))
        with w.nested():
            for dim in dims:
                _write_dim(w, dim)


def _read_dims(r: Reader) -> tuple[Dim, ...] | None:
    return r.many(_read_dim) if r.bool() else None


def write_info(w: Writer, info: Info) -> None:
    """Append an Info."""
    match info:
        case ObjectInfo():
            w.data.append(0)
        case PrimInfo(dtype, value):
            w.data.append(1)
            w.text(dtype)
            _write_dims(w, None if value is None else (value,))
        case ShapeInfo(dims, ndim):
            w.data.append(2)
            _write_dims(w, dims)
            w.int(ndim)
        case TensorInfo(dims, dtype, ndim, device):
            w.data.append(3)
            _write_dims(w, dims)
            w.text(dtype)
            w.int(ndim)
            w.text(device)
        case TupleInfo(fields):
            w.data.append(4)
            _write_infos(w, fields)
        case FuncInfo(params, ret, pure):
            w.data.append(5)
            w.bool(params is not None)
            if params is not None:
                _write_infos(w, params)
            with w.nested():
                write_info(w, ret)
            w.bool(pure)


def _write_infos(w: Writer, infos: tuple[Info, ...]) -> None:
    w.uint(len(infos))
    with w.nested():
        for info in infos:
            write_info(w, info)


def read_info(r: Reader) -> Info:
    """Take an Info. Tuples that are written alike are one object."""
    start = r.at
    match r.byte():
        case 0:
            return ObjectInfo()
        case 1:
            dtype, value = _read_dtype(r), _read_dims(r)
            if value is not None and len(value) != 1:
                raise r.fail("a scalar has one value")
            return PrimInfo(dtype, None if value is None else value[0])
        case 2:
            return ShapeInfo(_read_dims(r), r.int())
        case 3:
            return TensorInfo(_read_dims(r), _read_dtype(r), r.int(), r.text())
        case 4:
            info = TupleInfo(r.many(read_info))
            return r.known.setdefault(bytes(r.data[start : r.at]), info)
        case 5:
            params = r.many(read_info) if r.bool() else None
            return FuncInfo(params, r.nested(read_info), r.bool())
        case tag:
            raise r.fail(f"there is no kind of info {tag}")


def _read_dtype(r: Reader) -> str:
    dtype = r.text()
    if dtype and dtype not in DLPACK_CODES:
        raise r.fail(f"there is no dtype {dtype!r}")
    return dtype


# --------------------------------------------------------------------------------------- constants


class _Tag(enum.IntEnum):
    TENSOR, SHAPE, TEXT, DTYPE, INT, FLOAT, BOOL, NULL, INFO = range(9)


def write_constant(w: Writer, data: Pieces, value: Any) -> None:
    """Append a constant; the contents of tensors go to `data`. Raises ExecutableError for what cannot be saved."""
    match value:
        case tvm_ffi.Tensor():
            dtype = canonical_dtype(value.dtype)
            data.align(ALIGNMENT)
            w.data.append(_Tag.TENSOR)
            w.text(dtype)
            w.uint(value.ndim)
            for extent in value.shape:
                w.uint(extent)
            w.uint(data.length)
            data.add(memoryview(numpy_view(value).reshape(-1).view("u1")))
        case tvm_ffi.Shape():
            w.data.append(_Tag.SHAPE)
            w.uint(len(value))
            for extent in cast("tuple[int, ...]", value):
                w.int(extent)
        case tvm_ffi.dtype():
            w.data.append(_Tag.DTYPE)
            w.text(str(value))
        case str():
            w.data.append(_Tag.TEXT)
            w.text(str(value))
        case bool():
            w.data.append(_Tag.BOOL)
            w.bool(value)
        case int():
            w.data.append(_Tag.INT)
            w.int(value)
        case float():
            w.data.append(_Tag.FLOAT)
            w.double(value)
        case None:
            w.data.append(_Tag.NULL)
        case ObjectInfo() | PrimInfo() | ShapeInfo() | TensorInfo() | TupleInfo() | FuncInfo():
            w.data.append(_Tag.INFO)
            write_info(w, value)
        case _:
            raise ExecutableError(f"a constant of type {type(value).__name__} cannot be saved")


def read_constant(r: Reader, data: Section) -> Any:
    """Take a constant; the contents of a tensor are there when `data` has been read."""
    match r.byte():
        case _Tag.TENSOR:
            return _read_tensor(r, data)
        case _Tag.SHAPE:
            try:
                return shape_value(r.many(Reader.int))
            except ValueError as error:
                raise r.fail(str(error)) from None
        case _Tag.TEXT:
            return r.text()
        case _Tag.DTYPE:
            try:
                return tvm_ffi.dtype(r.text())
            except (ValueError, RuntimeError):
                raise r.fail("a dtype is not one") from None
        case _Tag.INT:
            return r.int()
        case _Tag.FLOAT:
            return r.double()
        case _Tag.BOOL:
            return r.bool()
        case _Tag.NULL:
            return None
        case _Tag.INFO:
            return read_info(r)
        case tag:
            raise r.fail(f"there is no kind of constant {tag}")


def _read_tensor(r: Reader, data: Section) -> tvm_ffi.Tensor:
    dtype, shape, offset = _read_dtype(r), r.many(Reader.uint), r.uint()
    if not dtype:
        raise r.fail("a tensor has no dtype")
    try:
        nbytes = check_shape(shape, dtype)
    except (ValueError, MemoryError) as error:
        raise r.fail(str(error)) from None
    if offset > data.size or nbytes > data.size - offset:
        raise r.fail(f"the contents of a tensor of {nbytes} bytes lie outside section DATA")
    memory = data.in_memory() if nbytes else None
    if memory is not None and (data.start + offset) % ALIGNMENT == 0:
        return view_tensor(memory, shape, dtype, data.start + offset)
    tensor = new_tensor(shape, dtype)
    if nbytes:
        data.read_later(offset, memoryview(numpy_view(tensor).reshape(-1).view("u1")))
    assert nbytes == tensor.numel() * itemsize(dtype)
    return tensor


# --------------------------------------------------------------------------------------- functions


def _write_operand(w: Writer, operand: Operand) -> None:
    match operand:
        case Reg(index):
            w.uint(index << 2)
        case Const(index):
            w.uint(index << 2 | 1)
        case Func(index):
            w.uint(index << 2 | 2)
        case Imm(value):
            w.uint(3)
            w.int(value)


def _read_operand(r: Reader) -> Operand:
    code = r.uint()
    match code & 3:
        case 0:
            return Reg(code >> 2)
        case 1:
            return Const(code >> 2)
        case 2:
            return Func(code >> 2)
        case _:
            return Imm(r.int())


def _write_instruction(w: Writer, instruction: Instruction) -> None:
    match instruction:
        case Call(dst, func, args):
            w.data.append(0)
            w.int(dst)
            w.uint(func)
            w.uint(len(args))
            for arg in args:
                _write_operand(w, arg)
        case Ret(src):
            w.data.append(1)
            _write_operand(w, src)
        case If(cond, offset):
            w.data.append(2)
            _write_operand(w, cond)
            w.int(offset)
        case Goto(offset):
            w.data.append(3)
            w.int(offset)


def _read_instruction(r: Reader) -> Instruction:
    match r.byte():
        case 0:
            return Call(r.int(), r.uint(), r.many(_read_operand))
        case 1:
            return Ret(_read_operand(r))
        case 2:
            return If(_read_operand(r), r.int())
        case 3:
            return Goto(r.int())
        case tag:
            raise r.fail(f"there is no instruction {tag}")


def write_functions(w: Writer, program: Program) -> None:
    """Append the function table and the code."""
    w.uint(len(program.entries))
    for entry in program.entries:
        w.text(entry.kind)
        w.text(entry.name)
        w.bool(entry.info is not None)
        if entry.info is not None:
            write_info(w, entry.info)
    w.uint(len(program.functions))
    for f in program.functions.values():
        w.text(f.name)
        w.uint(len(f.params))
        for param in f.params:
            w.text(param)
        _write_infos(w, f.param_infos)
        write_info(w, f.ret_info)
        w.bool(f.pure)
        w.bool(f.exported)
        w.uint(f.registers)
        w.uint(len(f.code))
        for instruction in f.code:
            _write_instruction(w, instruction)
        _write_locations(w, f.locations)
    w.uint(len(program.compiled))
    for name in program.compiled:
        w.text(name)
    w.uint(len(program.table))
    for operand in program.table:
        _write_operand(w, operand)


def _write_locations(w: Writer, locations: tuple[str, ...]) -> None:
    """Distinct places once, then an index for each instruction."""
    distinct = {location: i for i, location in enumerate(dict.fromkeys(locations))}
    w.uint(len(distinct))
    for location in distinct:
        w.text(location)
    w.uint(len(locations))
    for location in locations:
        w.uint(distinct[location])


def _read_locations(r: Reader) -> tuple[str, ...]:
    distinct = r.many(Reader.text)
    indices = r.many(Reader.uint)
    if indices and max(indices) >= len(distinct):
        raise r.fail("an instruction has a location that is not listed")
    return tuple(distinct[i] for i in indices)


def _read_entry(r: Reader) -> FunctionEntry:
    kind, name = r.text(), r.text()
    info = read_info(r) if r.bool() else None
    if info is not None and not isinstance(info, FuncInfo):
        raise r.fail(f"the info of {name} is not a function's")
    return FunctionEntry(kind, name, info)


def _read_function(r: Reader) -> FunctionCode:
    name, params, infos, ret = r.text(), r.many(Reader.text), r.many(read_info), read_info(r)
    pure, exported, registers = r.bool(), r.bool(), r.uint()
    if registers > 1 << 24:
        raise r.fail(f"{name} wants {registers} registers")
    code = r.many(_read_instruction)
    return FunctionCode(name, params, infos, ret, pure, exported, registers, code, _read_locations(r))


def read_functions(r: Reader) -> Program:
    """Take the function table and the code."""
    entries = list(r.many(_read_entry))
    functions = {f.name: f for f in r.many(_read_function)}
    return Program([], entries, functions, r.many(Reader.text), r.many(_read_operand))


# -------------------------------------------------------------------------------------- container


@dataclass
class Section:
    """A section of an open file, which is read when it is asked for."""

    file: io.BufferedIOBase
    offset: int
    size: int
    memory: tvm_ffi.Tensor | None = None
    """The file as memory, if it is mapped."""
    start: int = 0
    """The place of the section in memory."""
    wanted: list[tuple[int, memoryview]] = field(default_factory=list[tuple[int, memoryview]])
    """Offsets in the file, and memory that waits for what is there."""

    def contents(self) -> memoryview:
        """All of it."""
        self.file.seek(self.offset)
        return memoryview(self.file.read(self.size))

    def in_memory(self) -> tvm_ffi.Tensor | None:
        """The memory that has all of it, if it is mapped or fills large pages; `read` is to fill the latter.

        Most constants fill no large page: those of a program follow each other in theirs.
        """
        if self.memory is None and self.size >= LARGE_PAGE:
            self.memory, self.start = new_tensor((self.size,), "uint8"), 0
            self.read_later(0, memoryview(numpy_view(self.memory)))
        return self.memory

    def read_later(self, offset: int, to: memoryview) -> None:
        """Have `read` fill memory with what is there from an offset on, which has been checked to be there."""
        self.wanted.append((self.offset + offset, to))

    def read(self) -> None:
        """Fill the memory that waits for it. Raises ExecutableError if the file has become shorter."""
        if not read_places(self.file, self.wanted):
            raise ExecutableError("it is truncated")
        self.wanted.clear()


def packed_pieces(sections: Mapping[str, bytes | Pieces]) -> list[bytes | memoryview]:
    """The file with the given sections, in pieces."""
    table, body = bytearray(), Pieces()
    start = _HEADER.size + _ENTRY.size * len(sections)
    for tag, contents in sections.items():
        body.add(bytes(-(start + body.length) % ALIGNMENT))
        size = contents.length if isinstance(contents, Pieces) else len(contents)
        table += _ENTRY.pack(tag.encode("ascii"), 0, start + body.length, size)
        for piece in contents.parts if isinstance(contents, Pieces) else (contents,):
            body.add(piece)
    digest = checksum([bytes(table), *body.parts])
    header = _HEADER.pack(MAGIC, VERSION, len(sections), start + body.length, digest)
    return [header, bytes(table), *body.parts]


def stated_digest(head: bytes | memoryview) -> bytes:
    """The checksum of its contents that the first bytes of a file state."""
    return _HEADER.unpack_from(head)[4] if len(head) >= _HEADER.size else b""


def pack_sections(sections: Mapping[str, bytes | Pieces]) -> bytes:
    """The file with the given sections."""
    return b"".join(packed_pieces(sections))


def section_offset(data: bytes, tag: str) -> int:
    """The offset of a section in a file that `pack_sections` made. Raises ExecutableError if it has no such section."""
    count = _HEADER.unpack_from(data)[2]
    for i in range(count):
        entry_tag, _, offset, _ = _ENTRY.unpack_from(data, _HEADER.size + i * _ENTRY.size)
        if entry_tag == tag.encode("ascii"):
            return offset
    raise ExecutableError(f"it has no section {tag}")


def embedded(data: bytes) -> bytes:
    """The file that a shared library holds. Raises ExecutableError if there is none."""
    at = data.find(MAGIC)
    while at >= 0:
        if at + _HEADER.size <= len(data):
            _, version, _, length, _ = _HEADER.unpack_from(data, at)
            if version == VERSION and length <= len(data) - at:
                return data[at : at + length]
        at = data.find(MAGIC, at + 1)
    raise ExecutableError("it is a shared library without a Relax executable of this release")


def unpack_sections(data: bytes) -> dict[str, memoryview]:
    """The sections of a file, after checking that it is complete and unchanged."""
    return {tag: section.contents() for tag, section in read_sections(io.BytesIO(data)).items()}


def read_sections(file: io.BufferedIOBase, memory: tvm_ffi.Tensor | None = None) -> dict[str, Section]:
    """The sections of an open file, after checking that it is complete and unchanged.

    Where the file is mapped as `memory`, its tensors are parts of that. Raises ExecutableError for a file that is
    something else, of another version of the format, truncated or changed.
    """
    file_length = file.seek(0, io.SEEK_END)
    file.seek(0)
    head = file.read(_HEADER.size)
    if len(head) < _HEADER.size:
        is_prefix = head[: len(MAGIC)] == MAGIC[: len(head)] and head
        raise ExecutableError("it is truncated" if is_prefix else "it is no Relax executable")
    magic, version, count, length, digest = _HEADER.unpack(head)
    if magic != MAGIC:
        mangled = magic[:6] == MAGIC[:6]
        raise ExecutableError("it was changed in transfer" if mangled else "it is no Relax executable")
    if version != VERSION:
        raise ExecutableError(
            f"it has format version {version}, this runtime reads version {VERSION}: build it again with this release"
        )
    if file_length != length:
        problem = "truncated" if file_length < length else "followed by something else"
        raise ExecutableError(f"it is {problem}: its length is {file_length} bytes, expected {length}")
    if memory is not None and memory.numel() != length:
        raise ExecutableError("its length has changed")
    rest = checksum_of_rest(file) if memory is None else checksum([_bytes_of(memory)[_HEADER.size :]])
    if rest != digest:
        raise ExecutableError("it is corrupted: its checksum does not match its contents")
    if count * _ENTRY.size > length - _HEADER.size:
        raise ExecutableError("its section table is malformed")
    file.seek(_HEADER.size)
    table = file.read(count * _ENTRY.size)
    sections: dict[str, Section] = {}
    for tag, _, offset, size in _ENTRY.iter_unpack(table):
        if offset > length or size > length - offset:
            raise ExecutableError("its section table is malformed")
        sections[tag.decode("ascii", "replace")] = Section(file, offset, size, memory, offset)
    return sections


def _bytes_of(memory: tvm_ffi.Tensor) -> memoryview:
    return memoryview(numpy_view(memory))
