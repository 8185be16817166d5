"""VirtualMachine: runs the functions of an executable.

    vm = relax.VirtualMachine(executable, relax.cpu())
    y = vm["main"](x, w)

One machine may be used from several threads: each call has frames of its own, and the executable is never
changed. (The inputs of ``set_input`` and saved functions belong to the machine as a whole.) Calls among Relax
functions use no Python stack, so recursion is bounded by ``max_depth`` only, and a call whose result is
returned as it is needs no frame at all.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import tvm_ffi

from .allocator import Allocator, MemoryStats
from .builtins import invoke_foreign
from .calling import bind_arguments, check_count, import_arguments
from .closure import Closure
from .collection import rarely_collected
from .compiled import give_back, given_results
from .configuration import devices_of, memory_policy
from .debug_info import names_of_call
from .decode import CALL, CALL_VM, GOTO, IF, RET, Code, Linker, LinkError, Op
from .devices import Device
from .entry_point import EntryPoint
from .executable import Executable
from .first_memory import first_memory
from .forks import ForkLock
from .frames import CALLS, Frame, locate, location_of
from .given_memory import memory_of_results, placed_in
from .numerics import CheckedCall, Kinds, NumericsCheck, kinds_of
from .recorder import Recorder
from .registry import get_global_func
from .timing import BenchmarkResult, Report, TracedCall, Tracer, measure
from .values import export_value, import_value

__all__ = ["LinkError", "VMInstrumentReturnKind", "VirtualMachine"]

MAX_DEPTH: Final = 100_000


class VMInstrumentReturnKind(enum.IntEnum):
    """An instrument's answers before a call: run it, or skip it."""

    NO_OP = 0
    """Run the call."""
    SKIP_RUN = 1
    """Leave it out; its result is the null object."""


Instrument = Callable[..., Any]


_Place = tuple[Code, int, Sequence[Frame]]
"""The running function, the number of its instruction, and the functions that wait for it."""
_Observer = Callable[[Any, str, Sequence[Any], _Place], Any]


