"""Compiled Relax functions at run time: the table of what they name, and calling them.

Machine code of a compiled function has the packed form, with the program's table as its context. The table has a cell
for each constant, packed function, bytecode function and device that some compiled function of the program names:

    0   a function that makes an argument a value of the machine (compact, in host memory)
    1   a function that is told, innermost first, the places an error passes
    2   the machine's first device
    3   a function that makes the result of a packed function a value of the machine
    4   the greatest number of calls that may be under way, `VirtualMachine.max_depth`
    5   the bytes of the stack that calls of compiled functions by each other may take
    6   counts of small storages, which machine code allocates itself (`Allocator.counts`)
    …   the operands of `Program.table`

Where more of the stack would be taken, or more calls are under way, a compiled function calls the function in its own
cell instead of running: that carries the call out as bytecode, which needs no stack, and counts on.

A table belongs to a machine and its executable: it lives as long as that or any function does that was made of it.
What the table holds of the machine itself, it holds weakly.

An error passes machine code as tvm-ffi's: kind and message. Python's own exception is kept aside on its way, and raised
again where the call came from.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast

import tvm_ffi

from .builtin_table import BUILTINS, Effects, builtin
from .bytecode import Const, Func, Imm, Operand
from .carried import carried, ffi_function
from .closure import Closure, FunctionCaller, closure_of
from .devices import Device
from .heap import ShapeHeap
from .info import Info, TensorInfo, TupleInfo
from .native import NativeLibrary, cells_function
from .places import CallSite, annotate
from .values import import_result, import_value, mapped

COMPILED_PREFIX: Final = "__vmtir__"
"""The prefix of the names of compiled functions in a library, before those of the Relax functions."""
FIRST_DEVICE, IMPORT_RESULT, MOST_CALLS, STACK_LIMIT, COUNTS, FIRST_CELL = 2, 3, 4, 5, 6, 7
STACK_BYTES: Final = 1 << 16
"""Stack in bytes that machine code uses before deeper calls run as bytecode: half of a 128 KiB thread stack."""
NOTES_END: Final = "\t"
"""Separator of the notes of a shape heap in one string, and of the parts of a source location."""


def place_text(function: str, location: str, callee: str, foreign: bool) -> str:
    """Encode a call site as the string that compiled code holds."""
    shown = "" if callee.startswith("vm.builtin.") else callee
    return NOTES_END.join((function, location, shown, "1" if foreign else ""))


class _OnItsWay(threading.local):
    """Thread-local: the last error that passed through machine code."""

    def __init__(self) -> None:
        self.exception: Exception | None = None
        """The exception of Python that it was at first."""
        self.error: Any = None
        """The error as tvm-ffi has it. It is kept, so that no other one has its address."""
        self.places: list[CallSite] = []


_passing = _OnItsWay()
_MOST_PLACES: Final = 4096


def _note_place(text: str, error: Any) -> None:
    """Note that an error passes a place. Another error than before starts anew: nobody asked about that one."""
    error = getattr(error, "__tvm_ffi_error__", error)
    if not _same(_passing.error, error):
        _passing.error, _passing.places = error, []
    function, location, callee, foreign = str(text).split(NOTES_END)
    if len(_passing.places) < _MOST_PLACES:
        _passing.places.append(CallSite(function, location, callee, bool(foreign)))


def _same(a: Any, b: Any) -> bool:
    return a is not None and b is not None and a.__chandle__() == b.__chandle__()


def passed(error: Exception) -> tuple[Exception, list[CallSite]]:
    """The exception that an error out of machine code was at first, and the places it has passed since."""
    exception = _passing.exception
    call_sites = _passing.places if _same(_passing.error, getattr(error, "__tvm_ffi_error__", None)) else []
    _passing.exception, _passing.error, _passing.places = None, None, []
    return (error if exception is None or str(exception) != str(error) else exception), call_sites


def given_results(ret: Info) -> int:
    """The number of results of an entry point for which a caller may give memory, as tensors after the arguments."""
    fields = ret.fields if isinstance(ret, TupleInfo) else (ret,)
    return len(fields) if all(isinstance(field, TensorInfo) for field in fields) else 0


class CompiledFunction:
    """A compiled function of a machine: call it with values of the machine, get one."""

    __slots__ = ("function", "name")

    def __init__(self, name: str, function: tvm_ffi.Function) -> None:
        self.name = name
        self.function = function
        """The function under tvm-ffi's C ABI."""

    def __call__(self, *args: Any) -> Any:
        """Call the function; an error carries no call sites yet."""
        result = self.function(*args)
        return result if type(result) is tvm_ffi.Tensor else machine_value(result)

    def run(self, args: Sequence[Any]) -> Any:
        """Call the function; an error says where it happened."""
        try:
            result = self.function(*args)
        except Exception as error:
            original, call_sites = passed(error)
            annotate(original, call_sites)
            if original is error:
                raise
            raise original from None
        return result if type(result) is tvm_ffi.Tensor else machine_value(result)


