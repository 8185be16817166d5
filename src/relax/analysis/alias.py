"""Aliases and lifetimes in one function: which values may share memory, what calls do to them, when they are dead.

    aliases = Aliases(func, mod)
    aliases.may_share(x, y)         x and y may overlap, or one may contain the other
    aliases.may_write(call, x)      the call may change x, under whatever name
    aliases.escapes(x)              somebody besides this function may refer to x
    aliases.live_after(binding)     storages whose elements may be asked for after a binding
    aliases.live_ranges()           for each storage, the first and the last binding that need it: for memory planning

Every answer is on the safe side: False says that it is certain. Parameters may share memory with each other, and with
anything that a function of which nothing is known has been given, or has returned. Views count as sharing.

Bindings are numbered in evaluation order, those of both branches of an If included, the true branch first.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cached_property

from ..expr import Binding, Call, Function, If, MatchCast, SeqExpr, Tuple, TupleGetItem, Var, VarBinding
from ..ir import IRModule, Node, RelaxExpr, walk
from ..op import is_call_of
from ..op.storage import TensorInStorage
from ..runtime.records import dataclass
from .effects import CallEffects, effects_of
from .storages import Storage, Storages, StorageWalk, Value, flat


@dataclass(frozen=True)
class LiveRange:
    """Lifetime of a storage, in numbers of bindings."""

    storage: Storage
    """The variable that creates the storage; for a tuple, each field has its own entry."""
    first: int
    last: int | None
    """Last binding that uses the storage under any alias; None if it escapes and outlives the function."""


class Aliases:
    """Alias and lifetime queries on the values of one function, local functions excluded; see the module docstring."""

    def __init__(self, func: Function, mod: IRModule | None = None, *, tensors_apart: bool = False) -> None:
        """Analyse a function.

        Parameters
        ----------
        tensors_apart
            True: tensors cut from one storage (memory.alloc_tensor) count as storages of their own, as if each had
            memory to itself. That is how a plan of memory is judged.
        """
        self._walk = _AliasWalk(mod, tensors_apart)
        gone = flat(self._walk.function(func)) | self._walk.foreign
        last = self._walk.last
        self._ranges = {
            storage: LiveRange(storage, first, None if storage in gone else last.get(storage, first))
            for storage, first in self._walk.created.items()
        }
        self._func, self._mod = func, mod

    @cached_property
    def _own(self) -> frozenset[Var]:
        return own_variables(self._func, self._mod)

    @property
    def variables(self) -> list[Var]:
        """The variables that are bound, in order."""
        return list(self._walk.positions)

    def storages(self, value: RelaxExpr) -> Storages:
        """The storages that a leaf or a projection may consist of."""
        return flat(self._walk.held(value))

    def may_share(self, a: RelaxExpr, b: RelaxExpr) -> bool:
        """True if two values may share memory."""
        first, second = self.storages(a), self.storages(b)
        return bool(first & second) or (self._is_foreign(first) and self._is_foreign(second))

    def may_read(self, call: Call, value: RelaxExpr) -> bool:
        """True if a call may read the elements of a value."""
        effects = self._walk.effects(call)
        return self._touches(effects, effects.reads, value)

    def may_write(self, call: Call, value: RelaxExpr) -> bool:
        """True if a call may write the elements of a value."""
        effects = self._walk.effects(call)
        return self._touches(effects, effects.writes, value)

    def escapes(self, var: Var) -> bool:
        """True if the caller, or a function that received it, may still refer to the value of a variable."""
        return var not in self._own

    def position(self, binding: Binding) -> int:
        """The number of a binding."""
        return self._walk.positions[binding.var]

    def live_ranges(self) -> Mapping[Storage, LiveRange]:
        """The lifetimes of the storages that come into being in the function, in order of evaluation."""
        return self._ranges

    def live_after(self, binding: Binding) -> Storages:
        """The storages made up to a binding that are used after it."""
        at = self.position(binding)
        return frozenset(
            storage
            for storage, range_ in self._ranges.items()
            if range_.first <= at and (range_.last is None or range_.last > at)
        )

    def _touches(self, effects: CallEffects, args: Sequence[RelaxExpr], value: RelaxExpr) -> bool:
        if any(self.may_share(arg, value) for arg in args):
            return True
        # A function that keeps things may touch all that it, or another one, was ever given.
        return bool(effects.keeps and args) and self._is_foreign(self.storages(value))

    def _is_foreign(self, storages: Storages) -> bool:
        """True if unknown functions may reach some of the storages."""
        return any(s not in self._walk.created or s in self._walk.foreign for s in storages)


class _AliasWalk(StorageWalk):
    """Walk that collects the tables behind `Aliases`."""

    def __init__(self, mod: IRModule | None, tensors_apart: bool) -> None:
        super().__init__()
        self.mod = mod
        self.tensors_apart = tensors_apart
        self.count = 0
        """Bindings seen so far."""
        self.positions: dict[Var, int] = {}
        self.created: dict[Storage, int] = {}
        """The storages that come into being in the function, with the number of the binding."""
        self.last: dict[Storage, int] = {}
        """The number of the last binding that uses a storage."""
        self.foreign: set[Storage] = set()
        """Storages passed to or returned by an unknown function."""
        self.depth = 0
        self._effects: dict[Call, CallEffects] = {}

    def effects(self, call: Call) -> CallEffects:
        """The effects of a call."""
        if call not in self._effects:
            self._effects[call] = effects_of(call, self.mod)
        return self._effects[call]

    def bound(self, binding: Binding) -> None:
        if not self.depth:
            self.positions[binding.var] = self.count
            self.count += 1

    def binding(self, binding: Binding) -> Value:
        at = self.count - 1
        value = super().binding(binding)
        if not self.depth:
            for storage in flat(value):
                if storage not in self.created and self.is_new(storage, binding):
                    self.created[storage] = at
        return value

    def is_new(self, storage: Storage, binding: Binding) -> bool:
        """True if a storage comes into being with a binding."""
        own = self.summaries.own.get(binding.var)
        return storage is binding.var or (own is not None and storage in flat(own))

    def aliased(self, call: Call) -> Iterable[RelaxExpr]:
        if self.tensors_apart and is_call_of(call, TensorInStorage):
            return ()
        effects = self.effects(call)
        return [arg for arg in effects.aliases if arg not in effects.keeps]

    def called(self, call: Call) -> None:
        for arg in self.effects(call).keeps:
            self.foreign |= flat(self.held(arg))

    def result(self, call: Call, var: Var) -> Value:
        value = super().result(call, var)
        if self.effects(call).keeps:
            self.foreign |= flat(value)
        return value

    def body(self, func: Function, var: Var) -> None:
        """A local function keeps the storages of its surroundings that it reads."""
        self.depth += 1
        super().body(func, var)
        self.depth -= 1
        self.foreign |= self.reads & self.outside

    def complain(self, expr: RelaxExpr, storages: Storages, read: Storages) -> None:
        at = self.count - 1
        self.last.update((storage, at) for storage in storages)


# ------------------------------------------------------------------------------------ escapes


def own_variables(func: Function, mod: IRModule | None = None) -> frozenset[Var]:
    """Return the variables bound in a function, local functions excluded, whose values nothing else refers to.

    The results of branches count as referred to by others.
    """
    bindings: list[Binding] = []
    seen: set[Var] = set()

    def collect(expr: RelaxExpr) -> None:
        for block in expr.blocks if isinstance(expr, SeqExpr) else ():
            for binding in block.bindings:
                bindings.append(binding)
                if isinstance(binding, VarBinding) and isinstance(binding.value, If):
                    collect(binding.value.true_branch)
                    collect(binding.value.false_branch)
        seen.update(variables_in([expr.body if isinstance(expr, SeqExpr) else expr]))

    collect(func.body)
    return private_variables(bindings, seen, mod)


def private_variables(
    bindings: Sequence[Binding], seen: Iterable[Var], mod: IRModule | None = None, reading: Container[Call] = ()
) -> frozenset[Var]:
    """The variables bound by these whose values others cannot refer to or change, if they refer to `seen`.

    A value reaches others under another name (a tuple, a view), through a call that may keep or change it, and
    through a local function that mentions it. Other readers of the same storage do not count. The calls `reading`
    are known to do nothing else (`effects.only_reads`).
    """
    escaping = set(seen)
    for binding in reversed(bindings):
        value = binding.value if isinstance(binding, VarBinding | MatchCast) else None
        if value is None or isinstance(value, If):  # the results of its branches are among `seen`
            continue
        if isinstance(value, Call):
            if value in reading:
                continue
            effects = effects_of(value, mod)
            escaping |= variables_in([*effects.keeps, *effects.writes])
            if binding.var in escaping:
                escaping |= variables_in(effects.aliases)
        elif isinstance(value, Var | Tuple | TupleGetItem):
            if binding.var in escaping:  # another name of what it names
                escaping |= variables_in([value])
        else:
            escaping |= variables_in([value])
    return frozenset(binding.var for binding in bindings if binding.var not in escaping)


def variables_in(exprs: Iterable[RelaxExpr]) -> set[Var]:
    """The variables that occur in some expressions."""
    variables: set[Var] = set()

    def visit(item: Node) -> None:
        if isinstance(item, Var):
            variables.add(item)

    for expr in exprs:
        walk(expr, visit)
    return variables
