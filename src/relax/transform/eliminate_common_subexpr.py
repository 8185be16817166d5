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
from typing import Any, NamedTuple, cast

from ..analysis.alias import own_variables
from ..analysis.effects import any_call, effects_of
from ..derive.normalize import merge_blocks
from ..derive.substitution import Substitution
from ..expr import (
    Binding,
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
from .canonicalize_bindings import same_info
from .decorators import function_pass
from .rebuild import same_or
from .rewrite_dataflow_reshape import private_in_block


@function_pass(opt_level=1)
def EliminateCommonSubexpr(func: Function, mod: IRModule, call_only: bool = False) -> Function:
    """Merge equal computations; with `call_only`, calls alone. See the module's docstring."""
    return cast(Function, _Eliminator(call_only).node(func))


_SMALL = 4096
"""Bytes of a constant that is compared by its contents."""


class _Eliminator(Substitution):
    """One forward walk; `variables` replaces what was computed before."""

    def __init__(self, call_only: bool) -> None:
        super().__init__({}, {})
        self.call_only = call_only
        self.changes = False
        """Whether the function may change a tensor."""
        self.own: set[Var] = set()
        """Variables that only this function reads."""
        self.in_dataflow = False
        self.private: set[Var] = set()
        """Variables that only the dataflow block reads."""
        self.seen = _Seen()

    def function(self, func: Function) -> Function:
        outer = self.changes, self.own, self.seen
        self.changes, self.own, self.seen = (
            any_call(func, lambda effects: effects.may_change),
            set(own_variables(func)),
            _Seen(),
        )
        new = super().function(func)
        self.changes, self.own, self.seen = outer
        return new

    def seq(self, seq: SeqExpr) -> SeqExpr:
        mark = self.seen.mark()
        new = super().seq(seq)
        self.seen.back_to(mark)
        if all(block.bindings for block in new.blocks):
            return new
        return new.replace(blocks=merge_blocks([block for block in new.blocks if block.bindings]))

    def block(self, block: BindingBlock) -> BindingBlock:
        outer = self.in_dataflow, self.private
        dataflow = self.in_dataflow = isinstance(block, DataflowBlock)
        self.private = set(private_in_block(block))
        mark = self.seen.mark()
        kept = [new for new in map(self.merged, block.bindings) if new is not None]
        self.in_dataflow, self.private = outer
        if dataflow:
            outputs = [entry for entry in self.seen.since(mark) if not isinstance(entry.var, DataflowVar)]
            self.seen.back_to(mark)
            for entry in outputs:
                self.seen.add(entry)
        return block.replace(bindings=same_or(block.bindings, kept))

    def merged(self, binding: Binding) -> Binding | None:
        """The binding, of an earlier variable if it computes the same; None if that one takes its place."""
        new = self.binding(binding)
        if not isinstance(new, VarBinding):
            return new
        if isinstance(new.value, Call) and effects_of(new.value).may_change:
            self.seen.clear()
            return new
        key = self.key(new.value)
        if key is None:
            return new
        code = quick_hash(key)
        for entry in self.seen.alike(code):
            fits = structural_equal(entry.key, key) and same_info(
                entry.var.struct_info_, new.var.struct_info_
            )
            if fits and self.may_merge(entry.var, new.var):
                return self.replaced(binding, new, entry.var)
        self.seen.add(_Entry(code, key, new.var))
        return new

    def may_merge(self, earlier: Var, later: Var) -> bool:
        """Whether nobody can tell if two variables hold one tensor or two equal ones."""
        owned = (earlier in self.own) + (later in self.own)
        return owned > self.changes or earlier in self.private or later in self.private

    def replaced(self, binding: Binding, new: VarBinding, earlier: Var) -> Binding | None:
        """What is left of a binding whose value an earlier variable has."""
        for readers in (self.own, self.private):
            if new.var not in readers:
                readers.discard(earlier)
        if isinstance(new.var, DataflowVar) or not self.in_dataflow:
            self.variables[binding.var] = earlier
            return None
        return new.replace(value=earlier)

    def key(self, value: RelaxExpr) -> Any:
        """What a computation is; None if it is not to be merged."""
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
        case Constant(data) if data.nbytes > _SMALL:
            return id(data)
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
    """The computations whose results may be used, with a way back to what was known before a scope."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._by_code: dict[int, list[_Entry]] = {}
        self._generation = 0

    def alike(self, code: int) -> Sequence[_Entry]:
        """The entries of a hash."""
        return self._by_code.get(code, ())

    def add(self, entry: _Entry) -> None:
        self._entries.append(entry)
        self._by_code.setdefault(entry.code, []).append(entry)

    def clear(self) -> None:
        """Forget all, for the scopes around this one too."""
        self._entries, self._by_code = [], {}
        self._generation += 1

    def mark(self) -> tuple[int, int]:
        """A place to come back to."""
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
