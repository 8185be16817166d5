"""Operators as Python functions: ``relay.add(x, y)``, ``relay.nn.dense(x, w, units=10)``.

Each declared operator is a function of its operands, then its attributes, by position or name. One with several results
returns a `TupleWrapper`, whose items are projections. A shape given as an expression, ``relay.reshape(x,
relay.shape_of(y))``, makes a call of the ``dyn`` operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np

from ..ir import Diagnostic, DiagnosticError, Op
from ..ir.tvm_names import missing, reason
from .composites import COMPOSITES
from .expr import Call, Constant, Expr, ExprWithOp, RelayExpr, Tuple, TupleGetItem, const
from .operators import REQUIRED, AttrField, call_operator, list_operators, operator_spec
from .ops.declare import operand_names, result_count
from .ops.dynamic import dynamic_form, plain_attr, static_form


class TupleWrapper:
    """Call with several results: ``y, mean, var = relay.nn.batch_norm(…)``. `astuple` returns the call itself."""

    def __init__(self, tuple_value: Expr, size: int) -> None:
        self.tuple_value = tuple_value
        self.size = size

    def astuple(self) -> Expr:
        """Return the tuple-valued expression."""
        return self.tuple_value

    def __getitem__(self, index: int) -> TupleGetItem:
        if not -self.size <= index < self.size:
            raise IndexError(f"the call has {self.size} results, asked for number {index}")
        return TupleGetItem(self.tuple_value, index % self.size)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[TupleGetItem]:
        return (self[i] for i in range(self.size))


def operator_function(name: str) -> Callable[..., Any]:
    """Return the Python function that builds calls of an operator."""
    spec = operator_spec(name)
    assert spec is not None
    op = Op.get(name)

    def function(*args: Any, **attrs: Any) -> Any:
        count = len(args) if spec.num_inputs is None else spec.num_inputs
        named = [attrs.pop(operand) for operand in operand_names(op) if operand in attrs]
        given = [*args, *named] if named else list(args)
        operands, rest = given[:count], given[count:]
        if len(rest) > len(spec.attrs):
            message = f"{name} takes {count} operands and {len(spec.attrs)} attributes, found {len(given)} values"
            raise DiagnosticError(Diagnostic("E9012", message))
        for field, value in zip(spec.attrs, rest, strict=False):
            if field.name in attrs:
                raise DiagnosticError(Diagnostic("E9011", f"{name}: the attribute {field.name!r} is given twice"))
            attrs[field.name] = value
        call = dynamic_call(op, operands, attrs) or call_operator(name, *map(as_expr, operands), **attrs)
        results = result_count(call)
        return call if results is None else TupleWrapper(call, results)

    function.__name__ = function.__qualname__ = name.rpartition(".")[2]
    function.__doc__ = f"A call of the operator {name}."
    return function


def dynamic_call(op: Op, operands: list[Any], attrs: dict[str, Any]) -> Call | None:
    """Return the call of the ``dyn`` operator if a shape attribute is a non-constant expression, else None.

    Constant expressions in `attrs` are replaced by their values.
    """
    dynamic, spec = dynamic_form(op), operator_spec(op)
    form = None if dynamic is None else static_form(dynamic)
    if dynamic is None or form is None or spec is None:
        return None
    given = {name: attrs[name] for name in form.attrs if isinstance(attrs.get(name), RelayExpr)}
    if all(isinstance(value, Constant) for value in given.values()):
        attrs.update((name, plain_attr(op, name, value.data)) for name, value in given.items())
        return None
    exprs = [as_expr(operand) for operand in operands]
    for name, position in sorted(form.attrs.items(), key=lambda item: item[1]):
        field = spec.field(name)
        assert field is not None
        value = attrs.pop(name, None if field.default is REQUIRED else field.default)
        exprs.insert(position, value if isinstance(value, RelayExpr) else _constant_attr(field, value))
    return call_operator(dynamic.name, *exprs, **attrs)


def _constant_attr(field: AttrField, value: Any) -> Expr:
    """Convert a static attribute to an operand: integers, or floats if the attribute is of floats."""
    if "float" in field.type:
        return const(np.array((0.0,) * 4 if value is None else value, "float32"))
    return const(np.array(value, "int64"))


def as_expr(value: Any) -> Expr:
    """Convert an operand: an expression stays, a sequence becomes a tuple, a number or array a constant."""
    if isinstance(value, TupleWrapper):
        return value.astuple()
    if isinstance(value, (tuple, list)):
        return Tuple([as_expr(item) for item in cast("list[Any]", value)])
    if isinstance(value, (bool, int, float, np.ndarray, np.generic)):
        return const(value)
    return value


class Namespace:
    """Operators with a common name prefix as attributes: ``relay.nn``."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        whole = f"{self._prefix}.{name}"
        if name.startswith("__") or operator_spec(whole) is None:
            if reason(f"relax.relay.{self._prefix}", name):
                raise missing(f"relax.relay.{self._prefix}", name)
            raise AttributeError(f"Relay has no operator {whole}")
        return operator_function(whole)

    def __dir__(self) -> list[str]:
        prefix = f"{self._prefix}."
        return [name.removeprefix(prefix) for name in list_operators() if name.startswith(prefix)]

    def dropout(self, data: ExprWithOp, rate: float = 0.5) -> Any:
        """Return the data unchanged (inference semantics)."""
        return TupleGetItem(call_operator("nn.dropout", data, rate=rate), 0)


def public(name: str) -> Any:
    """Return the function or namespace of this name. Raises AttributeError."""
    if name in ("nn", "image", "dyn", "qnn", "vision"):
        return Namespace(name)
    if name in COMPOSITES:
        return COMPOSITES[name]
    if operator_spec(name) is not None:
        return operator_function(name)
    raise AttributeError(f"module 'relax.relay' has no attribute {name!r}")
