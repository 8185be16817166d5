"""The names and counts that an executable keeps of its program, for profiles and errors.

It is not needed to run. A file keeps it in a section of its own, which older files have not.

The number of arithmetic operations of a kernel depends on the sizes of its arguments. It is kept as words in postfix
order: a number, ``a2.0`` (size 0 of argument 2), ``s3`` (argument 3, a number), and the operations ``+ - * // % min
max``. That of a product of an (n, 4) by a (4, 8) matrix is ``a0.0 64 *``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import tvm_ffi

from .bytecode import Call, FunctionCode, Program, Reg
from .encoding import Reader, Writer
from .records import dataclass
from .size_code import OPERATIONS


@dataclass(frozen=True)
class KernelInfo:
    """A kernel: the positions of the arguments that it writes, and its count of operations ("" if not known)."""

    written: tuple[int, ...] = ()
    operations: str = ""

    def flops(self, args: Sequence[Any]) -> int | None:
        """The operations of a call; None if they are not known."""
        stack: list[int] = []
        try:
            for word in self.operations.split():
                operation = OPERATIONS.get(word)
                if operation is not None:
                    b, a = stack.pop(), stack.pop()
                    stack.append(operation(a, b))
                elif word[0] == "a":
                    position, _, dim = word[1:].partition(".")
                    stack.append(int(args[int(position)].shape[int(dim)]))
                else:
                    stack.append(int(args[int(word[1:])] if word[0] == "s" else word))
        except (IndexError, AttributeError, ValueError, TypeError, ZeroDivisionError):
            return None  # the file is damaged, or a caller passed something else: a profile is not to fail of it
        return stack.pop() if len(stack) == 1 else None


@dataclass
class DebugInfo:
    """Names and counts of a whole program."""

    registers: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """For each function, the variable name of each register, "" for registers that hold none."""
    kernels: dict[str, KernelInfo] = field(default_factory=dict[str, KernelInfo])

    def write(self, w: Writer) -> None:
        """Append the contents of the section."""
        w.uint(len(self.registers))
        for name, variables in self.registers.items():
            w.text(name)
            w.uint(len(variables))
            for variable in variables:
                w.text(variable)
        w.uint(len(self.kernels))
        for name, info in self.kernels.items():
            w.text(name)
            w.uint(len(info.written))
            for position in info.written:
                w.uint(position)
            w.text(info.operations)

    @classmethod
    def read(cls, r: Reader) -> DebugInfo:
        """Take the contents of the section."""
        registers = dict(r.many(lambda r: (r.text(), r.many(Reader.text))))
        kernels = dict(r.many(lambda r: (r.text(), KernelInfo(r.many(Reader.uint), r.text()))))
        return cls(registers, kernels)


@dataclass(frozen=True)
class CallNames:
    """A call of a program: the variable that it computes, and those of its arguments ("" where there is none)."""

    variable: str = ""
    operands: tuple[str, ...] = ()
    written: tuple[int, ...] = ()
    """The positions of the arguments that are results."""


def names_of_call(debug: DebugInfo, program: Program, function: FunctionCode, pc: int) -> CallNames:
    """The names of the call that is an instruction of a function."""
    instruction = function.code[pc]
    if not isinstance(instruction, Call):
        return CallNames()
    entry = program.entries[instruction.func]
    registers = debug.registers.get(function.name, ())
    named = tuple(
        registers[arg.index] if isinstance(arg, Reg) and arg.index < len(registers) else "" for arg in instruction.args
    )
    if entry.kind == "kernel" and entry.name in debug.kernels:
        written = debug.kernels[entry.name].written
    else:  # a packed function has its results last; a builtin gives one back
        written = (len(named) - 1,) if instruction.dst < 0 and named else ()
    results = [named[i] for i in written if i < len(named)]
    if 0 <= instruction.dst < len(registers):
        results = [registers[instruction.dst]]
    return CallNames(_common(results), named, written)


def _common(results: Sequence[str]) -> str:
    """Return the common stem of tuple fields' names: ``s`` for ``s_0`` and ``s_1``."""
    base = results[0].removesuffix("_0") if results else ""
    if len(results) > 1 and all(name == f"{base}_{i}" for i, name in enumerate(results)):
        return base
    return ", ".join(filter(None, results))


def shapes_text(args: Sequence[Any], result: Any, written: Sequence[int]) -> str:
    """The shapes of a call's tensors: ``(2, 4) (4, 8) -> (2, 8)``."""
    ins = [arg for i, arg in enumerate(args) if i not in written]
    outs = [args[i] for i in written if i < len(args)] or [result]
    return " -> ".join(filter(None, (_shapes(ins), _shapes(outs))))


def _shapes(values: Sequence[Any]) -> str:
    return " ".join(
        f"({', '.join(map(str, value.shape))}{',' * (len(value.shape) == 1)})"
        for value in values
        if isinstance(value, tvm_ffi.Tensor)
    )


def tensor_bytes(values: Sequence[Any]) -> int:
    """The bytes of the tensors among values, each counted once."""
    tensors = {value.data_ptr(): value for value in values if isinstance(value, tvm_ffi.Tensor)}
    return sum(tensor.numel() * tensor.dtype.itemsize for tensor in tensors.values())
