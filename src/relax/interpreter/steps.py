"""Trampolined evaluation, so that Relax can recurse deeper than Python's stack.

An evaluation is a generator: ``value = yield evaluation`` is the value of another one. `run` keeps those under way in a
list of its own. An error is thrown into each of them, innermost first, as if they had called one another.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias

Steps: TypeAlias = "Generator[Steps, Any, Any]"
"""An evaluation; what it returns is the value."""


def run(evaluation: Steps) -> Any:
    """The value of an evaluation."""
    stack = [evaluation]
    value: Any = None
    error: Exception | None = None
    while stack:
        try:
            if error is None:
                asked = stack[-1].send(value)
            else:
                raised, error = error, None
                asked = stack[-1].throw(raised)
        except StopIteration as end:
            stack.pop()
            value = end.value
        except Exception as raised:  # noqa: BLE001 (not swallowed: it goes on to the evaluation that waits)
            stack.pop()
            error = raised
        else:
            stack.append(asked)
            value = None
    if error is not None:
        raise error
    return value
