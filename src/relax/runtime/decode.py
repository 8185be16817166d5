"""From bytecode to what the interpreter's loop runs: names are resolved, operands become list indices.

A running function keeps one list: its registers, and behind them everything its instructions name directly
(constants, integers, function values). Every operand is then an index into that list, and the arguments of a
call are picked by one ``itemgetter``.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Final

import tvm_ffi

from .allocator import Allocator
from .builtin_table import BUILTINS
from .builtins import invoke_foreign
from .bytecode import VOID, Call, Const, Func, FunctionCode, Goto, If, Imm, Operand, Program, Reg, Ret, dead_after
from .carried import ffi_function
from .closure import Closure
from .compiled import (
    COMPILED_PREFIX,
    CompiledFunction,
    MachineOfFunctions,
    bytecode_cell,
    callee_cell,
    compiled_functions,
    deeper_cell,
    table_values,
)
from .devices import Device, cpu
from .executable import Executable
from .names import split
from .records import dataclass
from .registry import find_packed, known_by
from .values import import_result

CALL, CALL_VM, INVOKE, RET, IF, GOTO = range(6)


class LinkError(ValueError):
    """The executable names functions that are nowhere to be found; the message lists all of them."""


@dataclass(frozen=True)
class Op:
    """A decoded instruction; which fields matter depends on `kind`."""

    kind: int
    dst: int = VOID
    """The register of the result; VOID if nothing reads it."""
    target: Any = None
    """CALL: a callable; CALL_VM: the Code."""
    pick: Callable[[list[Any]], Sequence[Any]] = tuple
    """The arguments, from the register list."""
    drop: tuple[int, ...] = ()
    """Registers to let go of: their values are not read again."""
    src: int = 0
    """RET, IF: the register read."""
    jump: int = 0
    """IF: where to go if false; GOTO: where to go."""
    tail: bool = False
    """CALL_VM, INVOKE: a tail call, whose caller's frame can be dropped."""
    name: str = ""
    """The function called, as messages and hooks call it."""
    foreign: bool = False
    """CALL: the messages of the function's errors are its own."""


@dataclass
class Code:
    """A function, decoded."""

    function: FunctionCode
    registers: list[Any] = field(default_factory=list[Any])
    """The list a frame starts with: empty registers, then operands."""
    ops: list[Op] = field(default_factory=list[Op])
    compiled: CompiledFunction | None = None
    """The function's machine code, if compiled. Its instructions do the same and are used when calls are observed."""

    def enter(self, args: Sequence[Any]) -> list[Any]:
        """The register list of a new frame."""
        registers = self.registers.copy()
        registers[: len(args)] = args
        return registers


_NONE: Final = operator.itemgetter(slice(0, 0))


def _picker(indices: Sequence[int]) -> Callable[[list[Any]], Sequence[Any]]:
    if not indices:
        return _NONE
    if len(indices) == 1:
        return operator.itemgetter(slice(indices[0], indices[0] + 1))
    return operator.itemgetter(*indices)


