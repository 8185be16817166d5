"""Whether every argument that is reused in place is used no more afterwards (language.md §7.3).

A walk in evaluation order keeps, for every variable, the storages its value surely consists of: another name, a
match_cast, a tuple, a projection or a branch has those of what it names. An in-place call takes the storages of
the arguments it reuses; naming one of them later, under whatever name, is an error. So is reusing a constant that
no variable is bound to, a value from outside a local function (which may run again), or one that the same call is
given twice.

A function that reuses a parameter reuses what it is called with, so a call of it is an in-place call too; what a
function returns of its parameters is another name for the argument. A closure that reads a variable from outside uses
it wherever the closure itself is named, and what it returns of such is another name for it. The walk is repeated until
nothing more is known of any function.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias, TypeVar, cast

from ..derive.rules import use_span
from ..expr import (
    Binding,
    Call,
    Constant,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..ir import Diagnostic, DiagnosticError, IRModule, RelaxExpr, Span, StructInfo, walk
from ..ir.sharing import is_excessive
from ..op.intrinsics import CallInplacePacked, CallTIRInplace
from ..struct_info import TupleStructInfo

Storage: TypeAlias = "Var | Constant"
Storages: TypeAlias = "frozenset[Storage]"
FactT = TypeVar("FactT")
Value: TypeAlias = "Storages | tuple[Value, ...]"
"""The storages of a value; of a tuple, field by field."""


class Known(NamedTuple):
    """What is known of functions, by their variables, and of what variables hold."""

    consumed: dict[RelaxExpr, frozenset[int]]
    """The parameters that are reused in place."""
    returned: dict[RelaxExpr, frozenset[int]]
    """The parameters that the result may be or contain."""
    reads: dict[RelaxExpr, Storages]
    """What is used from outside of a local function."""
    captured: dict[RelaxExpr, Storages]
    """What of that the result may be or contain."""
    own: dict[Var, Value]
    """The storages that come into being with a variable, the same ones in every walk."""

    def facts(self) -> tuple[dict[RelaxExpr, frozenset[Storage | int]], ...]:
        """All that walks find out."""
        return tuple({**table} for table in (self.consumed, self.returned, self.reads, self.captured))


def check_reuse(mod: IRModule) -> None:
    """Raise DiagnosticError (E4006) with every argument that is used after it was reused in place."""
    known = Known({}, {}, {}, {}, {})
    while True:
        found: list[Diagnostic] = []
        before = known.facts()
        for global_var, func in mod.functions.items():
            if isinstance(func, Function):
                _Walk(global_var.name_hint, found, known).function(func, global_var)
        if known.facts() == before:
            break
    if found:
        raise DiagnosticError(found)


def reused_indices(call: Call) -> tuple[int, ...]:
    """The arguments that a call changes in place."""
    match call.attrs:
        case CallTIRInplace(indices) | CallInplacePacked(indices):
            return tuple(index for index in indices if index >= 0)
        case _:
            return ()


def inplace_arguments(call: Call) -> RelaxExpr:
    """The arguments that `reused_indices` counts, as a tuple."""
    return Tuple(call.args[1:]) if isinstance(call.attrs, CallInplacePacked) else call.args[1]


class _Walk:
    """One function; `values` says what storages variables hold, `taken` which are gone, and by which call."""

    def __init__(self, name: str, found: list[Diagnostic], known: Known) -> None:
        self.name = name
        self.known = known
        self.found = found
        self.values: dict[Var, Value] = {}
        self.taken: dict[Storage, Span | None] = {}
        self.outside: Storages = frozenset()
        self.reads: Storages = frozenset()
        """What the local function being walked has used from outside."""
        self.place: Span | None = None
        """Where what is being read stands: a variable knows only where it was bound."""

    def function(self, func: Function, var: RelaxExpr) -> None:
        own = [self.own(param) for param in func.params]
        self.values.update(zip(func.params, own, strict=True))
        result = flat(self.sequence(func.body))
        for outer, now in ((self.known.reads, self.reads), (self.known.captured, result)):
            outer[var] = outer.get(var, frozenset()) | (now & self.outside)
        for table, storages in ((self.known.consumed, self.taken.keys()), (self.known.returned, result)):
            now = frozenset(i for i, value in enumerate(own) if flat(value) & storages)
            table[var] = table.get(var, frozenset()) | now  # only ever more, so that the walks end

    def own(self, var: Var) -> Value:
        """The storages that come into being with a variable."""
        if var not in self.known.own:
            self.known.own[var] = own_storages(var, var.struct_info_)
        return self.known.own[var]

    def of_callee(self, call: Call, table: dict[RelaxExpr, frozenset[FactT]]) -> frozenset[FactT]:
        """What a table says of the functions that a call may enter."""
        callees = {call.op, *flat(self.held(call.op))}
        return frozenset[FactT]().union(*(table.get(callee, ()) for callee in callees))

    def sequence(self, expr: RelaxExpr) -> Value:
        seq = cast(SeqExpr, expr)  # in normal form, bodies and branches are
        for block in seq.blocks:
            for binding in block.bindings:
                self.place = use_span(getattr(binding, "value", binding.var)) or binding.span
                self.values[binding.var] = self.binding(binding)
        self.place = seq.span
        self.use(seq.body)
        return self.held(seq.body)

    def binding(self, binding: Binding) -> Value:
        """What storages the bound variable holds; complains of what its value uses."""
        match binding:
            case VarBinding(_, If() as branch):
                return self.branches(branch)
            case VarBinding(var, Function() as func):
                self.values[var] = frozenset({var})
                self.local(func, var)
                return frozenset({var})
            case VarBinding(var, Call() as call):
                self.use(call)
                captured = self.of_callee(call, self.known.captured)
                returned = [flat(self.held(call.args[i])) for i in self.of_callee(call, self.known.returned)]
                self.take(call)
                own = self.own(var)
                return flat(own).union(captured, *returned) if returned or captured else own
            case VarBinding(var, Constant()):
                return frozenset({var})  # each evaluation of a constant gives a fresh tensor
            case _:
                value = cast("VarBinding | MatchCast", binding).value
                self.use(value)
                return self.held(value)

    def branches(self, expr: If) -> Value:
        self.use(expr.cond)
        before = dict(self.taken)
        first = self.sequence(expr.true_branch)
        after, self.taken = self.taken, dict(before)
        second = self.sequence(expr.false_branch)
        # What one branch took is still there when the other one ran.
        gone = after.keys() - before.keys(), self.taken.keys() - before.keys()
        self.taken.update(after)
        if same_value(first, second) and not (flat(first) & (gone[0] | gone[1])):
            return first
        return (flat(first) - gone[1]) | (flat(second) - gone[0])

    def local(self, func: Function, var: Var) -> None:
        outside, reads, taken = self.outside, self.reads, dict(self.taken)
        self.outside = outside.union(*(flat(value) for value in self.values.values()))
        self.reads = frozenset()
        self.function(func, var)
        self.outside, self.reads, self.taken = outside, reads | (self.reads & outside), taken

    def held(self, expr: RelaxExpr) -> Value:
        """The storages a leaf or a projection surely consists of."""
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
        """Complain of taken storages that an expression names."""
        if isinstance(expr, TupleGetItem):
            self.used(expr, flat(self.held(expr)))
        else:
            walk(expr, lambda item: self.used(item, flat(self.held(item))) if isinstance(item, Var) else None)

    def used(self, expr: RelaxExpr, storages: Storages) -> None:
        read = frozenset[Storage]().union(*(self.known.reads.get(item, ()) for item in storages))
        self.reads |= storages | read
        what = expr.name_hint if isinstance(expr, Var) else "the field of a tuple"
        place = use_span(expr) or self.place
        for storage in (storages | read) & self.taken.keys():
            origin = storage.name_hint if isinstance(storage, Var) else "a constant"
            alias = "" if what == origin else f", which is {origin},"
            if storage not in storages:
                alias = f", a function that reads {origin},"
            self.report(f"{what}{alias} is used after it was reused in place", place, storage)

    def take(self, call: Call) -> None:
        """Mark the storages of the arguments a call reuses."""
        consumed = sorted(self.of_callee(call, self.known.consumed))
        indices = consumed or reused_indices(call)
        if not indices:
            return
        args = self.held(Tuple(call.args) if consumed else inplace_arguments(call))
        for index in indices:
            if isinstance(args, tuple):
                mine, rest = flat(args[index]), [flat(arg) for i, arg in enumerate(args) if i != index]
            else:  # a value that may be a tuple is one storage, whichever field is reused
                mine, rest = args, []
            self.check_taken(call, index, mine, frozenset[Storage]().union(*rest))
            self.taken.update((storage, call.span) for storage in mine)

    def check_taken(self, call: Call, index: int, storages: Storages, others: Storages) -> None:
        what = f"argument {index} of an in-place call"
        if any(isinstance(storage, Constant) for storage in storages):
            self.report(f"{what} is a constant, which cannot be changed", call.span)
        elif storages & self.outside:
            self.report(f"{what} comes from outside the local function, which may run again", call.span)
        elif storages & others:
            self.report(f"{what} is given to the call a second time", call.span)

    def report(self, message: str, span: Span | None, storage: Storage | None = None) -> None:
        taken_at = self.taken.get(storage) if storage is not None else None
        notes = () if taken_at is None else (f"it was reused at {taken_at}",)
        hint = "use the result of the in-place call instead, or the call that allocates"
        self.found.append(Diagnostic("E4006", message, span, f"in {self.name}", notes, hint))


PLACES = 2_000
"""A tuple whose struct info takes more places than this, because it is shared, is one storage as a whole."""


def own_storages(var: Var, info: StructInfo | None) -> Value:
    """New storages for the value of a variable; of a tuple, one for each field."""
    if not isinstance(info, TupleStructInfo) or is_excessive(info, PLACES):
        return frozenset({var})
    parts = [Var(f"{var.name_hint}[{i}]") for i in range(len(info.fields))]
    return tuple(own_storages(part, field) for part, field in zip(parts, info.fields, strict=True))


def flat(value: Value) -> Storages:
    """All the storages of a value."""
    if not isinstance(value, tuple):
        return value
    found: set[Storage] = set()
    seen: set[int] = set()
    pending: list[Value] = [value]
    while pending:
        part = pending.pop()
        if id(part) not in seen:
            seen.add(id(part))
            if isinstance(part, tuple):
                pending += part
            else:
                found |= part
    return frozenset(found)


def same_value(first: Value, second: Value) -> bool:
    """Whether two values are made of the same storages, field by field."""
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
