"""Monomorphisation: one copy of each function per type instance.

    Before   def @id[A](%x: A) -> A { %x }
             def @main() { (@id(1), @id(True)) }

    After    def @id(%x: int32) -> int32 { %x }
             def @id_1(%x: bool) -> bool { %x }
             def @main() { (@id(1), @id_1(True)) }

The same applies to functions bound by `let` and anonymous ones. Operators and constructors used as values become
functions: ``fn (%x0: int32, %x1: int32) { add(%x0, %x1) }``. Only functions reachable from the entry point or, without
one, from the monomorphic functions are kept. Nodes are typed; types of new nodes are derived from those of the old
ones.

Not supported (E9050): a polymorphic entry point, polymorphic recursion at ever larger types, and a polymorphic function
passed as a parameter.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from ..ir import DataType, Diagnostic, DiagnosticError, GlobalVar, IRModule, Op, Span
from ..runtime.records import dataclass
from .adt import Constructor
from .expr import Call, Expr, Function, Let, RelayExpr, Var, update_checked_type
from .function_types import is_polymorphic
from .instances import Instance, Uses
from .parts import bound_by, parts_of, with_parts
from .scopes import EvaluationScope, Placement, place
from .type_walk import rewritten, substituted, type_text
from .types import FuncType, IncompleteType, TensorType, TupleType, Type, TypeKind, TypeVar

NOT_TRANSLATED: Final = "E9050"
"""Relay construct without a translation to Relax."""

MOST_NESTED: Final = 16
"""Most nested instantiations of one function (polymorphic recursion)."""

Key = tuple[Type, ...]
"""Type arguments as a hashable key."""


def monomorphic(mod: IRModule, uses: Uses, entry: str = "main") -> IRModule:
    """Return the monomorphic module; the module itself if it is fully reachable and monomorphic.

    `uses` are the instances found by type inference (`infer.instances_in`). Raises DiagnosticError (E9050).
    """
    return _Program(mod, uses).module(entry)


def untranslated(construct: str, span: Span | None, hint: str = "") -> DiagnosticError:
    """Return the error for a construct without a translation to Relax."""
    return DiagnosticError(Diagnostic(NOT_TRANSLATED, f"{construct} has no translation to Relax", span, hint=hint))


@dataclass(eq=False)
class _GlobalInstance:
    """Instance of a global function, with the instance that requested it."""

    name: str
    args: tuple[Any, ...]
    var: GlobalVar
    parent: _GlobalInstance | None


class _Program:
    """Instances of the functions of a module."""

    def __init__(self, mod: IRModule, uses: Uses) -> None:
        self.mod = mod
        self.uses = uses
        self.functions = {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, Function)}
        self.names = {g.name_hint: g for g in mod.functions}
        self._instances: dict[tuple[str, Key], _GlobalInstance] = {}
        self._pending: list[_GlobalInstance] = []
        self._taken = {g.name_hint for g in mod.functions}
        self._named: set[str] = set()

    def module(self, entry: str) -> IRModule:
        """Return the module of all instances reachable from the entry point."""
        for name in self._roots(entry):
            self.instance(name, (), None, None)
        instances: dict[str, dict[GlobalVar, Any]] = {}
        while self._pending:
            instance = self._pending.pop()
            instances.setdefault(instance.name, {})[instance.var] = self._function(instance)
        functions: dict[GlobalVar, Any] = {}
        for name in self.names:
            functions.update(instances.get(name, {}))
        return self.mod.with_functions(functions)

    def _roots(self, entry: str) -> list[str]:
        if entry not in self.functions:
            return [name for name, f in self.functions.items() if not is_polymorphic(f.checked_type)]
        type_ = self.functions[entry].checked_type
        if is_polymorphic(type_):
            construct = f"@{entry}, which is called from outside and polymorphic, of type {type_text(type_)},"
            raise untranslated(construct, self.functions[entry].span, "annotate its parameters")
        return [entry]

    def _function(self, instance: _GlobalInstance) -> Function:
        function = self.functions[instance.name]
        params = _type_params(function)
        region = _Region(self, _Shape(function), function, dict(zip(params, instance.args, strict=True)), None)
        region.instance = instance
        return region.build()

    def instance(
        self, name: str, args: tuple[Any, ...], parent: _GlobalInstance | None, span: Span | None
    ) -> GlobalVar:
        """Return the name of a global function's instance."""
        key = name, _key(args)
        existing = self._instances.get(key)
        if existing is not None:
            return existing.var
        outer, count = parent, 0
        while outer is not None:
            count += bool(args) and outer.name == name
            outer = outer.parent
        _check_nesting(count, f"@{name}", args, span)
        instance = self._instances[key] = _GlobalInstance(name, args, self._new_name(name), parent)
        self._pending.append(instance)
        return instance.var

    def _new_name(self, name: str) -> GlobalVar:
        if name not in self._named:
            self._named.add(name)
            return self.names[name]
        number = 1
        while f"{name}_{number}" in self._taken:
            number += 1
        self._taken.add(f"{name}_{number}")
        return GlobalVar(f"{name}_{number}")


