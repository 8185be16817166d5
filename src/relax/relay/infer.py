"""Type inference: equations and relations over all nodes of an expression, solved; generalisation at `let` and globals.

The type of a node is built from the types of its children. An operator call is a relation between operand and result
types, which waits until the operand types are known: the operator's meaning in Relax then determines the result
(`meaning.result_info`), so each shape rule exists once, on the Relax operator. A function bound by `let` or globally is
generalised over undetermined types; relations still waiting become its constraints.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ..ir import Diagnostic, DiagnosticError, GlobalVar, IRModule, Op, RelaxExpr, Span
from ..ir.diagnostics import emit_warning
from .adt import Clause, Constructor, Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from .attrs import Attrs
from .call_order import callees_first
from .cases import unmatched_cases, unreachable_clauses
from .expr import (
    Call,
    Constant,
    Expr,
    Function,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    RelayExpr,
    TempExpr,
    Tuple,
    TupleGetItem,
    Var,
    update_checked_type,
)
from .function_types import annotated_type, constructor_type, field_of, is_polymorphic, without_params
from .instances import Instance, Uses, with_type_args
from .operator_types import NOT_CALLABLE, UNKNOWN_TYPE, apply_operator, parameter_types
from .operators import operator_spec
from .parts import LEAVES, bound_by, pattern_vars
from .scopes import EvaluationScope, Placement, place
from .type_walk import IncompleteParts, TypeRewriter, substituted, type_text
from .types import FuncType, IncompleteType, RefType, TensorType, TupleType, Type, TypeKind, TypeRelation, TypeVar
from .unify import Pending, Unifier

LEFT_OUT = "E9044"
"""A match does not cover all values of its type."""
UNREACHABLE = "W9045"
"""A clause is unreachable."""

BOOL = TensorType((), "bool")
UNIT = TupleType(())


def infer_type(expr: Expr, mod: IRModule | None = None) -> Any:
    """Infer and set the type of every node of an expression; return the expression. Free variables need annotations.

    Calls of polymorphic functions without type arguments get them, so an expression with such calls is replaced. Raises
    DiagnosticError with all errors, and TypeError for anything but an expression. (Annotated `Any`: the result has the
    kind of `expr`.)
    """
    if not isinstance(expr, RelaxExpr):  # pyright: ignore[reportUnnecessaryIsInstance]
        hint = "; infer the types of a module by relay.transform.InferType()(mod)" if isinstance(expr, IRModule) else ""
        raise TypeError(f"infer_type takes an expression of Relay, found {type(expr).__name__}{hint}")
    inference = Inference(IRModule() if mod is None else mod)
    inference.whole(expr)
    inference.finish()
    return with_type_args(expr, inference.uses)


def infer_module(mod: IRModule) -> IRModule:
    """Infer and set the type of every node of every Relay function of a module; return the module.

    Calls of polymorphic functions get their type arguments, as in `infer_type`. Raises DiagnosticError with all errors
    of all functions.
    """
    uses = instances_in(mod)
    functions = {g: with_type_args(f, uses) if isinstance(f, Function) else f for g, f in mod.functions.items()}
    return mod.with_functions(functions)


def instances_in(mod: IRModule) -> Uses:
    """Infer the types of a module; return the instances of the polymorphic values that its nodes use.

    Raises DiagnosticError.
    """
    inference = Inference(mod)
    for name in callees_first(mod):
        inference.global_type(name)
    inference.finish()
    return inference.uses


class Inference:
    """One inference over a module, or over an expression that may use its functions."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.unifier = Unifier()
        self.types: dict[Expr, Type] = {}
        """Types of variables and nodes inferred so far."""
        self.bound: set[Var] = set()
        self.general: dict[Expr, FuncType] = {}
        """Types of variables bound to polymorphic functions, which each use instantiates."""
        self.global_types: dict[str, Type] = {}
        self.lets: dict[Var, Let] = {}
        """The `let` that binds a variable."""
        self.variable_levels: dict[Var, int] = {}
        self.diagnostics: list[Diagnostic] = []
        self.placement: Placement = cast(Placement, None)
        self.levels: dict[EvaluationScope, int] = {}
        self.level = 0
        self.user: Expr = cast(Expr, None)
        """Node whose parts are being inferred."""
        self.uses: Uses = {}

    # -- entries

    def expression(self, expr: Expr) -> Type:
        """Infer an expression; return its type, polymorphic for a polymorphic function."""
        outer = self.placement, self.levels, self.level, self.user
        self.placement, self.levels = place(expr), {}
        try:
            self._note_variables()
            for node in self.placement.order:
                self.level = self._level(self.placement.of[node])
                self.user = node
                try:
                    self._put(node, self._node(node))
                except DiagnosticError as error:
                    self.diagnostics += error.placed(node.span).diagnostics
                    self.types.setdefault(node, self.unifier.fresh(self.level))
            self.level = 0
            return self.types[expr] if expr in self.types else self.type_of(expr)
        finally:
            self.placement, self.levels, self.level, self.user = outer

    def _note_variables(self) -> None:
        """Record the binder and level of each variable: a function bound by `let` is one level deeper."""
        for node in self.placement.order:
            if isinstance(node, Let):
                self.lets[node.var] = node
                deeper = isinstance(node.value, Function)
                self.variable_levels[node.var] = self._level(self.placement.of[node]) + deeper
            elif isinstance(node, (Function, Match)):
                for var in bound_by(node):
                    self.variable_levels[var] = self._level(self.placement.opened[node][0])

    def whole(self, expr: Expr) -> Type:
        """Infer a closed expression: a function is generalised over its open types."""
        type_ = self.expression(expr)
        return self._generalised(expr, type_, 0) if isinstance(expr, Function) else type_

    def global_type(self, name: str) -> Type:
        """Type of a global function, inferred on first use."""
        if name in self.global_types:
            return self.global_types[name]
        function = self.mod.get(name)
        if not isinstance(function, Function):
            raise DiagnosticError(Diagnostic("E9003", f"the module has no Relay function @{name}"))
        annotated = annotated_type(function)
        self.global_types[name] = annotated if annotated is not None else self.unifier.fresh(1)
        type_ = self.expression(function)
        if annotated is None:
            self.unifier.equal(self.global_types[name], without_params(type_), function.span, f"@{name}")
            self.global_types[name] = self._generalised(function, type_, 0)
        return self.global_types[name]

    def finish(self) -> None:
        """Solve the remaining relations and set the types. Raises DiagnosticError with all errors."""
        try:
            self.unifier.settle()
        except DiagnosticError as error:
            self.diagnostics += error.diagnostics
        if not self.diagnostics:
            self._write()
        if self.diagnostics:
            raise DiagnosticError(dict.fromkeys(self.diagnostics))

    def _write(self) -> None:
        resolved = TypeRewriter(self.unifier.head)
        for instances in self.uses.values():
            for i, instance in enumerate(instances):
                args = tuple(self.unifier.argument(arg, resolved) for arg in instance.args)
                instances[i] = Instance(resolved(instance.type), args)
        unsolved = IncompleteParts()
        for node, type_ in {**self.types, **self.general}.items():
            type_ = resolved(self.general.get(node, type_))
            if unsolved.of(type_):
                subject = f"variable %{node.name_hint}" if isinstance(node, Var) else "this expression"
                hint = "annotate the variables that it depends on"
                message = f"the type of {subject} cannot be inferred: {type_text(type_)}"
                self.diagnostics.append(Diagnostic(UNKNOWN_TYPE, message, node.span, hint=hint))
                return
            if isinstance(node, RelayExpr):
                update_checked_type(node, type_)

    # -- nodes

    def _level(self, scope: EvaluationScope) -> int:
        """Number of functions around a scope."""
        path: list[EvaluationScope] = []
        while scope not in self.levels and scope.parent is not scope:
            path.append(scope)
            scope = scope.parent
        level = self.levels.setdefault(scope, 0)
        for inner in reversed(path):
            level += isinstance(inner.owner, Function)
            self.levels[inner] = level
        return level

    def _put(self, node: Expr, type_: Type) -> None:
        current = self.types.get(node)
        if current is None:
            self.types[node] = type_
        else:
            self.unifier.equal(current, type_, node.span, "this expression")

    def type_of(self, expr: Expr) -> Type:
        """Type of a leaf or an already inferred node; polymorphic types are instantiated."""
        match expr:
            case Constant():
                return self.types.setdefault(expr, expr.type)
            case Var():
                return self._variable(expr)
            case GlobalVar():
                return self._instantiated(self.global_type(expr.name_hint), expr)
            case Op():
                type_ = self._operator_type(expr, None, None)
                self._note(expr, type_, ())
                return type_
            case Tuple(()):
                return self.types.setdefault(expr, UNIT)
            case Constructor():
                type_ = self._instantiated(constructor_type(expr, self.mod), expr)
                return type_ if expr.inputs else cast(FuncType, type_).ret_type
            case _ if expr in self.types:
                return self._instantiated(self.types[expr], expr)
            case _:
                raise DiagnosticError(_untyped(expr))

    def _note(self, expr: Expr, type_: Type, args: tuple[Any, ...]) -> None:
        """Record that the current node uses a polymorphic value with these type arguments."""
        self.uses.setdefault((self.user, expr), []).append(Instance(type_, args))

    def _variable(self, var: Var) -> Type:
        if var not in self.general and var in self.lets:
            self._bind(self.lets[var])
        if var in self.general:
            return self._instantiated(self.general[var], var)
        if var not in self.types:
            annotation = var.type_annotation
            level = self.variable_levels.get(var, self.level)
            self.types[var] = self._open(annotation, level) if annotation is not None else self.unifier.fresh(level)
        return self.types[var]

    def _open(self, type_: Type, level: int | None = None) -> Type:
        """Open an annotation: register its incomplete types with the unifier at a level (default: the current one)."""
        for item in self.unifier.incomplete(type_):
            self.unifier.levels.setdefault(item, self.level if level is None else level)
        return type_

    def _node(self, node: Expr) -> Type:
        match node:
            case Tuple(fields):
                return TupleType([self.type_of(field) for field in fields])
            case TupleGetItem(tuple_value, index):
                return self._field(node, self.type_of(tuple_value), index)
            case Function():
                return self._function(node)
            case Call():
                return self._call(node)
            case Let():
                return self._let(node)
            case If(cond, true_branch, false_branch):
                self.unifier.equal(BOOL, self.type_of(cond), cond.span or node.span, "the condition")
                type_ = self.type_of(true_branch)
                self.unifier.equal(type_, self.type_of(false_branch), false_branch.span or node.span, "the branch")
                return type_
            case RefCreate(value):
                return RefType(self.type_of(value))
            case RefRead(ref):
                return self._referenced(node, ref)
            case RefWrite(ref, value):
                held = self._referenced(node, ref)
                self.unifier.equal(held, self.type_of(value), value.span or node.span, "the value written")
                return UNIT
            case Match():
                return self._match(node)
            case _:
                raise DiagnosticError(_untyped(node))

    def _referenced(self, node: Expr, ref: Expr) -> Type:
        held = self.unifier.fresh(self.level)
        self.unifier.equal(RefType(held), self.type_of(ref), ref.span or node.span, "the reference")
        return held

    def _field(self, node: Expr, tuple_type: Type, index: int) -> Type:
        result = self.unifier.fresh(self.level)

        def rule(inputs: tuple[Type, ...], attrs: Any, span: Span | None) -> Type:
            del attrs
            (type_,) = inputs
            return field_of(type_, index, span)

        head = self.unifier.head(tuple_type)
        if not isinstance(head, IncompleteType):
            return field_of(head, index, node.span)
        self.unifier.relate(Pending("projection", (tuple_type,), result, None, rule, node.span))
        return result

    def _function(self, node: Function) -> Type:
        (inner,) = self.placement.opened[node]
        self.level = self._level(inner)
        params = [self._variable(param) for param in node.params]
        result = self.type_of(node.body)
        if node.ret_type is not None:
            declared = self._open(node.ret_type)
            self.unifier.equal(declared, result, node.body.span or node.span, "the body of the function")
            result = declared
        for relation in node.type_constraints:
            self._constrain(relation, [*params, result], node.span)
        self.level = self._level(self.placement.of[node])
        return FuncType(params, result, node.type_params, node.type_constraints)

    def _let(self, node: Let) -> Type:
        self._bind(node)
        return self.type_of(node.body)

    def _bind(self, node: Let) -> None:
        """Assign the inferred type of its value to the variable of a `let`; a function's type is generalised.

        Inside the function itself the variable is monomorphic.
        """
        user, self.user = self.user, node
        try:
            self._bind_once(node)
        finally:
            self.user = user

    def _bind_once(self, node: Let) -> None:
        var, value = node.var, node.value
        if var in self.general or var in self.bound or not self._is_inferred(value):
            return
        self.bound.add(var)
        if isinstance(value, Function):
            recursive = self.types.get(var)
            if recursive is not None and not is_polymorphic(recursive):
                self.unifier.equal(recursive, without_params(self.types[value]), node.span, f"%{var.name_hint}")
            general = self._generalised(value, self.types[value], self._level(self.placement.of[node]))
            if is_polymorphic(general) and var.type_annotation is None:
                self.general[var] = general
                return
            if is_polymorphic(var.type_annotation):
                self.unifier.equal(var.type_annotation, general, node.span, f"%{var.name_hint}")
                self.general[var] = var.type_annotation
                return
        type_ = self.type_of(value)
        if var.type_annotation is not None:
            self.unifier.equal(self._open(var.type_annotation), type_, node.span, f"%{var.name_hint}")
        current = self.types.setdefault(var, type_)
        if current is not type_:
            self.unifier.equal(current, type_, node.span, f"%{var.name_hint}")

    def _is_inferred(self, value: Expr) -> bool:
        """True if the type of a value is inferred: false inside the value, or for a variable before its `let`."""
        return value in self.types or isinstance(value, LEAVES) or (isinstance(value, Tuple) and not value.fields)

    # -- calls

    def _call(self, node: Call) -> Type:
        if isinstance(node.op, Op):
            args = [self.type_of(arg) for arg in node.args]
            return self._related(node.op, node.attrs, node.args, args, node.span)
        callee = self._callee(node)
        if isinstance(callee, IncompleteType):
            args = [self.type_of(arg) for arg in node.args]
            result = self.unifier.fresh(self.level)
            self.unifier.equal(FuncType(args, result), callee, node.span, "the callee")
            return result
        if not isinstance(callee, FuncType):
            message = f"a value of type {type_text(callee)} is called, which is no function"
            raise DiagnosticError(Diagnostic(NOT_CALLABLE, message, node.span))
        if len(callee.arg_types) != len(node.args):
            message = f"the function takes {len(callee.arg_types)} arguments, found {len(node.args)}"
            raise DiagnosticError(Diagnostic(NOT_CALLABLE, message, node.span))
        for i, (expected, arg) in enumerate(zip(callee.arg_types, node.args, strict=True)):
            self.unifier.equal(expected, self.type_of(arg), arg.span or node.span, f"argument {i}")
        return callee.ret_type

    def _callee(self, node: Call) -> Type:
        """Instantiated type of the callee, with the call's type arguments."""
        if isinstance(node.op, Var) and node.op in self.lets:
            self._bind(self.lets[node.op])
        match node.op:
            case GlobalVar() as name:
                scheme = self.global_type(name.name_hint)
            case Constructor() as constructor:
                scheme = constructor_type(constructor, self.mod)
            case Var() as var if var in self.general:
                scheme = self.general[var]
            case Var() | Constant():
                scheme = self.unifier.head(self.type_of(node.op))
            case _:
                scheme = self.unifier.head(self.types[node.op])
        if not is_polymorphic(scheme):
            return self.unifier.head(scheme)
        chosen = self._type_arguments(scheme, node)
        instance = self._with_arguments(scheme, chosen, node.span)
        self._note(node.op, instance, chosen)
        return instance

    def _type_arguments(self, scheme: FuncType, node: Call) -> tuple[Any, ...]:
        if not node.type_args:
            return tuple(map(self._fresh_argument, scheme.type_params))
        if len(node.type_args) != len(scheme.type_params):
            message = f"the function has {len(scheme.type_params)} type parameters, found {len(node.type_args)}"
            raise DiagnosticError(Diagnostic(NOT_CALLABLE, message, node.span))
        return node.type_args

    def _fresh_argument(self, param: TypeVar) -> Any:
        if param.kind in (TypeKind.ShapeVar, TypeKind.BaseType):
            return self.unifier.fresh_part(param.kind)
        return self.unifier.fresh(self.level)

    def _instantiated(self, type_: Type, expr: Expr | None = None) -> Type:
        """Instantiate a polymorphic type with new incomplete types, and add its relations.

        `expr` is the expression of that type being used.
        """
        type_ = self.unifier.head(type_)
        if not is_polymorphic(type_):
            if isinstance(expr, Constructor):
                self._note(expr, type_, ())
            return type_
        chosen = tuple(map(self._fresh_argument, type_.type_params))
        instance = self._with_arguments(type_, chosen, None)
        if expr is not None:
            self._note(expr, instance, chosen)
        return instance

    def _with_arguments(self, scheme: FuncType, chosen: Sequence[Any], span: Span | None) -> FuncType:
        table = dict(zip(scheme.type_params, chosen, strict=True))
        args = [substituted(arg, table) for arg in scheme.arg_types]
        result = substituted(scheme.ret_type, table)
        for relation in scheme.type_constraints:
            own = relation.replace(args=tuple(substituted(arg, table) for arg in relation.args))
            self._constrain(own, [*args, result], span)
        return FuncType(args, result)

    def _constrain(self, relation: TypeRelation, signature: Sequence[Type], span: Span | None) -> None:
        """Add a relation of a function type; without arguments it applies to the whole signature."""
        types = list(relation.args) or list(signature)
        inputs, output = types[:-1], types[-1]
        name = _RELATIONS.get(relation.func, relation.func)
        if operator_spec(name) is None:
            message = f"{relation.func} is no type relation"
            hint = f"relations are operators, and {', '.join(_RELATIONS)}"
            raise DiagnosticError(Diagnostic(UNKNOWN_TYPE, message, span, hint=hint))
        attrs = Attrs(relation.attrs) if relation.attrs else None
        self.unifier.relate(Pending(name, tuple(inputs), output, (Op.get(name), attrs, None), apply_operator, span))

    # -- operators

    def _operator_type(self, op: Op, attrs: Attrs | None, span: Span | None) -> Type:
        spec = operator_spec(op)
        count = 1 if spec is None or spec.num_inputs is None else spec.num_inputs
        args: list[Type] = [self.unifier.fresh(self.level) for _ in range(count)]
        return FuncType(args, self._related(op, attrs, None, args, span))

    def _related(
        self, op: Op, attrs: Attrs | None, operands: Sequence[Expr] | None, args: Sequence[Type], span: Span | None
    ) -> Type:
        result = self.unifier.fresh(self.level)
        facts, inputs = (op, attrs, operands), tuple(args)
        self.unifier.relate(Pending(op.name, inputs, result, facts, apply_operator, span, parameter_types))
        return self.unifier.head(result)

    # -- matches

    def _match(self, node: Match) -> Type:
        data = self.type_of(node.data)
        result = self.unifier.fresh(self.level)
        for clause in node.clauses:
            self._clause(node, clause, data, result)
        self._check_cases(node)
        return result

    def _check_cases(self, node: Match) -> None:
        """Check that a match without ``?`` is exhaustive; warn of unreachable clauses."""
        left_out = unmatched_cases(node, self.mod) if node.complete else []
        if left_out:
            cases = ", ".join(map(str, left_out))
            hint = "add a clause for each, or `_ => …`; `match?` fails at run time where no clause matches"
            message = f"the match leaves out {cases}"
            raise DiagnosticError(Diagnostic(LEFT_OUT, message, node.span, hint=hint))
        for index in unreachable_clauses(node, self.mod):
            message = f"no value reaches clause {index} of the match: clauses before it take them all"
            span = node.clauses[index].span or node.span
            emit_warning(Diagnostic(UNREACHABLE, message, span, level="warning"))

    def _clause(self, node: Match, clause: Clause, data: Type, result: Type) -> None:
        for var in pattern_vars(clause.lhs):
            self._variable(var)
        stack: list[tuple[Pattern, Type]] = [(clause.lhs, data)]
        while stack:
            pattern, type_ = stack.pop()
            match pattern:
                case PatternVar(var):
                    self.unifier.equal(type_, self._variable(var), node.span, f"%{var.name_hint}")
                case PatternTuple(patterns):
                    fields = [self.unifier.fresh(self.level) for _ in patterns]
                    self.unifier.equal(type_, TupleType(fields), node.span, "the pattern")
                    stack += list(zip(patterns, fields, strict=True))
                case PatternConstructor(constructor, patterns):
                    own = self._instantiated(constructor_type(constructor, self.mod))
                    own = own if isinstance(own, FuncType) else FuncType((), own)
                    if len(own.arg_types) != len(patterns):
                        message = f"{constructor.name_hint} has {len(own.arg_types)} fields, found {len(patterns)}"
                        raise DiagnosticError(Diagnostic(NOT_CALLABLE, message, node.span))
                    self.unifier.equal(type_, own.ret_type, node.span, "the pattern")
                    stack += list(zip(patterns, own.arg_types, strict=True))
                case _:
                    pass
        self.unifier.equal(result, self.type_of(clause.rhs), clause.rhs.span or node.span, "the clause")

    # -- generalisation

    def _generalised(self, node: Expr, type_: Type, level: int) -> Type:
        """Generalise a function type over the open types that belong to no enclosing function."""
        self.unifier.settle()
        function = self.unifier.resolve(type_)
        if not isinstance(function, FuncType):
            return function  # an error has been reported
        open_types = [v for v in self.unifier.incomplete(function) if self.unifier.levels.get(v, 0) > level]
        waiting = [r for r in self.unifier.pending if self.unifier.mentions(r, open_types)]
        if any(r.rule is not apply_operator for r in waiting):
            return function  # no type constraint expresses a projection of an unknown tuple
        for relation in waiting:
            for item in self.unifier.incomplete(*relation.inputs, relation.output):
                if self.unifier.levels.get(item, 0) > level and item not in open_types:
                    open_types.append(item)
        if not open_types:
            return function
        params: list[TypeVar] = []
        for i, item in enumerate(open_types):
            params.append(TypeVar(f"t{i}"))
            self.unifier.found[item] = params[-1]
        self.unifier.pending = [r for r in self.unifier.pending if r not in waiting]
        relations = [
            TypeRelation(r.name, [self.unifier.resolve(t) for t in (*r.inputs, r.output)], attrs=_attrs_of(r))
            for r in waiting
        ]
        function = cast(FuncType, self.unifier.resolve(function))
        general = FuncType(
            function.arg_types, function.ret_type, [*function.type_params, *params],
            [*function.type_constraints, *relations],
        )  # fmt: skip
        self.types[node] = general
        return general


def _untyped(node: Expr) -> Diagnostic:
    """Return the diagnostic for a node of a class without a type."""
    hint = "replace it by what its `realize()` returns" if isinstance(node, TempExpr) else "it is no node of Relay"
    return Diagnostic(UNKNOWN_TYPE, f"a {type(node).__name__} has no type", getattr(node, "span", None), hint=hint)


def _attrs_of(relation: Pending) -> dict[str, Any]:
    attrs: Attrs | None = relation.attrs[1]
    return {} if attrs is None else dict(attrs.items())


_RELATIONS = {"Broadcast": "add", "BroadcastComp": "equal", "Identity": "copy"}
"""Relations named in the document, by operators with the same type rule."""
