"""Derivatives of operators, from those of the Relax operators that they mean.

    tanh.grad(%x, %g)              the tuple (gradient by %x,), where %g is the gradient by tanh(%x)
    nn.dense.grad(%x, %w, %g, units=10)

For each operator there is one with ``.grad`` behind its name and the same attributes. It takes the operands and the
gradient of a scalar by the result, and gives a tuple: the gradient by each operand, of the operand's type. Its meaning
is the chain rule along the Relax expression that the operator means, so each rule of differentiation stands once, on
the Relax operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from ... import op as relax_op
from ...expr import Call, Constant, Tuple, TupleGetItem, Var
from ...ir import Diagnostic, DiagnosticError, Op, RelaxExpr, map_children
from ...op.base import operator_of
from ...op.known import known_struct_info
from ...prim import Verdict, prove_equal
from ...struct_info import TensorStructInfo, TupleStructInfo
from ..operators import DERIVATIVE_OF, list_operators, operator_spec, register_operator
from .declare import MEANING, meaning_of

NO_GRADIENT: Final = "E9060"
"""An operator, or a part of the language, without a gradient."""

SUFFIX: Final = ".grad"


def derivative(op: Op) -> Op | None:
    """The operator of the gradients of another one; None if that has no meaning in Relax."""
    name = f"{op.name}{SUFFIX}"
    if operator_spec(name) is None:
        spec, means = operator_spec(op), meaning_of(op)
        if spec is None or means is None:
            return None
        count = None if spec.num_inputs is None else spec.num_inputs + 1
        facts = {MEANING: _chain_rule(op.name, means), DERIVATIVE_OF: op}
        register_operator(name, count, spec.attrs, **facts)
    return Op.get(name)


def _chain_rule(name: str, means: Callable[..., RelaxExpr]) -> Callable[..., RelaxExpr]:
    def gradients(attrs: Any, *operands: RelaxExpr) -> RelaxExpr:
        *inputs, grad = operands
        places: dict[RelaxExpr, RelaxExpr] = {}
        own = [_placeholder(item, f"x{i}", places) for i, item in enumerate(inputs)]
        tape = _Tape(name, own)
        result = means(attrs, *own)
        tape.run(result, _gradient_of(result, grad, places))
        return _replaced(Tuple([tape.total(item) for item in own]), places)

    return gradients


def _placeholder(operand: RelaxExpr, name: str, places: dict[RelaxExpr, RelaxExpr]) -> RelaxExpr:
    """A variable in the place of an operand, so that an expression given twice is two operands."""
    if isinstance(operand, Constant):
        return operand.replace()
    if isinstance(operand, Tuple):
        return Tuple([_placeholder(field, f"{name}_{i}", places) for i, field in enumerate(operand.fields)])
    var = Var(name, known_struct_info(operand))
    places[var] = operand
    return var


def _gradient_of(result: RelaxExpr, grad: RelaxExpr, places: dict[RelaxExpr, RelaxExpr]) -> RelaxExpr:
    """The gradient by a result: its shape is that of the result, even where less is known of the gradient itself.

    Raises ValueError if it cannot be.
    """
    info, own = known_struct_info(result), known_struct_info(grad)
    if isinstance(info, TupleStructInfo) or not isinstance(info, TensorStructInfo):
        return grad
    dims = own.dims if isinstance(own, TensorStructInfo) else None
    if dims is not None and info.dims is not None:
        equal = len(dims) == len(info.dims) and all(
            prove_equal(a, b) is not Verdict.NO for a, b in zip(dims, info.dims, strict=True)
        )
        if not equal:
            raise ValueError(f"the gradient is of shape {dims}, the result of shape {info.dims}")
    var = Var("grad", info)
    places[var] = grad
    return var


def _replaced(expr: RelaxExpr, places: dict[RelaxExpr, RelaxExpr]) -> RelaxExpr:
    """An expression with the operands in the places of their variables; what it shares stays shared."""
    results = dict(places)

    def visit(node: Any) -> Any:
        if not isinstance(node, (Call, Tuple, TupleGetItem, Var)):
            return node
        if node not in results:
            results[node] = map_children(node, visit) if not isinstance(node, Var) else node
        return results[node]

    return visit(expr)


class _Tape:
    """The chain rule along an expression: gradients are collected for each part, and passed on to its operands."""

    def __init__(self, name: str, leaves: Sequence[RelaxExpr]) -> None:
        self.name = name
        self.leaves = set(leaves)
        self.collected: dict[RelaxExpr, list[Any]] = {}
        self.fields: dict[RelaxExpr, dict[int, list[Any]]] = {}
        """Gradients by single fields of tuples."""

    def run(self, result: RelaxExpr, grad: RelaxExpr) -> None:
        """Collect the gradients of all parts of `result`, given that by `result` itself."""
        self.push(result, grad)
        for expr in reversed(_order(result, self.leaves)):
            if expr not in self.collected and expr not in self.fields:
                continue
            if isinstance(expr, TupleGetItem):
                own = self.fields.setdefault(expr.tuple_value, {}).setdefault(expr.index, [])
                own += self.collected[expr]
            elif isinstance(expr, Call):
                self._call(expr)

    def push(self, expr: RelaxExpr, grad: RelaxExpr | None) -> None:
        """Note a gradient by an expression; None is no gradient. One by a tuple is one by each of its fields."""
        if grad is None:
            return
        if isinstance(expr, Tuple):
            for i, field in enumerate(expr.fields):
                self.push(field, grad.fields[i] if isinstance(grad, Tuple) else TupleGetItem(grad, i))
        elif isinstance(expr, TupleGetItem) and isinstance(expr.tuple_value, Tuple):
            self.push(expr.tuple_value.fields[expr.index], grad)
        else:
            self.collected.setdefault(expr, []).append(grad)

    def _call(self, call: Call) -> None:
        operator = operator_of(call)
        gradients = None if operator is None else operator.gradient(call.args, call, self.total(call))
        if gradients is None:
            means = "" if operator is None or operator.short_name == self.name else f" ({_name(call)})"
            raise DiagnosticError(Diagnostic(NO_GRADIENT, f"{self.name}{means} has no gradient here"))
        for arg, grad in zip(call.args, gradients, strict=True):
            self.push(arg, grad)

    def total(self, expr: RelaxExpr) -> RelaxExpr:
        """The sum of the gradients by an expression, zeros if there are none."""
        if isinstance(expr, Tuple):
            return Tuple([self.total(field) for field in expr.fields])
        info = known_struct_info(expr)
        if isinstance(info, TupleStructInfo):
            return Tuple([self._field(expr, i, field) for i, field in enumerate(info.fields)])
        return _sum(self.collected.get(expr, []), expr)

    def _field(self, expr: RelaxExpr, index: int, info: Any) -> RelaxExpr:
        item = TupleGetItem(expr, index)
        if not isinstance(info, TensorStructInfo):
            raise DiagnosticError(
                Diagnostic(NO_GRADIENT, f"{self.name} has no gradient for tuples of tuples")
            )
        grads = list(self.fields.get(expr, {}).get(index, []))
        for whole in self.collected.get(expr, []):
            grads.append(whole.fields[index] if isinstance(whole, Tuple) else TupleGetItem(whole, index))
        return _sum(grads, item)


def _name(call: Call) -> str:
    return cast(Op, call.op).name.removeprefix("relax.")


def _sum(grads: Sequence[Any], like: RelaxExpr) -> RelaxExpr:
    if not grads:
        return relax_op.zeros_like(like)
    total = grads[0]
    for grad in grads[1:]:
        total = relax_op.add(total, grad)
    return total


def _order(result: RelaxExpr, leaves: set[RelaxExpr]) -> list[RelaxExpr]:
    """The calls and projections of an expression, each once and behind what it is made of."""
    order: list[RelaxExpr] = []
    seen: set[RelaxExpr] = set()

    def visit(expr: RelaxExpr) -> None:
        if expr in seen or expr in leaves:
            return
        seen.add(expr)
        match expr:
            case Call(args=args) | Tuple(fields=args):
                for arg in args:
                    visit(arg)
            case TupleGetItem(tuple_value):
                visit(tuple_value)
            case _:
                return
        order.append(expr)

    visit(result)
    return order


def register_derivatives() -> None:
    """Register the operator ``.grad`` of each operator that is declared."""
    for name in list_operators():
        derivative(Op.get(name))


__all__ = ["NO_GRADIENT", "derivative", "register_derivatives"]
