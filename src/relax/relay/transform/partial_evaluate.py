"""PartialEvaluate: evaluate what is known at compile time.

    let %f = fn(%n: int32) -> int32 {
      if (%n == 0) { %x } else { %x * %f(%n - 1) }                 let %a = multiply(%x, %x);
    };                                                  becomes    %a
    (%f(1), 5).0

Calls of known functions are unrolled, `if`s on constants and `match`es on known constructors select a branch,
projections of known tuples become their fields, and operators on constants are computed. Everything else stays in
A-normal form and in order, which preserves effects; references are never known. A recursive function is unrolled for
arguments with known data if no branch between two of its calls depends on unknown values, up to `MOST_DEPTH` calls deep
and `MOST_BINDINGS` bindings in total. Unused bindings are removed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, cast

from ...derive.call_graph import components
from ...ir import GlobalVar, IRModule, Op
from ...runtime.records import dataclass
from ..adt import Constructor, Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from ..analysis import all_vars, free_type_vars
from ..expr import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem, Var
from ..parts import LEAVES, parts_of, pattern_vars, with_parts, with_pattern_vars
from ..scopes import nodes_with_parts
from ..structural import alpha_equal
from ..type_walk import substituted
from ..types import Type, TypeVar
from .dead_code_elimination import eliminate_dead_code
from .fold_constant import value_of_call
from .rewriting import Program, copied, fresh_node, relay_pass
from .to_a_normal_form import to_a_normal_form

MOST_BINDINGS: Final = 20_000
MOST_DEPTH: Final = 200


@dataclass(frozen=True, eq=False, slots=True)
class _Value:
    """Partially known value: the atom that represents it in the new program, and its static part.

    The static part is a Constant, a tuple of values, a `_Closure`, a `_Data`, or None if nothing is known.
    """

    atom: Expr
    known: Any = None

    @property
    def is_tuple(self) -> bool:
        """True if the tuple's fields are known."""
        return isinstance(self.known, tuple)


@dataclass(frozen=True, eq=False, slots=True)
class _Closure:
    function: Function
    environment: _Environment


@dataclass(frozen=True, eq=False, slots=True)
class _Data:
    constructor: Constructor
    fields: tuple[_Value, ...]


class _Environment:
    """Values of the variables of a scope and the enclosing ones; types of type parameters, or None if unknown."""

    __slots__ = ("outer", "types", "values")

    def __init__(self, outer: _Environment | None) -> None:
        self.outer = outer
        self.values: dict[Var, _Value] = {}
        self.types: dict[TypeVar, Any] = {} if outer is None else outer.types

    def find(self, var: Var) -> _Value:
        environment: _Environment | None = self
        while environment is not None:
            if var in environment.values:
                return environment.values[var]
            environment = environment.outer
        return _Value(var)


class _Frame:
    """Scope under evaluation: the remaining bindings, the finished ones, and the consumer of the result."""

    def __init__(
        self,
        body: Expr,
        environment: _Environment,
        out: list[tuple[Var, Expr]],
        level: int,
        done: Callable[[_Value], None],
    ) -> None:
        self.body = body
        self.environment = environment
        self.out = out
        self.level = level
        """Number of enclosing branches on dynamic conditions."""
        self.done = done


