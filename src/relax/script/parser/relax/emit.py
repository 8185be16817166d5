"""``R.emit_te(topi.add, x, y)``: the call_tir of a function of tensor expressions, whose PrimFunc joins the module."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from ....expr import Call, Var, is_leaf
from ....ir import GlobalVar, RelaxExpr, StructInfo
from ....op.known import known_struct_info
from ....op.te_call import call_te
from ....prim import Var as PrimVar
from ....tir.stmt import PrimFunc
from ..core import Evaluator, SpecialForm
from ..core.diagnostics import KIND, PLACE, UNDEFINED
from .statements import MatchCastValue


class _ParserAsBuilder:
    """Adapter of the active parser to the builder interface of `call_te`."""

    def __init__(self, parser: Any, node: ast.AST) -> None:
        self.parser, self.node = parser, node

    @property
    def shape_vars(self) -> dict[PrimVar, None]:
        """Shape variables that have a name here."""
        values = map(self.parser.scopes.lookup, self.parser.scopes.names())
        return {value: None for value in values if isinstance(value, PrimVar)}

    def normalize(self, expr: Any) -> RelaxExpr:
        """Variable with the known struct info of an expression."""
        info = known_struct_info(expr)
        if info is None:
            self.parser.fail(UNDEFINED, "R.emit_te: the struct info of an argument is not known here", self.node,
                             hint="annotate the variable, or match_cast it")  # fmt: skip
        return Var("", info)

    def leaf(self, expr: RelaxExpr) -> RelaxExpr:
        """Return a leaf unchanged; bind any other expression to a variable."""
        return expr if is_leaf(expr) else self.parser._emit("", expr, None, self.node)

    def match_cast(self, value: Any, struct_info: StructInfo, name_hint: str = "") -> Var:
        return self.parser._emit("", MatchCastValue(value, struct_info), None, self.node)

    def add_func(self, func: PrimFunc, func_name: str) -> GlobalVar:
        return self.parser.module.adopt(func, func_name)


class EmitTe(SpecialForm):
    """``R.emit_te(func, *args, **kwargs, primfunc_name_hint=, primfunc_attrs=)``."""

    def script_call(self, evaluator: Evaluator, node: ast.Call) -> Call:
        """Build the call; its PrimFunc is added to the module being parsed."""
        if getattr(evaluator, "module", None) is None:
            evaluator.fail(PLACE, "R.emit_te adds a function: it stands in a class under @I.ir_module", node)
        (func, *args), keywords = evaluator.arguments(node) if node.args else ([None], {})
        if not callable(func):
            evaluator.fail(KIND, "R.emit_te takes a function of tensor expressions and its arguments", node)
        function: Callable[..., Any] = func
        hint = keywords.pop("primfunc_name_hint", None)
        attrs = keywords.pop("primfunc_attrs", None)
        builder = _ParserAsBuilder(evaluator, node)
        return evaluator.guard(node, "R.emit_te", call_te, builder, function, tuple(args), keywords, hint, attrs)


emit_te = EmitTe()

__all__ = ["emit_te"]
