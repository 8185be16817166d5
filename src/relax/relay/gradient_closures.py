"""Reverse-mode differentiation with closures and references, for control flow, higher-order functions and recursion.

Each tensor becomes a pair of the tensor and a reference to its gradient. An operator call prepends a closure to the
backpropagators, which propagates the gradient of its result to those of its operands:

    let %y = tanh(%x);

    becomes, where %back is the reference that holds the closure of all calls so far,

    let %value = tanh(%x.0);
    let %y = (%value, ref(zeros_like(%value)));
    let %earlier = ref_read(%back);
    ref_write(%back, fn() -> () {
      let %gradients = tanh.grad(%x.0, ref_read(%y.1));
      ref_write(%x.1, ref_read(%x.1) + %gradients.0);
      %earlier()
    });

Everything else is unchanged, with pairs for tensors: functions, references and data types hold pairs, and branches not
taken add no closure to the chain (B. Pearlmutter and J. Siskind, "Reverse-mode AD in a functional framework", 2008; F.
Wang et al., "Demystifying differentiable programming", 2019).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, cast

from ..ir import DataType, Diagnostic, DiagnosticError, GlobalVar, IRModule, Op
from .adt import Clause, Constructor, Match
from .calls import operator_function
from .expr import Call, Constant, Expr, Function, If, Let, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem, Var
from .operators import operator_spec
from .ops.derivative import NO_GRADIENT
from .parts import pattern_vars, with_pattern_vars
from .scopes import EvaluationScope, Placement, place
from .type_walk import parts_of_type, with_type_parts
from .types import FuncType, RefType, TensorType, TupleType, Type, TypeVar

Bindings = deque[tuple[Var, Expr]]
UNIT = TupleType(())
BACK_TYPE = RefType(FuncType((), UNIT))


class ClosureGradient:
    """Differentiates functions. `functions` maps global functions to replacements that take the backpropagator
    reference last.
    """

    def __init__(self, mod: IRModule | None, gradients_of: Callable[[Call, Expr], Sequence[Expr]]) -> None:
        self.mod = mod
        self.gradients_of = gradients_of
        self.functions: dict[GlobalVar, Function] = {}
        self._names: dict[str, GlobalVar] = {}
        self._waiting: list[str] = []

    def function(self, function: Function) -> Function:
        """Return the function that computes the value of `function` and the gradients of its parameters."""
        back = Var("back", BACK_TYPE)
        lifted = _Body(self, back).function(function)
        own = [Var(param.name_hint, param.checked_type) for param in function.params]
        into: Bindings = deque()
        into.append((back, RefCreate(Function((), Tuple(()), UNIT))))
        pairs: list[Expr] = []
        for var in own:
            pairs.append(Var(f"{var.name_hint}_pair"))
            into.append((cast(Var, pairs[-1]), lifted_value(var, cast(Type, var.type_annotation))))
        result = Var("result")
        into.append((result, Call(lifted, pairs)))
        type_ = cast(Any, function.body).checked_type
        _seed(result, type_, into)
        into.append((Var("_"), Call(RefRead(back), ())))
        gradients = [_gradient(pair, cast(Type, var.type_annotation)) for pair, var in zip(pairs, own, strict=True)]
        body = wrapped(into, Tuple([primal(result, type_), Tuple(gradients)]))
        self._globals()
        return Function(own, body, None, function.type_params)

    def global_function(self, name: GlobalVar) -> GlobalVar:
        """Return the replacement of a global function."""
        own = self._names.get(name.name_hint)
        if own is None:
            if self.mod is None or not isinstance(self.mod.get(name.name_hint), Function):
                message = f"@{name.name_hint} is called, which is not in the module given to gradient"
                raise DiagnosticError(Diagnostic(NO_GRADIENT, message, name.span))
            text = f"{name.name_hint}_grad"
            while text in self.mod or any(text == other.name_hint for other in self._names.values()):
                text += "_"
            own = self._names[name.name_hint] = GlobalVar(text)
            self._waiting.append(name.name_hint)
        return own

    def arity(self, name: GlobalVar) -> int:
        """Number of parameters of a global function."""
        return len(cast(Any, self.mod)[name.name_hint].params)

    def _globals(self) -> None:
        while self._waiting:
            name = self._waiting.pop()
            back = Var("back", BACK_TYPE)
            lifted = _Body(self, back).function(cast(Any, self.mod)[name])
            self.functions[self._names[name]] = lifted.replace(params=(*lifted.params, back))


class _Body:
    """Differentiation of one closed function."""

    def __init__(self, whole: ClosureGradient, back: Var) -> None:
        self.whole = whole
        self.back = back
        self.placement: Placement = cast(Placement, None)
        self.bindings: dict[EvaluationScope, Bindings] = {}
        self.vars: dict[Var, Var] = {}
        self.values: dict[Expr, Expr] = {}
        """Results by node: variables of pairs, tuples of pairs, and functions."""

    def function(self, function: Function) -> Function:
        """Return the function over pairs."""
        self.placement = place(function)
        for node in self.placement.order:
            if isinstance(node, Function):
                self._params(node)
        for node in self.placement.order:
            scope = self.placement.of[node]
            into = self.bindings.setdefault(scope, deque())
            value = self._node(node, into)
            if isinstance(value, (Var, Function)):
                self.values[node] = value
            else:
                self.values[node] = var = Var("v")
                self.bindings[scope].append((var, value))
        return cast(Function, self.values[function])

    def _value(self, expr: Expr, into: Bindings) -> Expr:
        """Result for an expression, as a leaf; a constant becomes a pair where it is used."""
        match expr:
            case Var():
                return self._var(expr)
            case Constant():
                var = Var("c")
                into.append((var, lifted_value(expr, expr.type)))
                return var
            case GlobalVar():
                params = [Var(f"a{i}") for i in range(self.whole.arity(expr))]
                return Function(params, Call(self.whole.global_function(expr), (*params, self.back)))
            case Op():
                return self._operator(expr)
            case Constructor():
                return _plain(expr)
            case _:
                return self.values[expr]

    def _operator(self, op: Op) -> Function:
        """Return a function over pairs for an operator used as a value."""
        spec = operator_spec(op)
        if spec is None or spec.num_inputs is None:
            raise DiagnosticError(Diagnostic(NO_GRADIENT, f"{op.name} as a value has no gradient"))
        params = [Var(f"a{i}") for i in range(spec.num_inputs)]
        into: Bindings = deque()
        unknown = TypeVar("t")
        result = self._operator_call(Call(op, params), list(params), [unknown] * len(params), unknown, into)
        return Function(params, wrapped(into, result))

    def _var(self, var: Var) -> Var:
        if var not in self.vars:
            annotation = var.type_annotation
            self.vars[var] = Var(var.name_hint, None if annotation is None else lifted_type(annotation))
        return self.vars[var]

    def _scope(self, scope: EvaluationScope, result: Expr) -> Expr:
        into = self.bindings.setdefault(scope, deque())
        value = self._value(result, into)
        return wrapped(into, value)

    def _node(self, node: Expr, into: Bindings) -> Expr:
        opened = self.placement.opened.get(node, ())
        match node:
            case Tuple(fields):
                return Tuple([self._value(field, into) for field in fields])
            case TupleGetItem(tuple_value, index):
                return TupleGetItem(self._value(tuple_value, into), index)
            case RefCreate(value):
                return RefCreate(self._value(value, into))
            case RefRead(ref):
                return RefRead(self._value(ref, into))
            case RefWrite(ref, value):
                return RefWrite(self._value(ref, into), self._value(value, into))
            case If(cond, true_branch, false_branch):
                branches = self._scope(opened[0], true_branch), self._scope(opened[1], false_branch)
                return If(TupleGetItem(self._value(cond, into), 0), *branches, span=node.span)
            case Function():
                return self._function(node, opened[0])
            case Let():
                return self._let(node, into, opened[0])
            case Match():
                return self._match(node, into, opened)
            case Call():
                return self._call(node, into)
            case _:
                message = f"this {type(node).__name__} has no gradient"
                raise DiagnosticError(Diagnostic(NO_GRADIENT, message, node.span))

    def _params(self, node: Function) -> None:
        """Create the parameters of a function; types constrained by relations stay open."""
        for param in node.params:
            type_ = param.type_annotation if _has_relations(node) else param.checked_type
            self.vars[param] = Var(param.name_hint, None if type_ is None else lifted_type(type_))

    def _function(self, node: Function, scope: EvaluationScope) -> Function:
        params = [self.vars[param] for param in node.params]
        body = self._scope(scope, node.body)
        result, type_params = node.ret_type, node.type_params
        if not _has_relations(node):
            whole = cast(FuncType, node.checked_type)
            result, type_params = whole.ret_type, whole.type_params
        result = None if result is None else lifted_type(result)
        return Function(params, body, result, type_params, node.attrs, node.span)

    def _let(self, node: Let, into: Bindings, scope: EvaluationScope) -> Expr:
        """Append the bindings of the body to those of the enclosing scope, so that a chain takes linear time."""
        into.append((self._var(node.var), self._value(node.value, into)))
        inner = self.bindings.setdefault(scope, deque())
        value = self._value(node.body, inner)
        inner.extendleft(reversed(into))
        self.bindings[self.placement.of[node]] = inner
        if isinstance(value, (Var, Function)):
            return value
        var = Var("v")
        inner.append((var, value))
        return var

    def _match(self, node: Match, into: Bindings, opened: Sequence[EvaluationScope]) -> Expr:
        clauses: list[Clause] = []
        for clause, scope in zip(node.clauses, opened, strict=True):
            variables = [self._var(var) for var in pattern_vars(clause.lhs)]
            pattern = with_pattern_vars(clause.lhs, iter(variables))
            clauses.append(Clause(pattern, self._scope(scope, clause.rhs)))
        return Match(self._value(node.data, into), clauses, node.complete, span=node.span)

    def _call(self, node: Call, into: Bindings) -> Expr:
        if isinstance(node.op, Op):
            operands = [arg if isinstance(arg, Constant) else self._value(arg, into) for arg in node.args]
            types = [cast(Any, arg).checked_type if not isinstance(arg, Constant) else arg.type for arg in node.args]
            return self._operator_call(node, operands, types, node.checked_type, into)
        args = [self._value(arg, into) for arg in node.args]
        type_args = [lifted_type(arg) for arg in node.type_args]
        if isinstance(node.op, GlobalVar):
            callee, args = self.whole.global_function(node.op), [*args, self.back]
            return Call(callee, args, None, type_args, span=node.span)
        return Call(self._value(node.op, into), args, None, type_args, span=node.span)

    def _operator_call(
        self, node: Call, operands: Sequence[Expr], types: Sequence[Type], result: Type, into: Bindings
    ) -> Expr:
        """Translate an operator call: its value in pairs, and a closure prepended to the backpropagators."""
        args = [primal(value, type_) for value, type_ in zip(operands, types, strict=True)]
        call = Call(node.op, args, node.attrs, span=node.span)
        value, pair = Var("value"), Var("pair")
        into.append((value, call))
        into.append((pair, lifted_value(value, result)))
        reached = [
            (i, operand, type_)
            for i, (operand, type_) in enumerate(zip(operands, types, strict=True))
            if not isinstance(operand, Constant) and _may_be_float(type_)
        ]
        if not reached or not _may_be_float(result):
            return pair
        earlier = Var("earlier")
        into.append((earlier, RefRead(self.back)))
        inner: Bindings = deque()
        gradients = self.whole.gradients_of(call.replace(args=tuple(args)), _gradient(pair, result))
        for i, operand, type_ in reached:
            _add(operand, type_, gradients[i], inner)
        closure = Function((), wrapped(inner, Call(earlier, ())), UNIT)
        into.append((Var("_"), RefWrite(self.back, closure)))
        return pair


def _has_relations(function: Function) -> bool:
    whole = function.checked_type
    return isinstance(whole, FuncType) and bool(whole.type_constraints)


# -- values in pairs


def lifted_type(type_: Type) -> Type:
    """Replace each tensor in a type by a pair of the tensor and a reference."""
    results: dict[int, Type] = {}
    stack = [type_]
    while stack:
        item = stack[-1]
        parts = parts_of_type(item)
        missing = [part for part in parts if id(part) not in results]
        if id(item) in results:
            stack.pop()
        elif missing:
            stack += missing
        else:
            stack.pop()
            changed = with_type_parts(item, [results[id(part)] for part in parts])
            if isinstance(changed, FuncType) and changed.type_constraints:
                changed = FuncType(changed.arg_types, changed.ret_type, changed.type_params)
            is_tensor = isinstance(item, TensorType)
            results[id(item)] = TupleType([item, RefType(item)]) if is_tensor else changed
    return results[id(type_)]


def _plain(constructor: Constructor) -> Constructor:
    """Return the constructor unchanged; it must hold tensors only through type parameters."""
    stack = list(constructor.inputs)
    seen: set[int] = set()
    while stack:
        type_ = stack.pop()
        if id(type_) in seen:
            continue
        seen.add(id(type_))
        if isinstance(type_, TensorType):
            message = f"{constructor.name_hint} holds a {type_}, which leaves no place for its gradient"
            hint = "make the tensor's type a parameter of the data type"
            raise DiagnosticError(Diagnostic(NO_GRADIENT, message, constructor.span, hint=hint))
        stack += parts_of_type(type_)
    return constructor


def _may_be_float(type_: Type) -> bool:
    if isinstance(type_, TupleType):
        return any(map(_may_be_float, type_.fields))
    return not (isinstance(type_, TensorType) and isinstance(type_.dtype, DataType) and not type_.dtype.is_float)


def _fields(value: Expr, type_: TupleType) -> list[tuple[Expr, Type]]:
    return [(TupleGetItem(value, i), field) for i, field in enumerate(type_.fields)]


def primal(value: Expr, type_: Type) -> Expr:
    """Primal tensors of a value in pairs; a constant is a tensor itself."""
    if isinstance(value, Constant):
        return value
    if isinstance(type_, TupleType):
        return Tuple([primal(*field) for field in _fields(value, type_)])
    return TupleGetItem(value, 0)


def lifted_value(value: Expr, type_: Type) -> Expr:
    """Convert a value of tensors to pairs with zero gradients."""
    if isinstance(type_, TupleType):
        return Tuple([lifted_value(*field) for field in _fields(value, type_)])
    return Tuple([value, RefCreate(operator_function("zeros_like")(value))])


def _gradient(value: Expr, type_: Type) -> Expr:
    """Read the current gradients of a value in pairs."""
    if isinstance(type_, TupleType):
        return Tuple([_gradient(*field) for field in _fields(value, type_)])
    return RefRead(TupleGetItem(value, 1))


def _seed(value: Expr, type_: Type, into: Bindings) -> None:
    if isinstance(type_, TupleType):
        for field in _fields(value, type_):
            _seed(*field, into)
        return
    ones = operator_function("ones_like")(TupleGetItem(value, 0))
    into.append((Var("_"), RefWrite(TupleGetItem(value, 1), ones)))


def _add(value: Expr, type_: Type, grad: Expr, into: Bindings) -> None:
    """Add a gradient to those of a value in pairs."""
    if isinstance(type_, TupleType):
        for i, field in enumerate(_fields(value, type_)):
            _add(*field, TupleGetItem(grad, i), into)
    elif _may_be_float(type_):
        total = operator_function("add")(RefRead(TupleGetItem(value, 1)), grad)
        into.append((Var("_"), RefWrite(TupleGetItem(value, 1), total)))


def wrapped(bindings: Bindings, result: Expr) -> Expr:
    """Wrap the result in a chain of `let`s."""
    for var, value in reversed(bindings):
        result = Let(var, value, result)
    return result
