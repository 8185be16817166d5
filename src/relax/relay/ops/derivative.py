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

from ...expr import Call, Constant, Tuple, TupleGetItem, Var
from ...ir import Diagnostic, DiagnosticError, Op, RelaxExpr, map_children
from ...op.adjoints import Adjoints
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
        return _replaced(Tuple([tape.adjoints.total(item) for item in own]), places)

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
        self.adjoints = Adjoints()

    def run(self, result: RelaxExpr, grad: RelaxExpr) -> None:
        """Collect the gradients of all parts of `result`, given that by `result` itself."""
        self.adjoints.add(result, grad)
        for expr in reversed(_order(result, self.leaves)):
            if isinstance(expr, Call) and expr in self.adjoints:
                self._call(expr)

    def _call(self, call: Call) -> None:
        operator = operator_of(call)
        grad = self.adjoints.total(call)
        gradients = None if operator is None else operator.gradient(call.args, call, grad)
        if gradients is None:
            means = "" if operator is None or operator.short_name == self.name else f" ({_name(call)})"
            raise DiagnosticError(Diagnostic(NO_GRADIENT, f"{self.name}{means} has no gradient here"))
        for arg, gradient in zip(call.args, gradients, strict=True):
            self.adjoints.add(arg, gradient)


def _name(call: Call) -> str:
    return cast(Op, call.op).name.removeprefix("relax.")


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
