"""The machine's instructions, and the functions and constants a program is made of.

    Instruction ::= Call dst, func, args      dst := func(args)
                  | Ret src                   leave the function with src
                  | If cond, false_offset     go on if cond is true, else jump
                  | Goto offset               jump
    Operand     ::= Reg(index) | Imm(int) | Const(index) | Func(index)

A function has registers of its own; the first ones hold its arguments. Jumps are relative to the jumping
instruction. `func` is an index into the executable's function table, whose entries name functions of the
executable, compiled kernels, or packed functions (builtins, and whatever the process has registered).
Closures are called by the builtin ``vm.builtin.invoke_closure``.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final, TypeAlias

from .info import FuncInfo, Info, ObjectInfo
from .records import dataclass

VOID: Final = -1
"""Destination register of a call whose result is unused."""


@dataclass(frozen=True)
class Reg:
    """A register of the running function."""

    index: int


@dataclass(frozen=True)
class Imm:
    """An integer that stands in the instruction."""

    value: int


@dataclass(frozen=True)
class Const:
    """A constant of the executable."""

    index: int


@dataclass(frozen=True)
class Func:
    """A function of the function table, as a value."""

    index: int


Operand: TypeAlias = "Reg | Imm | Const | Func"


@dataclass(frozen=True)
class Call:
    """``dst := func(args)``; `func` is an index into the function table, `dst` a register or VOID."""

    dst: int
    func: int
    args: tuple[Operand, ...]


@dataclass(frozen=True)
class Ret:
    """Leave the function with a value."""

    src: Operand


@dataclass(frozen=True)
class If:
    """Go on if `cond` (a register that holds a Python bool) is true, else jump by `false_offset`."""

    cond: Operand
    false_offset: int


@dataclass(frozen=True)
class Goto:
    """Jump by `offset`."""

    offset: int


Instruction: TypeAlias = "Call | Ret | If | Goto"


@dataclass(frozen=True)
class FunctionCode:
    """A function of the executable."""

    name: str
    params: tuple[str, ...]
    param_infos: tuple[Info, ...]
    ret_info: Info
    pure: bool
    exported: bool
    """True if it is an entry point; others are called by the program's own functions only."""
    registers: int
    code: tuple[Instruction, ...]
    locations: tuple[str, ...] = ()
    """For each instruction, the place in the source it comes from ("file:line:column", "" if not known)."""

    @property
    def info(self) -> FuncInfo:
        """The function's signature."""
        return FuncInfo(self.param_infos, self.ret_info, self.pure)


@dataclass(frozen=True)
class FunctionEntry:
    """A name in the function table. `kind` is ``"vm"``, ``"kernel"`` or ``"packed"``."""

    kind: str
    name: str
    info: FuncInfo | None = None
    """A kernel's signature, for when it is passed around as a value."""


FUNCTION_KINDS: Final = ("vm", "kernel", "packed")


class BytecodeError(ValueError):
    """A program that the machine cannot run; the message says where it breaks the rules."""


@dataclass
class Program:
    """Constants, function table and code: what an executable holds besides machine code."""

    constants: list[Any] = field(default_factory=list[Any])
    """Machine values: tensors, shapes, strings, dtypes, numbers, None; and Infos for checks of closures."""
    entries: list[FunctionEntry] = field(default_factory=list[FunctionEntry])
    functions: dict[str, FunctionCode] = field(default_factory=dict[str, FunctionCode])
    compiled: tuple[str, ...] = ()
    """The functions that have machine code as well, which runs unless somebody looks at their calls."""
    table: tuple[Operand, ...] = ()
    """The operands that compiled functions name; an integer is a device (see `relax.runtime.compiled`)."""
    devices: list[str] = field(default_factory=list[str])
    """The devices that integers in calls of builtins count, as ``"cpu:1"``: the module's virtual devices."""


def verify(program: Program) -> None:
    """Check that every index, register and jump is in range, and no register read before it is set.

    Raises BytecodeError.
    """
    for entry in program.entries:
        if entry.kind not in FUNCTION_KINDS:
            raise BytecodeError(f"function table: {entry.name} is of kind {entry.kind!r}")
        if entry.kind == "vm" and entry.name not in program.functions:
            raise BytecodeError(f"function table: there is no function {entry.name}")
    for name in program.compiled:
        if name not in program.functions:
            raise BytecodeError(f"compiled functions: there is no function {name}")
    limits = {Const: len(program.constants), Func: len(program.entries)}
    for operand in program.table:
        if isinstance(operand, Reg) or (not isinstance(operand, Imm) and operand.index >= limits[type(operand)]):
            raise BytecodeError(f"the table of compiled functions: there is no {operand_text(operand)}")
    for name, function in program.functions.items():
        if name != function.name:
            raise BytecodeError(f"function {function.name} is filed as {name}")
        _verify_function(program, function)


