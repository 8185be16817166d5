"""The namespace `I` of scripts: modules, their attributes and global infos."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ...ir import GlobalVar, VDevice
from ...ir import load_json as _load_json
from .core import register_namespace
from .module import ModuleDecorator, ModuleParser

ir_module = ModuleDecorator()
"""``@I.ir_module`` (or ``@I.ir_module(check_well_formed=False)``): the class becomes an IRModule."""


def module_attrs(attrs: Mapping[str, Any]) -> None:
    """Set attributes of the module, inside its class."""
    parser = ModuleParser.current()
    if parser is not None:
        parser.attrs.update(attrs)


def module_global_infos(infos: Mapping[str, Sequence[VDevice]]) -> None:
    """Set the module's global infos, inside its class: ``{"vdevice": [I.vdevice("llvm", 0)]}``."""
    parser = ModuleParser.current()
    if parser is not None:
        parser.context.global_infos.update({key: tuple(items) for key, items in infos.items()})


def vdevice(target: str = "llvm", vdevice_id: int = 0, memory_scope: str = "global") -> VDevice:
    """A virtual device."""
    return VDevice(str(target), vdevice_id, memory_scope)


def load_json(text: str) -> Any:
    """The constants of a script's metadata section: ``metadata = I.load_json(\"\"\"...\"\"\")``."""
    return _load_json(text)


__all__ = ["GlobalVar", "ir_module", "load_json", "module_attrs", "module_global_infos", "vdevice"]


def __dir__() -> list[str]:
    return __all__


register_namespace(sys.modules[__name__])
