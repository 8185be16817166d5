"""Random Relay programs, well-typed by construction: polymorphism, data types, closures, references, sharing, recursion.

A program is a module with some global functions and `main`. An expression of a wanted type is made by one of the forms: methods
with `@form`, each of which gives an expression of the type, or None where it cannot. Numbers are small and whole, so that
every order of computing gives the same.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from relax import relay
from relax.ir import IRModule
from relax.relay.types import FuncType, RefType, TensorType, TupleType, Type, TypeCall

from .choices import Choices, Seeded

INT, FLOAT, BOOL = (TensorType((), dtype) for dtype in ("int32", "float32", "bool"))
VECTOR = TensorType((2,), "float32")
TENSORS = (INT, FLOAT, BOOL, VECTOR)
PARAMETERS = (INT, FLOAT, BOOL, VECTOR, TupleType((INT, VECTOR)))
BASE = """#[version = "0.0.5"]
import "prelude.rly"
type Pair[A, B] {
  Both(A, B),
  First(A),
  Neither,
}
def @choose[A](%c: bool, %x: A, %y: A) -> A { if (%c) { %x } else { %y } }
def @swap[A, B](%p: (A, B)) -> (B, A) { (%p.1, %p.0) }
"""
BOUND = 64.0
"""Floats are cut off here, far from where sums of them are rounded."""


@dataclass
class RelayProgram:
    """A module, its text, arguments for main, and the forms it was made of."""

    mod: IRModule
    text: str
    cases: list[list[Any]]
    features: Counter[str]


@dataclass
class Names:
    """What a place sees: variables and shared nodes with their types, and polymorphic functions."""

    around: Names | None = None
    values: list[tuple[relay.Expr, Type]] = field(default_factory=list)
    identities: list[relay.Var] = field(default_factory=list)

    def of_type(self, type_: Type) -> list[relay.Expr]:
        """All values of a type that can be used here."""
        own = [value for value, known in self.values if known == type_]
        return own if self.around is None else self.around.of_type(type_) + own

    def polymorphic(self) -> list[relay.Var]:
        """The identity functions that can be used here."""
        return self.identities if self.around is None else self.around.polymorphic() + self.identities


Form = Callable[["Writer", Type, Names, int], "relay.Expr | None"]
FORMS: list[tuple[Form, int]] = []


def form(weight: int) -> Callable[[Form], Form]:
    """The decorator of a form."""

    def add(function: Form) -> Form:
        FORMS.append((function, weight))
        return function

    return add


@functools.cache
def base() -> IRModule:
    """The prelude, and the polymorphic definitions that programs use."""
    return relay.parse(BASE)


def data(name: str, *args: Type) -> TypeCall:
    """The type of a data type with these arguments."""
    return TypeCall(base().get_type(name)[0], args)


def constructor(type_name: str, name: str) -> Any:
    """A constructor of a data type."""
    return next(c for c in base().get_type(type_name)[1:] if c.name_hint == name)


class Writer:
    """Makes expressions of types, by choice."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.features: Counter[str] = Counter()
        self.count = 0
        self.functions: list[tuple[relay.GlobalVar, FuncType]] = []

    # ---------------------------------------------------------------------------------------- types

    def type_(self, depth: int = 2) -> Type:
        """Any type."""
        kind = self.choices.integer(0, 9 if depth else 3)
        if kind < 4:
            return TENSORS[kind]
        inner = [self.type_(depth - 1) for _ in range(self.choices.integer(1, 2))]
        match kind:
            case 4 | 5:
                return TupleType(inner if self.choices.chance(90) else ())
            case 6:
                return data("List", inner[0])
            case 7:
                return data("Pair", inner[0], inner[-1]) if self.choices.chance(50) else data("Option", inner[0])
            case 8:
                return FuncType(inner, self.type_(depth - 1))
            case _:
                return RefType(inner[0])

    def var(self, type_: Type, annotated: bool = True) -> relay.Var:
        """A new variable; now and then it has the name of another one."""
        self.count += 1
        name = f"x{self.count if self.choices.chance(85) else self.choices.integer(0, self.count)}"
        return relay.Var(name, type_ if annotated else None)

    # ---------------------------------------------------------------------------------- expressions

    def expr(self, type_: Type, names: Names, depth: int) -> relay.Expr:
        """An expression of a type; it may be used again where it can be seen."""
        there = names.of_type(type_)
        if there and self.choices.chance(40 if depth > 0 else 85):
            value = self.choices.pick(there)
            if not isinstance(value, relay.Var):
                self.features["shared"] += 1
            return value
        if depth <= 0:
            return self.plain(type_)
        for _ in range(6):
            function = self.choices.pick(_WEIGHTED)
            made = function(self, type_, names, depth - 1)
            if made is not None:
                self.features[function.__name__] += 1
                if not isinstance(made, relay.Constant):
                    names.values.append((made, type_))
                return made
        return self.plain(type_)

    def plain(self, type_: Type) -> relay.Expr:
        """The simplest expression of a type."""
        match type_:
            case TensorType():
                return self.literal(type_)
            case TupleType(fields):
                return relay.Tuple([self.plain(part) for part in fields])
            case FuncType():
                return relay.Function(
                    [self.var(arg) for arg in type_.arg_types], self.plain(type_.ret_type), type_.ret_type
                )
            case RefType(value):
                return relay.RefCreate(self.plain(value))
            case TypeCall():
                name = type_.func.name_hint
                empty = {"List": "Nil", "Option": "None", "Pair": "Neither"}[name]
                return relay.Call(constructor(name, empty), (), type_args=type_.args)
            case _:
                raise TypeError(type_)

    def literal(self, type_: TensorType) -> relay.Constant:
        """A constant tensor of small numbers."""
        shape = tuple(int(d.value) for d in type_.shape)
        numbers = [self.choices.integer(-4, 5) for _ in range(int(np.prod(shape)))]
        return relay.Constant(np.array(numbers).reshape(shape).astype(str(type_.dtype)))

    def function(self, type_: FuncType, names: Names, depth: int, annotated: bool = True) -> relay.Function:
        """A function literal: a closure over what it uses of its surroundings."""
        params = [self.var(arg) for arg in type_.arg_types]
        inside = Names(names, list(zip(params, type_.arg_types, strict=True)))
        body = self.expr(type_.ret_type, inside, depth)
        return relay.Function(params, body, type_.ret_type if annotated else None)

    # ---------------------------------------------------------------------------------------- forms

    @form(8)
    def operator(self, type_: Type, names: Names, depth: int) -> relay.Expr | None:
        if not isinstance(type_, TensorType):
            return None
        if type_ == BOOL:
            kind = self.choices.pick((INT, FLOAT))
            name = self.choices.pick(("equal", "less", "greater_equal", "not_equal"))
            return getattr(relay, name)(*(self.expr(kind, names, depth) for _ in range(2)))
        name = self.choices.pick(("add", "subtract", "multiply", "maximum", "minimum"))
        other = FLOAT if type_ == VECTOR and self.choices.chance(40) else type_
        operands = [self.expr(kind, names, depth) for kind in (type_, other)]
        if self.choices.chance(30):
            operands.reverse()
        result = getattr(relay, name)(*operands)
        if type_ == INT or name in ("maximum", "minimum"):
            return result
        return relay.minimum(relay.maximum(result, relay.const(-BOUND)), relay.const(BOUND))

    @form(2)
    def unary(self, type_: Type, names: Names, depth: int) -> relay.Expr | None:
        if type_ == BOOL:
            return relay.logical_not(self.expr(BOOL, names, depth))
        if not isinstance(type_, TensorType):
            return None
        if type_ in (INT, FLOAT) and self.choices.chance(40):
            if type_ == FLOAT and self.choices.chance(50):
                return relay.take(self.expr(VECTOR, names, depth), relay.const(self.choices.integer(0, 1)), axis=0)
            source = self.choices.pick((BOOL, INT) if type_ == INT else (BOOL, FLOAT))
            return relay.cast(self.expr(source, names, depth), dtype=str(type_.dtype))
        return relay.negative(self.expr(type_, names, depth))

    @form(3)
    def tuple_field(self, type_: Type, names: Names, depth: int) -> relay.Expr:
        types = [type_, *(self.type_(1) for _ in range(self.choices.integer(0, 2)))]
        place = self.choices.integer(0, len(types) - 1)
        types[0], types[place] = types[place], types[0]
        whole = relay.Tuple([self.expr(part, names, depth) for part in types])
        names.values.append((whole, TupleType(types)))
        return relay.TupleGetItem(whole, place)

    @form(3)
    def construct(self, type_: Type, names: Names, depth: int) -> relay.Expr | None:
        match type_:
            case TupleType(fields):
                return relay.Tuple([self.expr(part, names, depth) for part in fields])
            case FuncType():
                return self.function(type_, names, depth)
            case RefType(value):
                return relay.RefCreate(self.expr(value, names, depth))
            case TypeCall():
                return self._constructed(type_, names, depth)
            case _:
                return None

    def _constructed(self, type_: TypeCall, names: Names, depth: int) -> relay.Expr:
        name = type_.func.name_hint
        made, types = {
            "List": ("Cons", (type_.args[0], type_)),
            "Option": ("Some", type_.args),
            "Pair": ("Both", type_.args),
        }[name]
        if name == "Pair" and self.choices.chance(40):
            made, types = "First", type_.args[:1]
        fields = [self.expr(part, names, depth) for part in types]
        return relay.Call(constructor(name, made), fields, type_args=type_.args)

    @form(4)
    def branch(self, type_: Type, names: Names, depth: int) -> relay.Expr:
        condition = self.expr(BOOL, names, depth)
        branches = [self.expr(type_, Names(names), depth) for _ in range(2)]
        return relay.If(condition, *branches)

    @form(5)
    def let(self, type_: Type, names: Names, depth: int) -> relay.Expr:
        bound = self.type_()
        var = self.var(bound, self.choices.chance(60))
        value = self.expr(bound, names, depth)
        return relay.Let(var, value, self.expr(type_, Names(names, [(var, bound)]), depth))

    @form(2)
    def identity(self, type_: Type, names: Names, depth: int) -> relay.Expr:
        """A polymorphic function bound by `let`, with or without the type written."""
        var, written = relay.Var(f"id{self.count}"), self.choices.chance(50)
        kind = relay.TypeVar("a")
        param = relay.Var("y", kind if written else None)
        value = relay.Function([param], param, kind if written else None, [kind] if written else [])
        body = self.expr(type_, Names(names, [], [var]), depth)
        return relay.Let(var, value, relay.Call(var, [body]))

    @form(3)
    def polymorphic_call(self, type_: Type, names: Names, depth: int) -> relay.Expr:
        there = names.polymorphic()
        if there and self.choices.chance(60):
            return relay.Call(self.choices.pick(there), [self.expr(type_, names, depth)])
        operands = [self.expr(part, names, depth) for part in (BOOL, type_, type_)]
        type_args = [type_] if self.choices.chance(50) else []
        return relay.Call(base().get_global_var("choose"), operands, type_args=type_args)

    @form(3)
    def closure_call(self, type_: Type, names: Names, depth: int) -> relay.Expr:
        function_type = FuncType([self.type_(1) for _ in range(self.choices.integer(0, 2))], type_)
        operands = [self.expr(part, names, depth) for part in function_type.arg_types]
        return relay.Call(self.expr(function_type, names, depth), operands)

    @form(3)
    def global_call(self, type_: Type, names: Names, depth: int) -> relay.Expr | None:
        fitting = [(g, t) for g, t in self.functions if t.ret_type == type_]
        if not fitting:
            return None
        callee, function_type = self.choices.pick(fitting)
        return relay.Call(callee, [self.expr(part, names, depth) for part in function_type.arg_types])

    @form(3)
    def prelude_call(self, type_: Type, names: Names, depth: int) -> relay.Expr | None:
        item = self.choices.pick(TENSORS)
        items = data("List", item)
        if type_ == INT and self.choices.chance(30):
            return relay.Call(base().get_global_var("length"), [self.expr(items, names, depth)])
        if isinstance(type_, TypeCall) and type_.func.name_hint == "List":
            function = self.expr(FuncType([item], type_.args[0]), names, depth)
            return relay.Call(base().get_global_var("map"), [function, self.expr(items, names, depth)])
        if isinstance(type_, TupleType) and len(type_.fields) == 2:
            swapped = TupleType(type_.fields[::-1])
            return relay.Call(base().get_global_var("swap"), [self.expr(swapped, names, depth)])
        function = self.expr(FuncType([type_, item], type_), names, depth)
        operands = [function, self.expr(type_, names, depth), self.expr(items, names, depth)]
        return relay.Call(base().get_global_var("foldl"), operands)

    @form(3)
    def reference(self, type_: Type, names: Names, depth: int) -> relay.Expr:
        """A reference that is written, and read."""
        var = self.var(RefType(type_))
        inside = Names(names, [(var, RefType(type_))])
        steps = [relay.RefWrite(var, self.expr(type_, inside, depth)) for _ in range(self.choices.integer(0, 2))]
        body: relay.Expr = relay.RefRead(var)
        for write in reversed(steps):
            body = relay.Let(relay.Var("_"), write, body)
        return relay.Let(var, relay.RefCreate(self.expr(type_, names, depth)), body)

    @form(2)
    def reference_in_scope(self, type_: Type, names: Names, depth: int) -> relay.Expr | None:
        there = [value for value in names.of_type(RefType(type_)) if isinstance(value, relay.Var)]
        if not there:
            return None
        var = self.choices.pick(there)
        if self.choices.chance(40):
            write = relay.RefWrite(var, self.expr(type_, names, depth))
            return relay.Let(relay.Var("_"), write, relay.RefRead(var))
        return relay.RefRead(var)

    @form(4)
    def match(self, type_: Type, names: Names, depth: int) -> relay.Expr:
        first, second = self.type_(1), self.type_(1)
        kind = self.choices.pick(("List", "Option", "Pair", "tuple"))
        fields: Sequence[tuple[str, Sequence[Type]]]
        match kind:
            case "List":
                matched, fields = data("List", first), (("Cons", (first, data("List", first))), ("Nil", ()))
            case "Option":
                matched, fields = data("Option", first), (("Some", (first,)), ("None", ()))
            case "Pair":
                matched = data("Pair", first, second)
                fields = (("Both", (first, second)), ("First", (first,)), ("Neither", ()))
            case _:
                matched, fields = TupleType((first, second)), (("", (first, second)),)
        value = self.expr(matched, names, depth)
        clauses = [self._clause(kind, name, types, type_, names, depth) for name, types in fields]
        if len(clauses) > 1 and self.choices.chance(25):
            last = self.expr(type_, Names(names), depth)
            clauses[-1] = relay.Clause(relay.PatternWildcard(), last)
        return relay.Match(value, clauses)

    def _clause(
        self, kind: str, name: str, types: Sequence[Type], type_: Type, names: Names, depth: int
    ) -> relay.Clause:
        inside = Names(names)
        patterns: list[relay.Pattern] = []
        for part in types:
            if self.choices.chance(20):
                patterns.append(relay.PatternWildcard())
                continue
            var = self.var(part, self.choices.chance(30))
            inside.values.append((var, part))
            patterns.append(relay.PatternVar(var))
        lhs = relay.PatternConstructor(constructor(kind, name), patterns) if name else relay.PatternTuple(patterns)
        return relay.Clause(lhs, self.expr(type_, inside, depth))

    @form(2)
    def recursion(self, type_: Type, names: Names, depth: int) -> relay.Expr:
        """A function that calls itself a few times."""
        loop = relay.Var(f"loop{self.count}")
        n, state = relay.Var("n", INT), self.var(type_)
        inside = Names(names, [(n, INT), (state, type_)])
        again = relay.Call(loop, [n - relay.const(1), self.expr(type_, Names(inside), depth)])
        body = relay.If(relay.less_equal(n, relay.const(0)), state, again)
        function = relay.Function([n, state], body, type_)
        start = [relay.const(self.choices.integer(0, 3)), self.expr(type_, names, depth)]
        return relay.Let(loop, function, relay.Call(loop, start))


