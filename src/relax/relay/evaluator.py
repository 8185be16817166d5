"""The meaning of Relay, executable: an evaluator that follows the document sentence by sentence.

* A function expression evaluates to a closure: the function, and the values of the variables defined outside of it.
* A call of a closure evaluates the body in the closure's environment, with the arguments bound to the parameters.
* A node that stands in several places is evaluated once, in the scope that `scopes.place` names: in one activation of
  the function around it, in the order of the operands.
* The variable of a `let` is in scope in its body; if the value is a function, in the value too.
* References hold values that RefWrite replaces; operators compute what their meaning in Relax computes.

The evaluator does not recurse: it keeps an explicit stack of scopes, so neither the depth of a graph nor that of calls
is limited by Python's stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ..ir import Diagnostic, DiagnosticError, GlobalVar, IRModule, Op
from .adt import Constructor, Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from .expr import Call, Constant, Expr, Function, If, Let, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem, Var
from .meaning import evaluate
from .scopes import EvaluationScope, Placement, place
from .unify import MISMATCH
from .values import Closure, ConstructorValue, RefValue, described, exported, imported

MATCH_FAILED = "E9030"
"""No clause of a match matches the value."""
NOT_A_FUNCTION = "E9031"
"""Call of a value that is not a function, or with a wrong number of arguments."""

MOST_SCOPES = 1_000_000
"""Most scopes under evaluation at once."""


class _Code:
    """Nodes of an expression by evaluation scope, in order."""

    def __init__(self, expr: Expr) -> None:
        self.placement: Placement = place(expr)
        self.nodes: dict[EvaluationScope, list[Expr]] = {}
        for node in self.placement.order:
            self.nodes.setdefault(self.placement.of[node], []).append(node)


class _Frame:
    """Values of one function activation: of its variables and its evaluated nodes."""

    __slots__ = ("code", "outer", "values")

    def __init__(self, code: _Code, outer: _Frame | None) -> None:
        self.code = code
        self.outer = outer
        self.values: dict[Expr, Any] = {}

    def find(self, expr: Expr) -> Any:
        frame: _Frame | None = self
        while frame is not None:
            if expr in frame.values:
                return frame.values[expr]
            frame = frame.outer
        raise KeyError(expr)


class _Work:
    """Scope under evaluation: its nodes, the next one, its result, and the consumer of the result."""

    __slots__ = ("frame", "next", "nodes", "owner", "owner_frame", "result")

    def __init__(
        self, scope: EvaluationScope, frame: _Frame, result: Expr, owner: Expr | None, owner_frame: _Frame | None
    ) -> None:
        self.nodes: Sequence[Expr] = frame.code.nodes.get(scope, ())
        self.next = 0
        self.frame = frame
        self.result = result
        self.owner = owner
        self.owner_frame = owner_frame


class Evaluator:
    """Evaluates expressions over the global functions of a module."""

    def __init__(self, mod: IRModule | None = None) -> None:
        self.mod = IRModule() if mod is None else mod
        self._globals: dict[str, Closure] = {}

    def evaluate(self, expr: Expr) -> Any:
        """Evaluate a closed expression; tensors are returned as NDArrays.

        Raises DiagnosticError for a match without a matching clause or a call of a non-function.
        """
        return exported(self._run(expr))

    def call(self, callee: Any, args: tuple[Any, ...]) -> Any:
        """Call a closure with values."""
        parameters = [Var(f"a{i}") for i in range(len(args))]
        call = Call(Var("callee"), parameters)
        return self._run(call, dict(zip((call.op, *parameters), (callee, *args), strict=True)))

    # -- the machine

    def _run(self, expr: Expr, values: dict[Expr, Any] | None = None) -> Any:
        code = _Code(expr)
        frame = _Frame(code, None)
        frame.values.update(values or {})
        stack = [_Work(code.placement.root, frame, expr, None, None)]
        while True:
            work = stack[-1]
            if work.next < len(work.nodes):
                node = work.nodes[work.next]
                work.next += 1
                entered = self._step(node, work.frame)
                if entered is not None:
                    if len(stack) >= MOST_SCOPES:
                        raise RecursionError(f"more than {MOST_SCOPES:,} scopes are under evaluation")
                    stack.append(entered)
                continue
            value = self._value(work.result, work.frame)
            stack.pop()
            if work.owner is None:
                return value
            cast(_Frame, work.owner_frame).values[work.owner] = value

    def _value(self, expr: Expr, frame: _Frame) -> Any:
        """Value of a leaf or an already evaluated node."""
        match expr:
            case Constant():
                return cast(Any, expr.data)
            case GlobalVar():
                return self._global(expr)
            case Constructor():
                return expr if expr.inputs else ConstructorValue(expr, ())
            case Op():
                return expr
            case Tuple(()):
                return ()
            case _:
                try:
                    return frame.find(expr)
                except KeyError:
                    name = getattr(expr, "name_hint", type(expr).__name__)
                    message = f"variable %{name} is not in scope here"
                    raise DiagnosticError(Diagnostic("E9021", message, expr.span)) from None

    def _global(self, global_var: GlobalVar) -> Closure:
        name = global_var.name_hint
        if name not in self._globals:
            function = self.mod.get(name)
            if not isinstance(function, Function):
                message = f"the module has no Relay function @{name}"
                raise DiagnosticError(Diagnostic("E9003", message, global_var.span))
            self._globals[name] = Closure(function, _Frame(_Code(function), None), self)
        return self._globals[name]

    def _step(self, node: Expr, frame: _Frame) -> _Work | None:
        """Evaluate a node whose parts are evaluated, or return the scope that must be evaluated first."""
        values = frame.values
        opened = frame.code.placement.opened.get(node, ())
        match node:
            case Tuple(fields):
                values[node] = tuple(self._value(field, frame) for field in fields)
            case TupleGetItem(tuple_value, index):
                values[node] = self._value(tuple_value, frame)[index]
            case Function():
                values[node] = Closure(node, frame, self)
            case RefCreate(value):
                values[node] = RefValue(self._value(value, frame))
            case RefRead(ref):
                values[node] = self._value(ref, frame).value
            case RefWrite(ref, value):
                self._value(ref, frame).value = self._value(value, frame)
                values[node] = ()
            case Let(var, value, body):
                values[var] = self._value(value, frame)
                return _Work(opened[0], frame, body, node, frame)
            case If(cond, true_branch, false_branch):
                taken = 0 if _truth(self._value(cond, frame), node) else 1
                return _Work(opened[taken], frame, (true_branch, false_branch)[taken], node, frame)
            case Match():
                taken = self._clause(node, frame)
                return _Work(opened[taken], frame, node.clauses[taken].rhs, node, frame)
            case Call():
                return self._call(node, frame)
            case _:
                raise TypeError(f"{type(node).__name__} has no value")
        return None

    def _call(self, call: Call, frame: _Frame) -> _Work | None:
        callee = self._value(call.op, frame)
        args = tuple(self._value(arg, frame) for arg in call.args)
        if isinstance(callee, Op):
            frame.values[call] = evaluate(callee, call.attrs, args, call.span)
            return None
        if isinstance(callee, ConstructorValue) and callee.constructor is call.op and not args:
            frame.values[call] = callee  # `Nil()` is `Nil`
            return None
        if isinstance(callee, Constructor):
            _check_count(call, callee.name_hint, len(callee.inputs), len(args))
            frame.values[call] = ConstructorValue(callee, args)
            return None
        if not isinstance(callee, Closure):
            message = f"a {described(callee)} is called, which is no function"
            raise DiagnosticError(Diagnostic(NOT_A_FUNCTION, message, call.span))
        function = callee.function
        _check_count(call, "the function", len(function.params), len(args))
        outer = cast(_Frame, callee.environment)
        inner = _Frame(outer.code, outer)
        inner.values.update(zip(function.params, args, strict=True))
        return _Work(outer.code.placement.opened[function][0], inner, function.body, call, frame)

    def _clause(self, node: Match, frame: _Frame) -> int:
        """Return the index of the first matching clause and bind its variables."""
        value = self._value(node.data, frame)
        for i, clause in enumerate(node.clauses):
            bound = matched(clause.lhs, value)
            if bound is not None:
                frame.values.update(bound)
                return i
        message = f"no clause of the match takes {described(value)}"
        raise DiagnosticError(Diagnostic(MATCH_FAILED, message, node.span))


def matched(pattern: Pattern, value: Any) -> dict[Expr, Any] | None:
    """Match a value; return the values of the pattern's variables, or None if it does not match."""
    bound: dict[Expr, Any] = {}
    stack = [(pattern, value)]
    while stack:
        subpattern, item = stack.pop()
        match subpattern:
            case PatternVar(var):
                bound[var] = item
            case PatternConstructor(constructor, patterns):
                if not isinstance(item, ConstructorValue) or item.constructor is not constructor:
                    return None
                stack.extend(zip(patterns, item.fields, strict=True))
            case PatternTuple(patterns):
                stack.extend(zip(patterns, item, strict=True))
            case _:
                pass
    return bound


def _truth(value: Any, node: If) -> bool:
    kind = described(value)
    if kind != "tensor" or value.shape or value.dtype != bool:
        notes = (f"found {value.dtype} of shape {value.shape}",) if kind == "tensor" else ()
        message = f"the condition of an if must be a bool scalar, found a {kind}"
        raise DiagnosticError(Diagnostic(MISMATCH, message, node.cond.span or node.span, notes=notes))
    return bool(value)


def _check_count(call: Call, callee: str, expected: int, actual: int) -> None:
    if expected != actual:
        message = f"{callee} takes {expected} arguments, found {actual}"
        raise DiagnosticError(Diagnostic(NOT_A_FUNCTION, message, call.span))


__all__ = ["Evaluator", "imported", "matched"]