class VirtualMachine:
    """A machine that runs one executable."""

    def __init__(
        self,
        executable: Executable,
        device: Device | Sequence[Device] | None = None,
        memory_cfg: str | Mapping[Any, str] | None = None,
        profile: bool = False,
        *,
        max_depth: int = MAX_DEPTH,
        check_numerics: bool | Literal["nan", "all"] = False,
    ) -> None:
        """Load an executable. Raises LinkError if it calls functions nobody here has.

        Parameters
        ----------
        device
            Where to run: ``relax.cpu()``. For a program with virtual devices, one device for each, in the
            module's order: ``[relax.cpu(0), relax.cpu(1)]``. By default what they are called: ``"llvm:1"`` is
            ``relax.cpu(1)``.
        memory_cfg
            What becomes of the memory that functions lay out their own tensors in: ``"pooled"``, the default, keeps
            it for the next call, ``"naive"`` gives it back. TVM's dictionary from devices is taken too, if it says
            the same of all of them: the host's devices share one memory.
        profile
            Whether ``profile`` may be called.
        max_depth
            How many calls of Relax functions may be under way at once.
        check_numerics
            "nan" raises NumericsError, a FloatingPointError, at the first call that gives NaN, "all" or True also at
            infinities; the error names the call, its place in the source and its operands. Each result is read once
            more.
        """
        if not isinstance(executable, Executable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"expected a relax.Executable, found {type(executable).__name__}")
        self._allocator = Allocator(memory_policy(memory_cfg))
        self.devices = devices_of(executable, device)
        self.executable = executable
        self.max_depth = max_depth
        self._profile = profile
        self._numerics: Kinds | None = kinds_of(check_numerics)
        self._allocator.prepare(*first_memory(executable.program))
        with rarely_collected():
            self._codes = Linker(self, executable, self.devices, self._allocator).link()
        self._instrument: Instrument | None = None
        self._tracer: Tracer | None = None
        self.is_watched = self._numerics is not None
        """True while calls are looked at: by an instrument, a tracer or a check of numerics."""
        self._entries: dict[str, Closure] = {}
        self._saved: dict[str, Callable[..., Any]] = {}
        self._inputs: dict[str, list[Any]] = {}
        self._outputs: dict[str, Any] = {}
        self._memory: dict[str, list[tvm_ffi.Tensor]] = {}
        self._newer: VirtualMachine | None = None
        """The machine of the full build, once that has taken over."""
        self._watching = ForkLock()
        """Held while the watchers change, or the machine that they watch."""
        self._options: dict[str, Any] = {"memory_cfg": memory_cfg, "profile": profile, "check_numerics": check_numerics}
        ready = None if executable.upgrade is None else executable.upgrade.register(self)
        if ready is not None:
            self.take_over(ready)

    # ----------------------------------------------------------------------------------- tiers

    @property
    def tier(self) -> str:
        """The tier of the program that runs calls from now on: "now" or "full"."""
        return self.executable.tier

    def wait_full(self, timeout: float | None = None) -> bool:
        """Wait at most `timeout` seconds until the full build of a program of tier "auto" runs the calls.

        Returns False if it does not: it takes longer, failed, or none is under way.
        """
        upgrade = self.executable.upgrade
        return self.tier == "full" or (upgrade is not None and upgrade.wait(timeout))

    def take_over(self, executable: Executable) -> None:
        """Run later calls by another executable of the same program; calls under way end where they began."""
        newer = VirtualMachine(executable, self.devices, max_depth=self.max_depth, **self._options)
        with self._watching:
            newer.set_instrument(self._instrument)
            newer.set_tracer(self._tracer)
            self._newer, self.executable = newer, executable

    def _entry_now(self, name: str) -> tuple[VirtualMachine, Closure]:
        """The machine that runs calls now, and its entry point."""
        machine = self if self._newer is None else self._newer
        return machine, machine._entry(name)

    # --------------------------------------------------------------------------------- calling

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """An entry point, or a function made by ``save_function``, by name."""
        saved = self._saved.get(name)
        return self._entry_now(name)[1] if saved is None else saved

    def __contains__(self, name: object) -> bool:
        return name in self._saved or name in self.executable.entry_points

    @property
    def module(self) -> VirtualMachine:
        """The machine, as a table of functions (``vm.module["main"]``)."""
        return self

    def _entry(self, name: str) -> Closure:
        entry = self._entries.get(name)
        if entry is None:
            self._entries[name] = entry = self._find_entry(name)
        return entry

    def _find_entry(self, name: str) -> Closure:
        code = self._codes.get(name)
        if code is None or not code.function.exported:
            names = ", ".join([*self.executable.entry_points, *self._saved]) or "none"
            problem = "is private" if code is not None else "does not exist"
            raise AttributeError(f"function {name!r} {problem}; the entry points are: {names}")
        if code.compiled is not None:
            return EntryPoint(self, name, code, code.function.info)
        return Closure(self, name, code, (), code.function.info)

    def function_value(self, name: str) -> Closure:
        """A function of the executable as a value, also a private one."""
        code = self._codes[name]
        return Closure(self, name, code, (), code.function.info)

    def get_function(self, name: str) -> tvm_ffi.Function:
        """An entry point under tvm-ffi's C ABI, for callers that pass ``tvm_ffi.Tensor`` and handle errors themselves.

        Of a compiled function it is the machine code. It refers to the machine where that runs functions in bytecode.
        """
        entry = self._entry(name)
        compiled = entry.target.compiled
        return entry.__tvm_ffi_object__() if compiled is None else compiled.function

    def invoke_closure(self, closure: Closure, *args: Any, **kwargs: Any) -> Any:
        """Call a function with Python values: arrays, numbers, tuples, shapes, functions, …"""
        newer = self._newer
        if newer is not None and closure.machine is self and isinstance(closure.target, Code) and not closure.captured:
            return newer.function_value(closure.name)(*args, **kwargs)
        values = self.bind_arguments(closure, args, kwargs)
        return export_value(self._call(closure, values))

    def call_raw(self, closure: Closure, args: Sequence[Any]) -> Any:
        """Call a function with, and for, values of the machine."""
        values = import_arguments(closure, _parameter_names(closure), args)
        _check_count(closure, len(values))
        return self._call(closure, values)

    def call_unchecked(self, closure: Closure, values: Sequence[Any]) -> Any:
        """Call a function with values of the machine that are its arguments already, as many as it has parameters."""
        return self._call(closure, values)

    def call_deeper(self, name: str, args: Sequence[Any], depth: int) -> Any:
        """Carry out a call of a compiled function, which `depth` calls wait for, as bytecode. RecursionError if those
        are too many.
        """
        if depth > self.max_depth:
            raise self._too_deep(name)
        return self._run(self._codes[name], args, waiting=depth)

    def _too_deep(self, name: str) -> RecursionError:
        return RecursionError(
            f"{name}: more than {self.max_depth} calls are under way; "
            "VirtualMachine(..., max_depth=...) raises the limit"
        )

    def _call(self, closure: Closure, values: Sequence[Any]) -> Any:
        newer = self._newer
        if newer is not None and closure.machine is self and isinstance(closure.target, Code) and not closure.captured:
            return newer._call(newer.function_value(closure.name), values)
        if isinstance(closure.target, Code) and closure.machine is self:
            compiled = closure.target.compiled
            if compiled is not None and not self.is_watched:
                return compiled.run((*values, *closure.captured))
            return self._run(closure.target, (*values, *closure.captured))
        if closure.machine is not self:
            return import_value(closure.machine.call_raw(closure, values))
        kernel: Any = closure.target
        return kernel(*values, *closure.captured)

    def bind_arguments(self, closure: Closure, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments of a call, in order, as values of the machine. Raises TypeError and ValueError."""
        return bind_arguments(closure, _parameter_names(closure), args, kwargs)

    # ------------------------------------------------------------------------------ state kept

    def save_function(
        self, func_name: str, saved_name: str, *args: Any, include_return: bool = True, **kwargs: Any
    ) -> None:
        """Keep a call: ``vm[saved_name]()`` runs `func_name` with these arguments, which are converted once, now.

        Parameters
        ----------
        func_name
            The function to call.
        saved_name
            The name of the kept call, which must be new.
        args, kwargs
            The arguments.
        include_return
            False makes the kept call return None.

        Raises
        ------
        ValueError
            If there is a function of this name already.
        """
        if saved_name in self:
            raise ValueError(f"save_function: there is a function {saved_name!r} already")
        closure = self._entry(func_name)
        values = self.bind_arguments(closure, args, kwargs)

        def saved() -> Any:
            result = self._call(closure, values)
            return export_value(result) if include_return else None

        self._saved[saved_name] = saved

    def set_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Set the arguments of the next ``invoke_stateful`` of a function."""
        self._inputs[func_name] = self.bind_arguments(self._entry(func_name), args, kwargs)

    def set_outputs(self, func_name: str, *outputs: Any) -> None:
        """Give memory for the results of ``invoke_stateful``; without any, results get memory of their own again.

        A compiled function computes a result in the memory given, if that is of its shape; else, and where a result
        is no memory of its own (a parameter, a field of another function's result), it is copied there.

        Parameters
        ----------
        func_name
            The function.
        outputs
            An array for each result: NumPy arrays, NDArray, DLPack producers. They must be compact and writable.

        Raises
        ------
        ValueError
            If there are not as many arrays as results, or the function gives no tensors.
        """
        entry = self._entry(func_name).target.function
        expected = given_results(entry.ret_info)
        if outputs and len(outputs) != expected:
            has = "no result that is a tensor, or a tuple of them" if not expected else f"{expected} of them"
            raise ValueError(f"{func_name}: {len(outputs)} results are given memory; it has {has}")
        self._memory[func_name] = memory_of_results(outputs, func_name)

    def invoke_stateful(self, func_name: str) -> None:
        """Run a function on the arguments of ``set_input`` and keep its result for ``get_outputs``.

        Raises ValueError if the function has no arguments yet, and what the function raises.
        """
        machine, closure = self._entry_now(func_name)
        if func_name not in self._inputs:
            raise ValueError(f"{func_name}: set_input has not been called")
        memory = self._memory.get(func_name, ())
        compiled = None if machine.is_watched else closure.target.compiled
        if compiled is not None and memory:
            result = compiled.run((*self._inputs[func_name], *memory))
        else:
            result = machine._call(closure, self._inputs[func_name])
        self._outputs[func_name] = result if not memory else placed_in(result, memory, func_name)

    def get_outputs(self, func_name: str) -> Any:
        """The result of the last ``invoke_stateful`` of a function. Raises ValueError if there was none."""
        self._entry(func_name)
        if func_name not in self._outputs:
            raise ValueError(f"{func_name}: invoke_stateful has not been called")
        return export_value(self._outputs[func_name])

    def get_function_arity(self, func_name: str) -> int:
        """The number of a function's parameters."""
        return len(self._entry(func_name).target.function.params)

    def get_function_param_name(self, func_name: str, index: int) -> str:
        """The name of a function's parameter."""
        return self._entry(func_name).target.function.params[index]

    # ---------------------------------------------------------------------------------- memory

    def memory_stats(self) -> MemoryStats:
        """Bytes of the storages of this machine: in use, held, and at most in use so far."""
        return (self if self._newer is None else self._newer)._allocator.stats()

    def release_memory(self) -> int:
        """Give back the memory kept for the next calls; the bytes of this machine's storages.

        So goes the memory of results that died, which all machines of the process keep together and nobody counts.
        """
        give_back()
        newer = 0 if self._newer is None else self._newer.release_memory()
        return newer + self._allocator.release()

    # ------------------------------------------------------------------------------- measuring

    def time_evaluator(
        self,
        func_name: str,
        dev: Device | None = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        f_preproc: str = "",
    ) -> Callable[..., BenchmarkResult]:
        """A function that, called with arguments of `func_name`, runs it `repeat` times `number` times.

        The conversion of the arguments and of the result is not measured.

        Parameters
        ----------
        func_name
            The function to measure, also one made by `save_function`.
        number
            Runs that are one measurement.
        repeat
            Measurements.
        min_repeat_ms
            The least time of a measurement: `number` grows until it takes so long.
        cooldown_interval_ms, repeats_to_cooldown
            A pause, and the number of measurements after which one is made.
        dev, f_preproc
            Taken as TVM takes them, and not used.

        Returns
        -------
        Callable
            Gives a `BenchmarkResult`: seconds per run, a figure for each measurement.
        """
        del dev, f_preproc

        def evaluate(*args: Any, **kwargs: Any) -> BenchmarkResult:
            run = self._saved.get(func_name)
            if run is None:
                closure = self._entry(func_name)
                values = self.bind_arguments(closure, args, kwargs)
                run = lambda: self._call(closure, values)  # noqa: E731
            return measure(run, number, repeat, min_repeat_ms, cooldown_interval_ms, repeats_to_cooldown)

        return evaluate

    def profile(self, func_name: str, *args: Any, **kwargs: Any) -> Report:
        """Run a function once and say what took how long.

        A row of the report has the variable, its place in the source, shapes, operations, bytes and time. FLOPs are
        those of the program, whatever the kernel's schedule makes of them. A run that is watched takes longer.

        Parameters
        ----------
        func_name
            The function to run.
        args, kwargs
            Its arguments.

        Returns
        -------
        Report
            A row for each call of a function; it prints as a table.

        Raises
        ------
        ValueError
            If the machine was not made with ``VirtualMachine(..., profile=True)``.
        """
        if not self._profile:
            raise ValueError("make the machine with VirtualMachine(..., profile=True) to profile")
        machine, closure = self._entry_now(func_name)
        values = machine.bind_arguments(closure, args, kwargs)
        recorder = Recorder(machine.executable)
        start = time.perf_counter()
        machine._run(closure.target, values, recorder)
        recorder.report.total = time.perf_counter() - start
        return recorder.report

    def set_instrument(self, instrument: Instrument | str | None) -> None:
        """Have a function (or a registered one, by name) called around every call; None removes it.

        It is called as ``instrument(func, func_symbol, before_run, ret_value, *args)``; before a call it may
        return ``VMInstrumentReturnKind.SKIP_RUN`` to leave the call out.
        """
        with self._watching:
            self._instrument = get_global_func(instrument) if isinstance(instrument, str) else instrument
            self._watch()
            if self._newer is not None:
                self._newer.set_instrument(self._instrument)

    def set_tracer(self, tracer: Tracer | None) -> None:
        """Have a function told of every call of a kernel, builtin or packed function, after it; None removes it.

        It is told the instruction, the time, the arguments and the result (`TracedCall`), values of the machine. A
        function called last by another stands in that one's place, so the other is missing in the stack. While a tracer
        is set, instruments see only calls of Relax functions.
        """
        with self._watching:
            self._tracer = tracer
            self._watch()
            if self._newer is not None:
                self._newer.set_tracer(tracer)

    def _watch(self) -> None:
        watchers = (self._instrument, self._tracer, self._numerics)
        self.is_watched = any(watcher is not None for watcher in watchers)

    # --------------------------------------------------------------------------------- running

    def _run(
        self, code: Code, args: Sequence[Any], recorder: Recorder | None = None, waiting: int | None = None
    ) -> Any:
        """The interpreter's loop. Compiled functions are run as machine code, unless `waiting` says how many calls are
        under way in that already.
        """
        frames: list[Frame] = []
        observe = self._observer(recorder, args)
        native, outside = waiting is None, waiting or 0
        registers, ops, pc = code.enter(args), code.ops, 0
        del args
        try:
            while True:
                op = ops[pc]
                kind = op.kind
                if kind == CALL:
                    if observe is None:
                        value = op.target(*op.pick(registers))
                    else:
                        value = observe(op.target, op.name, op.pick(registers), (code, pc, frames))
                    for register in op.drop:
                        registers[register] = None
                    if op.dst >= 0:
                        registers[op.dst] = value
                    value = None
                    pc += 1
                elif kind in CALLS:
                    callee, values = self._callee(op, op.pick(registers), observe, (code, pc, frames), native)
                    for register in op.drop:
                        registers[register] = None
                    pc += 1
                    after = None
                    if callee is None:  # it was no function of ours, and has been called
                        if op.dst >= 0:
                            registers[op.dst] = values
                        continue
                    if self._instrument is not None:
                        after = callee, values
                        if self._hook(callee, callee.function.name, True, None, values):
                            if op.dst >= 0:
                                registers[op.dst] = None
                            continue
                    if not op.tail or after is not None:
                        if outside + len(frames) >= self.max_depth:
                            pc -= 1  # the call itself is the place of the error
                            raise self._too_deep(callee.function.name)
                        frames.append(Frame(code, registers, pc, op.dst, after))
                    code, ops, pc = callee, callee.ops, 0
                    registers = callee.enter(values)
                    callee = values = after = None
                elif kind == RET:
                    value = registers[op.src]
                    if not frames:
                        return value
                    frame = frames.pop()
                    if frame.after is not None:
                        self._hook(frame.after[0], code.function.name, False, value, frame.after[1])
                    code, registers, pc = frame.code, frame.registers, frame.pc
                    ops = code.ops
                    if frame.dst >= 0:
                        registers[frame.dst] = value
                    value = frame = None
                elif kind == IF:
                    pc = pc + 1 if registers[op.src] else op.jump
                else:
                    assert kind == GOTO
                    pc = op.jump
        except Exception as error:
            located = locate(error, code, pc, frames)
            # The traceback keeps this call's variables: no tensor is to live as long as somebody looks at the error.
            for frame in frames:
                frame.registers.clear()
            registers.clear()
            if located is error:
                raise
            raise located from None

    def _callee(
        self, op: Op, args: Sequence[Any], observe: _Observer | None, place: _Place, native: bool
    ) -> tuple[Code | None, Any]:
        """The function to enter and its arguments; or None and the result, if it is not one of ours."""
        if op.kind == CALL_VM:
            if observe is None and native and op.target.compiled is not None:
                return None, op.target.compiled(*args)
            return op.target, args
        function, values = args[0], args[1:]
        name = op.name
        if isinstance(function, Closure) and function.machine is self:
            _check_count(function, len(values))
            values = (*values, *function.captured)
            if isinstance(function.target, Code):
                compiled = function.target.compiled if native and observe is None else None
                return (function.target, values) if compiled is None else (None, compiled(*values))
            target, name = function.target, function.name
        else:
            target, values = invoke_foreign, args
        return None, target(*values) if observe is None else observe(target, name, values, place)

    def _observer(self, recorder: Recorder | None, inputs: Sequence[Any]) -> _Observer | None:
        """The function that calls go through while they are watched, checked or timed."""
        if self._numerics is None:
            return self._plain_observer(recorder)
        inner = self._plain_observer(recorder)
        check = NumericsCheck(self._numerics, [*inputs, *self.executable.constants])

        def checked(target: Any, name: str, args: Sequence[Any], place: _Place) -> Any:
            value = target(*args) if inner is None else inner(target, name, args, place)
            code, pc, _ = place
            names = names_of_call(self.executable.debug, self.executable.program, code.function, pc)
            check(CheckedCall(name, location_of(code, pc), names), args, value)
            return value

        return checked

    def _plain_observer(self, recorder: Recorder | None) -> _Observer | None:
        if recorder is not None:

            def timed(target: Any, name: str, args: Sequence[Any], place: _Place) -> Any:
                code, pc, _ = place
                start = time.perf_counter()
                value = target(*args)
                recorder.record(code.function, pc, name, args, value, time.perf_counter() - start)
                return value

            return timed
        if self._tracer is not None:
            return self._traced
        return None if self._instrument is None else self._watched

    def _traced(self, target: Any, name: str, args: Sequence[Any], place: _Place) -> Any:
        start = time.perf_counter()
        value = target(*args)
        seconds = time.perf_counter() - start
        if self._tracer is not None:
            code, pc, frames = place
            waiting = tuple((frame.code.function.name, frame.pc - 1) for frame in frames)
            location = "".join(code.function.locations[pc : pc + 1])
            stack = (*waiting, (code.function.name, pc))
            self._tracer(TracedCall(stack, name, location, args, value, seconds))
        return value

    def _watched(self, target: Any, name: str, args: Sequence[Any], place: _Place) -> Any:
        del place
        if self._hook(target, name, True, None, args):
            return None
        value = target(*args)
        self._hook(target, name, False, value, args)
        return value

    def _hook(self, target: Any, name: str, before: bool, value: Any, args: Sequence[Any]) -> bool:
        """Call the instrument; whether the call is to be left out."""
        if self._instrument is None:
            return False
        answer = self._instrument(target, name, before, export_value(value), *map(export_value, args))
        return before and answer == VMInstrumentReturnKind.SKIP_RUN


def _parameter_names(closure: Closure) -> tuple[str, ...] | None:
    """Names of the parameters that are left for the caller."""
    if not isinstance(closure.target, Code):
        return None
    names = closure.target.function.params
    return names[: len(names) - len(closure.captured)]


def _check_count(closure: Closure, count: int) -> None:
    check_count(closure, _parameter_names(closure), count)
