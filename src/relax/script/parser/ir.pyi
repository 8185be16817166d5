"""The namespace `I` of scripts. Written by tools/make_stubs.py."""

from collections.abc import Callable, Mapping, Sequence
from relax.ir.expr import GlobalVar as GlobalVar, VDevice
from relax.ir.module import IRModule
from typing import Any, overload

class _Module(IRModule):  # pyright: ignore[reportGeneralTypeIssues]
    """An IRModule; inside its class, ``Module.f`` is the global variable of its function f."""

    def __getattr__(self, name: str) -> Any: ...

@overload
def ir_module(cls: type[Any], /) -> _Module:
    """``@I.ir_module``: the class becomes an IRModule, of the functions in it."""

@overload
def ir_module(*, check_well_formed: bool = True) -> Callable[[type[Any]], _Module]:
    """``@I.ir_module(check_well_formed=False)``: the rules of the language are not checked."""

def load_json(text: str) -> Any:
    """The constants of a script's metadata section: ``metadata = I.load_json(\"\"\"...\"\"\")``."""

def module_attrs(attrs: Mapping[str, Any]) -> None:
    """Set attributes of the module, inside its class."""

def module_global_infos(infos: Mapping[str, Sequence[VDevice]]) -> None:
    """Set the module's global infos, inside its class: ``{"vdevice": [I.vdevice("llvm", 0)]}``."""

def vdevice(target: str = 'llvm', vdevice_id: int = 0, memory_scope: str = 'global') -> VDevice:
    """A virtual device."""