def _check_nesting(count: int, name: str, args: Sequence[Any], span: Span | None) -> None:
    if count > MOST_NESTED:
        construct = f"{name}, which calls itself at ever other types,"
        kinds = [type_text(arg) for arg in args if isinstance(arg, Type)]
        hint = f"the type arguments of call {count} are {', '.join(kinds)}"
        raise untranslated(construct, span, hint)


def _type_params(function: Function) -> tuple[TypeVar, ...]:
    type_ = function.checked_type
    return type_.type_params if isinstance(type_, FuncType) else ()


def _key(args: tuple[Any, ...]) -> Key:
    """Convert type arguments to types: a shape or dtype becomes a tensor type."""
    return tuple(_as_type(arg) for arg in args)


def _as_type(arg: Any) -> Type:
    if isinstance(arg, tuple):
        return TensorType(cast(Any, arg), "bool")
    return arg if isinstance(arg, Type) else TensorType((), arg)


class _Shape:
    """Nodes of a global function, grouped by the polymorphic local function that contains them."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.placement: Placement = place(function)
        self._owners: dict[EvaluationScope, Function | None] = {}
        self.nodes: dict[Function | None, list[Expr]] = {}
        """Nodes of each polymorphic local function, in order; under None, nodes outside of all of them."""
        self.owner: dict[Expr, Function | None] = {}
        """Polymorphic local function that contains a node or variable."""
        self.lets: dict[Var, Let] = {}
        """The `let`s of polymorphic functions."""
        for node in self.placement.order:
            owner = self.owner[node] = self._owner(self.placement.of[node])
            self.nodes.setdefault(owner, []).append(node)
            inside = node if self.is_local(node) else owner
            for var in bound_by(node):
                self.owner[var] = cast("Function | None", inside)
            if isinstance(node, Let) and self.is_local(node.value) and _is_general(node.var):
                self.lets[node.var] = node

    def is_local(self, node: Expr) -> bool:
        """True for a polymorphic function nested in the global one."""
        return isinstance(node, Function) and node is not self.function and bool(_type_params(node))

    def _owner(self, scope: EvaluationScope) -> Function | None:
        path: list[EvaluationScope] = []
        owner: Function | None = None
        while scope not in self._owners:
            path.append(scope)
            if scope.owner is not None and self.is_local(scope.owner):
                owner = cast(Function, scope.owner)
                break
            if scope.parent is scope:
                break
            scope = scope.parent
        else:
            owner = self._owners[scope]
        for inner in path:
            self._owners[inner] = owner
        return owner


def _is_general(var: Var) -> bool:
    """True for a `let` variable whose uses are instances: its annotation is absent or polymorphic."""
    return var.type_annotation is None or is_polymorphic(var.type_annotation)


@dataclass(eq=False)
class _LetInstance:
    """Instance of a function bound by `let`."""

    var: Var
    args: tuple[Any, ...]
    nesting: int


class _Region:
    """Instance of a function: its instantiated nodes, excluding those of nested polymorphic functions."""

    def __init__(
        self, program: _Program, shape: _Shape, function: Function, table: Mapping[TypeVar, Any], parent: _Region | None
    ) -> None:
        self.program = program
        self.shape = shape
        self.function = function
        self.table: dict[TypeVar, Any] = {**({} if parent is None else parent.table), **table}
        self.parent = parent
        self.instance: _GlobalInstance = cast(_GlobalInstance, None) if parent is None else parent.instance
        self.owner = None if parent is None else function
        self.own: _LetInstance | None = None
        self._values: dict[Expr, Expr] = {}
        self._lets: dict[Var, dict[Key, _LetInstance]] = {}
        self._functions: dict[tuple[Function, Key], Function] = {}

    def build(self) -> Function:
        """Return the instance of the function."""
        for node in self.shape.nodes.get(self.owner, ()):
            if not self.shape.is_local(node):
                self._values[node] = self._rebuilt(node)
        if self.owner is not None:
            self._values[self.function] = self._rebuilt(self.function)
        return cast(Function, self._values[self.function])

    def typed(self, type_: Type) -> Type:
        """Substitute the type arguments in a type."""
        if not self.table:
            return type_
        return substituted(type_, self.table)

    def chain(self, owner: Function | None) -> _Region:
        """Return this region, or the enclosing one whose nodes belong to `owner`."""
        region = self
        while region.owner is not owner:
            assert region.parent is not None
            region = region.parent
        return region

    # -- nodes

    def _rebuilt(self, node: Expr) -> Expr:
        if isinstance(node, Let) and node.var in self.shape.lets:
            return self._lets_of(node)
        counts: dict[Expr, int] = {}
        parts = [
            self._part(node, part, isinstance(node, Call) and i == 0, counts) for i, part in enumerate(parts_of(node))
        ]
        new = with_parts(node, parts)
        if isinstance(node, Function) and (self.table or new is not node):
            result = cast(FuncType, node.checked_type).ret_type
            function = cast(Function, new)
            new = Function(function.params, function.body, self.typed(result), (), function.attrs, span=node.span)
        elif isinstance(new, Call) and new.type_args:
            new = new.replace(type_args=())
        elif new is node and self.table:
            new = copy.copy(node)  # each instance has its own nodes
        return self._with_type(new, node)

    def _with_type(self, new: Expr, node: Expr) -> Expr:
        if new is not node and isinstance(new, RelayExpr) and isinstance(node, RelayExpr):
            type_ = self.typed(node.checked_type)
            if isinstance(type_, FuncType) and isinstance(node, Function):
                type_ = FuncType(type_.arg_types, type_.ret_type)
            update_checked_type(new, type_)
        return new

    def _lets_of(self, node: Let) -> Expr:
        """Return a chain of `let`s, one per instance of the bound function."""
        body = self._part(node, node.body, False, {})
        instances = self._lets.setdefault(node.var, {})
        built: list[tuple[_LetInstance, Function]] = []
        while len(built) < len(instances):
            instance = list(instances.values())[len(built)]
            built.append((instance, self._local(cast(Function, node.value), instance.args, instance)))
        for instance, function in reversed(built):
            body = self._with_type(Let(instance.var, function, body, span=node.span), node)
        return body

    def _local(self, function: Function, args: tuple[Any, ...], own: _LetInstance | None) -> Function:
        table = dict(zip(_type_params(function), args, strict=True))
        region = _Region(self.program, self.shape, function, table, self)
        region.own = own
        return region.build()

    # -- parts

    def _part(self, user: Expr, part: Expr, is_callee: bool, counts: dict[Expr, int]) -> Expr:
        instances = self.program.uses.get((user, part), ())
        position = counts[part] = counts.get(part, -1) + 1
        instance = instances[position] if position < len(instances) else None
        match part:
            case Var() if part in self.shape.lets:
                return self._let_variable(part, instance, user.span)
            case Var():
                return self._variable(part)
            case GlobalVar():
                return self._global(part, instance, user.span)
            case Op() | Constructor():
                if is_callee or instance is None or not _takes_arguments(part):
                    return part
                return _as_function(part, cast(FuncType, self._determined(self.typed(instance.type))))
            case Function() if self.shape.is_local(part):
                return self._function_value(part, instance)
            case _:
                return self.chain(self.shape.owner[part])._values[part] if part in self.shape.owner else part

    def _arguments(self, instance: Instance) -> tuple[Any, ...]:
        return tuple(self._argument(arg) for arg in instance.args)

    def _argument(self, arg: Any) -> Any:
        """Substitute this function's type arguments in a type argument; undetermined ones become the unit type."""
        if isinstance(arg, TypeVar) and arg.kind is not TypeKind.Type:
            bound: Any = self.table.get(arg)
            if bound is None:
                return () if arg.kind is TypeKind.ShapeVar else DataType("float32")
            return bound
        return self._determined(self.typed(arg)) if isinstance(arg, Type) else arg

    def _determined(self, type_: Type) -> Type:
        return rewritten(type_, lambda inner: TupleType(()) if isinstance(inner, IncompleteType) else inner)

    def _let_variable(self, var: Var, instance: Instance | None, span: Span | None) -> Var:
        let = self.shape.lets[var]
        if instance is None:  # inside of the function itself
            region: _Region | None = self
            while region is not None and region.function is not let.value:
                region = region.parent
            assert region is not None
            assert region.own is not None
            return region.own.var
        args = self._arguments(instance)
        table = self.chain(self.shape.owner[let])._lets.setdefault(var, {})
        key = _key(args)
        if key not in table:
            nesting = self._nesting(let)
            _check_nesting(nesting, f"%{var.name_hint}", args, span)
            type_ = cast(FuncType, self._determined(self.typed(instance.type)))
            table[key] = _LetInstance(_new_variable(var, type_), args, nesting)
        return table[key].var

    def _nesting(self, let: Let) -> int:
        region: _Region | None = self
        while region is not None:
            if region.function is let.value and region.own is not None:
                return region.own.nesting + 1
            region = region.parent
        return 0

    def _variable(self, var: Var) -> Var:
        if var not in self.shape.owner:
            return var
        region = self.chain(self.shape.owner[var])
        if not region.table:
            return self._unannotated(var)
        if var not in region._values:
            region._values[var] = _new_variable(var, region.typed(var.checked_type))
        return cast(Var, region._values[var])

    def _unannotated(self, var: Var) -> Var:
        if is_polymorphic(var.checked_type):
            raise untranslated(f"%{var.name_hint}, a parameter that is a polymorphic function,", var.span)
        return var

    def _global(self, global_var: GlobalVar, instance: Instance | None, span: Span | None) -> GlobalVar:
        name = global_var.name_hint
        function = self.program.functions.get(name)
        if function is None:
            return global_var
        if instance is not None:
            return self.program.instance(name, self._arguments(instance), self.instance, span)
        if not _type_params(function):
            return self.program.instance(name, (), self.instance, span)
        if name == self.instance.name:  # inside of the function itself
            return self.instance.var
        hint = "annotate the parameters and the result of both"
        raise untranslated(f"@{name}, which is polymorphic and calls its caller,", span, hint)

    def _function_value(self, function: Function, instance: Instance | None) -> Function:
        """Instantiate a polymorphic function that is anonymous or bound to a monomorphic variable."""
        assert instance is not None
        args = self._arguments(instance)
        region = self.chain(self.shape.owner[function])
        key = function, _key(args)
        if key not in region._functions:
            region._functions[key] = region._local(function, args, None)
        return region._functions[key]


def _takes_arguments(value: Op | Constructor) -> bool:
    return isinstance(value, Op) or bool(value.inputs)


def _new_variable(var: Var, type_: Type) -> Var:
    new_var = Var(var.name_hint, type_, span=var.span)
    update_checked_type(new_var, type_)
    return new_var


def _as_function(callee: Op | Constructor, type_: FuncType) -> Function:
    """Wrap an operator or constructor in a function."""
    params: list[Var] = []
    for i, arg in enumerate(type_.arg_types):
        params.append(Var(f"x{i}", arg))
        update_checked_type(params[-1], arg)
    call = Call(callee, params)
    update_checked_type(call, type_.ret_type)
    function = Function(params, call, type_.ret_type)
    update_checked_type(function, FuncType(type_.arg_types, type_.ret_type))
    return function
