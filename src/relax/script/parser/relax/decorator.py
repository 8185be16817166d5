"""``@R.function``, and the completion of parsed Relax programs."""

from __future__ import annotations

from typing import Any, cast

from ....analysis import assert_well_formed
from ....derive.normalize import normalize_function, normalize_module
from ....ir import BaseFunc, GlobalVar, IRModule
from ..core import Dialect, FunctionDecorator, FunctionTask
from .calls import remember_global
from .parser import RelaxParser


class RelaxDialect(Dialect):
    """The dialect of ``@R.function``. Options: name (if it is not an identifier), private, pure, check_well_formed."""

    name = "relax"
    options = frozenset({"name", "private", "pure", "check_well_formed"})

    def parse(self, task: FunctionTask) -> BaseFunc | None:
        parser = RelaxParser(task)
        with parser.active():
            return parser.function(task.node, task.options)

    def declare(self, task: FunctionTask, global_var: GlobalVar) -> None:
        node, parser = task.node, RelaxParser(task)
        with parser.active(), parser.scopes.frame():
            params = parser.parameters(node)
            if node.returns is not None and all(param.struct_info_ is not None for param in params):
                remember_global(global_var, params, parser.annotation(node.returns))

    def finish(self, function: BaseFunc, options: dict[str, Any]) -> BaseFunc:
        if options.get("check_well_formed", True):
            assert_well_formed(function, check_struct_info=False)
        return normalize_function(cast(Any, function))

    def finish_module(self, module: IRModule, check_well_formed: bool) -> IRModule:
        if check_well_formed:
            assert_well_formed(module, check_struct_info=False)
        return normalize_module(module)


function = FunctionDecorator("R.function", RelaxDialect())
"""``@R.function``, ``@R.function(private=True, pure=False)``: the ``def`` becomes a Relax function."""

func = function
"""Older name of `function`."""
