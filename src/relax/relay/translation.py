"""The translation of one function from Relay to Relax; see `to_relax`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from ..block_builder import BlockBuilder
from ..expr import Call as RelaxCall
from ..expr import Constant as RelaxConstant
from ..expr import ExternFunc, PrimValue, SeqExpr, StringImm, VarBinding
from ..expr import Function as RelaxFunction
from ..expr import If as RelaxIf
from ..expr import Tuple as RelaxTuple
from ..expr import TupleGetItem as RelaxTupleGetItem
from ..expr import Var as RelaxVar
from ..info.erasure import erase
from ..info.mapping import bound_in, used_in
from ..ir import DataType, GlobalVar, Op, RelaxExpr, Span, StructInfo
from ..op import call_pure_packed
from ..prim import IntImm, PrimExpr, SizeVar
from ..prim import Var as PrimVar
from ..prim import free_vars as free_sizes
from ..struct_info import FuncStructInfo, ObjectStructInfo, PrimStructInfo, TensorStructInfo, TupleStructInfo
from .adt import Constructor, Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from .effects import ModuleEffects
from .expr import Call, Constant, Expr, Function, If, Let, RefCreate, RefRead, RefWrite, RelayExpr, Tuple, TupleGetItem
from .meaning import meaning
from .monomorphic import untranslated
from .scopes import EvaluationScope, Placement, place
from .struct_infos import SizeTable, struct_info_of
from .type_walk import type_text
from .types import Dim, FuncType, RefType, TensorType, TupleType, Type, TypeCall, TypeVar

Path = tuple[int, ...]
"""Path to a part of a value: field indices, outermost first."""

_OBJECT: Final = ObjectStructInfo()
_BOOL: Final = PrimStructInfo(DataType("bool"))


class Translation:
    """Translation of one global function."""

    def __init__(self, builder: BlockBuilder, names: Mapping[str, GlobalVar], effects: ModuleEffects) -> None:
        self.builder = builder
        self.names = names
        self.effects = effects
        self.values: dict[Expr, RelaxExpr] = {}
        self.placement: Placement = cast(Placement, None)
        self.nodes: dict[EvaluationScope, list[Expr]] = {}
        self.named: dict[Expr, Let] = {}
        """`let`s of function values, which may be recursive."""
        self.sizes: frozenset[PrimVar] = frozenset()
        """Symbolic sizes bound by parameters of the enclosing functions."""
        self.table = SizeTable()

    def signature(self, name: str, function: Function) -> FuncStructInfo:
        """Struct info of a global function."""
        infos, sizes = self._params(param.checked_type for param in function.params)
        outer, self.sizes = self.sizes, sizes
        result = self._weak(cast(FuncType, function.checked_type).ret_type)
        self.sizes = outer
        return FuncStructInfo(infos, result, name not in self.effects.impure)

    def function(self, name: str, function: Function, *, derives: bool) -> RelaxFunction:
        """Translate a global function. `derives`: sizes that the result type leaves open are those that Relax
        derives.
        """
        self.placement = place(function)
        for node in self.placement.order:
            self.nodes.setdefault(self.placement.of[node], []).append(node)
            if isinstance(node, Let) and isinstance(node.value, Function):
                self.named[node.value] = node
        with self.builder.detached():
            translated = self._function(function, name not in self.effects.impure, derives)
            return self.builder.function_body(translated, "")

    def _function(self, node: Function, pure: bool, derives: bool = False) -> RelaxFunction:
        infos, sizes = self._params(param.checked_type for param in node.params)
        params = [RelaxVar(p.name_hint, info) for p, info in zip(node.params, infos, strict=True)]
        self.values.update(zip(node.params, params, strict=True))
        (inner,) = self.placement.opened[node]
        outer, self.sizes = self.sizes, sizes
        body = self._scope(inner, node.body, params)
        type_ = cast(FuncType, node.checked_type).ret_type
        result = self._weak(type_)
        self.sizes = outer
        if derives and not _says(result, type_):
            derived = body.struct_info
            result = erase(derived, used_in(derived).keys() - bound_in(*infos).keys())
        return RelaxFunction(params, body, result, pure, span=node.span)

    # -- types

    def _params(self, types: Iterable[Type]) -> tuple[list[StructInfo], frozenset[PrimVar]]:
        """Struct info of parameters, each `Any` a new size, and the sizes in scope in the function."""
        listed = list(types)
        sizes = self.sizes | {dim for type_ in listed for dim in self._standing_alone(type_)}

        def size(dim: Dim) -> PrimExpr:
            extent = self.table.size(dim)
            return extent if extent is not None and sizes.issuperset(free_sizes(extent)) else _new_size()

        outer, self.sizes = self.sizes, sizes
        infos = [struct_info_of(type_, size, self._other) for type_ in listed]
        self.sizes = outer
        return infos, sizes

    def _standing_alone(self, type_: Type) -> Iterable[PrimVar]:
        """Symbolic sizes that are whole dimensions of a tensor, so that an argument determines them."""
        match type_:
            case TensorType(shape) if not isinstance(shape, TypeVar):
                return [dim for dim in map(self.table.size, shape) if isinstance(dim, PrimVar)]
            case TupleType(fields):
                return [dim for field in fields for dim in self._standing_alone(field)]
            case _:
                return []

    def _weak(self, type_: Type) -> StructInfo:
        """Struct info of a type, as far as the sizes in scope express it."""
        return struct_info_of(type_, self._size_in_scope, self._other)

    def _size_in_scope(self, dim: Dim) -> PrimExpr | None:
        size = self.table.size(dim)
        return size if size is not None and self.sizes.issuperset(free_sizes(size)) else None

    def _other(self, type_: Type) -> StructInfo:
        match type_:
            case TypeCall() | RefType():
                return _OBJECT
            case FuncType() if not type_.type_params:
                infos, sizes = self._params(type_.arg_types)
                outer, self.sizes = self.sizes, sizes
                result = self._weak(type_.ret_type)
                self.sizes = outer
                return FuncStructInfo(infos, result, not self.effects.references)
            case _:
                raise untranslated(f"a value of type {type_text(type_)}", None)

    # -- scopes

    def _scope(self, scope: EvaluationScope, result: Expr, params: Sequence[RelaxVar] | None = None) -> RelaxExpr:
        """Translate the bindings of a scope and its result to a SeqExpr."""

        def emit() -> RelaxExpr:
            self._emit(scope)
            return self._value(result)

        return self._block(emit, params)

    def _block(self, emit: Callable[[], RelaxExpr], params: Sequence[RelaxVar] | None = None) -> RelaxExpr:
        """SeqExpr of the bindings emitted by `emit`, with its return value as body."""
        builder = self.builder
        depth = len(builder.scopes)
        builder.begin_scope(params)
        frames, builder.frames = builder.frames, []
        try:
            builder.begin_binding_block()
            body = builder.leaf(emit())
            return builder.scope_body(SeqExpr(builder.end_blocks(), body))
        finally:
            builder.frames = frames
            while len(builder.scopes) > depth:
                builder.end_scope()

    def _emit(self, scope: EvaluationScope) -> None:
        """Emit the nodes of a scope and of the `let`s in it, which are no scopes in Relax."""
        stack: list[tuple[list[Expr], int, Let | None]] = [(self.nodes.get(scope, []), 0, None)]
        while stack:
            nodes, i, opener = stack.pop()
            if i == len(nodes):
                if opener is not None:
                    self.values[opener] = self._value(opener.body)
                continue
            stack.append((nodes, i + 1, opener))
            node = nodes[i]
            if isinstance(node, Let):
                self._let(node)
                stack.append((self.nodes.get(self.placement.opened[node][0], []), 0, node))
            elif node in self.named:
                self._named_function(cast(Function, node), self.named[node])
            elif node not in self.values:
                self.values[node] = self._refined(self._bound(self._node(node)), node)

    def _named_function(self, node: Function, let: Let) -> None:
        """Translate a function bound by `let`, in whose body the variable is in scope."""
        pure = node not in self.effects.impure
        info = cast(FuncStructInfo, self._other(node.checked_type))
        var = RelaxVar(let.var.name_hint, FuncStructInfo(info.params, info.ret, pure))
        self.values[let.var] = self.values[node] = var
        function = self._function(node, pure)
        self.builder.note_own(var, function)
        self.builder.emit_normalized(VarBinding(var, self.builder.normalize(function)))

    def _let(self, node: Let) -> None:
        if node.var not in self.values:
            self.values[node.var] = self._bound(self._value(node.value), node.var.name_hint)

    def _bound(self, value: RelaxExpr, name: str = "") -> RelaxExpr:
        plain = isinstance(value, RelaxConstant) or (isinstance(value, RelaxVar) and not name)
        return value if plain else self.builder.emit(value, name)

    def _refined(self, value: RelaxExpr, node: Expr) -> RelaxExpr:
        """Make a value's struct info as precise as the node's type: underived sizes are bound by match_cast."""
        if not isinstance(node, RelayExpr) or _says(value.struct_info, node.checked_type):
            return value
        return self._cast(value, node.checked_type)

    def _cast(self, value: RelaxExpr, type_: Type) -> RelaxExpr:
        def size(dim: Dim) -> PrimExpr:
            # Equal symbolic sizes in types may differ at run time.
            return dim if isinstance(dim, IntImm) else _new_size()

        return self.builder.match_cast(value, struct_info_of(type_, size, self._other))

    # -- values

    def _value(self, expr: Expr) -> RelaxExpr:
        match expr:
            case Constant():
                return RelaxConstant(expr.data)
            case GlobalVar():
                return self.names[expr.name_hint]
            case Tuple(()):
                return self.builder.normalize(RelaxTuple([], span=expr.span))
            case Constructor() if not expr.inputs:
                return self._tagged(expr, (), expr.span)
            case _:
                value = self.values.get(expr)
                if value is None:
                    raise untranslated(f"this {type(expr).__name__} as a value", expr.span)
                return value

    def _node(self, node: Expr) -> RelaxExpr:
        match node:
            case Tuple(fields):
                return RelaxTuple([self._value(field) for field in fields], span=node.span)
            case TupleGetItem(tuple_value, index):
                return RelaxTupleGetItem(self._value(tuple_value), index, span=node.span)
            case If(cond, true_branch, false_branch):
                first, second = self.placement.opened[node]
                branches = self._scope(first, true_branch), self._scope(second, false_branch)
                return RelaxIf(self._value(cond), *branches, span=node.span)
            case Match():
                return self._match(node)
            case Call():
                return self._call(node)
            case Function():
                return self._function(node, node not in self.effects.impure)
            case RefCreate(value):
                return _effect("new_reference", [self._value(value)], _OBJECT, node.span)
            case RefRead(ref):
                return _effect("read_reference", [self._value(ref)], _OBJECT, node.span)
            case RefWrite(ref, value):
                operands = [self._value(ref), self._value(value)]
                return _effect("write_reference", operands, TupleStructInfo([]), node.span)
            case _:
                raise untranslated(f"this {type(node).__name__}", node.span)

    def _call(self, node: Call) -> RelaxExpr:
        args = [self._value(arg) for arg in node.args]
        match node.op:
            case Op() as op:
                return meaning(op, self.table.attrs(node.attrs), args, node.span)
            case Constructor() as constructor:
                return self._tagged(constructor, args, node.span)
            case callee:
                return RelaxCall(self._value(callee), args, span=node.span)

    def _tagged(self, constructor: Constructor, fields: Sequence[RelaxExpr], span: Span | None) -> RelaxExpr:
        """Create a tagged value; its struct info is just Object."""
        value = self.builder.normalize(RelaxTuple([StringImm(constructor.name_hint), *fields], span=span))
        var = RelaxVar(constructor.name_hint.lower(), _OBJECT, span=span)
        self.builder.emit_normalized(VarBinding(var, value, span=span))
        return var

    # -- matches

    def _match(self, node: Match) -> RelaxExpr:
        """Translate to nested ifs: a clause's tests, its right side, and else the remaining clauses."""
        return self._clauses(node, self._value(node.data), 0)

    def _clauses(self, node: Match, data: RelaxExpr, index: int) -> RelaxExpr:
        if index == len(node.clauses):
            failed = call_pure_packed("vm.builtin.match_failed", data, sinfo_args=self._weak(node.checked_type))
            return failed.replace(span=node.span)
        if self._takes_the_rest(node, index):
            return self._clause(node, data, index)
        cond = self._condition(data, _tests(node.clauses[index].lhs), 0)
        taken = self._clause(node, data, index)
        if self._takes_the_rest(node, index + 1):
            otherwise = self._clause(node, data, index + 1)
        else:
            otherwise = self._block(lambda: self._bound(self._clauses(node, data, index + 1)))
        return RelaxIf(cond, taken, otherwise, span=node.span)

    def _takes_the_rest(self, node: Match, index: int) -> bool:
        """True if a clause matches every value that earlier clauses do not."""
        if index == len(node.clauses):
            return False
        return not _tests(node.clauses[index].lhs) or (node.complete and index == len(node.clauses) - 1)

    def _condition(self, data: RelaxExpr, tests: Sequence[tuple[Path, Constructor]], index: int) -> RelaxExpr:
        """Short-circuit conjunction of tests."""
        path, constructor = tests[index]
        value = self._value_at(data, path)
        test = call_pure_packed("vm.builtin.has_tag", value, StringImm(constructor.name_hint), sinfo_args=_BOOL)
        cond = self.builder.emit(test)
        if index == len(tests) - 1:
            return cond
        rest = self._block(lambda: self._condition(data, tests, index + 1))
        no = self._block(lambda: PrimValue(IntImm("bool", 0)))
        return self.builder.emit(RelaxIf(cond, rest, no))

    def _clause(self, node: Match, data: RelaxExpr, index: int) -> RelaxExpr:
        clause, scope = node.clauses[index], self.placement.opened[node][index]

        def emit() -> RelaxExpr:
            for path, var in _variables(clause.lhs):
                value = self._value_at(data, path)
                if not _says(value.struct_info, var.checked_type):
                    value = self._cast(value, var.checked_type)
                self.values[var] = value
            self._emit(scope)
            return self._value(clause.rhs)

        return self._block(emit)

    def _value_at(self, data: RelaxExpr, path: Path) -> RelaxExpr:
        for index in path:
            data = self.builder.emit(RelaxTupleGetItem(data, index))
        return data


