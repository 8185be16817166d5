"""Storages: names for the memory that values consist of, and a walk that finds those of every variable.

A storage is named after the variable (or the constant) with which its memory comes into being. The storages of a tuple
are known field by field. Another name, a match_cast, a projection, a branch or a view has the storages of what it
names; a call has new ones, and those of the arguments that its result may share memory with.

The walk goes in evaluation order. A function may be called where nothing is known of it yet; walks of a whole module
are therefore repeated until `Summaries` stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias, TypeVar, cast

from ..derive.rules import use_span
from ..expr import Binding, Call, Constant, Function, If, MatchCast, SeqExpr, Tuple, TupleGetItem, Var, VarBinding
from ..ir import Node, RelaxExpr, Span, StructInfo, walk
from ..ir.sharing import is_excessive
from ..struct_info import TupleStructInfo

Storage: TypeAlias = "Var | Constant"
Storages: TypeAlias = "frozenset[Storage]"
FactT = TypeVar("FactT")
Value: TypeAlias = "Storages | tuple[Value, ...]"
"""The storages of a value; of a tuple, field by field."""


class Summaries(NamedTuple):
    """Facts about functions, keyed by variable, and the storages that variables create."""

    consumed: dict[RelaxExpr, frozenset[int]]
    """Parameters that are reused in place."""
    returned: dict[RelaxExpr, frozenset[int]]
    """Parameters that the result may be or contain."""
    reads: dict[RelaxExpr, Storages]
    """Storages that a local function uses from outside."""
    captured: dict[RelaxExpr, Storages]
    """Those of them that its result may be or contain."""
    own: dict[Var, Value]
    """Storages that come into being with a variable, the same ones in every walk."""

    def facts(self) -> tuple[dict[RelaxExpr, frozenset[Storage | int]], ...]:
        """All facts that walks have collected."""
        return tuple({**table} for table in (self.consumed, self.returned, self.reads, self.captured))


class StorageWalk:
    """Walk of one function; `values` has the storages of the variables. Subclasses say what a call's result shares."""

    def __init__(self, summaries: Summaries | None = None) -> None:
        self.summaries = summaries or Summaries({}, {}, {}, {}, {})
        self.values: dict[Var, Value] = {}
        self.outside: Storages = frozenset()
        """Within a local function: the storages that exist where it is defined."""
        self.reads: set[Storage] = set()
        """Storages used so far; extended in place, since a function of many parameters uses them all."""
        self.place: Span | None = None
        """Span of the current use; a variable's own span is that of its binding."""

    # -- for subclasses

    def aliased(self, call: Call) -> Iterable[RelaxExpr]:
        """Arguments that the result of a call shares memory with."""
        raise NotImplementedError

    def bound(self, binding: Binding) -> None:
        """Called before the value of a binding is walked."""

    def body(self, func: Function, var: Var) -> None:
        """Walk the body of a local function; `outside` and `reads` are its own."""
        self.function(func)

    def called(self, call: Call) -> None:
        """Called when the arguments of a call have been used."""

    def complain(self, expr: RelaxExpr, storages: Storages, read: Storages) -> None:
        """Called for each use of storages; `read` are those that functions among them read from outside."""

    # -- the walk

    def function(self, func: Function) -> Value:
        """The storages of a function's result."""
        self.values.update((param, self.own(param)) for param in func.params)
        return self.sequence(func.body)

    def own(self, var: Var) -> Value:
        """The storages that come into being with a variable."""
        own = self.summaries.own
        if var not in own:
            own[var] = own_storages(var, var.struct_info_)
        return own[var]

    def sequence(self, expr: RelaxExpr) -> Value:
        if not isinstance(expr, SeqExpr):  # only in functions that are not in normal form
            self.use(expr)
            return self.held(expr)
        for block in expr.blocks:
            for binding in block.bindings:
                self.place = use_span(getattr(binding, "value", binding.var)) or binding.span
                self.bound(binding)
                self.values[binding.var] = self.binding(binding)
        self.place = expr.span
        self.use(expr.body)
        return self.held(expr.body)

    def binding(self, binding: Binding) -> Value:
        """The storages of a bound variable; uses those of its value."""
        match binding:
            case VarBinding(_, If() as branch):
                self.use(branch.cond)
                return self.branches(branch)
            case VarBinding(var, Function() as func):
                self.values[var] = frozenset({var})
                self.local(func, var)
                return frozenset({var})
            case VarBinding(var, Call() as call):
                self.use(call)
                result = self.result(call, var)
                self.called(call)
                return result
            case VarBinding(var, Constant()):
                return frozenset({var})  # each evaluation of a constant gives a fresh tensor
            case _:
                value = cast("VarBinding | MatchCast", binding).value
                self.use(value)
                return self.held(value)

    def result(self, call: Call, var: Var) -> Value:
        """The storages of a call's result."""
        shared = frozenset[Storage]().union(*(flat(self.held(arg)) for arg in self.aliased(call)))
        returned = [flat(self.held(call.args[i])) for i in self.of_callee(call, self.summaries.returned)]
        entered = self.of_callee(call, self.summaries.captured).union(*returned)
        own = self.own(var)
        if not shared and not entered:
            return own
        return shared | entered | (flat(own) if entered else frozenset[Storage]())

    def of_callee(self, call: Call, table: dict[RelaxExpr, frozenset[FactT]]) -> frozenset[FactT]:
        """The entries of a table for the functions that a call may enter."""
        entries = frozenset[FactT](table.get(call.op, ()))
        for callee in flat(self.held(call.op)):
            entries |= table.get(callee, entries)
        return entries

    def branches(self, expr: If) -> Value:
        """The storages of either branch's result."""
        first, second = self.sequence(expr.true_branch), self.sequence(expr.false_branch)
        return first if same_value(first, second) else flat(first) | flat(second)

    def local(self, func: Function, var: Var) -> None:
        """Walk a local function."""
        outside, reads = self.outside, self.reads
        self.outside = outside.union(*(flat(value) for value in self.values.values()))
        self.reads = set()
        self.body(func, var)
        self.outside, self.reads = outside, reads | (self.reads & outside)

    def held(self, expr: RelaxExpr) -> Value:
        """Return the storages of a leaf or projection."""
        match expr:
            case Var():
                return self.values.get(expr, frozenset({expr}))
            case Constant():
                return frozenset({expr})
            case Tuple(fields):
                return tuple(self.held(item) for item in fields)
            case TupleGetItem(source, index):
                whole = self.held(source)
                return whole[index] if isinstance(whole, tuple) and index < len(whole) else whole
            case _:
                return frozenset()

    def use(self, expr: RelaxExpr) -> None:
        """Note the storages that an expression names."""
        if isinstance(expr, (TupleGetItem, Var)):
            self.used(expr, flat(self.held(expr)))
        else:
            walk(expr, self._see)

    def _see(self, item: Node) -> None:
        if isinstance(item, Var):
            self.used(item, flat(self.held(item)))

    def used(self, expr: RelaxExpr, storages: Storages) -> None:
        read = frozenset[Storage]()
        for item in storages:
            read |= self.summaries.reads.get(item, read)
        self.reads |= storages
        self.reads |= read
        self.complain(expr, storages, read)