def machine_value(value: Any) -> Any:
    """Convert a value returned by machine code to the VM's representation."""
    if isinstance(value, tvm_ffi.Array):
        return mapped(cast("Sequence[Any]", value), (tvm_ffi.Array,), machine_value)
    if isinstance(value, tvm_ffi.Function):
        closure = closure_of(value)
        return value if closure is None else closure
    if isinstance(value, str | bytes) and not isinstance(value, tvm_ffi.dtype):
        return str(value) if isinstance(value, str) else bytes(value)  # tvm-ffi has subclasses of them
    return value


def compiled_functions(
    names: Sequence[str],
    library: NativeLibrary,
    cells: Sequence[Any],
    first: Device,
    max_depth: int,
    counts: tvm_ffi.Tensor,
) -> dict[str, CompiledFunction]:
    """The compiled functions of these names, with a table of these values behind the fixed cells."""
    functions = (kept_aside(import_value), ffi_function(_note_place), first, kept_aside(import_result))
    fixed = (*functions, max_depth, STACK_BYTES, counts)
    table = cells_function("table")(*fixed, *cells, library)
    make, release = cells_function("function"), cells_function("release")
    try:
        return {
            name: CompiledFunction(name, make(table, _address(library, f"{COMPILED_PREFIX}{name}"))) for name in names
        }
    finally:
        release(table)


def give_back() -> int:
    """Give back the memory of large tensors that died, which compiled functions keep for their next ones; its bytes."""
    try:
        function = cells_function("give_back")
    except KeyError:  # no compiled function is loaded
        return 0
    return int(function())


def _address(library: NativeLibrary, name: str) -> ctypes.c_void_p:
    return ctypes.c_void_p(library.address(f"__tvm_ffi_{name}"))


def table_values(
    operands: Sequence[Operand], constants: Sequence[Any], functions: Callable[[int], Any], devices: Sequence[Device]
) -> list[Any]:
    """The values of a program's table. `functions` gives what is called for an entry of the function table."""
    values: list[Any] = []
    for operand in operands:
        match operand:
            case Const(index):
                values.append(constants[index])
            case Func(index):
                values.append(functions(index))
            case Imm(number):
                values.append(devices[number])
            case _:
                raise AssertionError("a register is no part of a table")
    return values


def callee_cell(target: Any) -> tvm_ffi.Function:
    """The packed function by which compiled code calls a function of the process or a builtin."""
    if isinstance(target, tvm_ffi.Function):
        return target

    def call(*args: Any) -> Any:
        return target(*map(machine_value, args))

    return kept_aside(call)


class MachineOfFunctions(FunctionCaller, Protocol):
    """The part of the virtual machine by which compiled code calls its functions."""

    max_depth: int

    def function_value(self, name: str) -> Closure:
        """A function of the machine's executable, also a private one."""
        ...

    def call_deeper(self, name: str, args: Sequence[Any], depth: int) -> Any:
        """Carry out a call of a compiled function as bytecode, while `depth` calls are under way."""
        ...


def bytecode_cell(machine: MachineOfFunctions, name: str) -> tvm_ffi.Function:
    """The packed function by which compiled code calls a bytecode function of a machine."""
    weak = weakref.ref(machine)

    def call(*args: Any) -> Any:
        alive = weak()
        if alive is None:
            raise RuntimeError("the machine of a compiled function is gone; keep the VirtualMachine")
        return alive.call_raw(alive.function_value(name), args)

    return kept_aside(call)


def deeper_cell(machine: MachineOfFunctions, name: str) -> tvm_ffi.Function:
    """The packed function by which a compiled function goes on as bytecode; its last argument is the depth."""
    weak = weakref.ref(machine)

    def call(*args: Any) -> Any:
        alive = weak()
        if alive is None:
            raise RecursionError(f"{name}: too many calls are under way")
        return alive.call_deeper(name, tuple(map(machine_value, args[:-1])), args[-1])

    return kept_aside(call)


def kept_aside(function: Callable[..., Any]) -> tvm_ffi.Function:
    """A packed function whose Python exceptions are kept while they pass machine code."""

    def call(*args: Any) -> Any:
        try:
            return function(*args)
        except Exception as error:
            _passing.exception = sent = carried(error)
            if sent is error:
                raise
            raise sent from None

    return ffi_function(call)


@builtin("vm.builtin.on_heap", Effects(writes="all"), pure=False)
def on_heap(name: str, position: int, slots: Any, size: int, notes: str, *args: Any) -> Any:
    """Call the builtin `name` with a shape heap, over memory of compiled code, as its argument at `position`."""
    address = slots.value or 0 if isinstance(slots, ctypes.c_void_p) else int(slots)
    heap = ShapeHeap.at(address, size, tuple(str(notes).split(NOTES_END)))
    return BUILTINS[str(name)].function(*args[:position], heap, *args[position:])
