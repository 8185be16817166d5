"""Run a program: compiled with every pass verified, or interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np

import relax
import support
from relax.analysis import assert_well_formed
from relax.interpreter.evaluator import Interpreter
from relax.ir import IRModule
from relax.runtime import VirtualMachine
from support import PLAIN_LOOPS, parse


def machine(mod: Any) -> VirtualMachine:
    """A machine for a module, a function or a text; the module is checked after every pass.

    Loops are as they are written: quick to build.
    """
    if isinstance(mod, str):
        mod = parse(mod)
    return support.machine(mod, PLAIN_LOOPS)


def interpreted(mod: Any) -> Interpreter:
    """A module, a function or a text as the interpreter runs it; as `relax.interpret`, but checked once."""
    if isinstance(mod, str):
        mod = parse(mod)
    module = mod if isinstance(mod, IRModule) else IRModule.from_expr(mod)
    assert_well_formed(module, check_struct_info=False)
    return Interpreter(module)


def arrays(value: Any) -> Any:
    """Results as NumPy arrays, tuples kept."""
    if isinstance(value, tuple) and not isinstance(value, relax.ShapeTuple):
        return tuple(arrays(item) for item in value)
    return value.numpy() if hasattr(value, "numpy") else value


def f32(*values: float) -> np.ndarray[Any, Any]:
    """A float32 vector."""
    return np.array(values, "float32")
