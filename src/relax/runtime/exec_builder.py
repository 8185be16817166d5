"""ExecBuilder: an executable, instruction by instruction.

    ib = relax.ExecBuilder()
    with ib.function("main", num_inputs=2):
        ib.emit_call("test.add", args=[ib.r(0), ib.r(1)], dst=ib.r(2))
        ib.emit_ret(ib.r(2))
    ex = ib.get()

The compiler's bytecode generator uses it, and so may anybody who wants to drive the machine directly.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any, Final

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
    Imm,
    Instruction,
    Operand,
    Program,
    Reg,
    Ret,
    default_info,
)
from .debug_info import DebugInfo, KernelInfo
from .executable import Executable
from .info import FuncInfo, Info, ObjectInfo
from .modules import Module
from .records import dataclass
from .sizes import check_dimensions
from .tensor import tensor_of

_PLAIN: Final = frozenset({str, type(None)})
"""Types of constants that can be compared and hashed directly."""


@dataclass
class _Draft:
    name: str
    params: tuple[str, ...]
    param_infos: tuple[Info, ...]
    ret_info: Info
    pure: bool
    exported: bool
    code: list[Instruction] = field(default_factory=list[Instruction])
    locations: list[str] = field(default_factory=list[str])
    registers: int = 0
    variables: dict[int, str] = field(default_factory=dict[int, str])


class ExecBuilder:
    """Collects functions, constants and instructions into an Executable."""

    def __init__(self) -> None:
        self._program = Program()
        self._entries: dict[str, int] = {}
        self._constants: dict[Any, int] = {}
        self._draft: _Draft | None = None
        self._debug = DebugInfo()
        self.location = ""
        """The place in the source ("file:line:column") that the next instructions come from."""

    # ------------------------------------------------------------------------------ operands

    def r(self, index: int) -> Reg:
        """A register."""
        return Reg(index)

    def imm(self, value: int) -> Imm:
        """An integer."""
        return Imm(value)

    def void_arg(self) -> Reg:
        """The destination of a call whose result nobody uses."""
        return Reg(VOID)

    def c(self, index: int) -> Const:
        """A constant, by index."""
        return Const(index)

    def f(self, name: str) -> Func:
        """A function, as a value."""
        return Func(self.declare_function(name))

    def declare_function(self, name: str, kind: str = "", info: FuncInfo | None = None) -> int:
        """The index of a name in the function table; `kind` is found out at the end unless it is given."""
        if name not in self._entries:
            self._entries[name] = len(self._program.entries)
            self._program.entries.append(FunctionEntry(kind, name, info))
        elif kind:
            self._program.entries[self._entries[name]] = FunctionEntry(kind, name, info)
        return self._entries[name]

    def convert_constant(self, value: Any) -> Operand:
        """The operand for a Python value: an integer in the instruction, or a constant of the executable.

        Equal strings, shapes and numbers are kept once; tensors are kept as often as they are given. Raises
        ValueError for a shape whose dimensions are no sizes.
        """
        if type(value) in _PLAIN and (existing := self._constants.get((type(value), value))) is not None:
            return Const(existing)
        if isinstance(value, (Reg, Imm, Const, Func)):
            return value
        if type(value) is int or (isinstance(value, int) and not isinstance(value, bool)):
            return Imm(value)
        if isinstance(value, tvm_ffi.Shape):
            check_dimensions(value)
        tensor = tensor_of(value)
        key: Any = None if tensor is not None else (type(value), str(value) if isinstance(value, float) else value)
        if key is not None and key in self._constants:
            return Const(self._constants[key])
        index = len(self._program.constants)
        self._program.constants.append(value if tensor is None else tensor)
        if key is not None:
            self._constants[key] = index
        return Const(index)

    # ---------------------------------------------------------------------- functions and code

    @contextmanager
    def function(
        self,
        name: str,
        num_inputs: int = 0,
        params: Iterable[str] | None = None,
        *,
        param_infos: Sequence[Info] | None = None,
        ret_info: Info | None = None,
        pure: bool = True,
        exported: bool = True,
    ) -> Generator[None]:
        """A ``with`` whose body emits the function `name`.

        Raises BytecodeError inside another function's, and if there is a function of this name already.
        """
        if self._draft is not None:
            raise BytecodeError(f"{name}: function {self._draft.name} is not finished")
        if name in self._program.functions:
            raise BytecodeError(f"there are two functions {name}")
        names = tuple(params) if params is not None else tuple(f"arg{i}" for i in range(num_inputs))
        infos = tuple(param_infos) if param_infos is not None else default_info(len(names))
        draft = _Draft(name, names, infos, ret_info or ObjectInfo(), pure, exported, registers=len(names))
        self._draft = draft
        self.declare_function(name, "vm")
        yield
        self._draft = None
        self._program.functions[name] = FunctionCode(
            name,
            draft.params,
            draft.param_infos,
            draft.ret_info,
            draft.pure,
            draft.exported,
            draft.registers,
            tuple(draft.code),
            tuple(draft.locations) if any(draft.locations) else (),
        )
        self._debug.registers[name] = tuple(draft.variables.get(i, "") for i in range(draft.registers))

    def name_register(self, register: Reg, variable: str) -> None:
        """Name the variable of the program that a register of the open function holds."""
        self._function.variables[register.index] = variable

    def describe_kernel(self, name: str, info: KernelInfo) -> None:
        """Record which arguments a kernel writes, and its operation count."""
        self._debug.kernels[name] = info

    def set_compiled(self, names: Iterable[str], table: Iterable[Operand]) -> None:
        """Record which functions have machine code in the library, and the values it names in cell order."""
        self._program.compiled, self._program.table = tuple(names), tuple(table)

    @property
    def position(self) -> int:
        """The number of the next instruction."""
        return len(self._function.code)

    def emit_call(self, name: str, args: Iterable[Any] = (), dst: Reg | None = None) -> None:
        """``dst := name(args)``; arguments are operands or Python constants."""
        operands = tuple(self.convert_constant(arg) for arg in args)
        self._emit(Call(VOID if dst is None else dst.index, self.declare_function(name), operands), dst)

    def emit_ret(self, result: Any) -> None:
        """Return a register or a constant."""
        self._emit(Ret(self.convert_constant(result)))

    def emit_if(self, cond: Operand, false_offset: int = 0) -> int:
        """Jump by `false_offset` if `cond` is false. Returns the instruction's index, for ``patch``."""
        return self._emit(If(cond, false_offset))

    def emit_goto(self, offset: int = 0) -> int:
        """Jump by `offset`. Returns the instruction's index, for ``patch``."""
        return self._emit(Goto(offset))

    def patch(self, pc: int) -> None:
        """Make the jump numbered `pc` go to the next instruction."""
        code = self._function.code
        offset = len(code) - pc
        jump = code[pc]
        code[pc] = If(jump.cond, offset) if isinstance(jump, If) else Goto(offset)

    def set_devices(self, devices: Iterable[str]) -> None:
        """Name the devices (``"cpu:1"``) that integers in calls of builtins count."""
        self._program.devices = list(devices)

    def get(
        self, native: bytes = b"", triple: str = "", features: Iterable[str] = (), modules: Iterable[Module] = ()
    ) -> Executable:
        """The executable. Names that are no function of it are packed functions, unless declared kernels."""
        for index, entry in enumerate(self._program.entries):
            if not entry.kind:
                kind = "vm" if entry.name in self._program.functions else "packed"
                self._program.entries[index] = FunctionEntry(kind, entry.name, entry.info)
        executable = Executable(self._program, native, triple, features, modules)
        executable.debug = self._debug
        return executable

    @property
    def _function(self) -> _Draft:
        if self._draft is None:
            raise BytecodeError("instructions belong in a function: with builder.function(...)")
        return self._draft

    def _emit(self, instruction: Instruction, dst: Reg | None = None) -> int:
        draft = self._function
        registers = [dst.index] if dst is not None else []
        if isinstance(instruction, Call):
            registers += [arg.index for arg in instruction.args if isinstance(arg, Reg)]
        draft.registers = max(draft.registers, *(index + 1 for index in registers), 0)
        draft.code.append(instruction)
        draft.locations.append(self.location)
        return len(draft.code) - 1
