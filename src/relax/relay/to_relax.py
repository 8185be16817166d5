"""From Relay to Relax.

    relax_mod = relay.to_relax(mod)

Types become struct info: each `Any` of a parameter is a size of its own, and where a result is `Any`, its dimensions
are derived again. Functions become functions, `let` and graph bindings become bindings, in the scope where Relay
evaluates them; an operator's call becomes what it means (`ops`). Closures are Relax's local functions.

Not translated, and refused by name: data types and `match`, references, and functions that are still polymorphic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..block_builder import BlockBuilder
from ..expr import Call as RelaxCall
from ..expr import Constant as RelaxConstant
from ..expr import Function as RelaxFunction
from ..expr import If as RelaxIf
from ..expr import SeqExpr, VarBinding
from ..expr import Tuple as RelaxTuple
from ..expr import TupleGetItem as RelaxTupleGetItem
from ..expr import Var as RelaxVar
from ..ir import BaseFunc, Diagnostic, DiagnosticError, GlobalVar, IRModule, Op, RelaxExpr, Span, StructInfo
from ..prim import SizeVar
from ..struct_info import FuncStructInfo, TensorStructInfo, TupleStructInfo
from ..transform import BindParams
from .expr import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem
from .infer import infer_module
from .meaning import meaning
from .scopes import EvaluationScope, Placement, place
from .types import Any as AnyDim
from .types import FuncType, TensorType, TupleType, Type, TypeVar

NOT_TRANSLATED = "E9050"
"""A part of Relay that has no translation to Relax."""


def to_relax(mod: IRModule, params: Mapping[str, Any] | None = None) -> IRModule:
    """The Relax module that computes what a Relay module does; `params` are constants for parameters of main.

    Types are inferred first. Raises DiagnosticError for what is wrong, or has no translation (E9050).
    """
    infer_module(mod)
    functions = {g: f for g, f in mod.functions.items() if isinstance(f, Function)}
    builder = BlockBuilder(warn=False)
    names = {g.name_hint: GlobalVar(g.name_hint) for g in functions}
    signatures = {g.name_hint: _signature(f) for g, f in functions.items()}
    for name, global_var in names.items():
        object.__setattr__(global_var, "_struct_info", signatures[name])
    result: dict[GlobalVar, BaseFunc] = {}
    for global_var, function in functions.items():
        name = global_var.name_hint
        translated = _Translation(builder, names).function(function)
        result[names[name]] = translated.with_attr("global_symbol", name) if name == "main" else translated
    relax_mod = IRModule(cast(Any, result))
    return BindParams("main", dict(params))(relax_mod) if params else relax_mod


def _signature(function: Function) -> FuncStructInfo:
    params = [struct_info_of(param.checked_type, param.span, bind=True) for param in function.params]
    result = cast(FuncType, function.checked_type).ret_type
    return FuncStructInfo(params, struct_info_of(result, function.span, bind=False))


def struct_info_of(type_: Type, span: Span | None, *, bind: bool) -> StructInfo:
    """The struct info of a type. `Any` is a new size if `bind`; else the whole shape is left open."""
    match type_:
        case TensorType(shape, dtype) if not isinstance(shape, TypeVar) and not isinstance(dtype, TypeVar):
            if not bind and any(isinstance(dim, AnyDim) for dim in shape):
                return TensorStructInfo(ndim=len(shape), dtype=str(dtype))
            dims = [
                SizeVar("d", "int64") if isinstance(dim, AnyDim) else dim.astype("int64") for dim in shape
            ]
            return TensorStructInfo(dims, str(dtype))
        case TupleType(fields):
            return TupleStructInfo([struct_info_of(field, span, bind=bind) for field in fields])
        case FuncType() if not type_.type_params:
            params = [struct_info_of(arg, span, bind=bind) for arg in type_.arg_types]
            return FuncStructInfo(params, struct_info_of(type_.ret_type, span, bind=False))
        case _:
            raise _untranslated(f"a value of type {type_}", span)


def _untranslated(what: str, span: Span | None) -> DiagnosticError:
    return DiagnosticError(Diagnostic(NOT_TRANSLATED, f"{what} has no translation to Relax", span))


class _Translation:
    """The translation of one global function."""

    def __init__(self, builder: BlockBuilder, names: Mapping[str, GlobalVar]) -> None:
        self.builder = builder
        self.names = names
        self.values: dict[Expr, RelaxExpr] = {}
        self.placement: Placement = cast(Placement, None)
        self.nodes: dict[EvaluationScope, list[Expr]] = {}
        self.named: dict[Expr, Let] = {}
        """The `let`s of function values, which may call themselves."""

    def function(self, function: Function) -> RelaxFunction:
        """A global function."""
        self.placement = place(function)
        for node in self.placement.order:
            self.nodes.setdefault(self.placement.of[node], []).append(node)
            if isinstance(node, Let) and isinstance(node.value, Function):
                self.named[node.value] = node
        with self.builder.detached():
            return self.builder.function_body(self._function(function), "")

    def _function(self, node: Function) -> RelaxFunction:
        params = [
            RelaxVar(p.name_hint, struct_info_of(p.checked_type, p.span, bind=True)) for p in node.params
        ]
        self.values.update(zip(node.params, params, strict=True))
        (inner,) = self.placement.opened[node]
        body = self._scope(inner, node.body, params)
        result = struct_info_of(cast(FuncType, node.checked_type).ret_type, node.span, bind=False)
        return RelaxFunction(params, body, result)

    def _scope(
        self, scope: EvaluationScope, result: Expr, params: Sequence[RelaxVar] | None = None
    ) -> RelaxExpr:
        """The bindings of a scope, and its result: a SeqExpr."""
        builder = self.builder
        depth = len(builder.scopes)
        builder.begin_scope(params)
        frames, builder.frames = builder.frames, []
        try:
            builder.begin_binding_block()
            self._emit(scope)
            body = builder.leaf(self._value(result))
            return builder.scope_body(SeqExpr(builder.end_blocks(), body))
        finally:
            builder.frames = frames
            while len(builder.scopes) > depth:
                builder.end_scope()

    def _emit(self, scope: EvaluationScope) -> None:
        """Emit the nodes of a scope, and those of the `let`s in it, which are no scopes in Relax."""
        stack: list[tuple[list[Expr], int, Let | None]] = [(self.nodes.get(scope, []), 0, None)]
        while stack:
            nodes, i, opener = stack.pop()
            if i == len(nodes):
                if opener is not None:
                    self.values[opener] = self._value(opener.body)
                continue
            stack.append((nodes, i + 1, opener))
            node = nodes[i]
            if isinstance(node, Let):
                self._let(node)
                stack.append((self.nodes.get(self.placement.opened[node][0], []), 0, node))
            elif node in self.named:
                self._named_function(cast(Function, node), self.named[node])
            elif node not in self.values:
                self.values[node] = self._bound(self._node(node), "")

    def _named_function(self, node: Function, let: Let) -> None:
        """A function bound by `let`, in whose body the variable is in scope."""
        info = struct_info_of(node.checked_type, node.span, bind=True)
        var = RelaxVar(let.var.name_hint, info)
        self.values[let.var] = self.values[node] = var
        function = self._function(node)
        self.builder.note_own(var, function)
        self.builder.emit_normalized(VarBinding(var, self.builder.normalize(function)))

    def _let(self, node: Let) -> None:
        if node.var not in self.values:
            self.values[node.var] = self._bound(self._value(node.value), node.var.name_hint)

    def _bound(self, value: RelaxExpr, name: str) -> RelaxExpr:
        return value if isinstance(value, RelaxConstant) else self.builder.emit(value, name)

    def _value(self, expr: Expr) -> RelaxExpr:
        match expr:
            case Constant():
                return RelaxConstant(expr.data)
            case GlobalVar():
                return self.names[expr.name_hint]
            case _:
                value = self.values.get(expr)
                if value is None:
                    raise _untranslated(f"this {type(expr).__name__} as a value", expr.span)
                return value

    def _node(self, node: Expr) -> RelaxExpr:
        match node:
            case Tuple(fields):
                return RelaxTuple([self._value(field) for field in fields], span=node.span)
            case TupleGetItem(tuple_value, index):
                return RelaxTupleGetItem(self._value(tuple_value), index, span=node.span)
            case If(cond, true_branch, false_branch):
                first, second = self.placement.opened[node]
                branches = self._scope(first, true_branch), self._scope(second, false_branch)
                return RelaxIf(self._value(cond), *branches, span=node.span)
            case Call(Op() as op):
                operands = [self._value(arg) for arg in node.args]
                return meaning(op, node.attrs, operands, node.span)
            case Call():
                args = [self._value(arg) for arg in node.args]
                return RelaxCall(self._value(node.op), args, span=node.span)
            case Function():
                return self._function(node)
            case _:
                raise _untranslated(f"this {type(node).__name__}", node.span)


__all__ = ["struct_info_of", "to_relax"]