def _effect(name: str, operands: Sequence[RelaxExpr], info: StructInfo, span: Span | None) -> RelaxExpr:
    return RelaxCall(ExternFunc(f"vm.builtin.{name}"), operands, None, [info], span=span)


def _new_size() -> PrimVar:
    return SizeVar("d", "int64")


def _says(info: StructInfo, type_: Type) -> bool:
    """True if struct info is as precise as the translation of a type allows."""
    match type_:
        case TensorType():
            return isinstance(info, TensorStructInfo) and info.dims is not None and not info.dtype.is_void
        case TupleType(fields):
            return (
                isinstance(info, TupleStructInfo)
                and len(info.fields) == len(fields)
                and all(_says(field_info, field) for field_info, field in zip(info.fields, fields, strict=True))
            )
        case FuncType():
            return isinstance(info, FuncStructInfo) and info.params is not None
        case _:
            return True


def _tests(pattern: Pattern) -> list[tuple[Path, Constructor]]:
    """Tags to test for a pattern, outer ones first."""
    return [
        (path, subpattern.constructor)
        for path, subpattern in _subpatterns(pattern)
        if isinstance(subpattern, PatternConstructor)
    ]


def _variables(pattern: Pattern) -> list[tuple[Path, Any]]:
    """Variables of a pattern, with the paths to their values."""
    return [(path, subpattern.var) for path, subpattern in _subpatterns(pattern) if isinstance(subpattern, PatternVar)]


def _subpatterns(pattern: Pattern) -> list[tuple[Path, Pattern]]:
    """A pattern and its subpatterns, outer ones first, each with the path to its value. Field 0 is the tag."""
    result: list[tuple[Path, Pattern]] = []
    stack: list[tuple[Path, Pattern]] = [((), pattern)]
    while stack:
        path, subpattern = stack.pop()
        result.append((path, subpattern))
        if isinstance(subpattern, (PatternConstructor, PatternTuple)):
            first = int(isinstance(subpattern, PatternConstructor))
            inner = [((*path, i), p) for i, p in enumerate(subpattern.patterns, first)]
            stack += reversed(inner)
    return result
