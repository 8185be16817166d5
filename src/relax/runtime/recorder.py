"""Recording the calls of a run for `VirtualMachine.profile`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .bytecode import FunctionCode
from .debug_info import names_of_call, shapes_text, tensor_bytes
from .executable import Executable
from .timing import Report, ReportRow

_BUILTIN = "vm.builtin."


class Recorder:
    """Makes the report of one run, call by call."""

    def __init__(self, executable: Executable) -> None:
        self.executable = executable
        self.report = Report()
        self._rows: dict[tuple[str, int, str], ReportRow] = {}

    def record(
        self, function: FunctionCode, pc: int, name: str, args: Sequence[Any], result: Any, seconds: float
    ) -> None:
        """Add the call that an instruction made of a kernel, a builtin or a packed function."""
        builtin = name.startswith(_BUILTIN)
        key = ("", 0, name) if builtin else (function.name, pc, name)
        row = self._rows.get(key)
        if row is None:
            row = ReportRow(name) if builtin else self._new_row(function, pc, name, args, result)
            self._rows[key] = row
            self.report.rows.append(row)
        if builtin:  # these make views and allocate
            row.add(seconds, None, 0)
            return
        kernel = self.executable.debug.kernels.get(name)
        flops = None if kernel is None else kernel.flops(args)
        row.add(seconds, flops, tensor_bytes((*args, result)))

    def _new_row(self, function: FunctionCode, pc: int, name: str, args: Sequence[Any], result: Any) -> ReportRow:
        names = names_of_call(self.executable.debug, self.executable.program, function, pc)
        location = function.locations[pc] if pc < len(function.locations) else ""
        return ReportRow(name, names.variable, location, shapes_text(args, result, names.written))
