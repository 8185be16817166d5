"""Arenas: which allocations of a function share one storage, and where the storage is allocated.

An allocation joins an arena if

* nobody refers to its tensor after the function's own last use (`relax.analysis.alias`): what is returned, captured, or
  given to a function that may keep it stays an allocation of its own;
* the shape variables of its size have values where the arena is allocated, and computing it cannot divide by zero;
* it lies on the same virtual device, which is none that is named;
* it lives across a call that may enter this function again, as all in the arena do, or as none do: memory that is not
  needed meanwhile is not held by each of many activations;
* on the way from the arena to it there is no effect, check or branch, or it is at most `GROWTH` times as large as
  what was in memory before: an allocation that an assertion guards is not made before the assertion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import field
from typing import Final

from ...analysis.alias import Aliases
from ...analysis.effects import effects_of
from ...expr import Binding, Call, Function, If, MatchCast, PrimValue, SeqExpr, ShapeExpr, StringImm, Var, VarBinding
from ...info.mapping import bound_in
from ...ir import GlobalVar, IRModule, RelaxExpr
from ...op import is_call_of
from ...op.intrinsics import ClosureCall
from ...op.storage import BuiltinAllocTensor
from ...prim import IntImm
from ...prim import Var as PrimVar
from ...runtime.dtypes import itemsize
from ...runtime.records import dataclass
from ...struct_info import TensorStructInfo
from ...tir import PrimFunc
from .sizes import Monomial, Size, SizeTable

Path = tuple[tuple[int, bool], ...]
"""The branches around a binding, from outside in: the number of the If, and which of its branches."""

GROWTH: Final = 16


@dataclass(frozen=True)
class Block:
    """A tensor to be placed in an arena."""

    var: Var
    size: Size
    first: int
    last: int
    path: Path

    def meets(self, other: Block) -> bool:
        """True if two tensors may be alive at once: their lifetimes overlap, and no If excludes one."""
        if self.first > other.last or other.first > self.last:
            return False
        pairs = zip(self.path, other.path, strict=False)
        return not any(a[0] == b[0] and a[1] != b[1] for a, b in pairs)


@dataclass
class Arena:
    """A storage, allocated before the first of its tensors."""

    kind: tuple[object, ...]
    """Key shared by all its tensors: device, scope, and liveness across calls that may recurse."""
    path: Path
    variables: frozenset[PrimVar]
    blocks: list[Block] = field(default_factory=list[Block])
    limit: Mapping[Monomial, int] | None = None
    """Once something stands between: the greatest coefficient of each term that may still join. None: any."""

    def admits(self, block: Block, kind: tuple[object, ...], table: SizeTable) -> bool:
        """True if a tensor may join."""
        if kind != self.kind or block.path[: len(self.path)] != self.path:
            return False
        if self.limit is not None and any(c > self.limit.get(m, 0) for m, c in block.size.items()):
            return False
        return self.variables.issuperset(table.variables(block.size))


def arenas_of(func: Function, mod: IRModule, recursive: Set[str], table: SizeTable) -> list[Arena]:
    """The arenas of a function, in order of allocation, each with its tensors in order of birth.

    `recursive` has the names of the functions that may come to call themselves.
    """
    walk = _ArenaWalk(func, mod, recursive, table)
    assert isinstance(func.body, SeqExpr)
    walk.sequence(func.body, ())
    return walk.arenas


def is_allocation(value: object) -> bool:
    """True for calls of builtin.alloc_tensor."""
    return isinstance(value, Call) and is_call_of(value, BuiltinAllocTensor)


class _ArenaWalk:
    """Walks a function in order of evaluation, and puts each allocation into an arena."""

    def __init__(self, func: Function, mod: IRModule, recursive: Set[str], table: SizeTable) -> None:
        self.mod = mod
        self.aliases = Aliases(func, mod)
        self.table = table
        self.ranges = self.aliases.live_ranges()
        self.arenas: list[Arena] = []
        self.variables = {v for param in func.params if param.struct_info_ for v in bound_in(param.struct_info_)}
        self.seen: dict[Monomial, int] = {}
        """The greatest coefficient of each term among the tensors in memory so far."""
        self.entries = [
            self.aliases.position(binding) for binding in bindings_of(func.body) if _may_enter(binding, recursive)
        ]
        """The numbers of the bindings that may call this function again."""
        for param in func.params:
            self.see(param)

    def sequence(self, seq: SeqExpr, path: Path) -> None:
        before = set(self.variables)
        for block in seq.blocks:
            for binding in block.bindings:
                self.binding(binding, path)
        self.variables = before

    def binding(self, binding: Binding, path: Path) -> None:
        if isinstance(binding, MatchCast):
            self.guard()
            self.variables |= set(bound_in(binding.struct_info))
            return
        assert isinstance(binding, VarBinding)
        value = binding.value
        if isinstance(value, If):
            at = self.aliases.position(binding)
            for taken, branch in ((True, value.true_branch), (False, value.false_branch)):
                self.guard()
                assert isinstance(branch, SeqExpr)
                self.sequence(branch, (*path, (at, taken)))
            self.guard()
        elif isinstance(value, Call) and is_allocation(value):
            self.allocation(binding.var, value, path)
            self.see(binding.var)
        elif isinstance(value, Call) and not self.is_kernel(value) and not effects_of(value, self.mod).pure:
            self.guard()

    def is_kernel(self, call: Call) -> bool:
        return isinstance(call.op, GlobalVar) and isinstance(self.mod.get(call.op), PrimFunc)

    def allocation(self, var: Var, call: Call, path: Path) -> None:
        size = self.size_of(var)
        life = self.ranges.get(var)
        if size is None or life is None or life.last is None:
            return
        match call.args[2:]:
            case (PrimValue(IntImm(_, device)), StringImm(scope)):
                segment = sum(at < life.first for at in self.entries)
                crosses = any(life.first < at < life.last for at in self.entries)
                kind = (device, scope, segment, crosses)
            case _:
                return
        block = Block(var, size, life.first, life.last, path)
        arena = next((arena for arena in self.arenas if arena.admits(block, kind, self.table)), None)
        if arena is None:
            arena = Arena(kind, path, frozenset(self.variables))
            self.arenas.append(arena)
        arena.blocks.append(block)

    def size_of(self, var: Var) -> Size | None:
        """The bytes of a tensor; None if they are not known, or it is on a named device."""
        info = var.struct_info_
        if not isinstance(info, TensorStructInfo) or info.dims is None or info.dtype.is_void:
            return None
        if info.vdevice is not None or not isinstance(info.shape, ShapeExpr):
            return None
        return self.table.of_tensor(info.dims, itemsize(str(info.dtype)))

    def see(self, var: Var) -> None:
        """Count a tensor among those in memory."""
        for monomial, coefficient in (self.size_of(var) or {}).items():
            self.seen[monomial] = max(coefficient, self.seen.get(monomial, 0))

    def guard(self) -> None:
        """From here on, arenas are joined only by what is not much larger than what is in memory."""
        limit = {monomial: GROWTH * coefficient for monomial, coefficient in self.seen.items()}
        for arena in self.arenas:
            arena.limit = limit if arena.limit is None else arena.limit


def bindings_of(expr: RelaxExpr) -> Iterable[Binding]:
    """The bindings of a sequence and of the branches in it, in order of evaluation."""
    for block in expr.blocks if isinstance(expr, SeqExpr) else ():
        for binding in block.bindings:
            yield binding
            if isinstance(binding, VarBinding) and isinstance(binding.value, If):
                yield from bindings_of(binding.value.true_branch)
                yield from bindings_of(binding.value.false_branch)


def _may_enter(binding: Binding, recursive: Set[str]) -> bool:
    """True if a binding calls a recursive function of the module, or a function value."""
    call = binding.value if isinstance(binding, VarBinding) else None
    if not isinstance(call, Call):
        return False
    if isinstance(call.op, GlobalVar):
        return call.op.name_hint in recursive
    return isinstance(call.op, Var) or is_call_of(call, ClosureCall)