def _verify_function(program: Program, function: FunctionCode) -> None:
    def fail(problem: str) -> BytecodeError:
        return BytecodeError(f"{function.name}: {problem}")

    if len(function.params) != len(function.param_infos):
        raise fail("parameters and their infos differ in number")
    if len(function.params) > function.registers:
        raise fail(f"{len(function.params)} parameters do not fit {function.registers} registers")
    if function.locations and len(function.locations) != len(function.code):
        raise fail("instructions and locations differ in number")
    if not function.code or not isinstance(function.code[-1], Ret | Goto):
        raise fail("it may run past its end")
    limits = {Reg: function.registers, Const: len(program.constants), Func: len(program.entries)}
    for pc, instruction in enumerate(function.code):
        operands, target = _operands_and_jump(instruction)
        for operand in operands:
            if isinstance(operand, Imm):
                continue
            if not 0 <= operand.index < limits[type(operand)]:
                raise fail(f"instruction {pc}: there is no {operand_text(operand)}")
        if target is not None and not 0 <= pc + target < len(function.code):
            raise fail(f"instruction {pc} jumps to {pc + target}, outside the function")
        if isinstance(instruction, Call):
            _verify_call(program, function, pc, instruction)
    _verify_reads(function)


def _verify_call(program: Program, function: FunctionCode, pc: int, call: Call) -> None:
    where = f"{function.name}: instruction {pc}"
    if not 0 <= call.func < len(program.entries):
        raise BytecodeError(f"{where}: there is no function {call.func}")
    if call.dst != VOID and not 0 <= call.dst < function.registers:
        raise BytecodeError(f"{where}: there is no register {call.dst}")
    entry = program.entries[call.func]
    if entry.kind == "vm" and len(call.args) != len(program.functions[entry.name].params):
        expected = len(program.functions[entry.name].params)
        raise BytecodeError(f"{where}: {entry.name} takes {expected} arguments, {len(call.args)} are given")


def _verify_reads(function: FunctionCode) -> None:
    """Check that every register is set before it is read, on every path.

    A walk from the start and from every target of a jump, again wherever less is sure to be set than before.
    """
    targets = {n for pc, i in enumerate(function.code) for n in successors(pc, i) if n != pc + 1}
    surely_set: dict[int, set[int]] = {}
    pending = [(0, set(range(len(function.params))))]
    while pending:
        pc, written = pending.pop()
        while True:
            if pc in targets:
                before = surely_set.get(pc)
                if before is not None and before <= written:
                    break
                written = written if before is None else written & before
                surely_set[pc] = set(written)
            instruction = function.code[pc]
            unset = reads(instruction) - written
            if unset:
                raise BytecodeError(f"{function.name}: instruction {pc} reads %{min(unset)}, which nothing has set")
            if isinstance(instruction, Call):
                written.add(instruction.dst)
            following = successors(pc, instruction)
            if pc + 1 not in following:
                pending += [(n, set(written)) for n in following]
                break
            pending += [(n, set(written)) for n in following if n != pc + 1]
            pc += 1


def _operands_and_jump(instruction: Instruction) -> tuple[tuple[Operand, ...], int | None]:
    """The operands read, and the jump, if any."""
    match instruction:
        case Call(args=args):
            return args, None
        case Ret(src):
            return (src,), None
        case If(cond, offset):
            return (cond,), offset
        case Goto(offset):
            return (), offset


def operand_text(operand: Operand) -> str:
    """``%3`` a register, ``7`` an integer, ``c2`` a constant, ``f1`` a function."""
    match operand:
        case Reg(index):
            return f"%{index}"
        case Imm(value):
            return str(value)
        case Const(index):
            return f"c{index}"
        case Func(index):
            return f"f{index}"


def reads(instruction: Instruction) -> set[int]:
    """The registers an instruction reads."""
    return {operand.index for operand in _operands_and_jump(instruction)[0] if isinstance(operand, Reg)}


def successors(pc: int, instruction: Instruction) -> tuple[int, ...]:
    """The instructions that may run next."""
    match instruction:
        case Call():
            return (pc + 1,)
        case Ret():
            return ()
        case If(_, offset):
            return (pc + 1, pc + offset)
        case Goto(offset):
            return (pc + offset,)


def dead_after(function: FunctionCode) -> list[tuple[int, ...]]:
    """For each instruction, the registers whose values nothing reads once it has run.

    The machine lets go of them there, so that memory is returned as early as it can be. One pass from the
    end; code that jumps backward (the compiler makes none) keeps everything until its function is left.
    """
    count = len(function.code)
    dead: list[tuple[int, ...]] = [()] * count
    targets: set[int] = set()
    for pc, instruction in enumerate(function.code):
        jumps = [n for n in successors(pc, instruction) if n != pc + 1]
        if any(n <= pc for n in jumps):
            return dead
        targets.update(jumps)
    at_target: dict[int, frozenset[int]] = {}
    live: set[int] = set()
    for pc in range(count - 1, -1, -1):
        instruction = function.code[pc]
        match instruction:
            case Call():
                touched = reads(instruction) | ({instruction.dst} - {VOID})
                dead[pc] = tuple(sorted(touched - live))
                live.discard(instruction.dst)
            case If(_, offset):
                live |= at_target[pc + offset]
                dead[pc] = tuple(sorted(reads(instruction) - live))
            case Goto(offset):
                live = set(at_target[pc + offset])
            case Ret():
                live = set()
        live |= reads(instruction)
        if pc in targets:
            at_target[pc] = frozenset(live)
    return dead


def default_info(count: int) -> tuple[Info, ...]:
    """Infos of parameters about which nothing is known."""
    return (ObjectInfo(),) * count
