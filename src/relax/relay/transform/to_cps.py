"""ToCPS: continuation-passing style, in which functions pass their result to a continuation.

    def @f(%n: int32) -> int32 {               def @f_cps[A](%n: int32, %k: fn(int32) -> A) -> A {
      if (%n == 0) {                             let %c = equal(%n, 0);
        1                                        if (%c) {
      } else {                                     %k(1)
        %n * @f(%n - 1)              becomes     } else {
      }                                            let %m = subtract(%n, 1);
    }                                              @f_cps(%m, fn(%r) {
                                                     let %p = multiply(%n, %r);
                                                     %k(%p)
                                                   })
                                                 }
                                               }

Every function takes an additional argument, the continuation, and tail-calls it; so do the functions it passes and
receives. Calls of operators, constructors and primitive functions are unchanged. `un_cps` wraps such a function into
one that returns its result. An `if` or `match` without calls of functions stays a value.

The conversion does not recurse: bodies are converted innermost first, each from its end.
"""

from __future__ import annotations

from typing import Any, cast

from ...ir import Diagnostic, DiagnosticError, GlobalVar, IRModule, Node, Op
from ...ir.node import children_of
from ..adt import Constructor, Match
from ..analysis import all_vars
from ..expr import Call, Constant, Expr, Function, If, Let, Var
from ..functor import TypeMutator
from ..operators import operator_spec
from ..parts import LEAVES, parts_of, pattern_vars, with_parts, with_pattern_vars, with_types
from ..scopes import nodes_with_parts
from ..type_walk import substituted
from ..types import FuncType, Type, TypeData, TypeVar
from .rewriting import copied, is_optimized, relay_module_pass, substituted_vars
from .to_a_normal_form import to_a_normal_form

UNSUPPORTED = "E9071"
"""Program not supported by a rewrite of functions."""


class _TypesInCPS(TypeMutator):
    """Converts function types by adding a continuation."""

    def __init__(self, answer: TypeVar) -> None:
        self.answer = answer

    def visit_func_type(self, type_: FuncType) -> FuncType:
        changed = cast(FuncType, self.visit_parts(type_))
        continuation = FuncType([changed.ret_type], self.answer)
        return changed.replace(arg_types=(*changed.arg_types, continuation), ret_type=self.answer)


class _Body:
    """Scope in A-normal form: bindings and result."""

    def __init__(self, expr: Expr) -> None:
        self.bindings: list[tuple[Var, Expr]] = []
        while isinstance(expr, Let):
            self.bindings.append((expr.var, expr.value))
            expr = expr.body
        self.result = expr


class _Converter:
    """Converts one function. `names` maps global functions to converted ones."""

    def __init__(self, names: dict[str, GlobalVar]) -> None:
        self.names = names
        self.answer = TypeVar("A")
        self.types = _TypesInCPS(self.answer)
        self.vars: dict[Var, Var] = {}
        self.primitives: set[Expr] = set()
        self.functions: dict[Expr, Function] = {}
        self.joins: dict[Expr, tuple[Var, list[Expr]]] = {}
        """(Continuation variable, converted branches) of each `if` or `match` that calls closures."""

    def run(self, function: Function) -> Function:
        """Return the converted function, with the answer type as its last type parameter."""
        order = nodes_with_parts(function)
        for node in order:
            if isinstance(node, Let) and isinstance(node.value, Function) and node.value.attrs.get("Primitive"):
                self.primitives.add(node.var)
        for node in order:
            if isinstance(node, (If, Match)) and not self._is_plain(node):
                join = Var("j")
                self.joins[node] = join, [self._body(body, join) for body in _bodies(node)]
            elif isinstance(node, Function) and not node.attrs.get("Primitive"):
                self.functions[node] = self._function(node)
        changed = self.functions[function]
        return changed.replace(type_params=(*changed.type_params, self.answer))

    # -- what calls closures

    def _is_plain(self, node: Expr) -> bool:
        """True for an `if` or `match` in which functions neither occur, nor are called, nor are the result."""
        for branch in _bodies(node):
            body = _Body(branch)
            results = [body.result, *(value for _, value in body.bindings if isinstance(value, LEAVES))]
            if not all(isinstance(result, (Var, Constant)) for result in results):
                return False
            for _, value in body.bindings:
                if isinstance(value, Function) or value in self.joins or self._is_closure_call(value):
                    return False
                operands = value.args if isinstance(value, Call) else parts_of(value)
                if any(isinstance(operand, (GlobalVar, Op, Constructor)) for operand in operands):
                    return False
        return True

    def _is_closure_call(self, value: Expr) -> bool:
        return isinstance(value, Call) and not (isinstance(value.op, (Op, Constructor)) or value.op in self.primitives)

    # -- conversion

    def _function(self, function: Function) -> Function:
        result = None if function.ret_type is None else self.types.visit(function.ret_type)
        continuation = Var("k", None if result is None else FuncType([result], self.answer))
        params = [self._var(param) for param in function.params]
        body = self._body(function.body, continuation)
        return function.replace(
            params=(*params, continuation), body=body, ret_type=None if result is None else self.answer
        )

    def _var(self, var: Var) -> Var:
        if var not in self.vars:
            self.vars[var] = cast(Var, with_types(var, self.types.visit))
        return self.vars[var]

    def _atom(self, atom: Expr) -> Expr:
        """Convert an atom that may be a function; operators, constructors and global functions are wrapped."""
        match atom:
            case Var():
                return self._var(atom)
            case Constructor() if atom.inputs:
                return self._written_out(atom, len(atom.inputs))
            case Op():
                spec = operator_spec(atom)
                return self._written_out(atom, 1 if spec is None or spec.num_inputs is None else spec.num_inputs)
            case GlobalVar():
                return self.names.get(atom.name_hint, atom)
            case _:
                return atom

    @staticmethod
    def _written_out(callee: Expr, count: int) -> Function:
        params = [Var(f"a{i}") for i in range(count)]
        continuation = Var("k")
        return Function([*params, continuation], Call(continuation, [Call(callee, params)]))

    def _body(self, expr: Expr, continuation: Var) -> Expr:
        """Convert the bindings of a scope, whose result is passed to a continuation."""
        body = _Body(expr)
        rest: Expr = Call(continuation, [self._atom(body.result)])
        for var, value in reversed(body.bindings):
            bound = self._var(var)
            if value in self.joins:
                join, branches = self.joins[value]
                rest = Let(join, Function([bound], rest), self._branching(value, branches))
            elif self._is_closure_call(value):
                call = cast(Call, value)
                args = [self._atom(arg) for arg in call.args]
                rest = Call(self._atom(call.op), [*args, Function([bound], rest)], span=call.span)
            else:
                rest = Let(bound, self._value(value), rest)
        return rest

    def _branching(self, node: Expr, branches: list[Expr]) -> Expr:
        if isinstance(node, If):
            return node.replace(cond=self._atom(node.cond), true_branch=branches[0], false_branch=branches[1])
        match = cast(Match, node)
        clauses = tuple(
            clause.replace(lhs=with_pattern_vars(clause.lhs, map(self._var, pattern_vars(clause.lhs))), rhs=branch)
            for clause, branch in zip(match.clauses, branches, strict=True)
        )
        return match.replace(data=self._atom(match.data), clauses=clauses)

    def _value(self, value: Expr) -> Expr:
        """Convert a value that calls no closure."""
        if value in self.functions:
            return self.functions[value]
        if isinstance(value, LEAVES):
            return self._atom(value)
        if isinstance(value, (If, Match)):
            return substituted_vars(value, {var: self._var(var) for var in all_vars(value)})
        if isinstance(value, Call):
            return value.replace(args=tuple(map(self._atom, value.args)))
        return with_parts(value, [self._atom(part) for part in parts_of(value)])


