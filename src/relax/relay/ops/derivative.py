"""Derivatives of operators, derived from those of the Relax operators in their meaning.

    tanh.grad(%x, %g)              the tuple (gradient by %x,), where %g is the gradient by tanh(%x)
    nn.dense.grad(%x, %w, %g, units=10)

Each operator has a gradient operator, named with the suffix ``.grad``, with the same attributes. It takes the operands
and the gradient of the result, and returns a tuple of the gradients of the operands, of their types. Its meaning is the
chain rule applied to the operator's Relax expression, so each differentiation rule exists once, on the Relax operator.
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
"""Operator or language construct without a gradient."""

SUFFIX: Final = ".grad"


def derivative(op: Op) -> Op | None:
    """Return the gradient operator of an operator, or None if it has no meaning in Relax."""
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
        operand_of: dict[RelaxExpr, RelaxExpr] = {}
        own = [_placeholder(item, f"x{i}", operand_of) for i, item in enumerate(inputs)]
        tape = _Tape(name, own)
        result = means(attrs, *own)
        tape.run(result, _gradient_of(result, grad, operand_of))
        return _replaced(Tuple([tape.adjoints.total(item) for item in own]), operand_of)

    return gradients


def _placeholder(operand: RelaxExpr, name: str, operand_of: dict[RelaxExpr, RelaxExpr]) -> RelaxExpr:
    """Create a variable that stands for an operand, so that an expression passed twice counts as two operands."""
    if isinstance(operand, Constant):
        return operand.replace()
    if isinstance(operand, Tuple):
        return Tuple([_placeholder(field, f"{name}_{i}", operand_of) for i, field in enumerate(operand.fields)])
    var = Var(name, known_struct_info(operand))
    operand_of[var] = operand
    return var


def _gradient_of(result: RelaxExpr, grad: RelaxExpr, operand_of: dict[RelaxExpr, RelaxExpr]) -> RelaxExpr:
    """Give a gradient the struct info of its result, whose shape it must have.

    Raises ValueError if that is impossible.
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
    operand_of[var] = grad
    return var


def _replaced(expr: RelaxExpr, operand_of: dict[RelaxExpr, RelaxExpr]) -> RelaxExpr:
    """Substitute the operands for their variables, preserving sharing."""
    results = dict(operand_of)

    def visit(node: Any) -> Any:
        if not isinstance(node, (Call, Tuple, TupleGetItem, Var)):
            return node
        if node not in results:
            results[node] = map_children(node, visit) if not isinstance(node, Var) else node
        return results[node]

    return visit(expr)


class _Tape:
    """Reverse-mode tape: collects the gradients of each part of an expression and propagates them to its operands."""

    def __init__(self, name: str, leaves: Sequence[RelaxExpr]) -> None:
        self.name = name
        self.leaves = set(leaves)
        self.adjoints = Adjoints()

    def run(self, result: RelaxExpr, grad: RelaxExpr) -> None:
        """Compute the gradients of all parts of `result`, given its own gradient."""
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
    """Calls and projections of an expression, each once, operands first."""
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
    """Register the ``.grad`` operator of each declared operator."""
    for name in list_operators():
        derivative(Op.get(name))
