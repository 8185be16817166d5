"""interpret: evaluate one function of a module."""

from __future__ import annotations

from typing import Any

from ..analysis import assert_well_formed
from ..analysis.inplace import check_reuse
from ..derive.normalize import normalize_module
from ..ir import IRModule
from .evaluator import Interpreter


def interpret(mod: IRModule, func_name: str = "main", *args: Any, **kwargs: Any) -> Any:
    """Evaluate an entry point of a module, as the definition of the language says, and give its result.

        relax.interpret(mod, "main", x, w)

    Takes and returns what ``VirtualMachine(build(mod))[func_name](*args)`` does: arrays or NDArrays, numbers,
    shapes, tuples, functions; tensors among the arguments are passed by reference. The module may be any
    well-formed one, in normal form or not, before or after any pass that keeps it a Relax program; nothing of it is
    compiled. It is slow, and is meant to be compared with.

    Parameters
    ----------
    mod
        The program.
    func_name
        The entry point.
    args
        Its arguments.
    kwargs
        Arguments by name.

    Returns
    -------
    Any
        The result of the entry point: an NDArray, number, shape, tuple or function.

    Raises
    ------
    DiagnosticError
        If the module is not well-formed, cannot be derived, or uses again what it changed in place.
    AttributeError
        If there is no such entry point.
    Exception
        What the program raises: TypeError and ValueError for values that do not match their annotations,
        AssertionError, IndexError, ZeroDivisionError, …
    """
    assert_well_formed(mod, check_struct_info=False)
    # For their complaints: what is evaluated is the program as it stands.
    check_reuse(normalize_module(mod))
    return Interpreter(mod)[func_name](*args, **kwargs)
