"""Compute once what a function computes twice.

Before   with R.dataflow():                    After   with R.dataflow():
             lv0 = R.exp(x)                                lv0 = R.exp(x)
             lv1 = R.exp(x)                                gv = R.add(lv0, lv0)
             gv = R.add(lv0, lv1)                          R.output(gv)
             R.output(gv)

Equal are calls of the same operator or kernel with equal arguments, attributes and results, and projections. What was
computed before an If is not computed again in its branches. Local functions are walked by themselves.

Every call gives a fresh tensor, so two results become one only where nobody can tell. In a function that changes no
tensor, at most one of the two may be referred to by others (`analysis.alias.own_variables`). In a function that may
(impure calls, calls in place, calls of functions), neither may be; and what was computed before such a call is not
used after it. In a dataflow block that changes nothing, at most one may be seen outside the block
(`private_in_block`).

Left alone: allocations and other intrinsics, packed functions, calls of functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..analysis.alias import own_variables
from ..analysis.effects import any_call, effects_of
from ..analysis.properties import NORMAL_FORM
from ..expr import (
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Function,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from ..ir import IRModule, Op, RelaxExpr, quick_hash, structural_equal
from ..op import operator_of
from ..op.intrinsic import Intrinsic
from ..op.intrinsics import CallTIR
from ..rewrite import Rewriter, bindings_in
from .canonicalize_bindings import same_info
from .decorators import function_pass
from .rewrite_dataflow_reshape import private_in_block


@function_pass(opt_level=1, needs={NORMAL_FORM}, breaks=())
def EliminateCommonSubexpr(func: Function, mod: IRModule, call_only: bool = False) -> Function:
    """Merge equal computations; with `call_only`, calls alone. See the module's docstring."""
    return _Eliminator(mod, call_only).rewrite_function(func)


_SMALL = 4096
"""Size in bytes up to which constants are compared by contents."""


class _Eliminator(Rewriter):
    """One forward walk; `variables` replaces what was computed before."""

    def __init__(self, mod: IRModule, call_only: bool) -> None:
        super().__init__(mod)
        self.call_only = call_only
        self.changes = False
        """True if the function may change a tensor."""
        self.own: set[Var] = set()
        """Variables that only this function reads."""
        self.private: set[Var] = set()
        """Variables that only the dataflow block reads."""
        self.seen = _Seen()

    def concerns(self, function: Function) -> bool:
        """True if an operator is called twice, or an item of some tuple is taken twice."""
        seen: set[Op | int] = set()
        for binding in bindings_in(function):
            match binding.value:
                case Call(Op() as key) | TupleGetItem(_, key):
                    if key in seen:
                        return True
                    seen.add(key)
                case _:
                    pass
        return False

    def function(self, function: Function) -> RelaxExpr:
        outer = self.changes, self.own, self.seen
        self.changes, self.seen = any_call(function, lambda effects: effects.may_change), _Seen()
        self.own = set(own_variables(function))
        new = super().function(function)
        self.changes, self.own, self.seen = outer
        return new

    def seq(self, seq: SeqExpr) -> RelaxExpr:
        mark = self.seen.mark()
        new = super().seq(seq)
        self.seen.back_to(mark)
        return new

    def block(self, block: BindingBlock) -> BindingBlock:
        outer = self.private
        dataflow = isinstance(block, DataflowBlock)
        self.private = set(private_in_block(block))
        mark = self.seen.mark()
        new = super().block(block)
        self.private = outer
        if dataflow:
            outputs = [entry for entry in self.seen.since(mark) if not isinstance(entry.var, DataflowVar)]
            self.seen.back_to(mark)
            for entry in outputs:
                self.seen.add(entry)
        return new

    def bind(self, binding: VarBinding, value: RelaxExpr, var: Var | None = None) -> Var:
        """Emit the binding, unless an earlier variable has its value and takes its place."""
        if isinstance(value, Call) and effects_of(value).may_change:
            self.seen.clear()
            return super().bind(binding, value, var)
        key = self.key(value)
        if key is None:
            return super().bind(binding, value, var)
        code = quick_hash(key)
        var = self.redefined(binding.var) if var is None else var
        for entry in self.seen.alike(code):
            fits = structural_equal(entry.key, key) and same_info(entry.var.struct_info_, var.struct_info_)
            if fits and self.may_merge(entry.var, var):
                return self.merge(binding, var, entry.var)
        var = super().bind(binding, value, var)
        self.seen.add(_Entry(code, key, var))
        return var

    def may_merge(self, earlier: Var, later: Var) -> bool:
        """True if it is unobservable whether two variables hold the same tensor or equal ones."""
        owned = (earlier in self.own) + (later in self.own)
        return owned > self.changes or earlier in self.private or later in self.private

    def merge(self, binding: VarBinding, var: Var, earlier: Var) -> Var:
        """Replace a variable by an earlier one; an output of a dataflow block is bound to it."""
        for readers in (self.own, self.private):
            if var not in readers:
                readers.discard(earlier)
        if isinstance(var, DataflowVar) or not self.builder.in_dataflow:
            self.variables[binding.var] = earlier
            return earlier
        return super().bind(binding, earlier, var)

    def key(self, value: RelaxExpr) -> Any:
        """The key of a computation; None if it is not to be merged."""
        match value:
            case TupleGetItem(source, index) if not self.call_only:
                return (source, index)
            case Call(Op() as op, args, attrs, sinfo_args):
                operator = operator_of(value)
                plain = operator is not None and operator.pure and operator.packed is None
                if isinstance(operator, CallTIR) or (plain and not isinstance(operator, Intrinsic)):
                    return (op, tuple(map(comparable, args)), attrs, sinfo_args)
            case _:
                pass
        return None


def comparable(arg: RelaxExpr) -> Any:
    """An argument as part of a key: a large constant is equal to itself only, so that it need not be read."""
    match arg:
        case Constant() if arg.content.nbytes > _SMALL:
            return id(arg.content)
        case Tuple(fields):
            return tuple(map(comparable, fields))
        case _:
            return arg


class _Entry(NamedTuple):
    """A computation and the variable that has its result."""

    code: int
    key: Any
    var: Var


class _Seen:
    """Available computations, with rollback at the end of a scope."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._by_code: dict[int, list[_Entry]] = {}
        self._generation = 0

    def alike(self, code: int) -> Sequence[_Entry]:
        """Return the entries with a hash."""
        return self._by_code.get(code, ())

    def add(self, entry: _Entry) -> None:
        self._entries.append(entry)
        self._by_code.setdefault(entry.code, []).append(entry)

    def clear(self) -> None:
        """Forget all entries, those of enclosing scopes included."""
        self._entries, self._by_code = [], {}
        self._generation += 1

    def mark(self) -> tuple[int, int]:
        """Return a mark for `back_to`."""
        return self._generation, len(self._entries)

    def since(self, mark: tuple[int, int]) -> list[_Entry]:
        """The entries added since a mark."""
        generation, count = mark
        return self._entries[count if generation == self._generation else 0 :]

    def back_to(self, mark: tuple[int, int]) -> None:
        """Forget what was added since a mark."""
        for entry in reversed(self.since(mark)):
            self._entries.pop()
            self._by_code[entry.code].pop()
