"""find_nan: find the binding of a program that produces the first NaN or infinity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ir import IRModule
from ..runtime import VirtualMachine
from ..runtime.numerics import NumericsError
from ..runtime.records import dataclass
from .driver import build


@dataclass(frozen=True)
class NaNReport:
    """The first call of a run that returned NaN or an infinity."""

    variable: str
    """Variable bound to the value; "" if the call is not in a binding."""
    call: str
    """Called kernel or packed function."""
    location: str
    """Source location as file:line:column; "" if unknown."""
    message: str

    def __str__(self) -> str:
        head = f"{self.variable} = " if self.variable else ""
        location = f"{self.location}: " if self.location else ""
        return f"{location}{head}{self.message}"


def find_nan(
    mod: IRModule,
    *args: Any,
    func_name: str = "main",
    params: Mapping[str, Any] | None = None,
    infinities: bool = False,
) -> NaNReport | None:
    """Run an entry point, and name the first binding that gives NaN; None if there is none.

        report = relax.find_nan(mod, x)
        print(report)       # model.py:9:17: z = log gives nan at [0, 0] of its result, …

    The program is compiled without fusion, so each call is one operator of the program. NaN in the arguments and in
    constants is no reason to stop; what is computed from it is. Other errors of the run are raised as usual.

    Parameters
    ----------
    mod
        The program.
    args
        The arguments of the entry point.
    func_name
        The entry point.
    params
        Values of parameters that become constants, as for `relax.build`.
    infinities
        True stops at infinities too.
    """
    executable = build(mod, params=params, pipeline="unfused", exec_mode="bytecode")
    machine = VirtualMachine(executable, check_numerics="all" if infinities else "nan")
    try:
        machine[func_name](*args)
    except NumericsError as error:
        return NaNReport(error.variable, error.call, error.location, error.detail)
    return None
