"""``@T.prim_func``, and the completion and checks of parsed PrimFuncs."""

from __future__ import annotations

from typing import Any

from ....ir import BaseFunc, IRModule
from ....tir.stmt import PrimFunc
from ....tir.well_formed import verify_well_formed
from ..core import Dialect, FunctionDecorator, FunctionTask
from .parser import TirParser


class TirDialect(Dialect):
    """The dialect of ``@T.prim_func``. Options: name (if it is not an identifier), private, check_well_formed.

    With a linkage, the function is a plain one (`relax.tir.stmt.LINKAGE`): prefix and name are its symbol, attributes
    are LLVM's.
    """

    name = "tir"
    texts = frozenset({"name", "prefix", "linkage", "attributes"})
    options = frozenset({"private", "check_well_formed"}) | texts

    def parse(self, task: FunctionTask) -> BaseFunc | None:
        parser = TirParser(task)
        with parser.active():
            return parser.function(task.node, task.options)

    def finish(self, function: BaseFunc, options: dict[str, Any]) -> BaseFunc:
        if options.get("check_well_formed", True) and isinstance(function, PrimFunc):
            verify_well_formed(function)
        return function

    def finish_module(self, module: IRModule, check_well_formed: bool) -> IRModule:
        if check_well_formed:
            verify_well_formed(module)
        return module


prim_func = FunctionDecorator("T.prim_func", TirDialect())
"""``@T.prim_func``, ``@T.prim_func(private=True)``: the ``def`` becomes a PrimFunc."""
