"""Plan memory: place the tensors of a function in arenas, at offsets computed from its shape variables.

Before   a = R.builtin.alloc_tensor(R.shape([n, 4]), R.dtype("float32"), R.prim_value(0), R.str("global"))
         _ = cls.exp(x, a)
         b = R.builtin.alloc_tensor(R.shape([n, 8]), …)
         _ = cls.matmul(a, w, b)
         c = R.builtin.alloc_tensor(R.shape([n, 4]), …)
         _ = cls.matmul(b, v, c)
         d = R.builtin.alloc_tensor(R.shape([n]), …)
         _ = cls.sum(c, d)
         return d

After    storage = R.memory.alloc_storage(R.shape([n * 48 + 63]), R.prim_value(0), R.str("global"), R.dtype("uint8"))
         a = R.memory.alloc_tensor(storage, R.prim_value((n * 32 + 63) // 64 * 64), R.shape([n, 4]), R.dtype("float32"))
         …
         b = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([n, 8]), R.dtype("float32"))
         …
         c = R.memory.alloc_tensor(storage, R.prim_value((n * 32 + 63) // 64 * 64), R.shape([n, 4]), R.dtype("float32"))
         …
         d = R.builtin.alloc_tensor(R.shape([n]), R.dtype("float32"), R.prim_value(0), R.str("global"))

Tensors that are alive at once lie apart for all sizes: each offset is the top of what lies below, a maximum of sums of
sizes. Nothing is assumed about which is larger; what the prover knows of that makes the expressions shorter. Which of
two tensors lies below is chosen so that the arena is small at a sample of sizes. An offset is a multiple of 64 bytes.

Which tensors share a storage is said in `arenas`. What escapes keeps its own allocation, as does a tensor that would
have a storage to itself, whose rank or shape is not known, or that is on a named device. A function has several
storages if some sizes are bound later (by a match_cast), if it calls itself, or if effects or branches guard large
allocations.

Sizes that leave 64 bits are errors where the storage is allocated.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np

from ...analysis.properties import NO_DATAFLOW, NORMAL_FORM, SHAPES_LOWERED, STORAGE_EXPLICIT
from ...analysis.purity import detect_recursion
from ...expr import Call, Function, PrimValue, ShapeExpr, Var, VarBinding
from ...ir import IRModule
from ...op import memory
from ...prim import PrimExpr
from ...rewrite import Rewriter, bindings_in
from ...runtime.records import dataclass
from ..decorators import module_pass
from .arenas import Arena, Block, arenas_of, is_allocation
from .packing import ROUNDS, Lives, below, best_order
from .sizes import GROUND, Height, SizeTable, padded, raised


@module_pass(needs={NORMAL_FORM, NO_DATAFLOW, STORAGE_EXPLICIT}, breaks={SHAPES_LOWERED})
def StaticPlanBlockMemory(mod: IRModule, rounds: int = ROUNDS) -> IRModule:
    """Cut tensors from storages whose layout is planned; see the module's docstring.

    At most `rounds` layouts are drawn at random for each function, after those that follow rules of thumb.
    """
    planned = {g: f for g, f in mod.functions.items() if isinstance(f, Function) and _has_several_tensors(f)}
    if not planned:
        return mod
    recursive = {g.name_hint for group in detect_recursion(mod) for g in group}
    changed = {g: _planned(func, mod, recursive, rounds) for g, func in planned.items()}
    return mod.with_functions({**mod.functions, **changed})


def _has_several_tensors(func: Function) -> bool:
    """True if a function allocates more than one tensor."""
    return sum(is_allocation(binding.value) for binding in bindings_in(func)) > 1


def _planned(func: Function, mod: IRModule, recursive: Set[str], rounds: int) -> Function:
    table = SizeTable()
    arenas = [arena for arena in arenas_of(func, mod, recursive, table) if len(arena.blocks) > 1]
    return _Planning(mod, [plan(arena, table, rounds) for arena in arenas]).rewrite_function(func)


@dataclass(frozen=True)
class Plan:
    """The layout of one arena."""

    arena: Arena
    size: PrimExpr
    offsets: dict[Var, PrimExpr]


def plan(arena: Arena, table: SizeTable, rounds: int = ROUNDS) -> Plan:
    """Choose the offsets of an arena's tensors."""
    blocks = arena.blocks
    lives = lives_of(blocks)
    order = best_order(lives, np.array([table.sampled(block.size) for block in blocks]), rounds)
    lower = below(lives, order)
    tops: dict[int, Height] = {}
    """Heights above the tensors."""
    total = GROUND
    spelled: dict[object, PrimExpr] = {}
    offsets: dict[Var, PrimExpr] = {}
    for i in order:
        height = table.greatest(tops[j] for j in lower[i])
        tops[i] = raised(height, padded(blocks[i].size))
        total = table.greatest([total, raised(height, blocks[i].size)])
        key = tuple(frozenset(size.items()) for size in height)
        if key not in spelled:
            spelled[key] = table.offset(height)
        offsets[blocks[i].var] = spelled[key]
    return Plan(arena, table.expression(total), offsets)


def lives_of(blocks: Sequence[Block]) -> Lives:
    """The pairs of tensors, given in order of birth, that meet."""
    meets: list[list[int]] = [[] for _ in blocks]
    at_birth: list[list[int]] = []
    alive: list[int] = []
    branches = any(block.path for block in blocks)  # without them, tensors alive at once meet
    for i, block in enumerate(blocks):
        alive = [j for j in alive if blocks[j].last >= block.first]
        met = [j for j in alive if blocks[j].meets(block)] if branches else alive
        meets[i] += met
        for j in met:
            meets[j].append(i)
        at_birth.append([*met, i])
        alive.append(i)
    return Lives(meets, at_birth, [block.last - block.first + 1 for block in blocks])


class _Planning(Rewriter):
    """Replaces the allocations that have been planned."""

    def __init__(self, mod: IRModule, plans: Sequence[Plan]) -> None:
        super().__init__(mod)
        self.first = {item.arena.blocks[0].var for item in plans}
        """The variables before which storages are allocated."""
        self.planned = {var: (item, offset) for item in plans for var, offset in item.offsets.items()}
        self.storages: dict[int, Var] = {}

    def concerns(self, function: Function) -> bool:
        return bool(self.planned)

    def var_binding(self, binding: VarBinding) -> None:
        value = binding.value
        if binding.var not in self.planned or not isinstance(value, Call):
            super().var_binding(binding)
            return
        item, offset = self.planned[binding.var]
        if binding.var in self.first:
            self.storages[id(item)] = self.storage(item, value)
        tensor = memory.alloc_tensor(self.storages[id(item)], PrimValue(offset), *value.args[:2])
        super().var_binding(binding.replace(value=tensor.replace(span=value.span)))

    def storage(self, item: Plan, allocation: Call) -> Var:
        """Allocate the storage of a plan; the first of its tensors says where."""
        device, scope = allocation.args[2:]
        size = ShapeExpr((item.size,))
        call = memory.alloc_storage(size, device, scope, "uint8")
        return self.builder.emit(call.replace(span=allocation.span), "storage")
