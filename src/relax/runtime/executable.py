"""Executable: a compiled program, ready to run, to print, to save and to load.

It holds constants, code for the virtual machine, the compiled kernels, an archive of objects, and modules of other
kinds (`relax.runtime.modules`). A saved executable runs where only this package is installed, and the libraries that
its modules need. It contains machine code: load only what you trust.
"""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tvm_ffi

from .bytecode import (
    VOID,
    BytecodeError,
    Call,
    Const,
    Func,
    FunctionCode,
    FunctionEntry,
    Goto,
    If,
    Instruction,
    Operand,
    Program,
    Ret,
    operand_text,
    verify,
)
from .cpu_features import machine_of_triple, missing_features
from .debug_info import DebugInfo
from .encoding import ExecutableError, Pieces, Reader, Writer
from .export import library_object
from .files import in_place_of
from .format import (
    embedded,
    packed_pieces,
    read_constant,
    read_functions,
    read_sections,
    write_constant,
    write_functions,
)
from .machine_code import title
from .modules import Module, functions_of, read_modules, write_modules
from .native import NativeLibrary, ObjectFileError, host_machine
from .system_linker import link_library
from .upgrade import Upgrade


class Executable:
    """A compiled program. Make one with ``relax.build``, run it with ``relax.VirtualMachine``."""

    def __init__(
        self,
        program: Program | Executable,
        native: bytes = b"",
        triple: str = "",
        features: Iterable[str] = (),
        modules: Iterable[Module] = (),
    ) -> None:
        """Take a program, its kernels (an archive, or one object), compiled for `triple` and the CPU `features`, and
        modules of other kinds.

        Or take an executable as it is: ``relax.Executable(relax.runtime.load_module(path))``, as in TVM. Raises
        BytecodeError if the program breaks a rule of the machine.
        """
        if isinstance(program, Executable):
            native, triple, features, modules = program.native, program.triple, program.features, program.modules
        elif isinstance(program, Program):  # pyright: ignore[reportUnnecessaryIsInstance]
            verify(program)
        else:
            raise TypeError(f"an Executable is made of a program or an Executable, not {type(program).__name__}")
        self.program: Program = program.program if isinstance(program, Executable) else program
        self.native: bytes = native
        self.triple: str = triple
        self.features = tuple(features)
        self.debug = program.debug if isinstance(program, Executable) else DebugInfo()
        """Names and counts of operations, for profiles and errors."""
        self.modules: tuple[Module, ...] = tuple(modules)
        self.tier = "full"
        """Tier of the program: "full", or "now" for kernels that serve all sizes."""
        self.upgrade: Upgrade[Executable] | None = None
        """The full build of a program of tier "now" that is under way; None if there is none."""
        self._library: NativeLibrary | None = None
        self._module_functions: dict[str, tvm_ffi.Function] | None = None

    # ------------------------------------------------------------------------------ contents

    @property
    def constants(self) -> list[Any]:
        """The constants, as values of the machine."""
        return self.program.constants

    @property
    def devices(self) -> list[str]:
        """The devices of the module's virtual devices, in their order: ``["cpu:0", "cpu:1"]``."""
        return self.program.devices

    @property
    def functions(self) -> dict[str, FunctionCode]:
        """The functions, by name, private ones included."""
        return self.program.functions

    @property
    def entry_points(self) -> list[str]:
        """Names of the functions that can be called from outside."""
        return [f.name for f in self.functions.values() if f.exported]

    @property
    def compiled_functions(self) -> list[str]:
        """Names of the functions that are machine code."""
        return list(self.program.compiled)

    @property
    def kernels(self) -> list[str]:
        """Names of the compiled kernels the program calls."""
        return self._names("kernel")

    @property
    def packed_functions(self) -> list[str]:
        """Names of the packed functions the program calls, the machine's own included."""
        return self._names("packed")

    def _names(self, kind: str) -> list[str]:
        return [entry.name for entry in self.program.entries if entry.kind == kind]

    def library(self) -> NativeLibrary | None:
        """The loaded kernels; None if the program has none."""
        if self._library is None and self.native:
            self._library = NativeLibrary(self.native, "the kernels of the executable")
        return self._library

    def module_functions(self) -> dict[str, tvm_ffi.Function]:
        """The functions of the modules, which are loaded. Raises ExecutableError if one cannot be loaded."""
        if self._module_functions is None:
            self._module_functions = functions_of(self.modules)
        return self._module_functions

    # ------------------------------------------------------------------------------ printing

    def as_text(self) -> str:
        """The program as text: constants, then the instructions of every function, one a line."""
        target = f"for {self.triple}, " if self.triple else ""
        lines = [
            f"# Relax executable: {_count(len(self.functions), 'function')}, "
            f"{_count(len(self.constants), 'constant')}, {_count(len(self.kernels), 'kernel')} "
            f"({target}{len(self.native)} bytes of native code)"
        ]
        if self.devices:
            lines.append(f"# devices: {', '.join(self.devices)}")
        if self.program.compiled:
            lines.append(f"# compiled: {', '.join(self.program.compiled)}")
        lines += [f"# module {module.kind}: {', '.join(module.symbols)}" for module in self.modules]
        lines += [f"c{i} = {constant_text(value)}" for i, value in enumerate(self.constants)]
        for function in self.functions.values():
            lines += ["", *self._function_text(function)]
        return "\n".join(lines) + "\n"

    def _function_text(self, function: FunctionCode) -> list[str]:
        params = ", ".join(f"%{i}: {name}" for i, name in enumerate(function.params))
        private = "" if function.exported else "private "
        lines = [f"{private}@{function.name}({params}):  # {function.registers} registers"]
        width = len(str(len(function.code) - 1))
        for pc, instruction in enumerate(function.code):
            lines.append(f"  {pc:{width}}  {self.instruction_text(instruction)}")
        return lines

    def instruction_text(self, instruction: Instruction) -> str:
        """One instruction as text."""
        match instruction:
            case Call(dst, func, args):
                target = "" if dst == VOID else f"%{dst} = "
                return f"call  {target}{self._entry_text(func)}({', '.join(map(self._operand, args))})"
            case Ret(src):
                return f"ret   {self._operand(src)}"
            case If(cond, offset):
                return f"if    {self._operand(cond)} else {offset:+d}"
            case Goto(offset):
                return f"goto  {offset:+d}"

    def _entry_text(self, index: int) -> str:
        entry = self.program.entries[index]
        return f"@{entry.name}" if entry.kind == "vm" else entry.name

    def _operand(self, operand: Operand) -> str:
        if isinstance(operand, Func):
            return self._entry_text(operand.index)
        if isinstance(operand, Const):
            value = self.constants[operand.index]
            if isinstance(value, str | bool | float | None) and len(str(value)) < 60:
                return constant_text(value)
        return operand_text(operand)

    def stats(self) -> str:
        """A summary of the executable's contents: functions, constants, instructions, bytes of code."""
        nbytes = sum(c.numel() * c.dtype.itemsize for c in self.constants if isinstance(c, tvm_ffi.Tensor))
        instructions = [i for f in self.functions.values() for i in f.code]
        calls = Counter(self._entry_text(i.func) for i in instructions if isinstance(i, Call))
        tensors = sum(isinstance(c, tvm_ffi.Tensor) for c in self.constants)
        entry_points = ", ".join(self.entry_points) or "none"
        favourites = ", ".join(f"{name} x{n}" for name, n in calls.most_common(5)) or "nothing"
        lines = [
            "Relax executable",
            f"  entry points      {entry_points}",
            f"  functions         {len(self.functions)}",
            f"  constants         {len(self.constants)}, of which {tensors} tensors with {nbytes} bytes",
            f"  instructions      {len(instructions)}, of which {sum(calls.values())} calls",
            f"  kernels           {len(self.kernels)}, {len(self.native)} bytes of native code",
            *([f"  compiled          {len(self.program.compiled)} functions"] if self.program.compiled else []),
            f"  packed functions  {len(self.packed_functions)}",
            *(
                f"  module            {m.kind}, {_count(len(m.symbols), 'function')}, {len(m.data)} bytes"
                for m in self.modules
            ),
            f"  most called       {favourites}",
        ]
        return "\n".join(lines) + "\n"

    def __repr__(self) -> str:
        return f"<relax.Executable {', '.join(self.entry_points)}>"

    # ----------------------------------------------------------------------- saving and loading

    def to_bytes(self) -> bytes:
        """The contents of the file ``save`` writes."""
        return b"".join(self.pieces())

    def pieces(self) -> list[bytes | memoryview]:
        """The contents of the file, of which the elements of tensors are where those have them."""
        meta, constants, data, functions = Writer(), Writer(), Pieces(), Writer()
        meta.text(self.triple)
        meta.uint(len(self.features))
        for feature in self.features:
            meta.text(feature)
        meta.uint(len(self.devices))
        for device in self.devices:
            meta.text(device)
        constants.uint(len(self.constants))
        for value in self.constants:
            write_constant(constants, data, value)
        write_functions(functions, self.program)
        debug, modules = Writer(), Writer()
        self.debug.write(debug)
        write_modules(modules, data, self.modules)
        return packed_pieces(
            {
                "META": bytes(meta.data),
                "CNST": bytes(constants.data),
                "FUNC": bytes(functions.data),
                "DATA": data,
                "NATV": self.native,
                "DBUG": bytes(debug.data),
                **({"MODS": bytes(modules.data)} if self.modules else {}),
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "executable") -> Executable:
        """The executable with these bytes; ExecutableError says what is wrong with them."""
        return cls.read(io.BytesIO(data), name)

    @classmethod
    def read(cls, file: io.BufferedIOBase, name: str, memory: tvm_ffi.Tensor | None = None) -> Executable:
        """The executable that an open file holds; ExecutableError says what is wrong with it.

        Constants of a file that is mapped as `memory` (`relax.runtime.mapping`) are parts of that.
        """
        try:
            if file.read(4) == b"\x7fELF":
                file.seek(0)
                file, memory = io.BytesIO(embedded(file.read())), None
            stored_sections = read_sections(file, memory)
            absent = [tag for tag in ("META", "CNST", "FUNC", "DATA", "NATV") if tag not in stored_sections]
            if absent:
                raise ExecutableError(f"it has no section {absent[0]}")
            sections = {tag: section.contents() for tag, section in stored_sections.items() if tag != "DATA"}
            meta = Reader(sections["META"], "META")
            triple, features = meta.text(), meta.many(Reader.text)
            devices = list(meta.many(Reader.text))
            functions = Reader(sections["FUNC"], "FUNC")
            program = read_functions(functions)
            program.devices = devices
            constants = Reader(sections["CNST"], "CNST")
            program.constants = list(constants.many(lambda r: read_constant(r, stored_sections["DATA"])))
            modules = Reader(sections.get("MODS", memoryview(b"\0")), "MODS")
            extern = read_modules(modules, stored_sections["DATA"])
            stored_sections["DATA"].read()
            for reader in (meta, functions, constants, modules):
                reader.finish()
            native = bytes(sections["NATV"])
            if native:
                _check_host(triple, features)
            executable = cls(program, native, triple, features, extern)
            if "DBUG" in sections:
                debug = Reader(sections["DBUG"], "DBUG")
                executable.debug = DebugInfo.read(debug)
                debug.finish()
            executable.library()
            return executable
        except (ExecutableError, BytecodeError, ObjectFileError) as error:
            raise ExecutableError(f"cannot load {name}: {error}") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the executable to a file. A file that is there already is replaced at once or not at all.

        Parameters
        ----------
        path
            The file.
        """
        with in_place_of(path) as temporary, temporary.open("wb") as file:
            file.writelines(self.pieces())

    def export_library(self, file_name: str | os.PathLike[str], linker: str | Sequence[str] | None = None) -> None:
        """Write a shared library with the compiled functions, which programs in C, C++ and Rust call without Python.

        Of an executable without compiled functions the file is that of `save`. `load` and `relax.runtime.load_module`
        read either.

        Parameters
        ----------
        file_name
            The file.
        linker
            The command that links, by default one that is here (`relax.runtime.system_linker`).

        Raises
        ------
        ExecutableError
            For a program that needs Python, and if the linker fails.
        """
        if not self.program.compiled:
            self.save(file_name)
            return
        try:
            data = library_object(self)
            link_library(data, Path(file_name), linker.split() if isinstance(linker, str) else linker)
        except (ExecutableError, ObjectFileError) as error:
            raise ExecutableError(f"cannot export {file_name}: {error}") from None

    @property
    def mod(self) -> Executable:
        """The executable itself, where programs written for TVM ask for the module that holds it."""
        return self

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Executable:
        """Read an executable from a file.

        Parameters
        ----------
        path
            The file.

        Returns
        -------
        Executable
            The executable.

        Raises
        ------
        ExecutableError
            If it is no executable, is broken, or cannot run on this machine; the message says which.
        """
        with Path(path).open("rb") as file:
            return cls.read(file, str(path))


def load_executable(path: str | os.PathLike[str]) -> Executable:
    """Read an executable that ``Executable.save`` wrote.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    Executable
        The executable.

    Raises
    ------
    ExecutableError
        If it is no executable, is broken, or cannot run on this machine.
    """
    return Executable.load(path)


load_module = load_executable


def constant_text(value: Any) -> str:
    """Return a constant as one line; large tensors as dtype and shape only."""
    if isinstance(value, tvm_ffi.Tensor):
        return f"tensor {value.dtype} {value.shape}"
    if isinstance(value, tvm_ffi.Shape):
        return f"shape {tuple(value)}"
    if isinstance(value, tvm_ffi.dtype):
        return f"dtype {value}"
    return repr(str(value)) if isinstance(value, str) else str(value)


def _check_host(triple: str, features: Iterable[str]) -> None:
    machine = machine_of_triple(triple)
    if machine != host_machine():
        host = title(host_machine(), "one that cannot run compiled kernels")
        raise ExecutableError(f"it is compiled for {triple or 'an unnamed target'}, this machine is {host}")
    missing = missing_features(features)
    if missing:
        raise ExecutableError(f"it uses instructions this processor does not have: {', '.join(missing)}")


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


__all__ = ["Executable", "ExecutableError", "FunctionEntry", "load_executable"]