class _Evaluator:
    def __init__(self, mod: IRModule | None) -> None:
        self.mod = mod
        self.stack: list[_Frame] = []
        self.active: dict[Function, list[int]] = {}
        """Levels of the calls of a function being unrolled; -1 for the function itself."""
        self.count = 0
        self.globals: dict[str, Function] = {}
        self.recursive: dict[Function, bool] = {}
        """True for a possibly recursive function."""

    def run(self, function: Function) -> Function:
        normal = cast(Function, to_a_normal_form(function))
        result: list[Expr] = []
        out: list[tuple[Var, Expr]] = []
        self.active[normal] = [-1]
        self._push(normal.body, _Environment(None), out, 0, lambda value: result.append(_closed(out, value.atom)))
        while self.stack:
            frame = self.stack[-1]
            if isinstance(frame.body, Let):
                let = frame.body
                frame.body = let.body
                self._step(frame, let.var, let.value)
            else:
                self.stack.pop()
                frame.done(self._atom(frame.body, frame.environment))
        return normal.replace(body=result[0])

    def _push(
        self,
        body: Expr,
        environment: _Environment,
        out: list[tuple[Var, Expr]],
        level: int,
        done: Callable[[_Value], None],
    ) -> None:
        self.stack.append(_Frame(body, environment, out, level, done))

    def _atom(self, expr: Expr, environment: _Environment) -> _Value:
        match expr:
            case Var():
                return environment.find(expr)
            case Constant():
                return _Value(expr, expr)
            case Constructor() if not expr.inputs:
                return _Value(expr, _Data(expr, ()))
            case GlobalVar():
                function = self._global(expr)
                closure = None if function is None else _Closure(function, _Environment(None))
                return _Value(expr, closure)
            case _:
                return _Value(expr)

    def _global(self, name: GlobalVar) -> Function | None:
        function = None if self.mod is None else self.mod.get(name.name_hint)
        if not isinstance(function, Function) or function.attrs.get("Compiler"):
            return None
        if name.name_hint not in self.globals:
            normal = cast(Function, to_a_normal_form(function))
            self.globals[name.name_hint] = normal
            self.recursive[normal] = name.name_hint in self._circles
        return self.globals[name.name_hint]

    @cached_property
    def _circles(self) -> set[str]:
        """Names of possibly recursive global functions."""
        functions = {} if self.mod is None else {g.name_hint: f for g, f in self.mod.functions.items()}
        calls: dict[str, list[str]] = {}
        for name, function in functions.items():
            nodes = nodes_with_parts(function) if isinstance(function, Function) else []
            parts = (part for node in nodes for part in parts_of(node))
            calls[name] = [p.name_hint for p in parts if isinstance(p, GlobalVar) and p.name_hint in functions]
        groups = components(calls)
        return {name for group in groups for name in group if len(group) > 1 or name in calls[name]}

    def _emit(self, frame: _Frame, var: Var, value: Expr, known: Any = None) -> None:
        """Bind a value in the new program to a new variable, and `var` to that."""
        new = Var(var.name_hint, span=var.span)
        self.count += 1
        frame.out.append((new, _own(value)))
        frame.environment.values[var] = _Value(new, known)

    # -- bindings

    def _step(self, frame: _Frame, var: Var, value: Expr) -> None:
        environment = frame.environment
        if isinstance(value, LEAVES):
            environment.values[var] = self._atom(value, environment)
            return
        match value:
            case Function():
                self._function(frame, var, value)
            case If():
                self._if(frame, var, value)
            case Match():
                self._match(frame, var, value)
            case Call():
                self._call(frame, var, value)
            case TupleGetItem():
                source = self._atom(value.tuple_value, environment)
                if source.is_tuple:
                    environment.values[var] = cast("tuple[_Value, ...]", source.known)[value.index]
                else:
                    self._emit(frame, var, with_parts(value, [source.atom]))
            case _:
                fields = [self._atom(part, environment) for part in parts_of(value)]
                changed = with_parts(value, [field.atom for field in fields])
                self._emit(frame, var, changed, tuple(fields) if isinstance(value, Tuple) else None)

    def _function(self, frame: _Frame, var: Var, function: Function) -> None:
        if function.attrs.get("Primitive"):
            self._emit(frame, var, function)
            return
        if function not in self.recursive:
            self.recursive[function] = var in all_vars(function.body)
        name = Var(var.name_hint, span=var.span)
        value = _Value(name, _Closure(function, frame.environment))
        frame.environment.values[var] = value
        inner = _Environment(frame.environment)
        params = [self._param(param, inner) for param in function.params]
        out: list[tuple[Var, Expr]] = []
        self.active.setdefault(function, []).append(-1)

        def done(result: _Value) -> None:
            self.active[function].pop()
            ret_type = None if function.ret_type is None else _typed(function.ret_type, inner)
            changed = function.replace(params=tuple(params), body=_closed(out, result.atom), ret_type=ret_type)
            frame.out.append((name, _own(changed)))

        self._push(function.body, inner, out, frame.level, done)

    @staticmethod
    def _param(param: Var, environment: _Environment) -> Var:
        annotation = param.type_annotation
        new = Var(param.name_hint, None if annotation is None else _typed(annotation, environment), span=param.span)
        environment.values[param] = _Value(new)
        return new

    def _if(self, frame: _Frame, var: Var, node: If) -> None:
        condition = self._atom(node.cond, frame.environment)
        if isinstance(condition.known, Constant):
            taken = node.true_branch if bool(condition.known.data) else node.false_branch
            self._inside(frame, var, taken)
            return

        def finish(bodies: list[Expr]) -> None:
            changed = node.replace(cond=condition.atom, true_branch=bodies[0], false_branch=bodies[1])
            self._emit(frame, var, changed)

        self._branches(frame, [node.true_branch, node.false_branch], [(), ()], finish)

    def _inside(self, frame: _Frame, var: Var, body: Expr) -> None:
        """Evaluate the branch taken, in place of its `if` or `match`."""
        environment = frame.environment

        def done(result: _Value) -> None:
            environment.values[var] = result

        self._push(body, environment, frame.out, frame.level, done)

    def _branches(
        self,
        frame: _Frame,
        bodies: list[Expr],
        bound: list[tuple[tuple[Var, Var], ...]],
        finish: Callable[[list[Expr]], None],
    ) -> None:
        """Evaluate branches selected at run time; their patterns bind variables."""
        results: list[Expr] = []

        def start(index: int) -> None:
            if index == len(bodies):
                finish(results)
                return
            environment = _Environment(frame.environment)
            environment.values.update((old, _Value(new)) for old, new in bound[index])
            out: list[tuple[Var, Expr]] = []

            def done(result: _Value) -> None:
                results.append(_closed(out, result.atom))
                start(index + 1)

            self._push(bodies[index], environment, out, frame.level + 1, done)

        start(0)

    def _match(self, frame: _Frame, var: Var, node: Match) -> None:
        data = self._atom(node.data, frame.environment)
        for clause in node.clauses:
            matched = _matched(clause.lhs, data)
            if matched is None:
                break
            if matched is not False:
                frame.environment.values.update(cast("dict[Var, _Value]", matched))
                self._inside(frame, var, clause.rhs)
                return
        renamed = [tuple((v, Var(v.name_hint, span=v.span)) for v in pattern_vars(c.lhs)) for c in node.clauses]

        def finish(bodies: list[Expr]) -> None:
            clauses = tuple(
                clause.replace(lhs=with_pattern_vars(clause.lhs, iter([new for _, new in pairs])), rhs=body)
                for clause, pairs, body in zip(node.clauses, renamed, bodies, strict=True)
            )
            self._emit(frame, var, node.replace(data=data.atom, clauses=clauses))

        self._branches(frame, [clause.rhs for clause in node.clauses], renamed, finish)

    # -- calls

    def _call(self, frame: _Frame, var: Var, call: Call) -> None:
        environment = frame.environment
        args = [self._atom(arg, environment) for arg in call.args]
        callee = self._atom(call.op, environment)
        closure = callee.known
        if isinstance(closure, _Closure) and self._unrolls(closure.function, args, frame.level):
            self._unroll(frame, var, call, closure, args)
            return
        types = [_typed(type_, environment) for type_ in call.type_args]
        own = () if None in types else cast("tuple[Type, ...]", tuple(types))
        changed = call.replace(op=callee.atom, args=tuple(arg.atom for arg in args), type_args=own)
        if isinstance(call.op, Constructor):
            self._emit(frame, var, changed, _Data(call.op, tuple(args)))
            return
        if isinstance(call.op, Op):
            value = _computed(call, args)
            if value is not None:
                environment.values[var] = value
                return
        self._emit(frame, var, changed)

    def _unrolls(self, function: Function, args: list[_Value], level: int) -> bool:
        if function.attrs.get("Primitive") or self.count > MOST_BINDINGS:
            return False
        is_data = [arg.known is not None and not isinstance(arg.known, _Closure) for arg in args]
        if self.recursive.get(function) and not any(is_data):
            return False
        levels = self.active.get(function)
        return not levels or (levels[-1] == level and len(levels) < MOST_DEPTH)

    def _unroll(self, frame: _Frame, var: Var, call: Call, closure: _Closure, args: list[_Value]) -> None:
        function = closure.function
        inner = _Environment(closure.environment)
        inner.values.update(zip(function.params, args, strict=True))
        if function.type_params:
            chosen: list[Any] = [_typed(t, frame.environment) for t in call.type_args]
            chosen = chosen or [None] * len(function.type_params)
            inner.types = {**inner.types, **dict(zip(function.type_params, chosen, strict=True))}
        self.active.setdefault(function, []).append(frame.level)
        self.count += 1
        environment = frame.environment

        def done(result: _Value) -> None:
            self.active[function].pop()
            environment.values[var] = result

        self._push(function.body, inner, frame.out, frame.level, done)


