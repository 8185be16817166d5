"""The forms of `I` (see tools/make_stubs.py)."""

from collections.abc import Callable
from typing import Any, overload

from relax.ir.module import IRModule

class _Module(IRModule):  # pyright: ignore[reportGeneralTypeIssues]
    """An IRModule; inside its class, ``Module.f`` is the global variable of its function f."""

    def __getattr__(self, name: str) -> Any: ...

@overload
def ir_module(cls: type[Any], /) -> _Module:
    """``@I.ir_module``: the class becomes an IRModule, of the functions in it."""

@overload
def ir_module(*, check_well_formed: bool = True) -> Callable[[type[Any]], _Module]:
    """``@I.ir_module(check_well_formed=False)``: the rules of the language are not checked."""
