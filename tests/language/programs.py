"""Programs as text: parsed, refused, interpreted, compiled.

A text may hold one function or one module. Both forms are given to `call` of either mode; packed functions that
programs call are registered with `packed` and record their effects in lists of the test.
"""

from __future__ import annotations

import functools
import textwrap
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import relax
import support
from relax.ir import DiagnosticError, IRModule, RelaxWarning
from relax.script import from_source
from support import PLAIN_LOOPS


@functools.cache
def _parsed(text: str) -> IRModule:
    made = from_source(textwrap.dedent(text), name="program.py")
    return made if isinstance(made, IRModule) else IRModule.from_expr(made)


def module(program: str | IRModule) -> IRModule:
    """The module of a text; a function stands for a module of itself."""
    return _parsed(program) if isinstance(program, str) else program


@functools.cache
def machine(program: str | IRModule) -> relax.VirtualMachine:
    """A program compiled, every pass verified on the way, and loaded; once for each program."""
    return support.machine(module(program), PLAIN_LOOPS)


def compiled(program: str | IRModule, function: str, *args: Any) -> Any:
    """Call a function of the compiled program."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", RelaxWarning
        )  # what is only checked at run time; tests of warnings ask for them
        return machine(program)[function](*args)


def interpreted(program: str | IRModule, function: str, *args: Any) -> Any:
    """Call a function of the program as it is written."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RelaxWarning)
        return relax.interpret(module(program), function, *args)


MODES: dict[str, Callable[..., Any]] = {"interpreter": interpreted, "bytecode": compiled}


def refused(program: str | IRModule) -> list[tuple[str, str]]:
    """(code, message) of every error that building a program reports."""
    with pytest.raises(DiagnosticError) as caught:
        relax.build(module(program), "llvm")
    return [(d.code, d.message) for d in caught.value.diagnostics]


def warned(program: str) -> list[tuple[str, str]]:
    """(code, message) of every warning that building a program gives, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _parsed.cache_clear()
        relax.build(module(program), PLAIN_LOOPS)
    found = [str(w.message).strip() for w in caught if issubclass(w.category, RelaxWarning)]
    first = dict.fromkeys(text.splitlines()[0] for text in found)
    return [(line[8:13], line[16:]) for line in first]


def info(program: str, name: str = "main") -> Any:
    """The struct info of what a function returns."""
    return module(program)[name].body.body.struct_info


def packed(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a packed function for the programs of a test file."""
    return relax.register_func(name, override=True)


def floats(*values: float) -> np.ndarray:
    """A float32 vector."""
    return np.array(values, "float32")


def ones(*shape: int) -> np.ndarray:
    """A float32 tensor of ones."""
    return np.ones(shape, "float32")


def i64(value: int) -> np.ndarray:
    """An int64 scalar."""
    return np.array(value, "int64")


def truth(value: bool) -> np.ndarray:
    """A bool scalar."""
    return np.array(value)