class Linker:
    """Resolves an executable's function table for one machine, and decodes its functions."""

    def __init__(
        self, machine: MachineOfFunctions, executable: Executable, devices: Sequence[Device], allocator: Allocator
    ) -> None:
        self.machine = machine
        self.executable = executable
        self.devices = devices
        self.allocator = allocator
        self.library = executable.library()
        self.functions_of_modules = executable.module_functions()
        self.codes = {name: Code(function) for name, function in executable.functions.items()}
        self.targets = self._resolve_all()
        self._link_compiled()

    def link(self) -> dict[str, Code]:
        """All functions, ready to run. Raises LinkError."""
        for code in self.codes.values():
            self._decode(code)
        return self.codes

    # -------------------------------------------------------------------------------- resolving

    def _resolve_all(self) -> list[Any]:
        targets: list[Any] = []
        missing: list[str] = []
        unknown: list[str] = []
        for entry in self.executable.program.entries:
            target = self._resolve(entry.kind, entry.name)
            if target is None:
                unknown.append(entry.name)
                kind = "kernel" if entry.kind == "kernel" else f"{entry.kind} function"
                missing.append(f"{kind} {split(entry.name)[0]}")
            targets.append(target)
        if missing:
            raise LinkError(
                "the executable calls functions that neither it nor this process has: "
                f"{', '.join(missing)}. Packed functions are made known by {known_by(unknown)}."
            )
        return targets

    def _resolve(self, kind: str, name: str) -> Any:
        """Kernels of the executable, its modules' functions, its own, the machine's builtins, then the process."""
        looked_up, name = name, split(name)[0]
        if kind != "vm" and self.library is not None and name in self.library:
            return self.library.get_function(name)
        if kind == "kernel":
            return None
        if kind != "vm" and name in self.functions_of_modules:
            return self.functions_of_modules[name]
        if name in self.codes:
            return self.codes[name]
        builtin = BUILTINS.get(name)
        if builtin is None:
            return find_packed(looked_up)
        function = builtin.function
        if builtin.pooled:
            function = functools.partial(function, allocator=self.allocator)
        if builtin.first_device and self.devices[0] != cpu():
            function = _on_device(function, self.devices[0])
        return function

    def _link_compiled(self) -> None:
        """Make the table of compiled functions, and give each to the function it is the machine code of."""
        program = self.executable.program
        if not program.compiled:
            return
        missing = [n for n in program.compiled if self.library is None or f"{COMPILED_PREFIX}{n}" not in self.library]
        if self.library is None or missing:
            raise LinkError(f"the executable has no machine code of compiled functions: {', '.join(missing)}")
        cells = table_values(program.table, program.constants, self._cell, self.devices)
        functions = compiled_functions(
            program.compiled, self.library, cells, self.devices[0], self.machine.max_depth, self.allocator.counts
        )
        for name, function in functions.items():
            self.codes[name].compiled = function

    def _cell(self, index: int) -> tvm_ffi.Function:
        """The packed function by which compiled functions call an entry of the function table."""
        target = self.targets[index]
        if not isinstance(target, Code):
            builtin = BUILTINS.get(self.executable.program.entries[index].name)
            if builtin is not None and builtin.compiled is not None and target is builtin.function:
                return builtin.compiled()
            return callee_cell(target)
        name = target.function.name
        make = deeper_cell if name in self.executable.program.compiled else bytecode_cell
        return make(self.machine, name)

    # --------------------------------------------------------------------------------- decoding

    def _decode(self, code: Code) -> None:
        function = code.function
        code.registers = [None] * function.registers
        constant_registers: dict[Operand, int] = {}

        def register_of(operand: Operand) -> int:
            if isinstance(operand, Reg):
                return operand.index
            if operand not in constant_registers:
                constant_registers[operand] = len(code.registers)
                code.registers.append(self._value(operand))
            return constant_registers[operand]

        def device_place(operand: Operand) -> int:
            if not isinstance(operand, Imm):
                return register_of(operand)
            code.registers.append(self.devices[operand.value])
            return len(code.registers) - 1

        drops = dead_after(function)
        for pc, instruction in enumerate(function.code):
            match instruction:
                case Call():
                    following = function.code[pc + 1] if pc + 1 < len(function.code) else None
                    indices = [register_of(arg) for arg in instruction.args]
                    at = device_argument(self.executable.program, instruction)
                    if at is not None:
                        indices[at] = device_place(instruction.args[at])
                    code.ops.append(self._call(instruction, indices, drops[pc], following))
                case Ret(src):
                    code.ops.append(Op(RET, src=register_of(src)))
                case If(cond, offset):
                    code.ops.append(Op(IF, src=register_of(cond), jump=pc + offset))
                case Goto(offset):
                    code.ops.append(Op(GOTO, jump=pc + offset))

    def _call(self, call: Call, indices: list[int], dead: tuple[int, ...], following: Any) -> Op:
        entry, target = self.executable.program.entries[call.func], self.targets[call.func]
        dst = VOID if call.dst in dead else call.dst
        drop = tuple(register for register in dead if register != call.dst)
        tail = isinstance(following, Ret) and following.src == Reg(call.dst)
        pick = _picker(indices)
        if isinstance(target, Code):
            return Op(CALL_VM, dst, target, pick, drop, tail=tail, name=entry.name)
        if target is invoke_foreign:
            return Op(INVOKE, dst, target, pick, drop, tail=tail, name=entry.name)
        kernel = self.library is not None and entry.name in self.library
        if isinstance(target, tvm_ffi.Function) and not kernel:
            target = importing(target)
            foreign = True
        else:  # what a program asserts is its own message, like that of a packed function
            builtin = BUILTINS.get(entry.name)
            foreign = builtin is not None and builtin.program_errors
        return Op(CALL, dst, target, pick, drop, name=entry.name, foreign=foreign)

    def _value(self, operand: Operand) -> Any:
        """The value of an operand that is not a register."""
        match operand:
            case Imm(value):
                return value
            case Const(index):
                return self.executable.constants[index]
            case Func(index):
                return self._function_value(index)
            case Reg(index):
                raise AssertionError(f"register {index} has no fixed value")

    def _function_value(self, index: int) -> Any:
        entry, target = self.executable.program.entries[index], self.targets[index]
        if isinstance(target, Code):
            return Closure(self.machine, entry.name, target, (), target.function.info)
        if entry.kind == "kernel":
            return Closure(self.machine, entry.name, target, (), entry.info)
        return target if isinstance(target, tvm_ffi.Function) else ffi_function(target)


def device_argument(program: Program, call: Call) -> int | None:
    """The position of the argument of a call that is a device, None if none is."""
    called = BUILTINS.get(program.entries[call.func].name)
    if called is None or called.device is None or called.device >= len(call.args):
        return None
    return called.device


def devices_used(program: Program) -> list[int]:
    """The numbers of the devices that a program's instructions name, ascending."""
    used: set[int] = set()
    for function in program.functions.values():
        for instruction in function.code:
            if isinstance(instruction, Call):
                at = device_argument(program, instruction)
                operand = None if at is None else instruction.args[at]
                if isinstance(operand, Imm):
                    used.add(operand.value)
    used |= {operand.value for operand in program.table if isinstance(operand, Imm)}
    return sorted(used)


def _on_device(allocate: Callable[..., Any], first: Device) -> Callable[..., Any]:
    """An allocation that uses the machine's first device if it is given none."""

    def call(shape: Any, dtype: Any, device: Device = first) -> Any:
        return allocate(shape, dtype, device)

    return call


def importing(function: tvm_ffi.Function) -> Callable[..., Any]:
    """A packed function of the process, whose results become values of the machine."""

    def call(*args: Any) -> Any:
        return import_result(function(*args))

    return call
