"""The prelude: lists, options and trees, and the functions over them, written in Relay (`std/prelude.rly`)."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final

from ..ir import IRModule
from .text.parser import parse, register_importer

STANDARD_MODULES: Final = ("prelude.rly",)
"""Names accepted by ``import "…"``."""

_FOLDER: Final = Path(__file__).parent / "std"


@functools.cache
def _standard(name: str) -> IRModule:
    """Return a standard module; all importers share its nodes."""
    if name not in STANDARD_MODULES:
        raise KeyError(name)
    return parse((_FOLDER / name).read_text(encoding="utf-8"), name)


register_importer(_standard)


def import_from_std(mod: IRModule, name: str = "prelude.rly") -> IRModule:
    """Add the definitions of a standard module to `mod` in place and return it; existing definitions stay.

    Raises KeyError for a name not in `STANDARD_MODULES`.
    """
    standard = _standard(name)
    types = {key.name_hint for key in mod.get_global_type_vars()}
    for key in standard.get_global_type_vars():
        if key.name_hint not in types:
            mod.update_type_definition(key, standard.type_definitions[key])
    mod.update({key: function for key, function in standard.functions.items() if key not in mod})
    return mod


class Prelude:
    """Module with the prelude: ``Prelude(mod).mod``.

    ``list_type, cons, nil = prelude.mod.get_type("List")``, ``prelude.mod.get_global_var("map")``.
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        self.mod = import_from_std(IRModule() if mod is None else mod)
