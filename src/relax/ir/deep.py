"""Traversal of nodes nested more deeply than the current thread's Python stack allows.

Traversals recurse. One that reaches the recursion limit is run again in a new thread with a stack of `STACK` bytes and
a matching recursion limit, so it must have no side effects. Deeper nesting raises DiagnosticError (E2106).
"""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from .diagnostics import Diagnostic, DiagnosticError
from .span import Span

T = TypeVar("T")

STACK = 256 * 2**20
LIMIT = 150_000
_LOCK = threading.Lock()


def run_deep(subject: str, done: str, function: Callable[[], T]) -> T:
    """Return `function()`, run on a larger stack if needed. Raises DiagnosticError if it nests deeper still."""
    try:
        return function()
    except RecursionError:
        return _on_large_stack(subject, done, function)


def _on_large_stack(subject: str, done: str, function: Callable[[], T]) -> T:
    results: list[T] = []
    errors: list[BaseException] = []
    context = contextvars.copy_context()

    def work() -> None:
        try:
            results.append(context.run(function))
        except BaseException as error:  # noqa: BLE001 (it is raised again where the walk was asked for)
            errors.append(error)

    with _LOCK:
        size, limit = threading.stack_size(STACK), sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, LIMIT))
        try:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        finally:
            sys.setrecursionlimit(limit)
            threading.stack_size(size)
    if not errors:
        return results[0]
    if isinstance(errors[0], RecursionError):
        raise DiagnosticError(nested_too_deeply(subject, done)) from None
    raise errors[0]


def nested_too_deeply(subject: str, done: str, span: Span | None = None) -> Diagnostic:
    """Diagnostic for a program whose traversal reaches the recursion limit."""
    hint = "bind parts of the expression to variables"
    return Diagnostic("E2106", f"{subject} is nested too deeply to be {done}", span, hint=hint)