def _own(value: Expr) -> Expr:
    """Copy a node so that it is not shared: functions are evaluated for several calls."""
    if isinstance(value, Function) and value.attrs.get("Primitive"):
        return copied(value)
    return fresh_node(value, parts_of(value))


def _computed(call: Call, args: list[_Value]) -> _Value | None:
    """Evaluate an operator on constants, or return None."""
    operands = [_operand(arg) for arg in args]
    if any(operand is None for operand in operands):
        return None
    value = value_of_call(call, operands)
    return _Value(Constant(value), Constant(value)) if value is not None and not isinstance(value, tuple) else None


def _operand(value: _Value) -> Any:
    if isinstance(value.known, Constant):
        return value.known.data
    if value.is_tuple:
        fields = [_operand(field) for field in cast("tuple[_Value, ...]", value.known)]
        return None if any(field is None for field in fields) else tuple(fields)
    return None


def _matched(pattern: Pattern, value: _Value) -> dict[Var, _Value] | bool | None:
    """Match a pattern: the values it binds, False if it does not match, None if that is unknown."""
    bound: dict[Var, _Value] = {}
    stack = [(pattern, value)]
    unknown = False
    while stack:
        subpattern, item = stack.pop()
        match subpattern:
            case PatternVar(var):
                bound[var] = item
            case PatternConstructor(constructor, patterns):
                if not isinstance(item.known, _Data):
                    unknown = True
                elif item.known.constructor is not constructor:
                    return False
                else:
                    stack.extend(zip(patterns, item.known.fields, strict=True))
            case PatternTuple(patterns):
                if item.is_tuple:
                    stack.extend(zip(patterns, cast("tuple[_Value, ...]", item.known), strict=True))
                else:
                    unknown = True
            case _:
                pass
    return None if unknown else bound


def _typed(type_: Type, environment: _Environment) -> Type | None:
    """Substitute known type parameters in a type; None if one is unknown."""
    types = environment.types
    if types and any(var in types and types[var] is None for var in free_type_vars(type_)):
        return None
    return substituted(type_, types)


def _closed(out: list[tuple[Var, Expr]], result: Expr) -> Expr:
    for var, value in reversed(out):
        result = Let(var, value, result)
    return result


def partial_evaluate(function: Function, program: Program | None = None) -> Expr:
    """Partially evaluate a function; return it unchanged if nothing is known."""
    program = Program() if program is None else program
    changed = eliminate_dead_code(_Evaluator(program.mod).run(function), program.effects)
    before = eliminate_dead_code(to_a_normal_form(function), program.effects)
    return function if alpha_equal(changed, before) else changed


@relay_pass("PartialEvaluate", opt_level=1, required=["InferType"])
def PartialEvaluate(function: Function, program: Program) -> Expr:
    """Evaluate what is known at compile time, in every function."""
    return partial_evaluate(function, program)
