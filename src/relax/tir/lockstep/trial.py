"""Trial execution of a statement in lockstep, with a fallback to single steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ...ir import Node
from ..evaluation import Env
from ..stmt import Stmt
from .memory import Conflict, Lockstep, Memory, address
from .statements import Run, Statements
from .values import Array, Decline, Unsupported

Execute: TypeAlias = Callable[[Env], None]


def in_lockstep(stmt: Stmt, reverse: bool, by_steps: Callable[[Stmt], Execute]) -> Execute | None:
    """Compile a statement for lockstep execution, with `by_steps` as fallback; None if it is not supported.

    With `reverse`, parallel and vectorised loops run backwards where iterations depend on each other.
    """
    statements = Statements(reverse)
    try:
        run = statements.stmt(stmt)
    except Unsupported:
        return None
    return _Trial(statements, run, lambda: by_steps(stmt))


class _Trial:
    def __init__(self, statements: Statements, run: Run, prepare: Callable[[], Execute]) -> None:
        self.run, self.prepare = run, prepare
        self.sequential = statements.sequential
        self.outside = list(statements.outside)
        self.written = statements.written
        self.by_steps: Execute | None = None
        """The statement compiled for single steps, on first need."""

    def __call__(self, env: Env) -> None:
        if self.by_steps is None:
            if self.attempt(env):
                return
            self.by_steps = self.prepare()
        self.by_steps(env)

    def attempt(self, env: Env) -> bool:
        """Run in lockstep; on failure, restore memory and return False."""
        try:
            memories = self.memories(env)
        except (Decline, KeyError, AttributeError):
            return False
        saved = [(memory.array, memory.array.copy()) for memory in set(memories.values()) if memory.written]
        while True:
            lockstep = Lockstep(dict(env), self.sequential)
            lockstep.memories.update(memories)
            try:
                if self.finished(lockstep):
                    return True
            except Conflict as conflict:
                self.sequential.add(conflict.loop)
                _restore(saved)
                continue
            _restore(saved)
            return False

    def finished(self, lockstep: Lockstep) -> bool:
        """Run once; return False on failure, provided that all loaded values were final. Raises Conflict."""
        try:
            self.run(lockstep)
        except Conflict:
            raise
        except Exception:  # noqa: BLE001  whatever it is: one step at a time says what, or finds nothing wrong
            lockstep.settle()
            return False
        return True

    def memories(self, env: Env) -> dict[Node, Memory]:
        """Return the memory allocated outside; variables with the same array share it. Raises Decline for other
        overlaps.
        """
        result: dict[Node, Memory] = {}
        starts: dict[int, tuple[int, Memory]] = {}
        for data in self.outside:
            array: Any = env[data]
            first, end = address(array)
            memory = starts.get(first, (0, None))[1]
            if memory is None:
                memory = Memory(array, 0, False)
                starts[first] = (end, memory)
            elif memory.array.dtype != array.dtype or len(memory.array) != len(array):
                raise Decline
            memory.written = memory.written or data in self.written
            result[data] = memory
        last, written = -1, False
        for first in sorted(starts):
            end, memory = starts[first]
            if first < last and (written or memory.written):
                raise Decline
            written = memory.written if end > last else written or memory.written
            last = max(last, end)
        return result


def _restore(saved: list[tuple[Array, Array]]) -> None:
    for array, copy in saved:
        if array.flags.writeable:
            np.copyto(array, copy)
