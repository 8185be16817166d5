"""Instruments under TVM's name: `pass_instrument` accepts classes written for TVM.

@relax.instrument.pass_instrument
class Log:
    def run_before_pass(self, mod, info): ...
    def run_after_pass(self, mod, info): ...

with relax.transform.PassContext(instruments=[Log()]): ...
"""

from __future__ import annotations

import inspect
from typing import Any

from .module import IRModule
from .transform import (
    DumpInstrument,
    PassInfo,
    PassInstrument,
    PrintIRAfterAll,
    PrintIRBeforeAll,
    TimingInstrument,
    VerifyInstrument,
)


def pass_instrument(pi_cls: type[Any] | None = None) -> Any:
    """Decorator that turns a class with some of TVM's instrument methods into an instrument class."""
    return _instrument_class if pi_cls is None else _instrument_class(pi_cls)


def _instrument_class(target: type[Any]) -> type[PassInstrument]:
    class Made(PassInstrument):
        def __init__(self, *args: Any, **options: Any) -> None:
            self.inst: Any = target(*args, **options)

        def __getattr__(self, attribute: str) -> Any:
            if attribute == "inst":
                raise AttributeError(attribute)
            return getattr(self.inst, attribute)

        def _call(self, method: str, *args: Any) -> Any:
            function = getattr(self.inst, method, None)
            if function is None:
                return None
            if method == "run_after_pass" and not _takes(function, len(args)):
                args = args[:-1]  # TVM does not tell whether the pass changed anything
            return function(*args)

        def enter_pass_ctx(self) -> None:
            self._call("enter_pass_ctx")

        def exit_pass_ctx(self) -> None:
            self._call("exit_pass_ctx")

        def should_run(self, mod: IRModule, info: PassInfo) -> bool:
            answer = self._call("should_run", mod, info)
            return True if answer is None else bool(answer)

        def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
            self._call("run_before_pass", mod, info)

        def run_after_pass(self, mod: IRModule, info: PassInfo, changed: bool) -> None:
            self._call("run_after_pass", mod, info, changed)

    Made.__name__ = Made.__qualname__ = target.__name__
    Made.__doc__ = target.__doc__
    Made.__module__ = target.__module__
    return Made


def _takes(function: Any, count: int) -> bool:
    """True if a function accepts `count` positional arguments."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    return True


PassTimingInstrument = TimingInstrument
PrintBeforeAll = PrintIRBeforeAll
PrintAfterAll = PrintIRAfterAll

__all__ = [
    "DumpInstrument",
    "PassInstrument",
    "PassTimingInstrument",
    "PrintAfterAll",
    "PrintBeforeAll",
    "VerifyInstrument",
    "pass_instrument",
]
