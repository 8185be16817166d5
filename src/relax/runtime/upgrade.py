"""A better build of a program, which takes over when it is ready (tier "auto" of `relax.build`).

An executable that is to be replaced has an `Upgrade`. Machines of that executable ask to be told, and then give each
call to a machine of the new executable; calls under way end where they began.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from .forks import ForkLock

ExecutableT = TypeVar("ExecutableT")
"""A `relax.runtime.Executable`, whose module stands above this one."""


class UpgradeWarning(UserWarning):
    """The better build of a program failed; the program goes on as it is."""


class Upgradable(Protocol):
    """A machine that runs an executable until another takes over."""

    def take_over(self, executable: Any) -> None:
        """Run later calls by another executable of the same program."""
        ...


class Upgrade(Generic[ExecutableT]):
    """The other build of a program: under way, ready, or failed.

    `find` waits for the build and returns its executable; it raises what made the build fail. It runs in a thread of
    its own, which does not keep the process alive. In a process forked from this one no thread waits: its machines go
    on as they are until `wait` is called.
    """

    def __init__(self, find: Callable[[], ExecutableT]) -> None:
        self._find = find
        self._lock = ForkLock()
        self._machines: weakref.WeakSet[Any] = weakref.WeakSet()
        self._ended = threading.Event()
        self.executable: ExecutableT | None = None
        """The executable, once it is ready."""
        self.error: BaseException | None = None
        """Error that made the build fail."""
        self._thread = self._begun()

    def _begun(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, name="relax upgrade", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        try:
            executable = self._find()
            with self._lock:
                self.executable = executable
                machines = list(self._machines)
            self._give(executable, machines)
        except BaseException as error:  # noqa: BLE001  (the program goes on whatever it is)
            self.error = error
            text = f"the program stays at tier 'now', because its full build failed: {error}"
            warnings.warn(text, UpgradeWarning, stacklevel=1)
        finally:
            self._ended.set()

    @staticmethod
    def _give(executable: ExecutableT, machines: list[Any]) -> None:
        """Have machines take over; raise the first error when all have been asked."""
        errors: list[Exception] = []
        for machine in machines:
            try:
                machine.take_over(executable)
            except Exception as error:  # noqa: BLE001  (the other machines can)
                errors.append(error)
        if errors:
            raise errors[0]

    def register(self, machine: Upgradable) -> ExecutableT | None:
        """Have a machine told when the executable is ready; return the executable if it is."""
        with self._lock:
            self._machines.add(machine)
            return self.executable

    def wait(self, timeout: float | None = None) -> bool:
        """Wait at most `timeout` seconds for the build; True if its executable has taken over."""
        with self._lock:
            if not self._thread.is_alive() and not self._ended.is_set():  # in a forked process
                self._thread = self._begun()
        self._ended.wait(timeout)
        return self.executable is not None and self.error is None and self._ended.is_set()