PLACES = 2_000
"""A tuple whose struct info takes more places than this, because it is shared, is one storage as a whole."""


def own_storages(var: Var, info: StructInfo | None) -> Value:
    """New storages for the value of a variable; of a tuple, one for each field."""
    if not isinstance(info, TupleStructInfo) or is_excessive(info, PLACES):
        return frozenset({var})
    fields = [Var(f"{var.name_hint}[{i}]") for i in range(len(info.fields))]
    return tuple(own_storages(storage, field) for storage, field in zip(fields, info.fields, strict=True))


def flat(value: Value) -> Storages:
    """All the storages of a value."""
    if not isinstance(value, tuple):
        return value
    storages: set[Storage] = set()
    seen: set[int] = set()
    pending: list[Value] = [value]
    while pending:
        item = pending.pop()
        if id(item) not in seen:
            seen.add(id(item))
            if isinstance(item, tuple):
                pending += item
            else:
                storages |= item
    return frozenset(storages)


def same_value(first: Value, second: Value) -> bool:
    """True if two values are made of the same storages, field by field."""
    seen: set[tuple[int, int]] = set()
    pending = [(first, second)]
    while pending:
        a, b = pending.pop()
        if a is b or (id(a), id(b)) in seen:
            continue
        seen.add((id(a), id(b)))
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            pending += zip(a, b, strict=True)
        elif isinstance(a, tuple) or isinstance(b, tuple) or a != b:
            return False
    return True