def _bodies(node: Expr) -> list[Expr]:
    if isinstance(node, If):
        return [node.true_branch, node.false_branch]
    return [clause.rhs for clause in cast(Match, node).clauses]


def _converted(functions: dict[str, Function], names: dict[str, GlobalVar]) -> dict[str, Function]:
    return {
        name: _Converter(names).run(cast(Function, to_a_normal_form(copied(function))))
        for name, function in functions.items()
    }


def _check(mod: IRModule) -> None:
    for definition in mod.type_definitions.values():
        for constructor in cast(TypeData, definition).constructors:
            if any(has_function(field_type) for field_type in constructor.inputs):
                message = f"functions in values of {constructor.name_hint} cannot be converted to continuations"
                raise DiagnosticError(Diagnostic(UNSUPPORTED, message, constructor.span))


def has_function(type_: Type) -> bool:
    """True if a type contains a function type."""
    stack: list[Node] = [type_]
    while stack:
        inner = stack.pop()
        if isinstance(inner, FuncType):
            return True
        stack.extend(children_of(inner))
    return False


def to_cps(func: Function, mod: IRModule | None = None) -> Function:
    """Convert a function to continuation-passing style.

    Converted versions of the global functions it reaches are added to the module, with the suffix ``_cps``. Raises
    DiagnosticError for a global function without a module, and for data types that contain functions.
    """
    module = IRModule() if mod is None else mod
    _check(module)
    needed: dict[str, Function] = {}
    stack = [func]
    while stack:
        for part in (part for node in nodes_with_parts(stack.pop()) for part in parts_of(node)):
            if isinstance(part, GlobalVar) and part.name_hint not in needed:
                callee = module.get(part.name_hint)
                if not isinstance(callee, Function):
                    message = f"the module has no Relay function @{part.name_hint}"
                    raise DiagnosticError(Diagnostic("E9003", message, part.span))
                needed[part.name_hint] = callee
                stack.append(callee)
    present = module.global_vars_by_name
    names = {name: present.get(f"{name}_cps") or GlobalVar(f"{name}_cps") for name in needed}
    for name, function in _converted(needed, names).items():
        if names[name].name_hint not in module:
            module[names[name]] = function
    return _converted({"": func}, names)[""]


def un_cps(func: Function) -> Function:
    """Return a direct-style wrapper of a function in continuation-passing style. Raises ValueError for others."""
    if not func.type_params or not func.params:
        raise ValueError("un_cps: the function is not in continuation-passing style; to_cps makes it so")
    *params, continuation = func.params
    *type_params, answer = func.type_params
    own_params = [TypeVar(var.name_hint, var.kind) for var in type_params]
    table: dict[TypeVar, Any] = dict(zip(type_params, own_params, strict=True))
    type_ = continuation.type_annotation
    result = substituted(type_.arg_types[0], table) if isinstance(type_, FuncType) else None
    if result is not None:
        table[answer] = result
    own = [
        Var(p.name_hint, None if p.type_annotation is None else substituted(p.type_annotation, table)) for p in params
    ]
    value = Var("x", result)
    return Function(own, Call(func, [*own, Function([value], value)]), result, own_params)


@relay_module_pass("ToCPS", opt_level=1)
def ToCPS(mod: IRModule) -> IRModule:
    """Convert every function to continuation-passing style, keeping its name."""
    _check(mod)
    functions = {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, Function) and is_optimized(f)}
    names = {name: mod.get_global_var(name) for name in functions}
    converted = _converted(functions, names)
    return mod.with_functions({g: converted.get(g.name_hint, f) for g, f in mod.functions.items()})
