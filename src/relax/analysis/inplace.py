"""Check that no argument is used after a call reused it in place (language.md §7.3).

The check walks in evaluation order, with the storages of every variable (`storages`). An in-place call takes the
storages of the arguments it reuses; naming one of them later, under whatever name, is an error. So is reusing a
constant that no variable is bound to, a value from outside a local function (which may run again), or one that the
same call is given twice.

A function that reuses a parameter reuses what it is called with, so a call of it is an in-place call too; what a
function returns of its parameters is another name for the argument. A closure that reads a variable from outside uses
it wherever the closure itself is named, and what it returns of such is another name for it. The walk is repeated until
nothing more is known of any function.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..derive.rules import use_span
from ..expr import Call, Constant, Function, If, SeqExpr, Tuple, Var
from ..ir import Diagnostic, DiagnosticError, IRModule, RelaxExpr, Span
from ..op.base import operator_of
from .effects import returned_arguments
from .storages import Storage, Storages, StorageWalk, Summaries, Value, flat, same_value


def check_reuse(mod: IRModule) -> None:
    """Raise DiagnosticError (E4006) with every argument that is used after it was reused in place."""
    if not any(isinstance(func, Function) and _reuses(func) for func in mod.functions.values()):
        return
    summaries = Summaries({}, {}, {}, {}, {})
    while True:
        diagnostics: list[Diagnostic] = []
        before = summaries.facts()
        for global_var, func in mod.functions.items():
            if isinstance(func, Function):
                _ReuseWalk(global_var.name_hint, diagnostics, summaries).summarize(func, global_var)
        if summaries.facts() == before:
            break
    if diagnostics:
        raise DiagnosticError(diagnostics)


def _reuses(func: Function) -> bool:
    """True if some call in a function reuses arguments in place."""
    pending: list[RelaxExpr] = [func.body]
    while pending:
        item = pending.pop()
        if isinstance(item, SeqExpr):
            values = [getattr(binding, "value", None) for block in item.blocks for binding in block.bindings]
            if any(_reuses_arguments(value) for value in values if isinstance(value, Call)):
                return True
            pending += [value for value in values if isinstance(value, (If, Function))]
        elif isinstance(item, If):
            pending += [item.true_branch, item.false_branch]
        elif isinstance(item, Function):
            pending.append(item.body)
    return False


def _reuses_arguments(call: Call) -> bool:
    operator = operator_of(call)
    return operator is not None and bool(operator.reused(call)[1])


class _ReuseWalk(StorageWalk):
    """Walk of one function; `taken` maps storages reused in place to the call that reused them."""

    def __init__(self, name: str, diagnostics: list[Diagnostic], summaries: Summaries) -> None:
        super().__init__(summaries)
        self.name = name
        self.found = diagnostics
        self.taken: dict[Storage, Span | None] = {}

    def summarize(self, func: Function, var: RelaxExpr) -> None:
        """Walk a function, and add what it does to the summaries."""
        result = flat(self.function(func))
        summaries = self.summaries
        for outer, now in ((summaries.reads, self.reads), (summaries.captured, result)):
            outer[var] = outer.get(var, frozenset()) | (now & self.outside)
        own = [self.own(param) for param in func.params]
        for table, storages in ((summaries.consumed, self.taken.keys()), (summaries.returned, result)):
            now = frozenset(i for i, value in enumerate(own) if flat(value) & storages)
            table[var] = table.get(var, frozenset()) | now  # only ever more, so that the walks end

    def body(self, func: Function, var: Var) -> None:
        taken = dict(self.taken)
        self.summarize(func, var)
        self.taken = taken

    def aliased(self, call: Call) -> Iterable[RelaxExpr]:
        return returned_arguments(call)

    def branches(self, expr: If) -> Value:
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

    def complain(self, expr: RelaxExpr, storages: Storages, read: Storages) -> None:
        name = expr.name_hint if isinstance(expr, Var) else "the field of a tuple"
        span = use_span(expr) or self.place
        for storage in (storages | read) & self.taken.keys():
            origin = storage.name_hint if isinstance(storage, Var) else "a constant"
            alias = "" if name == origin else f", which is {origin},"
            if storage not in storages:
                alias = f", a function that reads {origin},"
            self.report(f"{name}{alias} is used after it was reused in place", span, storage)

    def called(self, call: Call) -> None:
        """Mark the storages of the arguments a call reuses."""
        consumed = sorted(self.of_callee(call, self.summaries.consumed))
        operator = operator_of(call)
        reused = (Tuple(()), ()) if operator is None else operator.reused(call)
        tuple_, indices = (Tuple(call.args), consumed) if consumed else reused
        args = self.held(tuple_)
        for index in indices:
            if isinstance(args, tuple):
                mine, rest = flat(args[index]), [flat(arg) for i, arg in enumerate(args) if i != index]
            else:  # a value that may be a tuple is one storage, whichever field is reused
                mine, rest = args, []
            self.check_taken(call, index, mine, frozenset[Storage]().union(*rest))
            self.taken.update((storage, call.span) for storage in mine)

    def check_taken(self, call: Call, index: int, storages: Storages, other_storages: Storages) -> None:
        subject = f"argument {index} of an in-place call"
        if any(isinstance(storage, Constant) for storage in storages):
            self.report(f"{subject} is a constant, which cannot be changed", call.span)
        elif storages & self.outside:
            self.report(f"{subject} comes from outside the local function, which may run again", call.span)
        elif storages & other_storages:
            self.report(f"{subject} is given to the call a second time", call.span)

    def report(self, message: str, span: Span | None, storage: Storage | None = None) -> None:
        taken_at = self.taken.get(storage) if storage is not None else None
        notes = () if taken_at is None else (f"it was reused at {taken_at}",)
        hint = "use the result of the in-place call instead, or the call that allocates"
        self.found.append(Diagnostic("E4006", message, span, f"in {self.name}", notes, hint))
