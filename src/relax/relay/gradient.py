"""Reverse-mode differentiation: turns a function into one that returns its value and its gradients.

    fn (%x: float32) { multiply(%x, %x) }

    becomes, with mode="first_order",

    fn (%x: float32) {
      %0 = multiply(%x, %x);
      %1 = ones_like(%0);
      %2 = multiply.grad(%x, %x, %1);
      %3 = add(%2.0, %2.1);
      (%0, (%3,))
    }

The gradients are those of the sum of all result elements. ``first_order`` supports dataflow graphs: operators, tuples,
and `let`. ``higher_order`` (`gradient_closures`) supports the whole language except data types that hold tensors
directly. The gradient of an operator is its ``.grad`` operator (`ops.derivative`), unless it has a rule of its own
(`gradient_rules`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

from ..ir import DataType, Diagnostic, DiagnosticError, GlobalVar, IRModule, Op
from .calls import operator_function
from .expr import Call, Constant, Expr, Function, Let, RelayExpr, Tuple, TupleGetItem
from .gradient_closures import ClosureGradient
from .gradient_rules import gradients_of
from .infer import infer_type
from .ops.derivative import NO_GRADIENT
from .parts import parts_of, with_parts
from .scopes import nodes_with_parts
from .types import TensorType, TupleType, Type


def gradient(
    expr: Expr, mod: IRModule | None = None, mode: Literal["higher_order", "first_order"] = "higher_order"
) -> Function:
    """Return the function that computes `expr` and its gradients: ``fn(params) -> (result, (gradient by each
    parameter,))``.

    `mod` holds the global functions that `expr` calls; with ``higher_order``, a function ``@f_grad`` is added for each
    of them. Raises DiagnosticError for expressions without gradient (E9060), ValueError for other modes.
    """
    function = cast(Any, mod)[expr] if isinstance(expr, GlobalVar) else expr
    if not isinstance(function, Function):
        raise DiagnosticError(
            Diagnostic(NO_GRADIENT, "the gradient is that of a function", getattr(expr, "span", None))
        )
    if mode not in ("higher_order", "first_order"):
        raise ValueError(f"gradient: the mode is higher_order or first_order, found {mode!r}")
    function = cast(Function, infer_type(function, mod))
    for param in function.params:
        _check_differentiable(param.checked_type, f"the parameter %{param.name_hint}", param)
    _check_differentiable(function.body.checked_type, "the result", function)  # type: ignore[attr-defined]
    if mode == "first_order":
        return cast(Function, infer_type(_GraphGradient(function).result(), mod))
    closures = ClosureGradient(mod, gradients_of)
    result = closures.function(function)
    whole = IRModule() if mod is None else mod.clone()
    whole.update(closures.functions)
    result = cast(Function, infer_type(result, whole))
    if mod is not None:
        mod.update(closures.functions)
    return result


def _check_differentiable(type_: Type, subject: str, node: RelayExpr) -> None:
    if isinstance(type_, TupleType):
        for field in type_.fields:
            _check_differentiable(field, subject, node)
    elif not isinstance(type_, TensorType):
        message = f"the gradient is one by tensors, but {subject} is of type {type_}"
        raise DiagnosticError(Diagnostic(NO_GRADIENT, message, node.span))


def is_float(type_: Type) -> bool:
    """True for float tensors, and for tuples that contain any."""
    if isinstance(type_, TupleType):
        return any(map(is_float, type_.fields))
    return isinstance(type_, TensorType) and isinstance(type_.dtype, DataType) and type_.dtype.is_float


class _GraphGradient:
    """First-order gradient of a function whose body is a dataflow graph."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.lets: dict[Expr, Expr] = {}
        self.graph: dict[Expr, Expr] = {}
        """Nodes with their `let`s removed, by original node."""
        self.types: dict[Expr, Type] = {}
        self.collected: dict[Expr, list[Expr]] = {}
        self.fields: dict[Expr, dict[int, list[Expr]]] = {}
        """Gradients of single tuple fields."""

    def result(self) -> Function:
        """Return the function that computes the value and the gradients."""
        params = self.function.params
        nodes = nodes_with_parts(self.function.body)
        self.lets = {node.var: node.value for node in nodes if isinstance(node, Let)}
        for param in params:
            self.types[param] = param.checked_type
        order = [self._without_lets(node) for node in nodes if not isinstance(node, Let)]
        body = self._node(self.function.body)
        self._push(body, _ones(body, self.function.body.checked_type))  # type: ignore[attr-defined]
        for node in reversed(order):
            if node in self.collected or node in self.fields:
                self._visit(node)
        gradients = Tuple([self._total(param) for param in params])
        return Function(params, Tuple([body, gradients]), None, self.function.type_params)

    def _node(self, expr: Expr) -> Expr:
        """Graph node that an expression denotes."""
        while True:
            if isinstance(expr, Let):
                expr = expr.body
            elif expr in self.lets:
                expr = self.lets[expr]
            else:
                return self.graph.get(expr, expr)

    def _without_lets(self, node: Expr) -> Expr:
        if isinstance(node, Constant) or not isinstance(node, (Tuple, TupleGetItem, Call)):
            return self._refuse(f"this {type(node).__name__}", node)
        if isinstance(node, Call) and not isinstance(node.op, Op):
            return self._refuse("a call of no operator", node)
        changed = with_parts(node, [self._node(part) for part in parts_of(node)])
        self.graph[node] = changed
        self.types[changed] = node.checked_type
        return changed

    def _refuse(self, construct: str, node: Expr) -> Any:
        hint = 'mode="higher_order" differentiates control flow, closures and references'
        message = f"{construct} has no first-order gradient"
        raise DiagnosticError(Diagnostic(NO_GRADIENT, message, node.span, hint=hint))

    def _type(self, expr: Expr) -> Type:
        return expr.type if isinstance(expr, Constant) else self.types[expr]

    def _push(self, expr: Expr, grad: Expr) -> None:
        if not isinstance(expr, Constant) and is_float(self._type(expr)):
            self.collected.setdefault(expr, []).append(grad)

    def _visit(self, node: Expr) -> None:
        """Propagate the gradient of a node to its operands."""
        match node:
            case Tuple(fields):
                for i, field in enumerate(fields):
                    for grad in self._by_field(node, i):
                        self._push(field, grad)
            case TupleGetItem(tuple_value, index):
                self.fields.setdefault(tuple_value, {}).setdefault(index, []).append(self._total(node))
            case Call(_, args):
                for arg, grad in zip(args, gradients_of(node, self._total(node)), strict=True):
                    self._push(arg, grad)
            case _:
                raise TypeError(f"a {type(node).__name__} is no node of a graph")

    def _by_field(self, node: Expr, index: int) -> list[Expr]:
        whole = [
            grad.fields[index] if isinstance(grad, Tuple) else TupleGetItem(grad, index)
            for grad in self.collected.get(node, [])
        ]
        return whole + self.fields.get(node, {}).get(index, [])

    def _total(self, node: Expr) -> Expr:
        """Sum of the gradients of a node; zeros if there are none."""
        type_ = self._type(node)
        if not isinstance(type_, TupleType):
            return _sum(self.collected.get(node, []), node)
        fields: list[Expr] = []
        for i, field_type in enumerate(type_.fields):
            field = TupleGetItem(node, i)
            self.types[field] = field_type
            self.collected[field] = self._by_field(node, i)
            fields.append(self._total(field))
        return Tuple(fields)


def _sum(grads: Sequence[Expr], like: Expr) -> Expr:
    if not grads:
        return operator_function("zeros_like")(like)
    total = grads[0]
    for grad in grads[1:]:
        total = operator_function("add")(total, grad)
    return total


def _ones(node: Expr, type_: Type) -> Expr:
    if isinstance(type_, TupleType):
        return Tuple([_ones(TupleGetItem(node, i), field) for i, field in enumerate(type_.fields)])
    return operator_function("ones_like")(node)
