"""What must hold of the kernels that a default build makes: `kernels_agree(text, cases)` raises Failure otherwise.

agrees    the program built with its known operands as constants, and as parameters, gives what the interpreter gives,
          with one thread and with two; NaN and infinities are at the same places
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import relax
from relax.runtime import num_threads, set_num_threads
from relax.script import from_source

from .generator import HEADER
from .properties import Case, Failure

TOLERANCE = 2e-5
"""Of the largest magnitude of a result: kernels add in other orders than the interpreter, Winograd rounds more."""


def kernels_agree(text: str, cases: Sequence[Case], exact: bool = True, known: Sequence[str] = ()) -> None:
    """All of it. A case has the arrays of all parameters; `known` names those that may be constants."""
    del exact
    mod = from_source(HEADER + text)
    main = mod["main"]
    names = [param.name_hint for param in main.params]
    expected = [_array(relax.interpret(mod, "main", *map(relax.nd.array, case))) for case in cases]
    for bound in (tuple(known), ()) if known else ((),):
        params = {name: cases[0][names.index(name)] for name in bound if name in names}
        machine = relax.VirtualMachine(relax.build(mod, params=params))
        for case, result in zip(cases, expected, strict=True):
            args = [relax.nd.array(v) for name, v in zip(names, case, strict=True) if name not in params]
            before = num_threads()
            for threads in (1, 2):
                set_num_threads(threads)
                try:
                    found = _array(machine["main"](*args))
                finally:
                    set_num_threads(before)
                _compare(found, result, f"{threads} threads, known {list(params)}")


def _array(value: Any) -> np.ndarray[Any, Any]:
    return value.numpy()


def _compare(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], how: str) -> None:
    if found.shape != expected.shape:
        raise Failure("agrees: shapes", f"{how}: expected {expected.shape}, found {found.shape}")
    finite = np.isfinite(expected)
    bound = TOLERANCE * max(1.0, float(np.abs(expected).max(initial=0.0, where=finite)))
    with np.errstate(invalid="ignore"):
        close = np.abs(found - expected) <= bound
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    wrong = np.argwhere(~np.where(finite, close, same))
    if len(wrong):
        at = tuple(map(int, wrong[0]))
        message = f"{how}: {len(wrong)} of {found.size} differ, first {at}: expected {expected[at]}, found {found[at]}"
        raise Failure("agrees: values", message)