_WEIGHTED: list[Form] = [function for function, weight in FORMS for _ in range(weight)]
FEATURES = frozenset(("shared", *(function.__name__ for function, _ in FORMS)))


def relay_program(seed: int | str) -> RelayProgram:
    """The program of a seed."""
    choices = Seeded(seed)
    writer = Writer(choices)
    functions: dict[relay.GlobalVar, relay.Function] = {}
    for i in range(choices.integer(0, 2)):
        type_ = FuncType([writer.type_(1) for _ in range(choices.integer(0, 2))], writer.type_(1))
        name = relay.GlobalVar(f"f{i}")
        functions[name] = writer.function(type_, Names(), choices.integer(1, 3))
        writer.functions.append((name, type_))
    arguments = [choices.pick(PARAMETERS) for _ in range(choices.integer(0, 3))]
    results = [choices.pick(PARAMETERS) for _ in range(choices.integer(1, 3))]
    main = FuncType(arguments, TupleType(results) if len(results) > 1 else results[0])
    functions[relay.GlobalVar("main")] = writer.function(main, Names(), choices.integer(2, 4))
    mod = _reachable({**base().functions, **functions})
    cases = [[_value(choices, type_) for type_ in arguments] for _ in range(2)]
    return RelayProgram(mod, relay.astext(mod), cases, writer.features)


def _reachable(functions: Mapping[relay.GlobalVar, Any]) -> IRModule:
    """A module of main and of what it calls, with all data types."""
    by_name = {key.name_hint: (key, function) for key, function in functions.items()}
    kept: dict[relay.GlobalVar, Any] = {}
    waiting = ["main"]
    while waiting:
        key, function = by_name[waiting.pop()]
        if key not in kept:
            kept[key] = function
            relay.analysis.post_order_visit(
                function, lambda node: waiting.append(node.name_hint) if isinstance(node, relay.GlobalVar) else None
            )
    return IRModule(kept, type_definitions=base().type_definitions)


def _value(choices: Choices, type_: Type) -> Any:
    if isinstance(type_, TupleType):
        return tuple(_value(choices, part) for part in type_.fields)
    shape = tuple(int(d.value) for d in type_.shape)  # type: ignore[attr-defined]
    numbers = [choices.integer(-3, 3) for _ in range(int(np.prod(shape)))]
    return np.array(numbers).reshape(shape).astype(str(type_.dtype))  # type: ignore[attr-defined]
